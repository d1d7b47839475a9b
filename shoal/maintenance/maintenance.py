"""Maintenance of an open library. `shoal.maintenance.backup` needs a closed one.

`reconvert` converts the kept files of documents again that an earlier version of the converters read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.library.library import Library
from shoal.models.files import FileDraft
from shoal.models.jobs import RescoreResult
from shoal.models.search import SearchResponse
from shoal.models.stored import NamedDocument
from shoal.storage import document_queries
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import get_document

if TYPE_CHECKING:
    from shoal.conversion.folder_listing import Selection
    from shoal.jobs.in_process import Watcher
    from shoal.jobs.jobs import EmbedResult
    from shoal.maintenance import backup, copying
    from shoal.maintenance.doctor import Check, Report
    from shoal.maintenance.evaluation import Configuration, Evaluation, JudgedQuery
    from shoal.maintenance.import_export import Imported
    from shoal.maintenance.index_import import ImportedIndex
    from shoal.maintenance.sync import SyncResult

DEPTH = 10
"""Results per query of an evaluation: what people read, and the depth of published numbers."""
MAX_LISTED = 1000
"""Documents without a file that a result names."""


class Maintenance:
    """`engine.maintenance`. `watch` is called with the progress of the work."""

    def __init__(self, library: Library, search: Callable[..., SearchResponse]) -> None:
        self._library = library
        self._search = search

    def n_to_index(self) -> int:
        """The number of documents that the files of the index do not have yet. Searches read them from the
        database."""
        from shoal.storage import index_tables

        with self._library.database.snapshot() as snapshot:
            return index_tables.count_open(snapshot)

    def rescore(self, watch: Watcher | None = None) -> RescoreResult:
        """Decide all words again and update the scores of the chunks that contain changed ones, and of all
        notes; chunks keep their ids. Does nothing if nothing has changed since the last call.

        After an interruption, the next call resumes.
        """
        from shoal.jobs.in_process import rescore
        from shoal.notes.note_maintenance import rescore_notes

        library = self._library
        checksum = library.scorer.data_checksum
        result = rescore(library.database, library.handlers, library.settings, checksum, watch)
        n_notes = rescore_notes(library.database, library.scorer, library.settings)
        return dataclasses.replace(result, n_notes=n_notes)

    def reconvert(self, *, processes: int = 1, watch: Watcher | None = None) -> Reconverted:
        """Convert files again that an earlier version of the converters read, as far as they are kept.

        Documents keep their ids, titles, tags and metadata. The result names those whose files are not kept.
        After an interruption, the next call converts the rest.
        """

        return reconvert(self._library, processes=processes, watch=watch)

    def embed(self, *, again: bool = False, watch: Watcher | None = None) -> EmbedResult:
        """Make the vectors of all chunks that lack one, with the encoder of the library; with `again`, those
        of all chunks. Documents can be searched meanwhile.

        After an interruption, the next call resumes. Raises EncoderError if there is no encoder, and
        EncoderMismatchError if the library has vectors of another one.
        """
        from shoal.jobs.jobs import embed

        library = self._library
        encoder = library.encoder
        return embed(library.database, library.handlers, library.settings, encoder, again=again, watch=watch)

    def export(
        self,
        *,
        canonical: bool = False,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the argument
    ) -> Iterator[str]:
        """The whole library as lines of JSON. `canonical` omits ids, times and versions.

        With a `filter` as of `Engine.documents.list`, only the documents that meet it, without what belongs
        to the whole library: learned words, synonyms, pins and notes. Raises QueryError.
        """
        from shoal.filters.evaluation import check_of_documents, find_documents
        from shoal.filters.parsing import make_filter
        from shoal.maintenance.export import export

        tree = make_filter(filter)
        if tree is None:
            return export(self._library.database, canonical=canonical)
        check_of_documents(tree)
        fields = self._library.index.fields
        return export(
            self._library.database,
            canonical=canonical,
            select=lambda snapshot: find_documents(snapshot, fields, tree),
        )

    def import_export(
        self, file: IO[bytes], *, rescore: bool = True, processes: int = 1, watch: Watcher | None = None
    ) -> Imported:
        """Import the documents of an export, canonical or not, plain or compressed by gzip.

        A bad line does not stop the import. Texts that are stored already stay unchanged; tags are merged.
        With `rescore`, words that were learned in several waves are learned again at the end. Raises
        NotAnExportError before anything is stored.
        """
        from shoal.maintenance.import_export import import_export

        return import_export(self._library, file, rescore=rescore, processes=processes, watch=watch)

    def import_index(
        self, file: IO[bytes], *, encoder_name: str, processes: int = 1, watch: Watcher | None = None
    ) -> ImportedIndex:
        """Import texts with their vectors: JSON with `embeddings` and `documents`, plain or compressed by
        gzip, in a file that can be read twice.

        `encoder_name` is the name of the encoder that made the vectors; it must be that of the library. The
        whole file is checked first: raises NotAnIndexError before anything is stored, EncoderMismatchError
        for vectors of another encoder, and EncoderError without one. A document that cannot be stored does
        not stop the others. What was stored before is skipped, and vectors that are there stay.
        """
        from shoal.maintenance.index_import import import_index

        return import_index(self._library, file, encoder_name=encoder_name, processes=processes, watch=watch)

    def sync(
        self,
        folder: Path,
        *,
        tags: Sequence[str] = (),
        tag_all: bool = False,
        delete: bool = False,
        force: bool = False,
        dry_run: bool = False,
        processes: int = 1,
        watch: Watcher | None = None,
        watch_reading: Callable[[int], None] = lambda _: None,
        selection: Selection | None = None,
        checksum: bool = False,
    ) -> SyncResult:
        """Update the documents of a folder to match its files.

        Documents are matched by absolute path; those with a relative path get an absolute one
        (`shoal.maintenance.sync.folder`). `tags` are for documents that this sync adds; with `tag_all`,
        every document of the folder gets them. `delete` removes documents whose files no longer exist.
        Without `force`, it keeps the documents of empty folders and refuses to delete all documents, because
        a disk may not be mounted. `selection` says which files are read; documents of other files stay as
        they are. A file whose size and times are those of an earlier sync is not read, unless `checksum`.
        Raises NotFoundError, EmptyFolderError.
        """
        from shoal.conversion.folder_listing import EVERYTHING
        from shoal.maintenance.sync import sync

        return sync(
            self._library,
            folder,
            tags=tags,
            tag_all=tag_all,
            delete=delete,
            force=force,
            dry_run=dry_run,
            processes=processes,
            watch=watch,
            watch_reading=watch_reading,
            selection=selection or EVERYTHING,
            checksum=checksum,
        )

    def evaluate(
        self,
        judged_queries: Sequence[JudgedQuery],
        configurations: Sequence[Configuration],
        *,
        depth: int = DEPTH,
    ) -> Evaluation:
        """The quality of the ranking in each configuration, for queries whose relevant documents are known.

        Raises QueryError for invalid search arguments, and JudgementError if no judged document is in the
        library.
        """
        from shoal.maintenance.evaluation import evaluate

        return evaluate(self._library.database, self._search, judged_queries, configurations, depth=depth)

    def doctor(
        self, *, repair: bool = False, quick: bool = False, watch: Callable[[Check], None] = lambda _: None
    ) -> Report:
        """Run the checks of the library; with `repair`, fix what can be fixed without losing a document.

        `quick` skips the checks that read the whole library. `watch` is called with each check before it
        runs.
        """
        from contextlib import closing

        from shoal.maintenance.doctor import CheckContext, run_checks

        with closing(CheckContext(self._library.settings, self._library.scorer)) as context:
            return run_checks(context, repair=repair, quick=quick, watch=watch)

    def backup(
        self, target: Path, *, force: bool = False, watch: backup.Watcher | None = None
    ) -> backup.Copy:
        """Copy the library to `target`, which appears only after the copy is complete and checked.

        An existing `target` is replaced only with `force`. Raises BackupError, also for a library on
        PostgreSQL, and DiskFullError.
        """
        from shoal.maintenance.backup import check_is_file, create_backup

        check_is_file(self._library.settings, "backup")
        return create_backup(self._library.settings.database_path, target, force=force, watch=watch)

    def copy(
        self,
        target_url: str,
        *,
        without_jobs: bool = False,
        restart: bool = False,
        watch: copying.Watcher = lambda _: None,
    ) -> copying.CopyResult:
        """Copy the library to another database, `sqlite:///PATH` or `postgresql://...`, which must be
        empty or an unfinished copy of this library.

        The copy is the state of the library at the beginning of the call. `shoal.maintenance.copying`
        describes the options and errors.
        """
        from shoal.maintenance.copying import copy_library

        settings = self._library.settings
        return copy_library(
            settings.database_url,
            target_url,
            data_path=settings.data_path,
            without_jobs=without_jobs,
            restart=restart,
            watch=watch,
        )


@dataclass(frozen=True, slots=True)
class Reconverted:
    """The outcome of a reconversion."""

    n_converted: Annotated[int, "documents that have the text of this version now"]
    n_attachments: Annotated[int, "attachments that were stored or converted again with them"]
    failed: Annotated[tuple[tuple[str, str], ...], "titles of documents that stay as they were, and why"]
    n_without_file: Annotated[int, "documents of earlier versions whose files are not kept"]
    without_file: Annotated[tuple[NamedDocument, ...], "the first 1,000 of them: send their files again"]


def reconvert(library: Library, *, processes: int = 1, watch: Watcher | None = None) -> Reconverted:
    """Convert the kept files of earlier versions again. Ids, titles, tags and given metadata stay.

    After an interruption, the next call converts the rest.
    """
    database = library.database
    with database.snapshot(limited=False) as snapshot:
        earlier = list(document_queries.files_of_earlier(snapshot, CONVERTER_VERSION))
    kept = [document_id for document_id, is_kept in earlier if is_kept]
    with library.ingest_session() as session:
        for document_id in kept:
            with database.snapshot() as snapshot:
                draft = _draft(snapshot, document_id)
            if draft is not None:
                session.replace(document_id, draft)
        results = session.finish(processes=processes, watch=watch)
    with database.snapshot(limited=False) as snapshot:
        left = [
            each
            for each, is_kept in document_queries.files_of_earlier(snapshot, CONVERTER_VERSION)
            if not is_kept
        ]
        named = [get_document(snapshot, each) for each in left[:MAX_LISTED]]
    return Reconverted(
        sum(result.error is None for result in results),
        sum(result.n_attachments for result in results),
        tuple((result.title, result.error) for result in results if result.error is not None),
        len(left),
        tuple(NamedDocument(each.id, each.title, each.source_path) for each in named),
    )


def _draft(snapshot: Snapshot, document_id: int) -> FileDraft | None:
    """Return the kept file of a document with its fields; None if it was deleted since."""
    file = document_queries.get_file(snapshot, document_id)
    if file is None:
        return None
    stored = get_document(snapshot, document_id)
    return FileDraft(
        document_queries.get_data(snapshot, document_id),
        file.kind,
        file.name,
        file.file_hash,
        title=stored.title,
        tags=stored.tags,
        source_path=stored.source_path,
        metadata=stored.metadata,
        chunk_tokens=stored.chunk_tokens,
        rights=stored.rights,
        language=stored.language if stored.is_language_given else None,
    )
