"""Maintenance of an open library. `shoal.maintenance.restore` needs a closed one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from shoal.library.library import Library
from shoal.models import RescoreResult, SearchResponse

if TYPE_CHECKING:
    from shoal.conversion.folder_listing import Selection
    from shoal.jobs.embedded import Watcher
    from shoal.maintenance import backup
    from shoal.maintenance.doctor import Check, Report
    from shoal.maintenance.evaluation import Configuration, Evaluation, JudgedQuery
    from shoal.maintenance.import_export import Imported
    from shoal.maintenance.sync import SyncResult

DEPTH = 10
"""Results per query of an evaluation: what people read, and the depth of published numbers."""


class Maintenance:
    """`engine.maintenance`. `watch` is called with the progress of the work."""

    def __init__(self, library: Library, search: Callable[..., SearchResponse]) -> None:
        self._library = library
        self._search = search

    def rescore(self, watch: Watcher | None = None) -> RescoreResult:
        """Decide all words again and update the scores of the chunks that contain changed ones, and of all
        notes; chunks keep their ids. Does nothing if nothing has changed since the last call.

        After an interruption, the next call resumes.
        """
        from shoal.jobs.rescoring import rescore
        from shoal.notes.rescoring import rescore_notes

        library = self._library
        checksum = library.scorer.data_checksum
        result = rescore(library.database, library.handlers, library.settings, checksum, watch)
        n_notes = rescore_notes(library.database, library.scorer, library.settings)
        return dataclasses.replace(result, n_notes=n_notes)

    def export(self, *, canonical: bool = False) -> Iterator[str]:
        """The whole library as lines of JSON. `canonical` omits ids, times and versions."""
        from shoal.storage.export import export

        return export(self._library.database, canonical=canonical)

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
        (`shoal.maintenance.sync.ownership`). `tags` are for documents that this sync adds; with `tag_all`,
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

        An existing `target` is replaced only with `force`. Raises BackupError, DiskFullError.
        """
        from shoal.maintenance.backup import create_backup

        return create_backup(self._library.database.path, target, force=force, watch=watch)
