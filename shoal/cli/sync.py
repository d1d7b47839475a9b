"""The command that synchronizes a library with a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import InterruptedCommandError, Session, command, split_tags
from shoal.cli.terminal import one_line, quantity
from shoal.conversion.folder_listing import format_skipped, no_texts_line

if TYPE_CHECKING:
    from shoal.maintenance.sync import SyncResult
    from shoal.maintenance.sync.apply import Change

MAX_WORKERS = 64


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "sync")(sync)


def sync(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Folder of texts.")
    ],
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags", metavar="A,B", help="Tags for the documents that this run adds, separated by commas."
        ),
    ] = None,
    tag_all: Annotated[
        bool, typer.Option("--tag-all", help="With --tags: also for documents that are stored already.")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also delete documents whose files are gone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="With --delete: also if a folder is empty or no document would be left."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also fail for files without text to store.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Synchronize the library with a folder.

    Stores new .md, .markdown and .txt files, replaces the content of documents whose files have changed, and
    updates the paths of files that were renamed or moved. Documents keep their numbers. Files with other
    extensions and symbolic links are skipped and counted; names that begin with a dot are skipped. Repeated
    runs change only what differs.

    Documents of missing files stay unless --delete is given. A file is missing if the system says so, not if
    it cannot be read or is no longer text. Without --force, nothing is deleted for an empty folder, whose
    disk may not be mounted, and never all documents.

    Tags that were removed from a document stay away, although its front matter or --tags still names them.
    Front matter adds a tag to a stored document when it names the tag for the first time. --tag-all gives the
    tags of --tags to every document of the folder.

    Files are identified by absolute path. A document with a relative path gets the absolute path of the file
    that has the same text and a path with this ending. Exit code 1 if a file could not be read or stored; all
    other files are stored. A file that is empty or not text is reported and fails the command only with
    --strict.

    \b
        shoal sync notes --dry-run         show what would change
        shoal sync notes --tags mine       synchronize
        shoal sync notes --delete          also delete documents of missing files
    """
    from shoal.cli.progress import bar
    from shoal.service.garbage_collection import reduce_collections

    reduce_collections()
    with (
        _report_interruption(),
        session.engine(must_exist=False) as engine,
        bar(session.err, "sync", bytes_total=0) as progress_bar,
    ):
        result = engine.maintenance.sync(
            folder,
            tags=split_tags(tags),
            tag_all=tag_all,
            delete=delete,
            force=force,
            dry_run=dry_run,
            processes=workers,
            watch=progress_bar.follow,
            watch_reading=lambda n_bytes: progress_bar.advance(n_bytes, 1),
        )
    _warn(session, folder, result, force=force)
    if session.as_json:
        session.emit(json_form(result))
    _print_changes(session, result)
    session.say(_summary(result))
    if any(strict or not failure.is_refused for failure in result.failed):
        raise typer.Exit(1)


@contextmanager
def _report_interruption() -> Iterator[None]:
    """On Ctrl-C in the block, raise InterruptedCommandError that says what was done."""
    from shoal.jobs.ingestion import IngestInterrupted

    try:
        yield
    except IngestInterrupted as error:
        verb = "is" if error.n_stored == 1 else "are"
        raise InterruptedCommandError(
            f"interrupted: of {quantity(error.n, 'new or changed file')} {error.n_stored:,} {verb} stored, "
            "and nothing is deleted; running it again continues"
        ) from None
    except KeyboardInterrupt:
        raise InterruptedCommandError(
            "interrupted; changes so far are kept, and running it again continues"
        ) from None


def _warn(session: Session, folder: Path, result: SyncResult, *, force: bool) -> None:
    for failure in result.failed:
        label = "not stored" if failure.is_refused else "failed"
        session.warn(f"{label}: {one_line(failure.name)}: {one_line(failure.reason)}")
    for doubtful in result.warnings:
        session.warn(f"warning: {one_line(doubtful.name)}: {doubtful.warning}")
    for empty_folder, n in _missing_by_empty_folder(result).items():
        if not force:
            session.warn(
                f"warning: {one_line(empty_folder)} is empty, but the library has "
                f"{quantity(n, 'document')} of it: is it mounted? --delete removes them only with --force"
            )
    files = (result.new, result.changed, result.renamed, result.same, result.unchanged, result.failed)
    if not any(files):
        session.warn(f"warning: {no_texts_line(folder, result.skipped_files)}")
    elif result.skipped_files:
        session.warn(format_skipped(result.skipped_files))


def _print_changes(session: Session, result: SyncResult) -> None:
    for label, changes in (
        ("new", result.new),
        ("changed", result.changed),
        ("renamed", result.renamed),
        ("deleted", result.deleted),
        ("gone", result.vanished),
        ("same text", result.same),
    ):
        for change in changes:
            session.say(f"{label:<10} {_change_line(change)}")


def _missing_by_empty_folder(result: SyncResult) -> Counter[str]:
    """The number of documents with missing files by empty folder, which may be an unmounted disk."""
    from shoal.maintenance.sync.folder import folder_above

    empty = frozenset(result.empty)
    folders = (folder_above(change.name, empty) for change in result.vanished)
    return Counter(folder for folder in folders if folder is not None)


def _change_line(change: Change) -> str:
    number = "" if change.document_id is None else f" (document {change.document_id})"
    before = f", before {one_line(change.before)}" if change.before else ""
    return f"{one_line(change.name)}{number}{before}"


def _summary(result: SyncResult) -> str:
    n_refused = sum(failure.is_refused for failure in result.failed)
    counts = [
        f"{len(result.new):,} new",
        f"{len(result.changed):,} changed",
        f"{len(result.renamed):,} renamed",
        f"{len(result.deleted):,} deleted",
        f"{result.unchanged:,} unchanged",
        *([f"{len(result.same):,} with a text that is stored already"] if result.same else []),
        f"{len(result.failed) - n_refused:,} failed",
    ]
    if n_refused:
        counts.append(f"{n_refused:,} not stored")
    if result.tagged:
        counts.append(f"{result.tagged:,} tagged")
    text = ", ".join(counts)
    if result.vanished:
        text += f"; the files of {quantity(len(result.vanished), 'document')} are gone"
        if len(result.vanished) > _missing_by_empty_folder(result).total():
            text += ": --delete removes them"
    return f"nothing was changed; it would be {text}" if result.dry_run else text
