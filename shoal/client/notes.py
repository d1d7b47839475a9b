"""Operations on the notes of an owner."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.requests import (
    Requester,
    json_object,
    json_value,
    new_key,
    pages,
    parse,
    parse_part,
    without_none,
)
from shoal.declared.notes import AsJson, NewNote, NoteChanges, NoteListArguments, NoteSearchArguments
from shoal.declared.operations.operation import API
from shoal.models.notes import (
    AddedNote,
    CategoryCount,
    Feedback,
    HistoryEntry,
    Note,
    NoteExplanation,
    NoteOutcome,
    NoteOutcomes,
    NotePage,
    NoteResponse,
    NoteStatus,
)

AnyEnvironment = AsJson | Mapping[str, Any]
AnyPrerequisites = AnyEnvironment

DEFAULT_OWNER = "default"
NOTES = "/notes"
NDJSON = "application/x-ndjson"
BATCH_NOTES = 1000
BATCH_BYTES = 8 * 1024 * 1024
"""Most notes of a request of `add_notes`, the limit of the service, and about how many bytes."""
BULK_SECONDS = 120.0
"""Additional time for the response to a bulk upload, which stores its notes first."""


class NoteOperations(Requester):
    """Operations on notes. Arguments and results are those of `shoal.notes.notes.OwnerNotes`.

    To one owner, the notes of another do not exist: their ids raise NotFoundError. Invalid arguments raise
    InvalidError.
    """

    @operation
    def add_note(
        self,
        text: str,
        *,
        owner: str = DEFAULT_OWNER,
        idempotency_key: str | None = None,
        **fields: Unpack[NewNote],
    ) -> Flow[AddedNote]:
        """Store a note, or count the text again if the owner has it. A call with the same key and arguments
        has the same outcome, and adds and counts nothing."""
        body = _body(owner, text=text, **fields)
        return (yield from self._post(AddedNote, NOTES, body, key=idempotency_key or new_key()))

    @operation
    def add_notes(
        self, notes: Iterable[Mapping[str, Any]], *, owner: str = DEFAULT_OWNER
    ) -> Flow[NoteOutcomes]:
        """Store notes, given as objects with the arguments of `add_note`; one result for each, in order.

        A bad note does not stop the others. They are sent in batches of up to a thousand, so that some are
        stored if a later request fails.
        """
        results: list[NoteOutcome] = []
        for batch in _batches(notes):
            request = Request(
                "POST",
                f"{API}{NOTES}/bulk",
                query={"owner": owner},
                headers={"Content-Type": NDJSON, "Idempotency-Key": new_key()},
                body=[batch],
                slow=BULK_SECONDS,
            )
            results += parse(NoteOutcomes, (yield from self._send(request))).results
        return NoteOutcomes.summed(results)

    @operation
    def notes(
        self,
        *,
        owner: str = DEFAULT_OWNER,
        limit: int = 50,
        offset: int = 0,
        **filters: Unpack[NoteListArguments],
    ) -> Flow[NotePage]:
        """A page of notes, by id; `category` includes its subcategories."""
        return (yield from self._page(NotePage, NOTES, limit, offset, owner=owner, **filters))

    @listing
    def each_note(self, *, owner: str = DEFAULT_OWNER, **filters: Unpack[NoteListArguments]) -> Stream[Note]:
        """All notes of an owner that pass the filters, read page by page."""
        yield from pages(
            lambda limit, offset: self._page(NotePage, NOTES, limit, offset, owner=owner, **filters),
            lambda page: page.notes,
        )

    @operation
    def note(self, note_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[Note]:
        """A note with its evidence, deprecated or not."""
        return parse(Note, (yield from self._of_owner("GET", _path(note_id), owner)))

    @operation
    def update_note(
        self,
        note_id: int,
        *,
        owner: str = DEFAULT_OWNER,
        text: str | None = None,
        **changes: Unpack[NoteChanges],
    ) -> Flow[Note]:
        """Change the given fields of a note; None leaves a field as it is."""
        body = _body(owner, text=text, **changes)
        return (yield from self._change("PATCH", _path(note_id), body))

    @operation
    def deprecate_note(self, note_id: int, *, owner: str = DEFAULT_OWNER, reason: str = "") -> Flow[Note]:
        """Hide a note from searches and pins, until it is restored or purged."""
        return (yield from self._change("POST", _path(note_id, "deprecate"), _body(owner, reason=reason)))

    @operation
    def restore_note(self, note_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[Note]:
        """Make a deprecated note active again. Raises ConflictError if an active note has its text."""
        return (yield from self._change("POST", _path(note_id, "restore"), _body(owner)))

    @operation
    def purge_notes(self, *, owner: str = DEFAULT_OWNER, before: dt.datetime | None = None) -> Flow[int]:
        """Delete notes that were deprecated before a time (default: all deprecated ones) for good; return
        their number."""
        moment = None if before is None else (before if before.tzinfo else before.astimezone()).isoformat()
        request = Request("POST", f"{API}{NOTES}/purge", json=_body(owner, before=moment))
        response = yield from self._send(request)
        return parse_part(int, json_object(response).get("n_purged"), response)

    @operation
    def categorize_note(
        self,
        note_id: int,
        *,
        owner: str = DEFAULT_OWNER,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
    ) -> Flow[Note]:
        """Add a note to categories, and remove it from others."""
        body = _body(owner, add=add, remove=remove)
        return (yield from self._change("PATCH", _path(note_id, "categories"), body))

    @operation
    def note_categories(self, *, owner: str = DEFAULT_OWNER) -> Flow[Sequence[CategoryCount]]:
        """The categories in use and those above them, with their numbers of active notes."""
        response = yield from self._of_owner("GET", f"{NOTES}/categories", owner)
        return parse_part(tuple[CategoryCount, ...], json_object(response).get("categories"), response)

    @operation
    def pin_note(
        self,
        note_id: int,
        *,
        owner: str = DEFAULT_OWNER,
        tags: Iterable[str] | None = None,
        prerequisites: AnyPrerequisites | None = None,
    ) -> Flow[Note]:
        """Show a note at the start of every session whose environment has all `tags`.

        Raises ConflictError for a deprecated note.
        """
        body = _body(owner, tags=tags, prerequisites=prerequisites)
        return (yield from self._change("PUT", _path(note_id, "pin"), body))

    @operation
    def unpin_note(self, note_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[Note]:
        """Take the pin of a note back."""
        return parse(Note, (yield from self._of_owner("DELETE", _path(note_id, "pin"), owner)))

    @operation
    def search_notes(
        self, query: str, *, owner: str = DEFAULT_OWNER, **given: Unpack[NoteSearchArguments]
    ) -> Flow[NoteResponse]:
        """The active notes that match a query best, best first."""
        body = _body(owner, query=query, **given)
        return (yield from self._post(NoteResponse, f"{NOTES}/search", body))

    @operation
    def explain_note(
        self,
        note_id: int,
        query: str,
        *,
        owner: str = DEFAULT_OWNER,
        environment: AnyEnvironment | None = None,
    ) -> Flow[NoteExplanation]:
        """Why a note is shown for a query, step by step, or why not."""
        body = _body(owner, query=query, environment=environment)
        return (yield from self._post(NoteExplanation, _path(note_id, "explain"), body))

    @operation
    def pinned_notes(
        self, environment: AnyEnvironment | None = None, *, owner: str = DEFAULT_OWNER
    ) -> Flow[Sequence[Note]]:
        """The pinned notes that apply to an environment, by id."""
        body = _body(owner, environment=environment)
        return (yield from self._post(NotePage, f"{NOTES}/pinned", body)).notes

    @operation
    def judge_note(
        self,
        note_id: int,
        *,
        applicable: bool,
        owner: str = DEFAULT_OWNER,
        reason: str = "",
        tag_scores: Mapping[str, float] | None = None,
        add_prerequisites: AnyPrerequisites | None = None,
        session_id: str = "",
        environment: AnyEnvironment | None = None,
    ) -> Flow[Note]:
        """Judge whether a note was applicable (`feedback`)."""
        body = _body(
            owner,
            applicable=applicable,
            reason=reason,
            tag_scores=tag_scores,
            add_prerequisites=add_prerequisites,
            session_id=session_id,
            environment=environment,
        )
        return (yield from self._change("POST", _path(note_id, "feedback"), body, Repeat.unsent))

    @operation
    def record_shown_notes(
        self,
        session_id: str,
        note_ids: Sequence[int],
        *,
        event: str,
        owner: str = DEFAULT_OWNER,
        environment: AnyEnvironment | None = None,
        context: str = "",
    ) -> Flow[None]:
        """Record that a session was shown notes. A search of this session leaves them out from now on."""
        body = _body(
            owner,
            session_id=session_id,
            note_ids=note_ids,
            event=event,
            environment=environment,
            context=context,
        )
        yield from self._send(Request("POST", f"{API}{NOTES}/shown", json=body, repeat=Repeat.unsent))

    @operation
    def note_history(self, note_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[Sequence[HistoryEntry]]:
        """The changes of a note, oldest first."""
        response = yield from self._of_owner("GET", _path(note_id, "history"), owner)
        return parse_part(tuple[HistoryEntry, ...], json_object(response).get("history"), response)

    @operation
    def note_judgements(self, note_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[Sequence[Feedback]]:
        """The judgements of a note, oldest first."""
        response = yield from self._of_owner("GET", _path(note_id, "feedback"), owner)
        return parse_part(tuple[Feedback, ...], json_object(response).get("feedback"), response)

    @operation
    def note_status(self, *, owner: str = DEFAULT_OWNER) -> Flow[NoteStatus]:
        """Counts of the notes of an owner."""
        return parse(NoteStatus, (yield from self._of_owner("GET", f"{NOTES}/status", owner)))

    def _of_owner(self, method: str, path: str, owner: str) -> Flow[Any]:
        return (yield from self._send(Request(method, API + path, query={"owner": owner})))

    def _change(
        self, method: str, path: str, body: Mapping[str, Any], repeat: Repeat = Repeat.always
    ) -> Flow[Note]:
        return parse(Note, (yield from self._send(Request(method, API + path, json=body, repeat=repeat))))


def _path(note_id: int, action: str = "") -> str:
    return f"{NOTES}/{int(note_id)}" + (f"/{action}" if action else "")


def _body(owner: str, **fields: Any) -> dict[str, Any]:
    """The fields that are not None, in the form of the API."""
    return {"owner": owner, **{name: json_value(value) for name, value in without_none(**fields).items()}}


def _batches(notes: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield notes as JSON lines, with at most BATCH_NOTES lines and about BATCH_BYTES bytes."""
    lines: list[bytes] = []
    size = 0
    for note in notes:
        line = json.dumps(json_value(note)).encode() + b"\n"
        if lines and (len(lines) == BATCH_NOTES or size + len(line) > BATCH_BYTES):
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)
