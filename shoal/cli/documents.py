"""Commands that ingest, rescore and export documents."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import folder_ingest
from shoal.cli.files import write_file
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
from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command, is_url, split_tags
from shoal.cli.shared_options import ChunkTokens, Key
from shoal.cli.terminal import data_size, quantity
from shoal.conversion.folder_listing import Skipped, count_skipped, list_folder, no_texts_line
from shoal.errors import DocumentError, NotFoundError
from shoal.models.documents import DocFormat
from shoal.models.jobs import OnConflict
from shoal.support.plain_text import one_line

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
    outcomes: list[folder_ingest.FileOutcome] = []
    started = time.monotonic()
    file_format = None if format == AUTO else format
    with (
        folder_ingest.report_interruption(len(paths), outcomes),
        session.engine(must_exist=replace is not None) as engine,
    ):
        for path in paths:
            size = 0 if is_url(path) else folder_ingest.file_size(Path(path))
            try:
                if is_url(path):
                    result = engine.ingest_url(
                        path, title=title, tags=split_tags(tags), chunk_tokens=chunk_tokens
                    )
                elif replace is None:
                    result = engine.ingest_file(
                        folder_ingest.absolute_path(Path(path)),
                        title=title,
                        format=file_format,
                        tags=split_tags(tags),
                        chunk_tokens=chunk_tokens,
                    )
                else:
                    new_tags = None if tags is None else split_tags(tags)
                    result = engine.documents.replace_file(
                        replace,
                        folder_ingest.absolute_path(Path(path)),
                        title=title,
                        format=file_format,
                        tags=new_tags,
                        chunk_tokens=chunk_tokens,
                    )
                outcome = folder_ingest.FileOutcome.of(path, size, result)
            except (DocumentError, NotFoundError) as error:
                outcome = folder_ingest.FileOutcome.failed(path, size, _failure_reason(path, error))
            outcomes.append(outcome)
            _print_outcome(session, outcome, name_stored=True)
    _print_totals(session, outcomes, time.monotonic() - started)


def ingest_dir(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Folder of texts.")
    ],
    tags: Tags = None,
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
    files = folder_ingest.with_sizes(listing.texts)
    unreadable = [
        folder_ingest.FileOutcome.failed(entry.path, 0, entry.reason) for entry in listing.unreadable
    ]
    if not files and not unreadable:
        if verbose:
            warn_of_skipped(session, listing.skipped, verbose=verbose)
        raise NotFoundError(no_texts_line(folder, listing.skipped))
    from shoal.cli.progress import bar

    started = time.monotonic()
    size = sum(file.size for file in files)
    with (
        folder_ingest.report_interruption(len(files), ()),
        session.engine(must_exist=False) as engine,
        bar(session.err, "ingest", bytes_total=size, items_total=len(files), with_names=True) as progress_bar,
    ):
        outcomes, skipped = folder_ingest.ingest_files(
            engine,
            files,
            split_tags(tags),
            folder=folder,
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
    from shoal.cli.progress import bar
    from shoal.service.process_setup import reduce_collections

    started = time.monotonic()
    reduce_collections()
    with session.engine() as engine:
        with bar(session.err, "rescore", bytes_total=0) as progress_bar:
            result = engine.maintenance.rescore(progress_bar.follow)
        stale = engine.status().n_stale_chunks
    for title, reason in result.failed:
        session.warn(f"failed: {title}: {reason}")
    if session.as_json:
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
    if session.as_json:
        session.emit({"file": str(file), "lines": count, "bytes": file.stat().st_size})
    session.say(f"{quantity(count, 'line')} written to {file}")


def _print_outcome(session: Session, outcome: folder_ingest.FileOutcome, *, name_stored: bool) -> None:
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


def _duplicate_line(outcome: folder_ingest.FileOutcome) -> str:
    return f"duplicate: {one_line(outcome.path)} is already stored as document {outcome.duplicate}"


def _print_totals(
    session: Session,
    outcomes: Sequence[folder_ingest.FileOutcome],
    seconds: float,
    skipped: Sequence[Skipped] = (),
) -> None:
    failed = sum(outcome.error is not None for outcome in outcomes)
    duplicates = sum(outcome.duplicate is not None for outcome in outcomes)
    stored = len(outcomes) - failed - duplicates
    size = sum(outcome.bytes for outcome in outcomes if outcome.error is None)
    if session.as_json:
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
