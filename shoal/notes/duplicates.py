"""Which stored notes may say the same as others.

Every pair of an owner's notes is compared once: a note that waits, with those that were compared before and
with the waiting ones before it. Only the best matches by words and by reefs are compared in full, so the time
for one note hardly grows with their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.declared.notes import MAX_MERGED
from shoal.notes.adding import candidates_for
from shoal.notes.context import NoteContext
from shoal.notes.merge_operations import features_of
from shoal.notes.merge_rows import ComparableNote, MergeRows
from shoal.notes.note_index import NoteIndex
from shoal.notes.note_vectors import COMPARING_SECONDS, with_vectors
from shoal.notes.similarity import TextFeatures, similarities

MAX_CANDIDATES = 10
"""Most notes that one is judged with: the most similar."""
MAX_OPPOSITES = 3
"""Most notes that one is proposed to contradict."""


class Candidate(NamedTuple):
    """A note that is similar to another. `similarity`: 0 to 1."""

    id: int
    similarity: float
    is_opposite: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Waiting notes with what they were compared with.

    heads        the notes that are taken from the queue, ascending by id
    notes        these and their candidates, by id
    candidates   by id of the head, most similar first
    rejected     groups that a person or an agent does not want merged
    """

    heads: tuple[ComparableNote, ...]
    notes: Mapping[int, ComparableNote]
    candidates: Mapping[int, tuple[Candidate, ...]]
    rejected: frozenset[frozenset[int]]
    features: Mapping[int, TextFeatures]

    def is_rejected(self, left: int, right: int) -> bool:
        """Whether two notes are not to be merged."""
        return any(left in group and right in group for group in self.rejected)

    def similarity(self, note_ids: Sequence[int]) -> tuple[float, bool]:
        """Return the similarity of the least similar pair, and whether any pair is opposite."""
        least, any_opposite = 1.0, False
        for place, note_id in enumerate(note_ids[1:], 1):
            others = [self.features[other] for other in note_ids[:place]]
            found = similarities(self.features[note_id], others)
            least = min(least, float(found.values.min()))
            any_opposite = any_opposite or bool(found.is_opposite.any())
        return least, any_opposite


class Finding(NamedTuple):
    """Notes to propose. `similarity`: of the least similar pair."""

    note_ids: tuple[int, ...]
    similarity: float
    is_opposite: bool


def compare(
    merges: MergeRows,
    index: NoteIndex,
    context: NoteContext,
    queued: Sequence[int],
    head_ids: Sequence[int],
    *,
    least: float,
) -> Comparison:
    """Compare some waiting notes with others.

    `queued`: ids of all notes that wait; `least`: least similarity of a candidate.
    """
    heads = merges.comparable(head_ids)
    is_queued = index.is_one_of(queued)
    kinds, kind_names = index.facet("kind"), index.facets.values("kind")
    found: dict[int, list[int]] = {}
    for head in heads:
        among = ~is_queued | (index.note_ids < head.id)
        among &= (index.note_ids != head.id) & index.is_comparable
        if head.kind in kind_names:
            among &= kinds == kind_names.index(head.kind)
        found[head.id] = candidates_for(index, head.words, head.profile, among)
    ids = {head.id for head in heads}.union(*found.values())
    notes = {note.id: note for note in merges.comparable(sorted(ids))}
    scorer = context.get_scorer()
    plain = [features_of(note, scorer) for note in notes.values()]
    texts = [note.text for note in notes.values()]
    embedded = with_vectors(plain, texts, context.get_vectors, COMPARING_SECONDS)
    features = dict(zip(notes, embedded, strict=True))
    candidates = {
        head.id: _candidates(features, head.id, [other for other in found[head.id] if other in notes], least)
        for head in heads
    }
    named = {head.id for head in heads} | {each.id for group in candidates.values() for each in group}
    rejected = frozenset(merges.groups(sorted(named), "rejected").values())
    return Comparison(tuple(heads), notes, candidates, rejected, features)


def _candidates(
    features: Mapping[int, TextFeatures], head_id: int, others: Sequence[int], least: float
) -> tuple[Candidate, ...]:
    if not others:
        return ()
    found = similarities(features[head_id], [features[other] for other in others])
    order = np.lexsort((np.array(others), -found.values)).tolist()
    chosen = [
        Candidate(others[at], float(found.values[at]), bool(found.is_opposite[at]))
        for at in order
        if found.values[at] >= least
    ]
    return tuple(chosen)


def findings(comparison: Comparison, head: ComparableNote, least: float) -> list[Finding]:
    """Return what to propose about a note without a judge: the group in which every pair is at least this
    similar and none is opposite, and pairs that may contradict each other."""
    similar = [
        each
        for each in comparison.candidates[head.id]
        if each.similarity >= least and not comparison.is_rejected(head.id, each.id)
    ]
    group = [head.id]
    for candidate in similar:
        if len(group) == MAX_MERGED or candidate.is_opposite:
            continue
        value, is_opposite = comparison.similarity([*group, candidate.id])
        is_rejected = any(comparison.is_rejected(member, candidate.id) for member in group)
        if value >= least and not is_opposite and not is_rejected:
            group.append(candidate.id)
    found = []
    if len(group) > 1:
        found.append(Finding(tuple(sorted(group)), comparison.similarity(group)[0], False))
    opposites = itertools.islice((each for each in similar if each.is_opposite), MAX_OPPOSITES)
    pairs = [(tuple(sorted((head.id, each.id))), each.similarity) for each in opposites]
    return [*found, *(Finding(note_ids, value, True) for note_ids, value in pairs)]
