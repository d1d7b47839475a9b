"""Adding notes: checked, scored and compared before the write lock is taken, so that it is held shortly."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.errors import NoteError
from shoal.models.notes import DUPLICATE, TURN, AddedNote, NoteDraft, ScoredText, SimilarNote
from shoal.notes import drafts, tombstones
from shoal.notes.context import NoteContext
from shoal.notes.facts import Statement, find_change
from shoal.notes.note_index import Bools, NoteIndex
from shoal.notes.note_query import QueryTerm
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_times import NoteTimes
from shoal.notes.note_vectors import ADDING_SECONDS, with_vectors
from shoal.notes.ranking import bm25, largest
from shoal.notes.similarity import TextFeatures, similarities
from shoal.notes.texts import TitledText, all_features, score_texts
from shoal.settings import Settings
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.profiles import Profiles, write_names
from shoal.support.clock import timestamp

ADDED_TOGETHER = 16
"""Notes of one transaction of a bulk upload. The write lock is held for a few milliseconds and then free
while the next notes are scored, so that single writes need not wait for long."""
COMPARED = 8
"""Notes that a new one is compared with: so many of the best by words, and as many by reefs."""
CHANGE_CANDIDATES = 24
"""Notes that are read for facts that a new one changes: so many of the best by words, as many by reefs, and
as many by the words of its relations."""
MAX_COMPARED_TERMS = 10
MAX_COMPARED_REEFS = 12
"""Terms and reefs of a new note by which similar ones are looked for: the rarest and the strongest."""


Record = Callable[[Transaction, Sequence[AddedNote | NoteError]], None]
"""Writes what became of some notes in the transaction that stores them."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A note that can be stored."""

    draft: NoteDraft
    text_hash: str
    scored: ScoredText
    similar: tuple[SimilarNote, ...] = ()
    changed: frozenset[int] = frozenset()
    """Ids of similar notes whose fact it certainly changes."""


APPLY, OFF = "apply", "off"
"""Values of the setting `note_changes`."""


def add(
    context: NoteContext,
    owner: str,
    draft: NoteDraft,
    *,
    merge_similar: bool = False,
    record: Record | None = None,
) -> AddedNote:
    """Store a note; if its text is stored already, count that instead.

    `merge_similar`: count also a note that is similar enough, unless the two may contradict each other.
    """
    with context.database.snapshot() as snapshot:
        [prepared] = _prepare(context, snapshot, owner, [draft], find_similar=True)
    with context.database.write() as transaction:
        tombstones.check_text(transaction, owner, prepared.text_hash)
        if merge_similar:
            added = _merged_or_stored(context, transaction, owner, prepared)
        else:
            [added] = _store(context, transaction, owner, [prepared])
        if record is not None:
            record(transaction, [added])
    return added


def add_together(
    context: NoteContext,
    owner: str,
    given: Sequence[NoteDraft],
    is_due: Callable[[Transaction], bool],
    *,
    record: Record | None = None,
) -> list[AddedNote] | None:
    """Store notes in one transaction with what `is_due` writes; None, and nothing, if it returns False.

    Notes that are similar enough to stored ones, or to those before them, are counted for these, as by `add`
    with `merge_similar`.
    """
    with context.database.snapshot() as snapshot:
        prepared = _prepare(context, snapshot, owner, given, find_similar=True)
    before = _similar_before(context, prepared)
    with context.database.write() as transaction:
        if not is_due(transaction):
            return None
        added: list[AddedNote] = []
        for each, similar in zip(prepared, before, strict=True):
            tombstones.check_text(transaction, owner, each.text_hash)
            new = [
                dataclasses.replace(found, id=added[found.id].note.id)
                for found in similar
                if not added[found.id].is_duplicate
            ]
            together = sorted([*each.similar, *new], key=lambda found: (-found.similarity, found.id))
            compared = dataclasses.replace(each, similar=tuple(together))
            added.append(_merged_or_stored(context, transaction, owner, compared))
        if record is not None:
            record(transaction, added)
    return added


def _similar_before(context: NoteContext, prepared: Sequence[_Prepared]) -> list[tuple[SimilarNote, ...]]:
    """Find for each note those before it that say the same, with their places as ids."""
    scorer = context.get_scorer()
    features = [TextFeatures.of_stored(scorer, each.scored.words, each.scored.profile) for each in prepared]
    texts = [each.draft.text for each in prepared]
    features = with_vectors(features, texts, context.get_vectors, ADDING_SECONDS)
    return [
        _similar(own, list(enumerate(texts[:place])), features[:place]) for place, own in enumerate(features)
    ]


def _merged_or_stored(
    context: NoteContext, transaction: Transaction, owner: str, prepared: _Prepared
) -> AddedNote:
    rows = NoteRows(transaction, owner)
    for similar in prepared.similar:
        if not (similar.is_opposite or similar.change) and rows.find_active(similar.id) is not None:
            return _count_again(context, transaction, owner, similar.id, prepared)
    return _store(context, transaction, owner, [prepared])[0]


def _count_again(
    context: NoteContext, transaction: Transaction, owner: str, note_id: int, prepared: _Prepared
) -> AddedNote:
    rows = NoteRows(transaction, owner)
    rows.repeat(note_id, prepared.draft, timestamp())
    note = rows.get(note_id, label_threshold=context.settings.label_threshold)
    return AddedNote(note, is_duplicate=True, similar=prepared.similar)


def add_many(
    context: NoteContext, owner: str, items: Iterable[Mapping[str, Any] | NoteError], *, find_similar: bool
) -> Iterator[AddedNote | NoteError]:
    """Store notes in short transactions; a bad item becomes an error in its place.

    Each item is checked as it is read, so that large ones are not in memory together.
    """
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, ADDED_TOGETHER)):
        yield from add_batch(context, owner, batch, find_similar=find_similar)


def add_batch(
    context: NoteContext,
    owner: str,
    items: Sequence[Mapping[str, Any] | NoteError],
    *,
    find_similar: bool,
    record: Record | None = None,
) -> list[AddedNote | NoteError]:
    """Store notes in one transaction; a bad item becomes an error in its place."""
    checked = [_checked(context, item) for item in items]
    given = [draft for draft in checked if isinstance(draft, NoteDraft)]
    with context.database.snapshot() as snapshot:
        prepared = _prepare(context, snapshot, owner, given, find_similar=find_similar)
    with context.database.write() as transaction:
        allowed = [_refusal(transaction, owner, each) or each for each in prepared]
        new = [each for each in allowed if isinstance(each, _Prepared)]
        added, of_given = iter(_store(context, transaction, owner, new)), iter(allowed)
        outcomes = [draft if isinstance(draft, NoteError) else next(of_given) for draft in checked]
        stored = [each if isinstance(each, NoteError) else next(added) for each in outcomes]
        if record is not None:
            record(transaction, stored)
    return stored


def _refusal(snapshot: Snapshot, owner: str, prepared: _Prepared) -> NoteError | None:
    try:
        tombstones.check_text(snapshot, owner, prepared.text_hash)
    except NoteError as error:
        return error
    return None


def _checked(context: NoteContext, item: object) -> NoteDraft | NoteError:
    if isinstance(item, NoteError):
        return item
    if not isinstance(item, Mapping):
        return NoteError("note", "must be an object")
    try:
        return drafts.make_draft(context.settings, item)
    except NoteError as error:
        return error


def _prepare(
    context: NoteContext, snapshot: Snapshot, owner: str, given: Sequence[NoteDraft], *, find_similar: bool
) -> list[_Prepared]:
    scorer = context.get_scorer()
    texts = [TitledText(draft.title, draft.text) for draft in given]
    scored = score_texts(snapshot, scorer, texts, reefs_per_note=context.settings.reefs_per_chunk)
    prepared = [
        _Prepared(draft, drafts.hash_of(draft.text), each) for draft, each in zip(given, scored, strict=True)
    ]
    if not find_similar:
        return prepared
    rows = NoteRows(snapshot, owner)
    index = context.index_of(rows)
    deadline = time.monotonic() + ADDING_SECONDS
    return [
        _with_changes(
            context,
            rows,
            index,
            dataclasses.replace(
                each, similar=similar_to(context, rows, index, each.scored, each.draft.text, deadline)
            ),
        )
        if each.draft.kind != TURN and rows.find_text(each.text_hash) is None
        else each
        for each in prepared
    ]


def _with_changes(context: NoteContext, rows: NoteRows, index: NoteIndex, prepared: _Prepared) -> _Prepared:
    """Add the notes whose facts a note changes to those that are similar."""
    if context.settings.note_changes == OFF:
        return prepared
    statement = Statement(prepared.draft.text)
    own = candidates_for(index, prepared.scored.words, prepared.scored.profile, n=CHANGE_CANDIDATES)
    terms = [QueryTerm(term, term, 1) for term in sorted(statement.triggers)]
    raw = bm25(index, terms) * index.is_comparable if terms else np.zeros(0, dtype=np.int64)
    of_relations = index.note_ids[largest(raw, CHANGE_CANDIDATES)].tolist()
    candidates = sorted({*own, *of_relations})
    if not candidates:
        return prepared
    packed = rows.packed(candidates)
    changes = {
        note.id: change
        for note in packed
        if (change := find_change(Statement(note.text), statement)) is not None
    }
    if not changes:
        return prepared
    known = {each.id: each for each in prepared.similar}
    changed = [note for note in packed if note.id in changes and note.id not in known]
    scorer = context.get_scorer()
    features = TextFeatures.of_stored(scorer, prepared.scored.words, prepared.scored.profile)
    values = similarities(features, all_features(changed, scorer)) if changed else None
    if values is not None:
        for note, value, is_opposite in zip(
            changed, values.values.tolist(), values.is_opposite.tolist(), strict=True
        ):
            known[note.id] = SimilarNote(note.id, note.text, value, is_opposite)
    similar = [
        dataclasses.replace(each, change=changes[each.id].reason) if each.id in changes else each
        for each in known.values()
    ]
    return dataclasses.replace(
        prepared,
        similar=tuple(sorted(similar, key=lambda each: (-each.similarity, each.id))),
        changed=frozenset(note_id for note_id, change in changes.items() if change.is_certain),
    )


def similar_to(
    context: NoteContext, rows: NoteRows, index: NoteIndex, scored: ScoredText, text: str, deadline: float
) -> tuple[SimilarNote, ...]:
    """Find the active notes that say the same as a text, most similar first.

    Only the best by words and by reefs are compared. `deadline`: when the encoder must have answered, a
    `time.monotonic()`.
    """
    scorer = context.get_scorer()
    candidates = candidates_for(index, scored.words, scored.profile)
    if not candidates:
        return ()
    packed = rows.packed(candidates)
    features = [TextFeatures.of_stored(scorer, scored.words, scored.profile), *all_features(packed, scorer)]
    texts = [text, *(note.text for note in packed)]
    features = with_vectors(features, texts, context.get_vectors, deadline - time.monotonic())
    return _similar(features[0], [(note.id, note.text) for note in packed], features[1:])


def check_not_forgotten(context: NoteContext, owner: str, draft: NoteDraft) -> None:
    """Raise NoteError for a text that was forgotten, or says what a note says that was deprecated with the
    reason `FORGOTTEN`."""
    scorer = context.get_scorer()
    with context.database.snapshot() as snapshot:
        tombstones.check_text(snapshot, owner, drafts.hash_of(draft.text), "content")
        forgotten = NoteRows(snapshot, owner).forgotten()
        if not forgotten:
            return
        [scored] = score_texts(
            snapshot,
            scorer,
            [TitledText(draft.title, draft.text)],
            reefs_per_note=context.settings.reefs_per_chunk,
        )
    own = TextFeatures.of_stored(scorer, scored.words, scored.profile)
    texts = [(note.id, note.text) for note in forgotten]
    alike = [each for each in _similar(own, texts, all_features(forgotten, scorer)) if not each.is_opposite]
    if alike:
        raise NoteError("content", f"was forgotten as note {alike[0].id}; restore that note to have it again")


def _similar(
    own: TextFeatures, notes: Sequence[tuple[int, str]], features: Sequence[TextFeatures]
) -> tuple[SimilarNote, ...]:
    """Return those of some notes (id, text) that say the same as a text, most similar first."""
    if not notes:
        return ()
    found = similarities(own, features, examined_from=DUPLICATE)
    columns = zip(notes, found.values.tolist(), found.is_opposite.tolist(), strict=True)
    chosen = [
        (-value, note_id, text, is_opposite)
        for (note_id, text), value, is_opposite in columns
        if value >= DUPLICATE
    ]
    return tuple(
        SimilarNote(note_id, note_text, -negative, bool(is_opposite))
        for negative, note_id, note_text, is_opposite in sorted(chosen)
    )


def candidates_for(
    index: NoteIndex,
    words_of_text: bytes,
    profile_of_text: bytes,
    among: Bools | None = None,
    n: int = COMPARED,
) -> list[int]:
    """The ids of the notes that match a text best by words, and by reefs.

    `among`: for each place of the index, whether its note counts; given for the text of a note in the index.
    By default, turns and notes that were replaced do not. `n`: notes by words, and by reefs.
    """
    own = Counter(words_of_text.decode().split())
    terms = [QueryTerm(word, word, 1) for word in own]
    # Of a stored note, words that no other note has would take the places of words that others have.
    n_own = own if among is not None else Counter[str]()
    counts = {term: index.n_with(term.term) - n_own[term.term] for term in terms}
    rarest = sorted((term for term in terms if counts[term] > 0), key=lambda term: (counts[term], term.term))
    profile = Profiles.of([profile_of_text])
    strongest = slice(MAX_COMPARED_REEFS)
    query_z = dict(
        zip(profile.reef_ids[strongest].tolist(), profile.z_scores[strongest].tolist(), strict=True)
    )
    places = set[int]()
    for raw in (bm25(index, rarest[:MAX_COMPARED_TERMS]), index.overlaps(query_z)):
        places.update(largest(raw * (index.is_comparable if among is None else among), n).tolist())
    return sorted(index.note_ids[sorted(places)].tolist()) if places else []


def _store(
    context: NoteContext, transaction: Transaction, owner: str, prepared: Sequence[_Prepared]
) -> list[AddedNote]:
    rows, scorer, now = NoteRows(transaction, owner), context.get_scorer(), timestamp()
    if prepared:
        write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
    stored: list[tuple[int, bool]] = []
    similar: list[tuple[SimilarNote, ...]] = []
    first_change = rows.next_change(len(prepared)) - len(prepared) + 1 if prepared else 0
    for change_number, each in enumerate(prepared, first_change):
        note_id = rows.find_same(each.draft, each.text_hash)
        if note_id is not None:
            rows.repeat(note_id, each.draft, now)
            stored.append((note_id, True))
            similar.append(())
            continue
        new_id = rows.insert(each.draft, each.text_hash, each.scored, change_number, now)
        rows.add_history(new_id, "added", {}, now)
        stored.append((new_id, False))
        similar.append(_superseded(context.settings, rows, new_id, each, now))
    threshold = context.settings.label_threshold
    distinct = list(dict.fromkeys(note_id for note_id, _ in stored))
    notes = {note.id: note for note in rows.get_many(distinct, label_threshold=threshold)}
    return [
        AddedNote(notes[note_id], is_duplicate, others)
        for (note_id, is_duplicate), others in zip(stored, similar, strict=True)
    ]


def _superseded(
    settings: Settings, rows: NoteRows, new_id: int, prepared: _Prepared, now: str
) -> tuple[SimilarNote, ...]:
    """Let a new note replace those whose fact it certainly changes, or the one that it names; return the
    similar notes as they are then."""
    times, named = NoteTimes(rows), prepared.draft.supersedes
    if named is not None:
        rows.check(named)
        if not times.supersede(named, new_id, now):
            raise NoteError(
                "supersedes", f"note {named} is hidden, was replaced already, or holds only later"
            )
    return tuple(
        dataclasses.replace(each, is_superseded=True)
        if each.id == named
        or (
            named is None
            and settings.note_changes == APPLY
            and each.id in prepared.changed
            and times.supersede(each.id, new_id, now)
        )
        else each
        for each in prepared.similar
    )
