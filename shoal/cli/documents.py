"""Commands that ingest, rescore and export documents."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.folder_options import (
    Exclude,
    Gitignore,
    Include,
    Verbose,
    first_lines,
    selection_of,
    warn_of_skipped,
)
from shoal.cli.jobs import OnConflictOption
from shoal.cli.progress import bar
from shoal.cli.session import (
    ChunkTokens,
    InterruptedCommandError,
    Key,
    Session,
    TextLanguage,
    command,
    is_url,
    json_form,
    split_tags,
    write_file,
)
from shoal.cli.terminal import data_size, quantity
from shoal.conversion.folder_listing import (
    SUFFIXES,
    Skipped,
    SkipReason,
    count_skipped,
    list_folder,
    no_texts_line,
    reason_of,
)
from shoal.errors import (
    DocumentError,
    DocumentTooLargeError,
    NotFoundError,
    RefusedKindError,
    UnreadableFileError,
)
from shoal.models.documents import DocFormat
from shoal.models.jobs import OnConflict
from shoal.service.process_setup import reduce_collections
from shoal.support.plain_text import one_line
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
    language: str | None = None,
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
    from shoal.conversion.converted import draft_of_data, largest_file

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
                    language=language,
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


Tags = Annotated[
    str | None, typer.Option("--tags", metavar="A,B", help="Tags for every document, separated by commas.")
]

AUTO = "auto"
FORMATS = (AUTO, *(doc_format.value for doc_format in DocFormat))
MAX_WORKERS = 64


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "ingest")(ingest)
    command(app, "ingest-dir")(ingest_dir)
    command(app, "rescore")(rescore)
    command(app, "export")(export)


def ingest(
    session: Session,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files with any extension, or URLs to fetch.")
    ],
    title: Annotated[str | None, typer.Option(help="Title of the document. Only with a single file.")] = None,
    tags: Tags = None,
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option(metavar="/".join(FORMATS), help="Format of the files. auto: by extension.")
    ] = AUTO,
    language: TextLanguage = None,
    chunk_tokens: ChunkTokens = None,
    replace: Annotated[
        int | None,
        typer.Option(
            metavar="DOC_ID",
            help="Replace the content of this document. Only with a single file. Title and tags stay unless "
            "given.",
        ),
    ] = None,
) -> None:
    """Store files in the database.

    This process cuts them into passages and scores them; no service is needed. A link is followed to a file
    in its own folder or below; one that leads out of its folder is an error.

    A URL is fetched if SHOAL_FETCH_URLS lists its host. Its text replaces what was fetched from it before; a
    page that has not changed is a duplicate.

    A file whose text is already stored is reported as a duplicate; its tags are added to the stored document.
    Exit code 1 if any file could not be stored; all other files are stored.

    \b
        shoal ingest notes.md --tags biology,field
        shoal ingest chapter1.txt chapter2.txt
        shoal ingest book.epub --chunk-tokens 300-800
        shoal ingest chapter1.txt --replace 12   the document and unchanged passages keep their numbers
        SHOAL_FETCH_URLS=example.org shoal ingest https://example.org/tides.html
    """
    if len(paths) > 1 and title is not None:
        raise typer.BadParameter("one title cannot be given to several files", param_hint="--title")
    if len(paths) > 1 and replace is not None:
        raise typer.BadParameter("one document cannot become several files", param_hint="--replace")
    if any(map(is_url, paths)) and (replace is not None or format != AUTO):
        raise typer.BadParameter(
            "a URL has the format of its page, and replaces the document with its URL",
            param_hint="--format" if replace is None else "--replace",
        )
    if format not in FORMATS:
        raise typer.BadParameter(f"must be one of {', '.join(FORMATS)}", param_hint="--format")
    outcomes: list[FileOutcome] = []
    started = time.monotonic()
    file_format = None if format == AUTO else format
    with (
        report_interruption(len(paths), outcomes),
        session.engine(must_exist=replace is not None) as engine,
    ):
        for path in paths:
            size = 0 if is_url(path) else file_size(Path(path))
            try:
                if is_url(path):
                    result = engine.ingest_url(
                        path, title=title, tags=split_tags(tags), language=language, chunk_tokens=chunk_tokens
                    )
                elif replace is None:
                    result = engine.ingest_file(
                        absolute_path(Path(path)),
                        title=title,
                        format=file_format,
                        tags=split_tags(tags),
                        language=language,
                        chunk_tokens=chunk_tokens,
                    )
                else:
                    new_tags = None if tags is None else split_tags(tags)
                    result = engine.documents.replace_file(
                        replace,
                        absolute_path(Path(path)),
                        title=title,
                        format=file_format,
                        tags=new_tags,
                        language=language,
                        chunk_tokens=chunk_tokens,
                    )
                outcome = FileOutcome.of(path, size, result)
            except (DocumentError, NotFoundError) as error:
                outcome = FileOutcome.failed(path, size, _failure_reason(path, error))
            outcomes.append(outcome)
            _print_outcome(session, outcome, name_stored=True)
    _print_totals(session, outcomes, time.monotonic() - started)


def ingest_dir(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Folder of texts.")
    ],
    tags: Tags = None,
    language: TextLanguage = None,
    chunk_tokens: ChunkTokens = None,
    recursive: Annotated[bool, typer.Option(help="Include subfolders.")] = True,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_WORKERS, help="Processes that share the work; one per core is a good number."
        ),
    ] = 1,
    on_conflict: OnConflictOption = OnConflict.keep,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = False,
    verbose: Verbose = False,
) -> None:
    """Store the texts of a folder.

    Every file of a known kind is stored (docs/formats.md); no service is needed. Skipped are files with other
    extensions, files whose content is of a kind without text, files that are empty or too large, names that
    begin with a dot, and links, wherever they lead. Another file that cannot be stored is named with the
    reason and does not stop the others; the exit code is then 1. It is also 1 if there is no file to read.

    Run the command again to store new files: texts that are stored already are named as duplicates, and get
    the tags. The first 20 duplicates and skipped files are named, and all with --verbose.

    \b
        shoal ingest-dir notes --exclude drafts/ --exclude '*.csv'
        shoal ingest-dir logs --include '*.log'    text, whatever its extension
        shoal ingest-dir project --gitignore --verbose
    """
    selection = selection_of(include, exclude, gitignore=gitignore)
    listing = list_folder(folder, selection, recursive=recursive)
    files = with_sizes(listing.texts)
    unreadable = [FileOutcome.failed(entry.path, 0, entry.reason) for entry in listing.unreadable]
    if not files and not unreadable:
        if verbose:
            warn_of_skipped(session, listing.skipped, verbose=verbose)
        raise NotFoundError(no_texts_line(folder, listing.skipped))
    started = time.monotonic()
    size = sum(file.size for file in files)
    with (
        report_interruption(len(files), ()),
        session.engine(must_exist=False) as engine,
        bar(session.err, "ingest", bytes_total=size, items_total=len(files), with_names=True) as progress_bar,
    ):
        outcomes, skipped = ingest_files(
            engine,
            files,
            split_tags(tags),
            folder=folder,
            language=language,
            chunk_tokens=chunk_tokens,
            processes=workers,
            on_conflict=on_conflict,
            watch=progress_bar.follow,
        )
    outcomes += unreadable
    for outcome in outcomes:
        _print_outcome(session, outcome, name_stored=False)
    duplicates = [_duplicate_line(outcome) for outcome in outcomes if outcome.duplicate is not None]
    for line in first_lines(duplicates, verbose=verbose):
        session.say(line)
    skipped = sorted([*listing.skipped, *skipped], key=lambda entry: entry.path)
    warn_of_skipped(session, skipped, verbose=verbose)
    _print_totals(session, outcomes, time.monotonic() - started, skipped)


def rescore(
    session: Session,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Run it as a job of this service."),
    ] = None,
    key: Key = None,
    wait: Annotated[bool, typer.Option("--wait", help="With --server: wait for the end of the job.")] = False,
) -> None:
    """Decide all words of the library again and update its passages.

    Documents with passages that contain a changed word, or that were scored with other data or settings, are
    scored again. Their text and number do not change. Nothing is written if nothing has changed. If the
    command is interrupted, the next run continues where it stopped. With a running service, use --server: its
    workers share the work, and `shoal jobs ID --cancel` stops it early.
    """
    if server is not None:
        from shoal.cli.jobs import rescore_on

        rescore_on(session, server, key, wait=wait)
        return
    if wait:
        raise typer.BadParameter("needs --server; without it the command always waits", param_hint="--wait")

    started = time.monotonic()
    reduce_collections()
    with session.engine() as engine:
        with bar(session.err, "rescore", bytes_total=0) as progress_bar:
            result = engine.maintenance.rescore(progress_bar.follow)
        stale = engine.status().n_stale_chunks
    for title, reason in result.failed:
        session.warn(f"failed: {title}: {reason}")
    session.emit({**json_form(result), "n_stale_chunks": stale})
    seconds = time.monotonic() - started
    session.say(
        f"{quantity(result.n_documents - len(result.failed), 'document')} rescored with vocabulary version "
        f"{result.vocabulary_version}, {len(result.failed):,} failed ({seconds:.1f} s)"
    )
    if result.failed:
        raise typer.Exit(1)


def export(
    session: Session,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", dir_okay=False, help="Output file. Default: stdout."),
    ] = None,
    canonical: Annotated[
        bool,
        typer.Option(
            "--canonical",
            help="Leave out ids, times and versions, so that equal libraries give equal bytes.",
        ),
    ] = False,
    filter: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPRESSION",
            help="Only documents that meet this, without the words, synonyms, pins and notes of the library.",
        ),
    ] = None,
) -> None:
    """Write the whole library, or the documents that meet a filter, as JSON lines.

    Each line is one record: first what the library is, then a document, a passage with its reefs, a learned
    word, synonyms, a pin or a note. FILE is replaced only when the export is complete. With --json and no
    FILE, the output is one JSON array.
    """
    with session.engine() as engine:
        lines = engine.maintenance.export(canonical=canonical, filter=filter)
        if file is None:
            _write_stdout(lines, as_array=session.as_json)
            return
        count = write_file(lines, file)
    session.emit({"file": str(file), "lines": count, "bytes": file.stat().st_size})
    session.say(f"{quantity(count, 'line')} written to {file}")


def _print_outcome(session: Session, outcome: FileOutcome, *, name_stored: bool) -> None:
    """Print errors and warnings of a file; with `name_stored` also the stored document or the duplicate."""
    path = one_line(outcome.path)
    if outcome.error is not None:
        session.warn(f"failed: {path}: {one_line(outcome.error)}")
    elif outcome.duplicate is not None and name_stored:
        session.say(_duplicate_line(outcome))
    elif name_stored:
        session.say(
            f"document {outcome.id}: {outcome.title} ({quantity(outcome.n_chunks, 'passage')}) from {path}"
        )
    for warning in outcome.warnings:
        session.warn(f"warning: {path}: {warning}")


def _duplicate_line(outcome: FileOutcome) -> str:
    return f"duplicate: {one_line(outcome.path)} is already stored as document {outcome.duplicate}"


def _print_totals(
    session: Session,
    outcomes: Sequence[FileOutcome],
    seconds: float,
    skipped: Sequence[Skipped] = (),
) -> None:
    failed = sum(outcome.error is not None for outcome in outcomes)
    duplicates = sum(outcome.duplicate is not None for outcome in outcomes)
    stored = len(outcomes) - failed - duplicates
    size = sum(outcome.bytes for outcome in outcomes if outcome.error is None)
    session.emit(
        {
            "results": json_form(outcomes),
            "stored": stored,
            "duplicates": duplicates,
            "failed": failed,
            "bytes": size,
            "seconds": round(seconds, 3),
            "skipped_files": count_skipped(skipped),
            "skipped": json_form(skipped),
        }
    )
    rate = ""
    if size:
        rate = f", {data_size(size)} in {seconds:.1f} s ({data_size(size / max(seconds, 1e-3))}/s)"
    session.say(f"{stored:,} stored, {quantity(duplicates, 'duplicate')}, {failed:,} failed{rate}")
    if failed:
        raise typer.Exit(1)


def _failure_reason(path: str, error: Exception) -> str:
    if not is_url(path) and Path(path).is_dir():
        return "this is a folder; `shoal ingest-dir` stores its files"
    return str(error)


def _write_stdout(lines: Iterable[str], *, as_array: bool) -> None:
    if not as_array:
        for line in lines:
            sys.stdout.write(line.rstrip("\n") + "\n")
        return
    separator = "[\n"
    for line in lines:
        sys.stdout.write(separator + line.rstrip("\n"))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")
