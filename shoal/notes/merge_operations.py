"""Merging stored notes, and undoing it. Each is one transaction: a process that dies leaves the notes merged
or not."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.declared.notes import MAX_MERGED
from shoal.errors import NoteError, NoteStateError, NotFoundError
from shoal.models.notes import MergeProposal, NoteMerge, ScoredText, TagRelevance
from shoal.notes import drafts, tombstones
from shoal.notes.context import NoteContext
from shoal.notes.merge_rows import CHILDREN, ComparableNote, MergeRows, Rows, from_json, rows_of
from shoal.notes.merging import ENDPOINT, NoteState, by_precedence, merged, unmerged
from shoal.notes.note_rows import NoteRows
from shoal.notes.pinning import Pin
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.similarity import TextFeatures, similarities
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.profiles import write_names
from shoal.support.clock import timestamp

MAX_TRIES = 5
"""How often a merge is prepared while other processes change its notes."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Notes to merge.

    canonical_text   None: that of the survivor
    is_text_chosen   the decision gives the text for these notes; only then may notes that may contradict
                     each other be merged
    texts            SHA-256 of the texts that were judged, by id; None: any
    """

    note_ids: tuple[int, ...]
    decided_by: str
    canonical_text: str | None = None
    is_text_chosen: bool = False
    confidence: float = 1.0
    reason: str = ""
    run_id: str = ""
    proposal_id: int | None = None
    texts: dict[int, str] | None = None


class _ChangedError(Exception):
    """Another process changed a note while its merge was prepared."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of several notes, by id. `similarity`: 0 to 1."""

    left: int
    right: int
    similarity: float
    is_opposite: bool


def pairs_of(notes: Sequence[ComparableNote], scorer: Scorer) -> list[Pair]:
    """Compare every note with every other."""
    features = [features_of(note, scorer) for note in notes]
    found = []
    for place, note in enumerate(notes[1:], 1):
        values = similarities(features[place], features[:place])
        columns = zip(notes, values.values.tolist(), values.is_opposite.tolist(), strict=False)
        found += [Pair(other.id, note.id, value, bool(flag)) for other, value, flag in columns]
    return found


def features_of(note: ComparableNote, scorer: Scorer) -> TextFeatures:
    """Return what is compared of a note; a profile by other data cannot be compared."""
    profile = note.profile if note.data_checksum == scorer.data_checksum else b""
    return TextFeatures.of_stored(scorer, note.words, profile)


def checked_ids(note_ids: object) -> tuple[int, ...]:
    """Return the ids of notes to merge, ascending. Raises NoteError."""
    if isinstance(note_ids, str | bytes) or not isinstance(note_ids, Collection):
        raise NoteError("note_ids", "must be a list of ids")
    ids = list(note_ids)
    if not all(isinstance(note_id, int) and not isinstance(note_id, bool) for note_id in ids):
        raise NoteError("note_ids", "must be a list of whole numbers")
    if not 2 <= len(ids) <= MAX_MERGED:
        raise NoteError("note_ids", f"must be 2 to {MAX_MERGED} ids, not {len(ids)}")
    if len(set(ids)) < len(ids):
        raise NoteError("note_ids", "has an id twice")
    return tuple(sorted(ids))


def merge(
    context: NoteContext,
    owner: str,
    request: MergeRequest,
    *,
    check: Callable[[Snapshot], None] = lambda _: None,
) -> NoteMerge:
    """Merge notes; return the entry of the log. `check` is called in the transaction, and may raise.

    Raises NotFoundError, NoteError, and NoteStateError if a note is not active, may contradict another, was
    changed since it was judged, or if another active note has the text.
    """
    for _ in range(MAX_TRIES):
        prepared = _prepare(context, owner, request)
        try:
            with context.database.write() as transaction:
                check(transaction)
                return _merge(context, transaction, owner, request, prepared)
        except _ChangedError:
            continue
    raise NoteStateError("the notes are being changed by others; try again")


def decide(
    context: NoteContext,
    owner: str,
    proposal_id: int,
    *,
    accept: bool,
    canonical_text: str | None,
    decided_by: str,
) -> MergeProposal:
    """Merge the notes of an open proposal, or reject it: its notes are not proposed together again.

    Raises NotFoundError, NoteError, and NoteStateError if it is not open or its notes cannot be merged.
    """
    with context.database.snapshot() as snapshot:
        proposal = _found(MergeRows(snapshot, owner).proposal(proposal_id), "proposal", proposal_id)
    _check_open(proposal)
    if accept:
        request = MergeRequest(
            checked_ids(proposal.note_ids),
            decided_by,
            canonical_text=canonical_text or proposal.canonical_text or None,
            is_text_chosen=canonical_text is not None,
            confidence=1.0 if proposal.confidence is None else proposal.confidence,
            reason=proposal.reason,
            proposal_id=proposal.id,
        )
        merge(context, owner, request)
    else:
        with context.database.write() as transaction:
            if not MergeRows(transaction, owner).decide(proposal.id, "rejected", timestamp()):
                raise NoteStateError(f"proposal {proposal.id} was decided meanwhile; read it again")
    with context.database.snapshot() as snapshot:
        decided: MergeProposal = _found(
            MergeRows(snapshot, owner).proposal(proposal_id), "proposal", proposal_id
        )
    return decided


def undo(context: NoteContext, owner: str, merge_id: int) -> NoteMerge:
    """Undo a merge: the absorbed notes are active again, and the survivor is as it was. What came since
    stays.

    The notes are not proposed together again. Raises NotFoundError, and NoteStateError if the notes have
    changed in a way that cannot be undone.
    """
    now = timestamp()
    with context.database.write() as transaction:
        rows, merges = NoteRows(transaction, owner), MergeRows(transaction, owner)
        done = _found(merges.merge(merge_id), "merge", merge_id)
        before = _rows_to_restore(merges, done)
        absorbed = {note["id"]: note for note in before["notes"] if note["id"] != done.survivor_id}
        current = merges.read_rows([done.survivor_id, *done.absorbed_ids])
        _check_unchanged(rows, done, before, current)
        _restore_survivor(context, transaction, owner, done, before, current, now)
        for note_id, note in absorbed.items():
            rows.add_history(note_id, "unmerged", {"merged_into": done.survivor_id}, now)
            rows.change(
                note_id,
                now,
                deprecated_at=None,
                deprecated_reason=None,
                merged_into=None,
                **{name: note[name] for name in QUEUE_COLUMNS},
            )
        merges.move_shown_back(before, done.absorbed_ids, done.survivor_id)
        if not merges.set_undone(done.id, now):
            raise NoteStateError(f"merge {merge_id} is undone already")
        pairs = pairs_of(merges.comparable([done.survivor_id, *done.absorbed_ids]), context.get_scorer())
        merges.propose(
            (done.survivor_id, *done.absorbed_ids),
            similarity=min((pair.similarity for pair in pairs), default=0.0),
            is_opposite=any(pair.is_opposite for pair in pairs),
            reason=f"merge {done.id} was undone",
            status="rejected",
            now=now,
        )
        undone: NoteMerge = _found(merges.merge(merge_id), "merge", merge_id)
        return undone


QUEUE_COLUMNS = ("dedup_verified", "dedup_attempts", "dedup_last_error")


def state_of(rows: Rows, note_id: int) -> NoteState:
    """Return a note in `Rows` as a value."""
    note = next(each for each in rows["notes"] if each["id"] == note_id)

    def column(table: str) -> frozenset[str]:
        return frozenset(name for (name,) in rows_of(rows, table, note_id))

    return NoteState(
        id=note_id,
        text=note["text"],
        verified=bool(note["verified"]),
        is_compared=bool(note["dedup_verified"]),
        occurrence_count=note["occurrence_count"],
        times_matched=note["times_matched"],
        last_matched=note["last_matched"],
        prerequisites=Prerequisites.from_json(json.loads(note["prerequisites"])),
        pin=None
        if note["pinned_by"] is None
        else Pin(note["pinned_by"], tuple(json.loads(note["pin_tags"]))),
        tags=column("note_tags"),
        categories=column("note_categories"),
        sessions=column("note_sources"),
        repo_matches=dict(rows_of(rows, "note_repo_matches", note_id)),
        tag_set_matches=dict(rows_of(rows, "note_tag_set_matches", note_id)),
        relevance={tag: TagRelevance(*each) for tag, *each in rows_of(rows, "note_tag_relevance", note_id)},
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What was read and computed before the transaction: hashes by id, and the scored text."""

    hashes: dict[int, str]
    texts: TitledText
    scored: ScoredText


def _prepare(context: NoteContext, owner: str, request: MergeRequest) -> _Prepared:
    scorer = context.get_scorer()
    with context.database.snapshot() as snapshot:
        rows, merges = NoteRows(snapshot, owner), MergeRows(snapshot, owner)
        for note_id in request.note_ids:
            rows.check(note_id)
        notes = merges.comparable(request.note_ids)
        if inactive := set(request.note_ids) - {note.id for note in notes}:
            raise NoteStateError(f"note {min(inactive)} is deprecated; restore it first")
        hashes = {note.id: note.text_hash for note in notes}
        if request.texts is not None and request.texts != hashes:
            raise NoteStateError("a note was changed since it was judged")
        if not request.is_text_chosen:
            _check_agreeing(notes, scorer, request.decided_by)
        raw = merges.read_rows(request.note_ids)
        survivor = by_precedence(state_of(raw, note.id) for note in notes)[0]
        title = next(note.title for note in notes if note.id == survivor.id)
        texts = TitledText(title, request.canonical_text or survivor.text)
        [scored] = score_texts(snapshot, scorer, [texts], reefs_per_note=context.settings.reefs_per_chunk)
    return _Prepared(hashes, texts, scored)


def _check_agreeing(notes: Sequence[ComparableNote], scorer: Scorer, decided_by: str) -> None:
    for pair in pairs_of(notes, scorer):
        if not pair.is_opposite:
            continue
        which = f"notes {pair.left} and {pair.right} may contradict each other"
        if decided_by == ENDPOINT:
            raise NoteStateError(f"{which}; a person or an agent must decide")
        raise NoteError("canonical_text", f"{which}; give the text that holds")


def _merge(
    context: NoteContext, transaction: Transaction, owner: str, request: MergeRequest, prepared: _Prepared
) -> NoteMerge:
    rows, merges, scorer, now = (
        NoteRows(transaction, owner),
        MergeRows(transaction, owner),
        context.get_scorer(),
        timestamp(),
    )
    before = merges.read_rows(request.note_ids)
    is_same = {note["id"]: note["text_hash"] for note in before["notes"]} == prepared.hashes
    if not is_same or any(note["deprecated_at"] is not None for note in before["notes"]):
        raise _ChangedError
    states = [state_of(before, note_id) for note_id in request.note_ids]
    survivor = by_precedence(states)[0]
    text = request.canonical_text or survivor.text
    title = next(note["title"] for note in before["notes"] if note["id"] == survivor.id)
    if TitledText(title, text) != prepared.texts:
        raise _ChangedError
    if text != survivor.text:
        tombstones.check_text(transaction, rows.owner, drafts.hash_of(text), "canonical_text")
    same = rows.find_text(drafts.hash_of(text))
    if same is not None and same not in request.note_ids:
        raise NoteStateError(f"note {same} is active and has this text; merge it too, or choose another text")
    after = merged(states, text, request.decided_by)
    absorbed_ids = tuple(note_id for note_id in request.note_ids if note_id != survivor.id)
    if request.proposal_id is not None and not merges.decide(request.proposal_id, "merged", now):
        raise NoteStateError(f"proposal {request.proposal_id} was decided meanwhile; read it again")
    done = NoteMerge(
        id=0,
        run_id=request.run_id or uuid.uuid4().hex,
        survivor_id=survivor.id,
        absorbed_ids=absorbed_ids,
        canonical_text=text,
        confidence=request.confidence,
        reason=request.reason,
        decided_by=request.decided_by,
        created_at=now,
        undone_at=None,
    )
    done = dataclasses.replace(done, id=merges.insert_merge(done, before))
    write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
    for note_id in absorbed_ids:
        rows.add_history(note_id, "merged", {"merged_into": None}, now)
        rows.change(
            note_id,
            now,
            deprecated_at=now,
            deprecated_reason=f"merged into note {survivor.id}",
            merged_into=survivor.id,
            dedup_verified=1,
            dedup_attempts=0,
            dedup_last_error=None,
        )
    merges.move_shown(before, absorbed_ids, survivor.id)
    rows.add_history(survivor.id, "merged", _changed_fields(survivor, after), now)
    scored = prepared.scored._asdict()
    queued = dict(zip(QUEUE_COLUMNS, (0, 0, None), strict=True))
    rows.change(survivor.id, now, **_columns(after), **scored, **queued)
    merges.write_children(survivor.id, _children(after))
    return done


def _rows_to_restore(merges: MergeRows, done: NoteMerge) -> Rows:
    if done.undone_at is not None:
        raise NoteStateError(f"merge {done.id} is undone already")
    later = merges.later_merge(done)
    if later is not None:
        raise NoteStateError(f"merge {later} came after merge {done.id} and has notes of it; undo it first")
    before = merges.rows_before(done.id)
    if not before:
        raise NoteStateError(f"a note of merge {done.id} was purged; the merge cannot be undone")
    return before


def _check_unchanged(rows: NoteRows, done: NoteMerge, before: Rows, current: Rows) -> None:
    """Raise NoteStateError unless the notes are as the merge left them, apart from their evidence."""
    now = {note["id"]: note for note in current["notes"]}
    survivor = now[done.survivor_id]
    if survivor["text"] != done.canonical_text:
        raise NoteStateError(
            f"the text of note {done.survivor_id} was changed since the merge; restore the absorbed notes "
            f"({', '.join(map(str, done.absorbed_ids))}) one by one instead"
        )
    for note_id in done.absorbed_ids:
        if now[note_id]["merged_into"] != done.survivor_id or now[note_id]["deprecated_at"] is None:
            raise NoteStateError(f"note {note_id} was restored since the merge, which cannot be undone")
    former = next(note for note in before["notes"] if note["id"] == done.survivor_id)
    restored = {note_id: now[note_id]["text_hash"] for note_id in done.absorbed_ids}
    for note_id, text_hash in ((done.survivor_id, former["text_hash"]), *restored.items()):
        same = rows.find_text(text_hash)
        if same not in (None, done.survivor_id):
            raise NoteStateError(
                f"note {same} is active and has the text of note {note_id}; deprecate it first"
            )


def _restore_survivor(
    context: NoteContext,
    transaction: Transaction,
    owner: str,
    done: NoteMerge,
    before: Rows,
    current: Rows,
    now: str,
) -> None:
    rows, merges = NoteRows(transaction, owner), MergeRows(transaction, owner)
    states = [state_of(before, note["id"]) for note in before["notes"]]
    former = next(state for state in states if state.id == done.survivor_id)
    present = state_of(current, done.survivor_id)
    restored = unmerged(
        former,
        merged(states, done.canonical_text, done.decided_by),
        present,
        merges.judgements_after(done.survivor_id, before["last_feedback"]),
        context.settings,
    )
    stored = from_json(next(note for note in before["notes"] if note["id"] == done.survivor_id))
    rows.add_history(done.survivor_id, "unmerged", _changed_fields(present, restored), now)
    title = next(note["title"] for note in current["notes"] if note["id"] == done.survivor_id)
    scored = {name: stored[name] for name in ScoredText._fields}
    if title != stored["title"]:
        reefs_per_note = context.settings.reefs_per_chunk
        texts = [TitledText(title, former.text)]
        [anew] = score_texts(transaction, context.get_scorer(), texts, reefs_per_note=reefs_per_note)
        scored = anew._asdict()
    queued = {name: stored[name] for name in QUEUE_COLUMNS}
    rows.change(done.survivor_id, now, **_columns(restored), **scored, **queued)
    merges.write_children(done.survivor_id, _children(restored))


def _columns(state: NoteState) -> dict[str, Any]:
    return {
        "text": state.text,
        "text_hash": drafts.hash_of(state.text),
        "verified": int(state.verified),
        "occurrence_count": state.occurrence_count,
        "times_matched": state.times_matched,
        "last_matched": state.last_matched,
        "prerequisites": compact_json(state.prerequisites.as_json()),
        "pinned_by": None if state.pin is None else state.pin.by,
        "pin_tags": compact_json([] if state.pin is None else list(state.pin.tags)),
    }


def _children(state: NoteState) -> dict[str, list[tuple[Any, ...]]]:
    children: dict[str, list[tuple[Any, ...]]] = {
        "note_tags": [(tag,) for tag in sorted(state.tags)],
        "note_categories": [(path,) for path in sorted(state.categories)],
        "note_sources": [(session,) for session in sorted(state.sessions)],
        "note_repo_matches": sorted(state.repo_matches.items()),
        "note_tag_set_matches": sorted(state.tag_set_matches.items()),
        "note_tag_relevance": [(tag, *each) for tag, each in sorted(state.relevance.items())],
    }
    assert children.keys() == CHILDREN.keys(), "every table"
    return children


def _changed_fields(before: NoteState, after: NoteState) -> dict[str, Any]:
    """The fields that people see, as they were, where they differ."""

    def shown(state: NoteState) -> Iterator[tuple[str, Any]]:
        yield "text", state.text
        yield "verified", state.verified
        yield "occurrence_count", state.occurrence_count
        yield "tags", sorted(state.tags)
        yield "categories", sorted(state.categories)
        yield "prerequisites", state.prerequisites.as_json()
        yield "pinned_by", None if state.pin is None else state.pin.by

    later = dict(shown(after))
    return {name: value for name, value in shown(before) if value != later[name]}


def _check_open(proposal: MergeProposal) -> None:
    if proposal.status != "open":
        raise NoteStateError(f"proposal {proposal.id} is {proposal.status}; only an open one can be decided")


def _found(value: Any, what: str, number: object) -> Any:
    if value is None:
        raise NotFoundError(f"there is no {what} {number!r}"[:80])
    return value
