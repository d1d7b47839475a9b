"""Replacing the content of a stored document under its id.

The new content goes through all stages and replaces the old in the transaction that ends its item, so a
reader sees either. Chunks with the same text keep their ids, so citations stay valid. Replacements of one
document happen in the order of their acceptance. An upload of the text that a document is about to lose
waits: otherwise it would become a duplicate of content that disappears."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shoal.errors import DocumentGoneError, DuplicateContentError
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.jobs.stages.discover import keep_rows, rows_to_withdraw
from shoal.jobs.stages.score import Scored, Scoring
from shoal.models import DocFormat, DocumentDraft, ItemStatus
from shoal.settings import Settings
from shoal.storage import document_queries, document_writer
from shoal.storage.database import Database, Snapshot, snapshot_of
from shoal.storage.vocabulary_records import EvidenceRow
from shoal.support.clock import timestamp


def new_content(
    snapshot: Snapshot,
    document_id: int,
    settings: Settings,
    *,
    content: str,
    title: str | None = None,
    format: DocFormat | str | None = None,  # noqa: A002 - the name users know from the API
    tags: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    source_path: str | None = None,
) -> DocumentDraft:
    """The draft that replaces a document; arguments that are None keep their stored value.

    Raises NotFoundError, and what `make_draft` raises.
    """
    stored = document_queries.get_document(snapshot, document_id)
    return make_draft(
        content=content,
        settings=settings,
        title=stored.title if title is None else title,
        format=stored.format if format is None else format,
        tags=stored.tags if tags is None else tags,
        metadata=stored.metadata if metadata is None else metadata,
        source_path=stored.source_path if source_path is None else source_path,
    )


def update_without_scoring(database: Database, document_id: int, draft: DocumentDraft) -> bool:
    """Update the fields of a document that has the draft's content, title and format; False if it differs.

    Raises DocumentGoneError, or DuplicateContentError if another document has the content. Returns False
    while a replacement of either document is open."""
    with database.snapshot() as snapshot:
        holder = document_writer.find_document_id(snapshot, draft.content_hash)
        if _is_being_replaced(snapshot, document_id) or _is_being_replaced(snapshot, holder):
            return False
        if not _is_settled(snapshot, document_id, draft):
            return False
    with database.write() as connection:
        snapshot = snapshot_of(connection)
        is_settled = _is_settled(snapshot, document_id, draft) and not _is_being_replaced(
            snapshot, document_id
        )
        if is_settled:
            document_writer.update_head(connection, document_id, draft, now=timestamp())
    return is_settled


def is_being_replaced(database: Database, document_id: int) -> bool:
    """Whether an open job replaces the content of a document."""
    with database.snapshot() as snapshot:
        return _is_being_replaced(snapshot, document_id)


def _is_being_replaced(snapshot: Snapshot, document_id: int | None) -> bool:
    return bool(snapshot.value(statements.IS_BEING_REPLACED, {"document_id": document_id}))


def _is_settled(snapshot: Snapshot, document_id: int, draft: DocumentDraft) -> bool:
    """Whether a document has the draft's content, title and format. Raises like `update_without_scoring`."""
    identity = document_writer.identity(snapshot, document_id)
    if identity is None:
        raise DocumentGoneError(document_id)
    holder = document_writer.find_document_id(snapshot, draft.content_hash)
    if holder not in (None, document_id):
        raise DuplicateContentError(holder)
    return identity == (draft.content_hash, draft.title, draft.format.value)


@dataclass(frozen=True, slots=True)
class Replacement:
    """New content for a document. Of its chunks `before`, those in `kept` keep their ids.

    `withdrawn`: observations of the old text that are in the sums but whose rows were not kept.
    """

    scored: Scored
    before: tuple[int, ...]
    kept: tuple[int | None, ...]
    withdrawn: list[EvidenceRow]


class Replacing(ItemHandler):
    """The score stage of uploads: score and store a new document, or new content of a stored one."""

    def __init__(self, database: Database, scoring: Scoring) -> None:
        self._database = database
        self._scoring = scoring

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._scoring.prepare_together(items)

    def prepare(self, item: WorkItem) -> Scored | Replacement | None:
        """None if nothing needs scoring. Raises DocumentGoneError, DuplicateContentError."""
        document_id = item.document_id
        if document_id is None:
            return self._scoring.prepare(item)
        with self._database.snapshot() as snapshot:
            if _is_settled(snapshot, document_id, _draft_head(item)):
                return None
            before = document_writer.chunk_texts(snapshot, document_id)
        scored = self._scoring.scored(item)
        kept = matching_chunk_ids(before, [chunk.text for chunk in scored.document.chunks])
        discovery = self._scoring.discovery
        rows = rows_to_withdraw(self._database, lambda: discovery, document_id) if discovery else []
        return Replacement(scored, tuple(chunk_id for chunk_id, _ in before), kept, rows)

    def store(
        self, connection: sa.Connection, item: WorkItem, prepared: Scored | Replacement | None
    ) -> Outcome:
        document_id = item.document_id
        if document_id is None:
            assert not isinstance(prepared, Replacement), "an item without a document replaces none"
            return self._scoring.store(connection, item, prepared)
        assert not isinstance(prepared, Scored), "an item with a document replaces it"
        now, snapshot = timestamp(), snapshot_of(connection)
        if _is_settled(snapshot, document_id, _draft_head(item)):
            document_writer.update_head(connection, document_id, _draft_head(item), now=now)
            return Outcome(ItemStatus.succeeded, document_id)
        if prepared is None or document_writer.chunk_ids(snapshot, document_id) != prepared.before:
            # Another job has replaced it since.
            raise NotPreparedError
        keep_rows(connection, document_id, prepared.withdrawn)
        self._scoring.observe(connection, item, prepared.scored.seen)
        document_writer.replace_document(
            connection, document_id, prepared.scored.document, prepared.kept, now=now
        )
        self._scoring.prune(connection, item)
        return Outcome(ItemStatus.succeeded, document_id)

    def store_many(
        self, connection: sa.Connection, group: Sequence[tuple[WorkItem, Scored | Replacement | None]]
    ) -> list[Outcome]:
        new = [
            (item, one)
            for item, one in group
            if not isinstance(one, Replacement) and item.document_id is None
        ]
        if len(new) == len(group):
            return self._scoring.store_many(connection, new)
        return [self.store(connection, item, prepared) for item, prepared in group]


def _draft_head(item: WorkItem) -> DocumentDraft:
    """The draft of an item without its text."""
    assert item.content_hash is not None, "an accepted document has a hash"
    head = item.head
    return DocumentDraft(
        title=head.title,
        content="",
        format=head.format,
        content_hash=item.content_hash,
        n_bytes=item.n_bytes,
        tags=head.tags,
        source_path=head.source_path,
        metadata=head.metadata,
        warnings=head.warnings,
    )


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
