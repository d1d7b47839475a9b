"""Ingestion of the files of a folder, in one or several processes, with one outcome per file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.session import InterruptedCommandError
from shoal.cli.terminal import quantity
from shoal.conversion.folder_listing import (
    SUFFIXES,
    Skipped,
    SkipReason,
    list_folder,
    reason_of,
)
from shoal.errors import DocumentError, DocumentTooLargeError, RefusedKindError, UnreadableFileError
from shoal.models.jobs import OnConflict
from shoal.service.process_setup import reduce_collections
from shoal.support.regular_files import read_file

if TYPE_CHECKING:
    from shoal.engine import Engine
    from shoal.jobs.in_process import Watcher
    from shoal.models.documents import IngestResult

__all__ = [
    "SUFFIXES",
    "FileOutcome",
    "SizedFile",
    "absolute_path",
    "file_size",
    "find_files",
    "ingest_files",
    "report_interruption",
    "with_sizes",
]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The IngestResult of a file, with its path and its size in bytes."""

    path: str
    bytes: int
    id: int | None
    title: str
    n_chunks: int
    tags: tuple[str, ...]
    duplicate: int | None
    error: str | None
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, path: Path | str, size: int, result: IngestResult) -> FileOutcome:
        return cls(
            path=str(path),
            bytes=size,
            id=result.id,
            title=result.title,
            n_chunks=result.n_chunks,
            tags=result.tags,
            duplicate=result.duplicate,
            error=result.error,
            warnings=result.warnings,
        )

    @classmethod
    def failed(cls, path: Path | str, size: int, error: str) -> FileOutcome:
        return cls(str(path), size, None, Path(path).stem, 0, (), None, error, ())


@contextmanager
def report_interruption(n_files: int, outcomes: Sequence[FileOutcome]) -> Iterator[None]:
    """On Ctrl-C in the block, raise InterruptedCommandError with the number of stored files.

    Counts the files in `outcomes` and those that an interrupted ingest session has stored.
    """
    from shoal.jobs.in_process import IngestInterrupted

    try:
        yield
    except KeyboardInterrupt as error:
        n_stored = sum(outcome.error is None for outcome in outcomes)
        if isinstance(error, IngestInterrupted):
            n_stored += error.n_stored
        verb = "is" if n_stored == 1 else "are"
        raise InterruptedCommandError(
            f"interrupted: of {quantity(n_files, 'file')} {n_stored:,} {verb} stored; "
            "running it again stores the rest"
        ) from None


@dataclass(frozen=True, slots=True)
class SizedFile:
    """A file and its size in bytes when it was listed."""

    path: Path
    size: int


def find_files(folder: Path, *, recursive: bool) -> list[SizedFile]:
    """Text files below `folder`, ordered by path. Names that begin with a dot are skipped."""
    return with_sizes(list_folder(folder, recursive=recursive).texts)


def with_sizes(paths: Iterable[Path]) -> list[SizedFile]:
    """The files with their sizes."""
    return [SizedFile(path, file_size(path)) for path in paths]


def absolute_path(path: Path) -> Path:
    """The absolute path, stored as source path so that citations and syncs find the file from anywhere.

    Links are not resolved: their target may change, and the document belongs to the link.
    """
    return Path(os.path.abspath(path))  # noqa: PTH100


def file_size(path: Path) -> int:
    """Size of a file in bytes; 0 if it cannot be read, because reading it later reports the reason."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def ingest_files(
    engine: Engine,
    files: Sequence[SizedFile],
    tags: Sequence[str],
    *,
    folder: Path | None = None,
    chunk_tokens: str | None = None,
    processes: int = 1,
    on_conflict: OnConflict = OnConflict.keep,
    watch: Watcher | None = None,
) -> tuple[list[FileOutcome], list[Skipped]]:
    """Ingest files under their absolute paths. Return one outcome per file, in order, and the files that are
    skipped because their content shows a kind without text, or because they are empty or too large.

    A file that cannot be read or stored does not stop the others. `folder` is the folder that was listed.
    With more than one, `processes` share the work. Raises ShoalError if all processes die.
    """
    from shoal.conversion.drafts import draft_of_data, largest_file

    added: list[SizedFile] = []
    skipped: list[Skipped] = []

    reduce_collections()
    with engine.ingest_session(on_conflict) as ingest_session:
        for file in files:
            try:
                data = read_file(file.path, largest_file(engine.settings), folder)
                if not data.strip():
                    skipped.append(Skipped.because(SkipReason.empty, str(file.path)))
                    continue
                source_path = str(absolute_path(file.path))
                draft = draft_of_data(
                    data,
                    settings=engine.settings,
                    tags=tags,
                    source_path=source_path,
                    chunk_tokens=chunk_tokens,
                )
            except RefusedKindError as error:
                skipped.append(Skipped.by_content(str(file.path), error))
                continue
            except DocumentTooLargeError as error:
                skipped.append(Skipped.because(SkipReason.too_large, str(file.path), str(error)))
                continue
            except (OSError, DocumentError) as error:
                ingest_session.refuse(file.path.stem, _reason(error), _code(error))
            else:
                ingest_session.add_draft(draft)
            added.append(file)
        results = ingest_session.finish(processes=processes, watch=watch) if added else []
    outcomes = [
        FileOutcome.of(file.path, file.size, result) for file, result in zip(added, results, strict=True)
    ]
    return outcomes, skipped


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else str(error)


def _code(error: OSError | DocumentError) -> str:
    return UnreadableFileError.code if isinstance(error, OSError) else error.code
