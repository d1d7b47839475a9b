"""The documents of a library: list, read, tag, replace and delete them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from shoal.declared.arguments import MAX_ID, MAX_PAGE, check_choice
from shoal.declared.documents import DocumentFields
from shoal.errors import NotFoundError, QueryError
from shoal.filters.evaluation import find_documents
from shoal.filters.parsing import make_filter
from shoal.filters.tree import check_characters, check_file_type
from shoal.library.library import Library
from shoal.models.documents import DocumentDraft, DocumentSort, IngestResult
from shoal.models.files import GIVEN_PASSAGES, FileDraft
from shoal.models.rights import AccessSettings, Visibility
from shoal.models.stored import NamedDocument
from shoal.search.request import check_context, check_page
from shoal.storage import access_settings, chunk_queries, document_queries, statistics
from shoal.storage.chunk_queries import is_of_type
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import checked_id, is_any_of
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.charts.ribbon import Ribbon
    from shoal.filters.tree import Node
    from shoal.models.stored import ChunkDetail, ChunkPage, DocumentDetail, DocumentPage
    from shoal.storage.statistics import MainReef


class KeptFile(NamedTuple):
    """The original of a document."""

    name: str
    media_type: str
    data: bytes


MAX_NAMED = 100
"""Documents that a deletion names beforehand."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The documents that a deletion is of, by id; `first` names the first of them."""

    document_ids: tuple[int, ...]
    first: tuple[NamedDocument, ...]


class Documents:
    """`engine.documents`. Each method that reads reads one snapshot."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._database = library.database
        self._settings = library.settings

    # Read

    @contextmanager
    def _reading(self, *, document_id: int | None = None, chunk_id: int | None = None) -> Iterator[Snapshot]:
        """A snapshot to read a document or chunk in, if one is named. Raises NotFoundError for an id that
        none can have."""
        for kind, value in (("document", document_id), ("chunk", chunk_id)):
            if value is not None:
                checked_id(kind, value)
        with self._database.snapshot() as snapshot:
            yield snapshot

    def _is_listed(self, snapshot: Snapshot) -> Callable[[int], bool]:
        """Return whether a document, by its id, may be named where others are linked to it."""
        return lambda _: True

    def _listed(self, snapshot: Snapshot, tree: Node | None) -> Sequence[int] | None:
        """The ids of the documents that meet a filter; None for all."""
        return None if tree is None else find_documents(snapshot, self._library.index.fields, tree)

    def list(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        source_path: str | None = None,
        file_type: str | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the argument
        sort: str = DocumentSort.oldest,
        limit: int = 50,
        offset: int = 0,
    ) -> DocumentPage:
        """Documents by id: those with `tag`, with exactly this `source_path`, with `q` in title or source
        path, of this `file_type`, such as `pdf`, `video` or `.py`, and that meet a `filter` as of
        `Engine.search`, over fields of documents.

        `q` ignores the case of ASCII letters. `sort` is `created`, or `-created` for the newest first. Raises
        QueryError for a negative limit or offset, an unknown type or order, or an invalid filter.
        """
        check_page(limit, offset)
        for field, text in (("tag", tag), ("q", q), ("source_path", source_path)):
            check_characters(field, text or "")
        file_type = None if file_type is None else check_file_type("file_type", file_type)
        tree = make_filter(filter)
        newest_first = check_choice("sort", sort, DocumentSort) is DocumentSort.newest
        with self._reading() as snapshot:
            conditions = [] if file_type is None else [is_of_type(file_type, "file_type")]
            if (ids := self._listed(snapshot, tree)) is not None:
                conditions.append(is_any_of(ids))
            return document_queries.list_documents(
                snapshot,
                tag=tag,
                q=q,
                source_path=source_path,
                conditions=conditions,
                newest_first=newest_first,
                limit=limit,
                offset=offset,
            )

    def deletion(
        self,
        *,
        tag: str | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the argument
    ) -> Deletion:
        """What `delete_many` would delete: the documents with `tag` that meet a `filter`, both as in `list`.

        Raises QueryError, also without a condition: nobody deletes all documents by a slip.
        """
        if not tag and make_filter(filter) is None:
            raise QueryError("filter", "is missing: say which documents, by a filter or a tag")
        documents = self.list(tag=tag or None, filter=filter, limit=MAX_PAGE).documents
        first = tuple(NamedDocument(each.id, each.title, each.source_path) for each in documents[:MAX_NAMED])
        return Deletion(tuple(document.id for document in documents), first)

    def delete_many(
        self,
        *,
        tag: str | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the argument
    ) -> int:
        """Delete the documents of `deletion` one after the other; return how many there were.

        Each is deleted in a transaction, so what was deleted stays deleted if the process ends.
        """
        return sum(self.delete(each) for each in self.deletion(tag=tag, filter=filter).document_ids)

    def get(self, document_id: int) -> DocumentDetail:
        """A document with its sections and report. Raises NotFoundError."""
        with self._reading(document_id=document_id) as snapshot:
            return document_queries.get_detail(snapshot, document_id, self._is_listed(snapshot))

    def version(self, document_id: int) -> str:
        """The version of a document, for `change`. Raises NotFoundError."""
        with self._reading(document_id=document_id) as snapshot:
            return document_queries.version_of(snapshot, document_id)

    def exists(self, document_id: int) -> bool:
        """Whether a document with this id exists."""
        with self._database.snapshot() as snapshot:
            return document_queries.exists(snapshot, document_id)

    def find(self, reference: str, path: str) -> Sequence[NamedDocument]:
        """Documents whose source path or title is `reference`, or whose source path is `path`.

        If a source path matches, matching titles are left out.
        """
        with self._database.snapshot() as snapshot:
            return document_queries.named(snapshot, reference, path)

    def content(self, document_id: int) -> str:
        """The text of a document as it was stored. Raises NotFoundError."""
        with self._reading(document_id=document_id) as snapshot:
            return document_queries.get_content(snapshot, document_id)

    def file(self, document_id: int) -> KeptFile:
        """The file that a document was converted from, if it is kept (`SHOAL_KEEP_ORIGINALS`). Raises
        NotFoundError."""
        from shoal.conversion.file_kinds import FILE_KINDS

        with self._reading(document_id=document_id) as snapshot:
            described = document_queries.get_detail(snapshot, document_id).file
            if described is None:
                raise NotFoundError(f"document {document_id} was sent as text; it has no file")
            data = document_queries.get_data(snapshot, document_id)
        kind = FILE_KINDS.get(described.kind)
        media_type = kind.media_types[0] if kind and kind.media_types else "application/octet-stream"
        return KeptFile(described.name or f"document-{document_id}", media_type, data)

    def kept_files(self, document_ids: Iterable[int]) -> Mapping[int, str]:
        """Those of a page of documents whose file `file` returns, with its kind."""
        with self._database.snapshot() as snapshot:
            return document_queries.kept_files(snapshot, document_ids)

    def written_in_markdown(self, document_ids: Iterable[int]) -> frozenset[int]:
        """Those of a page of documents whose text is Markdown. Source code is only stored as such."""
        with self._database.snapshot() as snapshot:
            return document_queries.written_in_markdown(snapshot, document_ids)

    def chunks(
        self,
        document_id: int,
        *,
        limit: int | None = None,
        offset: int = 0,
        n_reefs: int = chunk_queries.ALL_REEFS,
    ) -> ChunkPage:
        """Chunks of a document in order, with their labels, `n_reefs` strongest reefs, and islands unless
        that is 0. Raises NotFoundError."""
        check_page(0 if limit is None else limit, offset)
        with self._reading(document_id=document_id) as snapshot:
            return chunk_queries.get_chunks(
                snapshot,
                document_id,
                limit=limit,
                offset=offset,
                n_reefs=n_reefs,
                label_threshold=self._settings.label_threshold,
                data_checksum=self._library.scorer.data_checksum,
            )

    def chunk(self, chunk_id: int, *, context: int = 0) -> ChunkDetail:
        """A chunk by its id, with its document and `context` neighbours on each side.

        Raises NotFoundError, QueryError.
        """
        context = check_context(context)
        with self._reading(chunk_id=chunk_id) as snapshot:
            return chunk_queries.get_chunk(
                snapshot,
                chunk_id,
                label_threshold=self._settings.label_threshold,
                data_checksum=self._library.scorer.data_checksum,
                context=context,
            )

    def chunk_id(self, document_id: int, chunk_index: int) -> int | None:
        """The id of a document's chunk, counted from 0; None if there is none."""
        with self._database.snapshot() as snapshot:
            return document_queries.find_chunk_id(snapshot, document_id, chunk_index)

    def chunk_indexes(self, chunk_ids: Iterable[int]) -> Mapping[int, int]:
        """Positions of chunks in their documents, counted from 0, by chunk id."""
        with self._database.snapshot() as snapshot:
            return document_queries.chunk_positions(snapshot, chunk_ids)

    def main_reefs(self, document_ids: Sequence[int], n: int) -> Mapping[int, tuple[MainReef, ...]]:
        """By document id, the `n` reefs that are the first label of most chunks."""
        with self._database.snapshot() as snapshot:
            return statistics.main_reefs(
                snapshot, document_ids, n, label_threshold=self._settings.label_threshold
            )

    def awaiting_rescore(self, document_ids: Sequence[int]) -> Set[int]:
        """Those of the documents that have chunks scored with other data of lagoon."""
        with self._database.snapshot() as snapshot:
            return statistics.awaiting_rescore(
                snapshot, document_ids, data_checksum=self._library.scorer.data_checksum
            )

    def frequent_tags(self, limit: int) -> Sequence[tuple[str, int]]:
        """Tags with their number of documents, most frequent first."""
        with self._database.snapshot() as snapshot:
            return statistics.frequent_tags(snapshot, limit)

    def ribbon(self, document_id: int) -> Ribbon:
        """A document as a strip of its topics. Raises NotFoundError."""
        from shoal.charts.ribbon import read_ribbon

        with self._reading(document_id=document_id) as snapshot:
            return read_ribbon(
                snapshot,
                document_id,
                self._library.scorer,
                self._settings.label_threshold,
            )

    def access_settings(self) -> AccessSettings:
        """Who may see documents without rights with a search token."""
        with self._database.snapshot() as snapshot:
            return AccessSettings(access_settings.visibility(snapshot))

    # Change

    def change_access_settings(self, without_rights: str) -> AccessSettings:
        """Change who may see documents without rights. Raises QueryError for anything but `everyone` and
        `nobody`."""
        visibility = check_choice("without_rights", without_rights, Visibility)
        with self._database.write() as transaction:
            access_settings.set_visibility(transaction, Visibility(visibility))
        return AccessSettings(Visibility(visibility))

    def set_tags(self, document_id: int, tags: Sequence[str]) -> tuple[str, ...]:
        """Replace a document's tags; return them as stored. Raises NotFoundError, InvalidFieldError."""
        from shoal.formats.drafts import checked_tags
        from shoal.storage import document_writer

        checked = checked_tags(tags, self._settings)
        with self._database.write() as transaction:
            document_writer.set_tags(
                transaction, checked_id("document", document_id), checked, now=timestamp()
            )
        with self._database.snapshot() as snapshot:
            return document_queries.get_document(snapshot, document_id).tags

    def change_tags(
        self, document_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Add and remove tags of a document in one transaction; return the tags as stored.

        Raises NotFoundError, InvalidFieldError.
        """
        from shoal.formats.drafts import checked_tags
        from shoal.storage import document_writer

        with self._database.write() as transaction:
            if not document_writer.exists(transaction, checked_id("document", document_id)):
                raise NotFoundError(f"there is no document {document_id}")
            _, _, before = document_writer.summary(transaction, document_id)
            kept = [tag for tag in before if tag not in remove]
            after = checked_tags([*kept, *add], self._settings) if add else kept
            if set(after) != set(before):
                document_writer.set_tags(transaction, document_id, after, now=timestamp())
            _, _, stored = document_writer.summary(transaction, document_id)
        return stored

    def change(self, document_id: int, *, version: str | None = None, **changes: Any) -> IngestResult:
        """Change `title`, `tags`, `metadata`, `language`, `allow` or `deny` of a document, if it has this
        version.

        None empties a list or an object; `allow=None` is what the collection says, and `language=None` what
        is detected. Only a new title or language is scored, with the same chunks. Raises NotFoundError,
        InvalidFieldError, VersionConflictError, and JobStateError while a job replaces the document.
        """
        from shoal.jobs.stages.field_changes import change_fields

        document_id = checked_id("document", document_id)
        versions = None if version is None else frozenset({version})
        draft = change_fields(self._database, self._settings, document_id, changes, versions)
        if draft is not None:
            with self._library.ingest_session() as ingest_session:
                ingest_session.replace(document_id, draft)
                return ingest_session.finish_one()
        stored = self.get(document_id).document
        return IngestResult(document_id, stored.title, stored.n_chunks, stored.tags)

    def replace(
        self, document_id: int, *, content: str | None = None, **fields: Unpack[DocumentFields]
    ) -> IngestResult:
        """Give a document new content under its id.

        Fields that are missing or None stay as stored; chunks with the same text keep their ids. A search
        sees either the old document or the new one. If content, title, format and language are the same,
        nothing is scored. Raises NotFoundError, DuplicateContentError if another document has this content,
        or another DocumentError; the document then stays as it was."""
        from shoal.jobs.stages.replace import new_content

        document_id = checked_id("document", document_id)
        with self._database.snapshot() as snapshot:
            draft = new_content(snapshot, document_id, self._settings, content=content, **fields)
        return self._replace(document_id, draft)

    def replace_file(
        self, document_id: int, path: str | Path, **fields: Unpack[DocumentFields]
    ) -> IngestResult:
        """Replace with the text of a file. Format and `source_path` are those of the file by default; other
        fields keep their stored value."""
        from shoal.conversion.converted import draft_of_file
        from shoal.jobs.stages.replace import stored_fields

        stored = self.get(document_id).document
        fields = stored_fields(stored, fields, "title", "tags", "metadata")
        if stored.is_language_given:
            fields = stored_fields(stored, fields, "language")
        if stored.chunk_tokens != GIVEN_PASSAGES and fields.get("chunks") is None:
            fields = stored_fields(stored, fields, "chunk_tokens")
        return self._replace(document_id, draft_of_file(path, settings=self._settings, **fields))

    def _replace(self, document_id: int, draft: DocumentDraft | FileDraft) -> IngestResult:
        from shoal.jobs.stages.replace import update_without_scoring

        if isinstance(draft, DocumentDraft) and update_without_scoring(self._database, document_id, draft):
            detail = self.get(document_id)
            stored = detail.document
            return IngestResult(
                document_id, stored.title, stored.n_chunks, stored.tags, warnings=detail.report.warnings
            )
        with self._library.ingest_session() as ingest_session:
            ingest_session.replace(document_id, draft)
            return ingest_session.finish_one()

    def delete(self, document_id: int) -> bool:
        """Delete a document, its attachments and everything derived from them; False if there is none.

        The next learn or rescore forgets words that only this document supported.
        """
        from shoal.jobs.stages.contract import NotPreparedError
        from shoal.jobs.stages.discover import Discovery, delete_document, prepare_deletion

        if not 0 < document_id <= MAX_ID:
            return False
        while True:
            prepared = prepare_deletion(
                self._database, lambda: Discovery(self._library.scorer, self._settings), document_id
            )
            try:
                with self._database.write() as transaction:
                    found = delete_document(transaction, document_id, prepared)
                break
            except NotPreparedError:
                continue
        # In steps, so that other writers get their turn.
        while found and self._database.return_pages():
            pass
        return found
