"""Taking in the files of a folder, in this process or in several, with one outcome a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.session import InterruptedCommandError
from shoal.cli.terminal import counted
from shoal.errors import DocumentError
from shoal.formats.folder_listing import SUFFIXES, list_folder, reason_of
from shoal.service.garbage_collection import relax_collector
from shoal.support.regular_files import read_file

if TYPE_CHECKING:
    from shoal.engine import Engine
    from shoal.formats.decoding import Decoded
    from shoal.jobs.embedded import Watcher
    from shoal.models import IngestResult
    from shoal.settings import Settings

__all__ = [
    "SUFFIXES",
    "FileOutcome",
    "Found",
    "absolute",
    "find_files",
    "ingest_files",
    "measured",
    "size_of",
]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of a file; as IngestResult, with the path it was found at and its size."""

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
    def of(cls, path: Path, size: int, result: IngestResult) -> FileOutcome:
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
    def failed(cls, path: Path, size: int, error: str) -> FileOutcome:
        return cls(str(path), size, None, path.stem, 0, (), None, error, ())


@contextmanager
def telling_if_interrupted(n_files: int, outcomes: Sequence[FileOutcome]) -> Iterator[None]:
    """Where Ctrl-C ends the block, tell how many of the files are stored: those of `outcomes`, and what an intake had
    come to. Raises InterruptedCommandError then."""
    from shoal.jobs.ingestion import IngestInterrupted

    try:
        yield
    except KeyboardInterrupt as error:
        n_stored = sum(one.error is None for one in outcomes)
        if isinstance(error, IngestInterrupted):
            n_stored += error.n_stored
        raise InterruptedCommandError(
            f"interrupted: of {counted(n_files, 'file')} {n_stored:,} {'is' if n_stored == 1 else 'are'} stored; "
            "running it again takes in the rest"
        ) from None


@dataclass(frozen=True, slots=True)
class Found:
    """A file and its size in bytes when it was looked at."""

    path: Path
    size: int


def find_files(folder: Path, *, recursive: bool) -> list[Found]:
    """Text files below `folder` in the order of their paths; names that begin with a dot are passed over."""
    return measured(list_folder(folder, recursive=recursive).texts)


def measured(paths: Iterable[Path]) -> list[Found]:
    """The files with their sizes."""
    return [Found(path, size_of(path)) for path in paths]


def absolute(path: Path) -> Path:
    """The path under which a file is stored, wherever a command is run: what cites it, or follows it, finds it again.

    Links are not resolved: one may lead elsewhere tomorrow, and the document is that of the link.
    """
    return Path(os.path.abspath(path))  # noqa: PTH100


def size_of(path: Path) -> int:
    """Bytes of a file, 0 if there is none: reading it will say why."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def ingest_files(
    engine: Engine,
    files: Sequence[Found],
    tags: Sequence[str],
    *,
    folder: Path | None = None,
    processes: int = 1,
    watch: Watcher | None = None,
) -> list[FileOutcome]:
    """Ingest files, one outcome each, in order, under their absolute paths. A file that cannot be read or taken does
    not stop the rest.

    `folder` is the one that was listed. `processes` beyond one share the work. Raises ShoalError if all of them die.
    """
    relax_collector()
    with engine.ingest_session() as ingest_session:
        for file in files:
            try:
                content, encoding = _read(file.path, folder, engine.settings)
            except (OSError, DocumentError) as error:
                ingest_session.refuse(file.path.stem, _reason(error))
                continue
            ingest_session.add(
                {
                    "content": content,
                    "encoding": encoding,
                    "tags": tags,
                    "source_path": str(absolute(file.path)),
                }
            )
        results = ingest_session.finish(processes=processes, watch=watch)
    return [FileOutcome.of(file.path, file.size, result) for file, result in zip(files, results, strict=True)]


def _read(path: Path, folder: Path | None, settings: Settings) -> Decoded:
    """The text of a file, and its encoding. Raises OSError, DocumentError; a file over the limit is not read."""
    from shoal.formats.decoding import decode

    limit = settings.max_document_bytes
    return decode(
        read_file(path, limit, folder), max_bytes=limit, min_confidence=settings.min_charset_confidence
    )


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else str(error)
