"""The command that synchronizes a library with a folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.folder_options import Exclude, Gitignore, Include, Verbose, selection_of, skipped_lines
from shoal.cli.session import InterruptedCommandError, Session, command, split_tags
from shoal.cli.terminal import quantity
from shoal.conversion.folder_listing import Selection, SkipReason, no_texts_line
from shoal.errors import ShoalError
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.maintenance.sync import SyncResult
    from shoal.maintenance.sync.apply import Change
    from shoal.settings import Settings

MAX_WORKERS = 64
WITHOUT_TEXT = (SkipReason.content, SkipReason.too_large)
"""Reasons of skipped files with which --strict fails."""


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
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = False,
    checksum: Annotated[
        bool, typer.Option("--checksum", help="Read every file, also those that seem unchanged.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Synchronize again after each change, until Ctrl-C.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Synchronize the library with a folder.

    Stores new files of known kinds, replaces the content of documents whose files have changed, and updates
    the paths of files that were renamed or moved. Documents keep their numbers. Repeated runs change only
    what differs. Skipped and counted are files with other extensions, files whose content is of a kind
    without text, files that are too large, names that begin with a dot, and links, wherever they lead.
    Documents of skipped files stay as they are.

    Documents of missing files stay unless --delete is given. A file is missing if the system says so, not if
    it cannot be read or is no longer text. Without --force, nothing is deleted for an empty folder, whose
    disk may not be mounted, and never all documents.

    Tags that were removed from a document stay away, although its front matter or --tags still names them.
    Front matter adds a tag to a stored document when it names the tag for the first time. --tag-all gives the
    tags of --tags to every document of the folder.

    Files are identified by absolute path. A document with a relative path gets the absolute path of the file
    that has the same text and a path with this ending. Exit code 1 if a file could not be read or stored; all
    other files are stored. A file that is empty, not text or too large is reported and fails the command only
    with --strict.

    A file is not read again if its size, its time of modification and its time of change (ctime) are those of
    an earlier run, and these times were at least 2 seconds old then. --checksum reads every file, for file
    systems whose times cannot be trusted.

    With --watch, the command follows the folder until Ctrl-C and then ends with exit code 0. It needs the
    package watchfiles (`pip install 'shoal[watch]'`). If the folder vanishes, the command waits for it. Files
    are deleted from the library only with --delete, as in a single run. On network file systems, set
    WATCHFILES_FORCE_POLLING=1.

    \b
        shoal sync notes --dry-run         show what would change
        shoal sync notes --tags mine       synchronize
        shoal sync notes --delete          also delete documents of missing files
        shoal sync notes --watch --exclude drafts/
    """
    selection = selection_of(include, exclude, gitignore=gitignore)
    options = _Options(
        folder, selection, split_tags(tags), tag_all, delete, force, dry_run, workers, verbose, checksum
    )
    if watch:
        for option, is_given in (("--json", session.as_json), ("--dry-run", dry_run), ("--strict", strict)):
            if is_given:
                raise typer.BadParameter(f"cannot be combined with {option}", param_hint="--watch")
        _watch(session, options)
        return
    result = _sync(session, options)
    for line in _warnings(options, result):
        session.warn(line)
    session.emit(result)
    _print_changes(session, result)
    session.say(_summary(result))
    n_refused = sum(entry.reason in WITHOUT_TEXT for entry in result.skipped)
    if any(strict or not failure.is_refused for failure in result.failed) or (strict and n_refused):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Options:
    folder: Path
    selection: Selection
    tags: tuple[str, ...]
    tag_all: bool
    delete: bool
    force: bool
    dry_run: bool
    workers: int
    verbose: bool
    checksum: bool


def _sync(session: Session, options: _Options) -> SyncResult:
    from shoal.cli.progress import bar
    from shoal.service.process_setup import reduce_collections

    reduce_collections()
    with (
        _report_interruption(),
        session.engine(must_exist=False) as engine,
        bar(session.err, "sync", bytes_total=0) as progress_bar,
    ):
        return engine.maintenance.sync(
            options.folder,
            tags=options.tags,
            tag_all=options.tag_all,
            delete=options.delete,
            force=options.force,
            dry_run=options.dry_run,
            processes=options.workers,
            watch=progress_bar.follow,
            watch_reading=lambda n_bytes: progress_bar.advance(n_bytes, 1),
            selection=options.selection,
            checksum=options.checksum,
        )


def _watch(session: Session, options: _Options) -> None:
    """Synchronize after each change until Ctrl-C. Warnings are printed when they are new."""
    from shoal.maintenance.sync.folder_watch import follow_folder, require_watchfiles

    require_watchfiles()
    printed: frozenset[str] = frozenset()
    is_first = True

    def synchronize() -> bool:
        nonlocal printed, is_first
        result = None
        try:
            result = _sync(session, options)
        except (ShoalError, OSError) as error:
            lines = [f"not synchronized: {one_line(str(error))}; trying again later"]
        else:
            lines = _warnings(options, result)
            _print_changes(session, result)
            if is_first or _has_changes(result):
                session.say(_summary(result))
            is_first = False
        for line in lines:
            if line not in printed:
                session.warn(line)
        printed = frozenset(lines)
        sys.stdout.flush()
        return result is not None and not any(not failure.is_refused for failure in result.failed)

    try:
        follow_folder(
            options.folder,
            options.selection,
            own_files=_own_files(session.library_settings()),
            synchronize=synchronize,
            notice=lambda line: session.warn(one_line(line)),
        )
    except KeyboardInterrupt:
        session.say("stopped watching; nothing was in progress")


def _has_changes(result: SyncResult) -> bool:
    return bool(result.new or result.changed or result.renamed or result.deleted or result.tagged)


@contextmanager
def _report_interruption() -> Iterator[None]:
    """On Ctrl-C in the block, raise InterruptedCommandError that says what was done."""
    try:
        yield
    except KeyboardInterrupt as error:
        from shoal.jobs.in_process import IngestInterrupted  # takes longer than a sync without changes

        if not isinstance(error, IngestInterrupted):
            raise InterruptedCommandError(
                "interrupted; changes so far are kept, and running it again continues"
            ) from None
        verb = "is" if error.n_stored == 1 else "are"
        raise InterruptedCommandError(
            f"interrupted: of {quantity(error.n, 'new or changed file')} {error.n_stored:,} {verb} stored, "
            "and nothing is deleted; running it again continues"
        ) from None


def _warnings(options: _Options, result: SyncResult) -> list[str]:
    lines: list[str] = []
    for failure in result.failed:
        label = "not stored" if failure.is_refused else "failed"
        lines.append(f"{label}: {one_line(failure.name)}: {one_line(failure.reason)}")
    lines += [f"warning: {one_line(doubtful.name)}: {doubtful.warning}" for doubtful in result.warnings]
    for empty_folder, n in _missing_by_empty_folder(result).items():
        if not options.force:
            lines.append(
                f"warning: {one_line(empty_folder)} is empty, but the library has "
                f"{quantity(n, 'document')} of it: is it mounted? --delete removes them only with --force"
            )
    files = (result.new, result.changed, result.renamed, result.same, result.unchanged, result.failed)
    if not any(files):
        lines.append(f"warning: {no_texts_line(options.folder, ())}")
    return [*lines, *skipped_lines(result.skipped, verbose=options.verbose)]


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


def _own_files(settings: Settings) -> str:
    """How the paths of the library's own files begin."""
    return str(settings.database_path if settings.is_sqlite else settings.data_path)
