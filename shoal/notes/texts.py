"""Title and text of notes as the index needs them: terms in order, and the profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.learning.scorers import scorer_for
from shoal.models.notes import ScoredText
from shoal.notes.note_rows import PackedNote
from shoal.notes.similarity import TextFeatures
from shoal.scorer import Scorer
from shoal.storage import vocabulary
from shoal.storage.database import Snapshot
from shoal.storage.profiles import Profiles
from shoal.words.analysis import terms_of


class TitledText(NamedTuple):
    title: str
    text: str


def words_of(title: str, text: str) -> bytes:
    """Return the terms of both, in order, as they are stored (`ScoredText.words`)."""
    return f"{' '.join(terms_of(title))}\n{' '.join(terms_of(text))}".encode()


def joined(title: str, text: str) -> str:
    """Return title and text as one text, which the profile describes."""
    return f"{title}\n\n{text}" if title else text


def score_texts(
    snapshot: Snapshot, scorer: Scorer, texts: Sequence[TitledText], *, reefs_per_note: int
) -> list[ScoredText]:
    """Score texts with the words that the library knows now. `scorer` has no learned words."""
    version = vocabulary.newest(snapshot).number
    whole = [joined(*each) for each in texts]
    with_learned = scorer_for("\n".join(whole), snapshot, scorer)
    arrays = [with_learned.score(text, top_k=reefs_per_note).reef_arrays for text in whole]
    profiles = Profiles.from_scores(arrays).packed()
    return [
        ScoredText(words_of(*each), profile, scorer.data_checksum, version)
        for each, profile in zip(texts, profiles, strict=True)
    ]


def all_features(notes: Sequence[PackedNote], scorer: Scorer) -> list[TextFeatures]:
    """Return what is compared of stored notes; a profile by other data cannot be compared."""
    return TextFeatures.of_all_stored(
        scorer,
        [(note.words, note.profile if note.data_checksum == scorer.data_checksum else b"") for note in notes],
    )
