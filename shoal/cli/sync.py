"""The command that lets a library follow a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import InterruptedCommandError, Session, command, split_tags
from shoal.cli.terminal import counted, one_line
from shoal.formats.folder_listing import no_texts_line, passed_over_line

if TYPE_CHECKING:
    from shoal.maintenance.sync import Synced
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
        str | None, typer.Option("--tags", metavar="A,B", help="Tags for every document of the folder.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also remove documents whose files are gone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="With --delete: also where a folder is empty, or no document would be left."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail also for files that hold no text to be stored.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Make the library follow a folder.

    Takes in new .md, .markdown and .txt files, gives documents whose files have changed the new content under their old
    number, and lets documents follow files that were renamed or moved. Files with other extensions and symbolic links are
    passed over and counted, names that begin with a dot are passed over. Run it as often as you like: only what differs
    is touched.

    What is gone stays, unless --delete is given. A file is gone where the system says so, not where it can't be read
    now or is no text any more. Of a folder that is there but empty nothing is deleted, as its disk may not be mounted,
    and never all documents, unless --force is given.

    Files are known by their absolute paths; a document with a relative one gets that of the file whose path ends so and
    whose text it has. Exit code 1 if a file could not be read or stored; the others are. A file that was read but is empty or no text is told, and fails the
    command only with --strict.

    \b
        shoal sync notes --dry-run         what would change
        shoal sync notes --tags mine       let the library follow
        shoal sync notes --delete          and forget what is gone
    """
    from shoal.cli.progress import bar
    from shoal.maintenance.sync import sync as follow
    from shoal.service.garbage_collection import relax_collector

    relax_collector()
    with (
        _telling_if_interrupted(),
        session.engine(must_exist=False) as engine,
        bar(session.err, "sync", bytes_total=0) as drawn,
    ):
        done = follow(
            engine,
            folder,
            tags=split_tags(tags),
            delete=delete,
            force=force,
            dry_run=dry_run,
            processes=workers,
            watch=drawn.follow,
            watch_reading=lambda n_bytes: drawn.advance(n_bytes, 1),
        )
    _warn(session, folder, done, force=force)
    if session.as_json:
        session.emit(json_form(done))
    _print_changes(session, done)
    session.say(_summary(done))
    if any(strict or not one.is_refused for one in done.failed):
        raise typer.Exit(1)


@contextmanager
def _telling_if_interrupted() -> Iterator[None]:
    """Where Ctrl-C ends the block, tell how far it came. Raises InterruptedCommandError then."""
    from shoal.jobs.ingestion import IngestInterrupted

    try:
        yield
    except IngestInterrupted as error:
        raise InterruptedCommandError(
            f"interrupted: of {counted(error.n, 'new or changed file')} {error.n_stored:,} "
            f"{'is' if error.n_stored == 1 else 'are'} stored, and nothing is deleted; running it again goes on"
        ) from None
    except KeyboardInterrupt:
        raise InterruptedCommandError(
            "interrupted; what was done so far stays, and running it again goes on"
        ) from None


def _warn(session: Session, folder: Path, done: Synced, *, force: bool) -> None:
    for failed in done.failed:
        session.warn(
            f"{'not stored' if failed.is_refused else 'failed'}: {one_line(failed.name)}: {one_line(failed.reason)}"
        )
    for doubtful in done.warnings:
        session.warn(f"warning: {one_line(doubtful.name)}: {doubtful.warning}")
    for empty, n in _kept_of(done).items():
        if not force:
            session.warn(
                f"warning: {one_line(empty)} is empty, but the library has {counted(n, 'document')} of it: is it mounted? "
                "--delete removes them only with --force"
            )
    if not (done.new or done.changed or done.renamed or done.same or done.unchanged or done.failed):
        session.warn(f"warning: {no_texts_line(folder, done.passed_over)}")
    elif done.passed_over:
        session.warn(passed_over_line(done.passed_over))


def _print_changes(session: Session, done: Synced) -> None:
    for what, changes in (
        ("new", done.new),
        ("changed", done.changed),
        ("renamed", done.renamed),
        ("deleted", done.deleted),
        ("gone", done.vanished),
        ("same text", done.same),
    ):
        for change in changes:
            session.say(f"{what:<10} {_described(change)}")


def _kept_of(done: Synced) -> Counter[str]:
    """How many documents of gone files belong to each folder that is empty and may be a disk that is missing."""
    from shoal.maintenance.sync.folder import folder_above

    empty = frozenset(done.empty)
    above = (folder_above(change.name, empty) for change in done.vanished)
    return Counter(folder for folder in above if folder is not None)


def _described(change: Change) -> str:
    number = "" if change.document_id is None else f" (document {change.document_id})"
    before = f", before {one_line(change.before)}" if change.before else ""
    return f"{one_line(change.name)}{number}{before}"


def _summary(done: Synced) -> str:
    counts = [
        f"{len(done.new):,} new",
        f"{len(done.changed):,} changed",
        f"{len(done.renamed):,} renamed",
        f"{len(done.deleted):,} deleted",
        f"{done.unchanged:,} unchanged",
        f"{sum(not one.is_refused for one in done.failed):,} failed",
    ]
    refused = sum(one.is_refused for one in done.failed)
    if refused:
        counts.append(f"{refused:,} not stored")
    if done.tagged:
        counts.append(f"{done.tagged:,} tagged")
    text = ", ".join(counts)
    if done.vanished:
        text += f"; the files of {counted(len(done.vanished), 'document')} are gone"
        if len(done.vanished) > _kept_of(done).total():
            text += ": --delete removes them"
    return f"nothing was done; it would be {text}" if done.dry_run else text
