"""Replacing the content of a stored document under its id, which an item names or which has its path.

The new content goes through all stages and replaces the old in the transaction that ends its item, so a
reader sees either. Chunks with the same text keep their ids, so citations stay valid. Replacements of one
document happen in the order of their acceptance. An upload of the text that a document is about to lose
waits: otherwise it would become a duplicate of content that disappears.

An item that replaces by its path looks the document up again in the transaction that stores it. So two such
items never become two documents, whatever happens between them."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack, cast

from shoal.declared.documents import DocumentFields
from shoal.errors import DocumentGoneError, DuplicateContentError
from shoal.formats.drafts import make_draft, with_passages
from shoal.jobs.queue import statements
from shoal.jobs.queue.attachments import ended_attachments
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError, keep_response
from shoal.jobs.stages.discover import Withdrawn, delete_documents, keep_rows, withdrawals
from shoal.jobs.stages.score import Scored, Scoring
from shoal.models.documents import DocumentDraft
from shoal.models.files import GIVEN_PASSAGES, SourceFile
from shoal.models.jobs import ItemStatus
from shoal.models.stored import StoredDocument
from shoal.settings import Settings
from shoal.storage import attachments, document_queries, document_writer
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.support.clock import timestamp_at


def new_content(
    snapshot: Snapshot,
    document_id: int,
    settings: Settings,
    *,
    content: str | None = None,
    **fields: Unpack[DocumentFields],
) -> DocumentDraft:
    """The draft that replaces a document; missing fields keep their stored value. Passages that the caller
    cut are kept with the text that they are of; another text is cut as `SHOAL_CHUNK_TOKENS` says.

    Raises NotFoundError, and what `make_draft` raises.
    """
    stored = document_queries.get_document(snapshot, document_id)
    names = DocumentFields.__annotations__.keys() - {"chunks"}
    is_cut_anew = fields.get("chunks") is not None or fields.get("chunk_tokens") is not None
    is_given = stored.chunk_tokens == GIVEN_PASSAGES
    if is_cut_anew or is_given:
        names -= {"chunk_tokens"}
    if not stored.is_language_given:
        names -= {"language"}
    kept = stored_fields(stored, fields, *names)
    draft = make_draft(content=content, settings=settings, **kept)
    if is_given and not is_cut_anew and draft.content == document_queries.get_content(snapshot, document_id):
        return with_passages(draft, document_queries.get_passages(snapshot, document_id))
    return draft


def stored_fields(stored: StoredDocument, fields: DocumentFields, *names: str) -> DocumentFields:
    """`fields`, with the stored values for those of `names` that are missing or None."""
    kept = {name: getattr(stored, name) for name in names if fields.get(name) is None}
    return cast(DocumentFields, {**fields, **kept})


def update_without_scoring(database: Database, document_id: int, draft: DocumentDraft) -> bool:
    """Update the fields of a document that has the draft's content, title, format and language; False if it
    differs.

    Raises DocumentGoneError, or DuplicateContentError if another document has the content. Returns False
    while a replacement of either document is open."""
    with database.snapshot() as snapshot:
        holder = document_writer.find_by_hash(snapshot, draft.content_hash)
        if is_being_replaced_in(snapshot, document_id) or is_being_replaced_in(snapshot, holder):
            return False
        if not _is_settled(snapshot, document_id, draft):
            return False
    with database.write() as transaction:
        is_settled = _is_settled(transaction, document_id, draft) and not is_being_replaced_in(
            transaction, document_id
        )
        if is_settled:
            document_writer.update_head(transaction, document_id, draft, now=timestamp_at(transaction.now()))
    return is_settled


def is_being_replaced(database: Database, document_id: int) -> bool:
    """Whether an open job replaces the content of a document."""
    with database.snapshot() as snapshot:
        return is_being_replaced_in(snapshot, document_id)


def is_being_replaced_in(snapshot: Snapshot, document_id: int | None) -> bool:
    """The same in a snapshot."""
    key = {"document_id": document_id, **statements.BEFORE_ANY}
    return bool(snapshot.value(statements.IS_BEING_REPLACED, key))


def _is_settled(
    snapshot: Snapshot, document_id: int, draft: DocumentDraft, *, keeps_language: bool = False
) -> bool:
    """Whether a document has the draft's content, title, format and given language; with `keeps_language`, a
    draft without one may have any. Raises like `update_without_scoring`."""
    identity = document_writer.identity(snapshot, document_id)
    if identity is None:
        raise DocumentGoneError(document_id)
    holder = document_writer.find_by_hash(snapshot, draft.content_hash)
    if holder not in (None, document_id):
        raise DuplicateContentError(holder)
    *own, language = identity
    is_same_language = draft.language == language or (keeps_language and draft.language is None)
    return is_same_language and own == [draft.content_hash, draft.title, draft.format.value]


@dataclass(frozen=True, slots=True)
class Replacement:
    """New content for a document. Of its chunks `before`, those in `kept` keep their ids.

    `withdrawn`: observations that are in the sums but whose rows were not kept, of the old text and of the
    attachments that go with it.
    """

    document_id: int
    scored: Scored
    before: tuple[int, ...]
    kept: tuple[int | None, ...]
    withdrawn: Withdrawn


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The content of a document, whose attachments may have changed; `withdrawn` as in Replacement."""

    withdrawn: Withdrawn


Prepared = Scored | Replacement | Unchanged | None


class Replacing(ItemHandler):
    """The score stage of uploads: score and store a new document, or new content of a stored one."""

    def __init__(self, database: Database, scoring: Scoring) -> None:
        self._database = database
        self._scoring = scoring

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._scoring.prepare_together(items)

    def prepare(self, item: WorkItem) -> Scored | Replacement | Unchanged | None:
        """None if the library has the text already. Raises DocumentGoneError, DuplicateContentError,
        AmbiguousPathError."""
        with self._database.snapshot() as snapshot:
            document_id = _replaced_by(snapshot, item)
            if document_id is not None:
                is_unchanged = _is_unchanged(snapshot, document_id, item)
                ended = ended_attachments(snapshot, item.id, document_id)
                held = attachments.held_by(snapshot, document_id, ended)
                before = [] if is_unchanged else document_writer.chunk_texts(snapshot, document_id)
        if document_id is None:
            return self._scoring.prepare(item)
        discovery = self._scoring.discovery
        withdrawn = withdrawals(
            self._database, (lambda: discovery) if discovery else None, [document_id, *held]
        )
        if is_unchanged:
            return Unchanged(withdrawn)
        scored = self._scoring.scored(item)
        kept = matching_chunk_ids(before, [chunk.text for chunk in scored.document.chunks])
        return Replacement(document_id, scored, tuple(chunk_id for chunk_id, _ in before), kept, withdrawn)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Prepared) -> Outcome:
        outcome = self._store(transaction, item, prepared)
        keep_response(transaction, item, outcome.document_id)
        return outcome

    def _store(self, transaction: Transaction, item: WorkItem, prepared: Prepared) -> Outcome:
        document_id = _replaced_by(transaction, item)
        if document_id is None:
            if isinstance(prepared, Replacement | Unchanged):
                # The document with this path was deleted or renamed since.
                raise NotPreparedError
            return self._scoring.store(transaction, item, prepared)
        now = timestamp_at(transaction.now())
        if _is_unchanged(transaction, document_id, item):
            if _file_of(transaction, item) is not None:
                _end_attachments(transaction, item, document_id, prepared)
            self._update_unchanged(transaction, document_id, item, now)
            status = ItemStatus.duplicate if item.by_path else ItemStatus.succeeded
            return Outcome(status, document_id)
        if not isinstance(prepared, Replacement) or prepared.document_id != document_id:
            # The document was changed or stored since.
            raise NotPreparedError
        if document_writer.chunk_ids(transaction, document_id) != prepared.before:
            # Another job has replaced it since.
            raise NotPreparedError
        keep_rows(transaction, document_id, prepared.withdrawn[document_id])
        _end_attachments(transaction, item, document_id, prepared)
        self._scoring.observe(transaction, item, prepared.scored.discovered)
        scored = prepared.scored.document
        if item.by_path:
            draft = document_writer.with_stored_fields(transaction, document_id, scored.draft)
            scored = dataclasses.replace(scored, draft=draft)
        document_writer.replace_document(transaction, document_id, scored, prepared.kept, now=now)
        stored = document_queries.describe_file(transaction, document_id)
        file = scored.draft.file
        is_same = stored is not None and file is not None and stored.file_hash == file.file_hash
        if not is_same:
            attachments.make_independent(transaction, document_id)
        document_queries.delete_file(transaction, document_id)
        is_kept = is_same and stored is not None and stored.is_kept
        self._scoring.write_file(transaction, item, document_id, scored.draft, is_kept=is_kept)
        self._scoring.prune(transaction, item)
        return Outcome(ItemStatus.succeeded, document_id)

    def _update_unchanged(self, transaction: Transaction, document_id: int, item: WorkItem, now: str) -> None:
        """Store the fields of an item whose content the document has, and its file if it is another one."""
        head = item.head
        if item.by_path:
            head = document_writer.with_stored_fields(transaction, document_id, head)
        document_writer.update_head(transaction, document_id, head, now=now)
        file = _file_of(transaction, item)
        stored = document_queries.describe_file(transaction, document_id)
        if file is not None and stored is not None and stored.file_hash != file.file_hash:
            document_queries.delete_file(transaction, document_id)
            self._scoring.write_file(transaction, item, document_id, dataclasses.replace(head, file=file))
        elif file is not None:
            document_queries.set_converter(transaction, document_id, file.converter)

    def store_many(
        self, transaction: Transaction, group: Sequence[tuple[WorkItem, Prepared]]
    ) -> list[Outcome]:
        new = [
            (item, one)
            for item, one in group
            if not isinstance(one, Replacement | Unchanged) and _replaced_by(transaction, item) is None
        ]
        paths = [item.head.source_path for item, _ in group if item.by_path]
        if len(new) == len(group) and len(set(paths)) == len(paths):
            outcomes = self._scoring.store_many(transaction, new)
            for (item, _), outcome in zip(group, outcomes, strict=True):
                keep_response(transaction, item, outcome.document_id)
            return outcomes
        return [self.store(transaction, item, prepared) for item, prepared in group]


def _end_attachments(transaction: Transaction, item: WorkItem, document_id: int, prepared: Prepared) -> None:
    """Delete or unlink the attachments that the new file of a document does not have."""
    ended = ended_attachments(transaction, item.id, document_id)
    if not ended:
        return
    if not isinstance(prepared, Replacement | Unchanged):
        raise NotPreparedError
    held = attachments.held_by(transaction, document_id, ended)
    delete_documents(transaction, held, prepared.withdrawn)
    attachments.unlink(transaction, document_id, ended)


def _replaced_by(snapshot: Snapshot, item: WorkItem) -> int | None:
    """The document that an item replaces; None if it becomes a new one. Raises AmbiguousPathError."""
    if not item.by_path:
        return item.document_id
    assert item.head.source_path, "an item that replaces by its path has one"
    return document_writer.find_by_path(snapshot, item.head.source_path)


def _is_unchanged(snapshot: Snapshot, document_id: int, item: WorkItem) -> bool:
    """Whether a document has an item's content, title, format and language, and the places of its file.
    Raises like `update_without_scoring`."""
    if not _is_settled(snapshot, document_id, item.head, keeps_language=item.by_path):
        return False
    file = _file_of(snapshot, item)
    if file is None:
        return True
    stored = document_queries.get_file(snapshot, document_id)
    return stored is not None and (stored.kind, stored.locators) == (file.kind, file.locators)


def _file_of(snapshot: Snapshot, item: WorkItem) -> SourceFile | None:
    source = snapshot.value(statements.ITEM_SOURCE, {"item_id": item.id})
    return None if source is None else document_queries.file_from_json(source)


def matching_chunk_ids(before: Sequence[tuple[int, str]], after: Sequence[str]) -> tuple[int | None, ...]:
    """For each text of `after`, the id of the chunk of `before` that it keeps, or None.

    Matches equal texts in order, so kept ids keep their order. Common texts at the beginning and the end
    match first. Between them, the n-th of several equal texts matches the n-th, and the longest increasing
    subsequence of matches remains. Takes n log n time for any texts."""
    ids = [chunk_id for chunk_id, _ in before]
    old = [text for _, text in before]
    most = min(len(old), len(after))
    head = next((i for i in range(most) if old[i] != after[i]), most)
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != after[-1 - i]), most)
    places: dict[str, list[int]] = defaultdict(list)
    for place in range(len(old) - tail - 1, head - 1, -1):
        places[old[place]].append(place)
    pairs = [
        (places[text].pop(), number)
        for number, text in enumerate(after[head : len(after) - tail], start=head)
        if places.get(text)
    ]
    kept: list[int | None] = [None] * len(after)
    kept[:head] = ids[:head]
    if tail:
        kept[-tail:] = ids[-tail:]
    for place, number in _in_order(pairs):
        kept[number] = ids[place]
    return tuple(kept)


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence in which both numbers increase; the second increases in `pairs`."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for i, (place, _) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [i]
    chosen: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]
