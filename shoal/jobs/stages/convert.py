"""The convert stage: URLs become files, and files become texts.

It comes first in jobs that have any; texts pass through. An item that names a URL takes two steps. The page
or file is fetched first, and the item then stays in the stage as a file like any other. A page that has not
changed ends its item without a conversion.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, TypeAlias

from shoal.conversion.converted import CONVERTER_VERSION, ConversionError
from shoal.conversion.file_kinds import FILE_KINDS
from shoal.conversion.mail import ReadableFile, find_files, unread_warning
from shoal.conversion.process import ConversionProcess, Limits
from shoal.declared.documents import DocumentFields
from shoal.errors import AmbiguousPathError, FetchError, FileConversionError, LeaseLostError
from shoal.formats.drafts import draft_from_bytes, is_too_large, make_draft
from shoal.jobs.queue import statements
from shoal.jobs.queue.attachments import Attached, add_attachments
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.job_items import URL_KIND
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import (
    ItemHandler,
    NotPreparedError,
    Report,
    is_path_awaited,
    keep_response,
    no_report,
    take_fields,
    url_of,
)
from shoal.models.documents import DocFormat, DocumentDraft
from shoal.models.files import FileDraft, SourceFile
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage import document_queries, document_writer, source_stamps
from shoal.storage.database import Database, Row, Snapshot, Transaction
from shoal.storage.source_stamps import FetchedPage
from shoal.support.clock import timestamp_at

if TYPE_CHECKING:
    from shoal.conversion.fetching import FetchedFile, Fetcher

MAX_ANSWER_SHARE = 4
"""Bytes of a converter's answer per byte of the largest document: JSON with escapes, and locators."""
FIRST_PAUSE = 2.0
PAUSE_FACTOR = 4.0
"""Seconds before the second try, and how much longer the pause before each further one is."""
MAX_PAUSE = 120.0
"""Longest pause, also of a server that asks for more: the other documents of the wave wait meanwhile."""
Fetched: TypeAlias = "FetchedFile | Unchanged | Postponed"
"""The result of one try."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that is stored already, as the document `document_id`. `title`: as submitted.

    `is_at_path`: the item has the path of the document and would replace it.
    """

    document_id: int
    file_hash: str
    kind: str
    title: str | None
    is_at_path: bool


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """The text of a file, and the files found in it."""

    draft: DocumentDraft
    attached: tuple[Attached, ...] = ()


class Converting(ItemHandler):
    """Converts the file of an item in a process of its own, which limits time and memory."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        limits = Limits(
            settings.conversion_seconds,
            settings.conversion_memory_bytes,
            MAX_ANSWER_SHARE * settings.max_document_bytes,
        )
        self._process = ConversionProcess(limits)

    @functools.cached_property
    def fetching(self) -> Fetching:
        """Loaded on first use, because few jobs have URLs."""

        return Fetching(self._database, self._settings)

    def prepare(self, item: WorkItem) -> ConvertedFile | KnownFile | Fetched | None:
        return self.prepare_reporting(item, no_report)

    def prepare_reporting(self, item: WorkItem, report: Report) -> ConvertedFile | KnownFile | Fetched | None:
        """None for an item that has a text. Raises DocumentError."""
        with self._database.snapshot() as snapshot:
            row = snapshot.first(statements.ITEM_FILE, {"item_id": item.id})
            if row is None:
                if snapshot.first(statements.ITEM_CONTENT, {"item_id": item.id}) is None:
                    raise LeaseLostError("the item has ended since it was claimed")
                return None
            if row["kind"] != URL_KIND:
                # After a failure in a later stage, the item has the hash of its text.
                file_hash = hashlib.sha256(row["data"]).hexdigest()
                known = _document_of(snapshot, item, file_hash, row["kind"], row["title"])
        if row["kind"] == URL_KIND:
            return self.fetching.prepare(item, row["title"])
        return self._converted(item, row, file_hash, report) if known is None else known

    def store(
        self, transaction: Transaction, item: WorkItem, prepared: ConvertedFile | KnownFile | Fetched | None
    ) -> Outcome:
        if prepared is None:
            return Outcome(ItemStatus.converted)
        if isinstance(prepared, KnownFile):
            known = _document_of(transaction, item, prepared.file_hash, prepared.kind, prepared.title)
            if known is None:
                # It was deleted or replaced since.
                raise NotPreparedError
            take_fields(
                transaction,
                item,
                known.document_id,
                is_at_path=known.is_at_path,
                now=timestamp_at(transaction.now()),
            )
            keep_response(transaction, item, known.document_id)
            return Outcome(ItemStatus.duplicate, known.document_id)
        if not isinstance(prepared, ConvertedFile):
            return self.fetching.store(transaction, item, prepared)
        key, draft, warnings = {"item_id": item.id}, prepared.draft, prepared.draft.warnings
        left = add_attachments(transaction, item, prepared.attached, self._settings.max_upload_bytes)
        if left:
            warnings += (unread_warning([f"{name} (too many within each other)" for name in left]),)
        transaction.execute(statements.SET_CONTENT, {**key, "content": draft.content})
        if draft.file is not None:
            transaction.execute(
                statements.SET_SOURCE, {**key, "source": document_queries.file_to_json(draft.file)}
            )
        transaction.execute(
            statements.CONVERT_ITEM,
            {
                **key,
                "title": draft.title,
                "format": draft.format.value,
                "content_hash": draft.content_hash,
                "tags": json.dumps(list(draft.tags), ensure_ascii=False),
                "metadata": json.dumps(dict(draft.metadata), ensure_ascii=False),
                "warnings": json.dumps(warnings, ensure_ascii=False),
            },
        )
        return Outcome(ItemStatus.converted)

    def _options(self, kind: str) -> dict[str, str | bool]:
        if kind in ("doc", "ppt"):
            return {"office": self._settings.office}
        if kind in ("html", "mhtml"):
            return {"parts": self._settings.web_parts}
        return {"ocr": True} if kind == "pdf" and self._settings.ocr else {}

    def _converted(self, item: WorkItem, row: Row, file_hash: str, report: Report) -> ConvertedFile:
        data, kind, name = row["data"], row["kind"], row["name"]
        known = FILE_KINDS.get(kind)
        if known is None:
            raise FileConversionError("unsupported", f"this version of Shoal has no converter for {kind}")
        fields: DocumentFields = {
            "title": row["title"],
            "tags": item.head.tags,
            "metadata": item.head.metadata,
            "chunk_tokens": item.head.chunk_tokens,
            "language": item.head.language,
            # The default title comes from the name of the file, which a URL may not have, nor an attachment.
            "source_path": name if row["is_named"] else item.head.source_path,
        }
        if known.converter is None:
            fields["format"] = DocFormat.markdown if kind == "markdown" else DocFormat.plaintext
            draft = draft_from_bytes(data, settings=self._settings, **fields)
            return ConvertedFile(dataclasses.replace(draft, source_path=item.head.source_path))
        try:
            converted = self._process.convert(data, name, known, self._options(kind), report)
        except ConversionError as error:
            raise FileConversionError(error.code, str(error)) from None
        fields["title"] = row["title"] or converted.title[: self._settings.max_title_chars] or None
        fields["format"] = converted.format
        metadata = {**converted.metadata, **item.head.metadata}
        if not is_too_large(metadata, self._settings):
            fields["metadata"] = metadata
        draft = make_draft(content=converted.content, settings=self._settings, **fields)
        found = find_files(converted.attachments, self._settings)
        account = converted.account and converted.account.with_documents({each.name for each in found.files})
        file = SourceFile(
            kind,
            name,
            file_hash,
            len(data),
            CONVERTER_VERSION,
            converted.locators,
            converted.removed,
            account,
        )
        unread = (unread_warning(found.unread),) if found.unread else ()
        draft = dataclasses.replace(
            draft,
            source_path=item.head.source_path,
            warnings=(
                *converted.warnings,
                *unread,
                *(account.warnings() if account else ()),
                *draft.warnings,
            ),
            file=file,
        )
        return ConvertedFile(draft, tuple(self._attached(item, each) for each in found.files))

    def _attached(self, item: WorkItem, found: ReadableFile) -> Attached:
        """Return a file found in that of an item, with the fields that were given for the item."""
        head = item.head
        name = PurePosixPath(PureWindowsPath(found.name).name).name
        file = FileDraft(
            found.data,
            found.kind,
            name,
            hashlib.sha256(found.data).hexdigest(),
            tags=head.tags,
            metadata=head.metadata,
            chunk_tokens=head.chunk_tokens,
            rights=head.rights,
            language=head.language,
        )
        return Attached(found.name, file)


def _document_of(
    snapshot: Snapshot, item: WorkItem, file_hash: str, kind: str, title: str | None
) -> KnownFile | None:
    """The document that a file equals, unless its content is about to be replaced, or the file replaces
    another document or its title."""
    if item.document_id is not None or is_path_awaited(snapshot, item):
        return None
    try:
        at_path = (
            document_writer.find_by_path(snapshot, item.head.source_path or "") if item.by_path else None
        )
    except AmbiguousPathError:
        # The score stage reports it.
        return None
    document_id = document_queries.find_document(
        snapshot, file_hash, kind, CONVERTER_VERSION, item.head.chunk_tokens, among=at_path
    )
    if document_id is None:
        return None
    if item.by_path and title not in (None, document_writer.summary(snapshot, document_id)[0]):
        return None
    # The item itself is going to replace the document at its path.
    before = {"job_id": item.job_id, "seq": item.seq} if at_path else statements.BEFORE_ANY
    if snapshot.value(statements.IS_BEING_REPLACED, {"document_id": document_id, **before}):
        return None
    return KnownFile(document_id, file_hash, kind, title, is_at_path=at_path is not None)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A page whose stored version is the present one. `title`: as submitted."""

    page: FetchedPage
    title: str | None


@dataclass(frozen=True, slots=True)
class Postponed:
    """A fetch that failed for a time. `moment`: of the next try, seconds since 1970."""

    moment: float


class Fetching:
    """Fetches the URL of an item."""

    def __init__(self, database: Database, settings: Settings, fetcher: Fetcher | None = None) -> None:
        self._database = database
        self._settings = settings
        if fetcher is None:
            from shoal.conversion.fetching import Fetcher

            fetcher = Fetcher(settings)
        self._fetcher = fetcher

    def prepare(self, item: WorkItem, title: str | None) -> Fetched:
        """Raises DocumentError."""
        url = url_of(item)
        with self._database.snapshot() as snapshot:
            page = _stored_page(snapshot, item, title)
        try:
            file = self._fetcher.fetch(url, page.validators if page else None)
        except FetchError as error:
            if error.is_temporary and item.attempts + 1 < self._settings.max_attempts:
                return Postponed(self._database.now() + _pause(error, item.attempts))
            raise
        if file is None:
            assert page is not None, "a page that is not stored cannot be unchanged"
            return Unchanged(page, title)
        return file

    def store(self, transaction: Transaction, item: WorkItem, fetched: Fetched) -> Outcome:
        if isinstance(fetched, Postponed):
            transaction.execute(statements.POSTPONE_ITEM, {"item_id": item.id, "moment": fetched.moment})
            return Outcome(ItemStatus.enqueued)
        if not isinstance(fetched, Unchanged):
            self._store_file(transaction, item, fetched)
            return Outcome(ItemStatus.enqueued)
        if _stored_page(transaction, item, fetched.title) != fetched.page:
            # The document was deleted or replaced since.
            raise NotPreparedError
        now = timestamp_at(transaction.now())
        source_stamps.touch_page(transaction, url_of(item), now=now)
        document_id = fetched.page.document_id
        is_at_path = document_writer.find_by_path(transaction, url_of(item)) == document_id
        take_fields(transaction, item, document_id, is_at_path=is_at_path, now=now)
        return Outcome(ItemStatus.duplicate, document_id)

    def _store_file(self, transaction: Transaction, item: WorkItem, fetched: FetchedFile) -> None:
        key, n_bytes = {"item_id": item.id}, len(fetched.data)
        transaction.execute(
            statements.SET_FETCHED_FILE,
            {**key, "kind": fetched.kind.id, "name": fetched.name, "data": fetched.data},
        )
        transaction.execute(statements.INSERT_RESPONSE, {**key, **fetched.validators._asdict()})
        file_hash = hashlib.sha256(fetched.data).hexdigest()
        transaction.execute(statements.SET_FETCHED_ITEM, {**key, "file_hash": file_hash, "n_bytes": n_bytes})
        grown = {"job_id": item.job_id, "wave": item.wave, "bytes": n_bytes - item.n_bytes}
        transaction.execute(statements.GROW_WAVE, grown)
        transaction.execute(statements.GROW_JOB, grown)


def _pause(error: FetchError, attempts: int) -> float:
    pause = FIRST_PAUSE * PAUSE_FACTOR**attempts if error.retry_after is None else error.retry_after
    return min(pause, MAX_PAUSE)


def _stored_page(snapshot: Snapshot, item: WorkItem, title: str | None) -> FetchedPage | None:
    """Return the version of an item's page that the library has; None if the item needs the page itself."""
    url = url_of(item)
    page = source_stamps.find_page(snapshot, url, CONVERTER_VERSION, item.head.chunk_tokens)
    if page is None or is_path_awaited(snapshot, item):
        return None
    try:
        at_path = document_writer.find_by_path(snapshot, url)
    except AmbiguousPathError:
        # The score stage reports it.
        return None
    if at_path not in (None, page.document_id):
        return None
    if at_path is not None and title not in (None, document_writer.summary(snapshot, at_path)[0]):
        return None
    before = {"job_id": item.job_id, "seq": item.seq}
    if snapshot.value(statements.IS_BEING_REPLACED, {"document_id": page.document_id, **before}):
        return None
    return page
