"""Commands for maintenance: checks, backup, restore and import."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.progress import Bar, bar
from shoal.cli.session import Session, command, json_form
from shoal.cli.terminal import data_size, quantity
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.collections.backup import RestoredCollection
    from shoal.maintenance.backup import Copy, Watcher
    from shoal.maintenance.doctor import Report

MAX_WORKERS = 64
BAD_LINES_SHOWN = 50
"""Bad lines that are printed. In a file that is not an export, every line may be bad."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "doctor")(doctor)
    command(app, "backup")(backup)
    command(app, "restore")(restore)
    command(app, "import")(import_file)
    command(app, "import-index")(import_index)
    command(app, "reconvert")(reconvert)


def doctor(
    session: Session,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing a document.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the checks that read the whole library.")
    ] = False,
) -> None:
    """Check the library for damage.

    Checks the database file, its schema, every text and its passages, the search indexes, accepted jobs and
    learned words. Each finding says what it means and what to do. Works while the service runs; with a large
    library, writers wait for some seconds.

    In a read-only library, checks that have to write are skipped and named. Exit code 1 if there is a problem
    that was not repaired.
    """
    from shoal.errors import NotFoundError
    from shoal.maintenance.doctor import Check, CheckContext, run_checks

    settings = session.library_settings()
    if not settings.may_exist:
        raise NotFoundError(f"there is no database {settings.database_place}; `--db` names another")

    def watch(check: Check) -> None:
        if session.err.is_terminal:
            session.err.print(f"checking {check.what} ...", style="dim")

    with closing(CheckContext(settings)) as context:
        report = run_checks(context, repair=repair, quick=quick, watch=watch)
    session.emit({"healthy": report.is_healthy, **json_form(report)})
    for finding in report.repaired:
        session.say(f"repaired  {finding.check}: {finding.problem}")
    for finding in report.findings:
        session.say(f"{'PROBLEM ' if finding.is_error else 'note    '}  {finding.check}: {finding.problem}")
        for example in finding.examples:
            session.say(f"            - {example}")
        session.say(f"          means: {finding.meaning}")
        session.say(f"          do:    {finding.advice}")
    skipped = sum(finding.is_unseen for finding in report.findings)
    session.say(
        f"{quantity(len(report.looked_at), 'check')}: {_verdict(report)}"
        + (f"; {quantity(skipped, 'check')} could not be made" if skipped else "")
    )
    if not report.is_healthy:
        raise typer.Exit(1)


def _verdict(report: Report) -> str:
    harm = sum(finding.is_error for finding in report.findings)
    if not harm:
        return "the library is whole"
    can = sum(finding.is_error and finding.can_repair for finding in report.findings)
    return f"{quantity(harm, 'problem')}" + (f"; `shoal doctor --repair` can repair {can}" if can else "")


def backup(
    session: Session,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the copy goes; a missing folder is created.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    all_collections: Annotated[
        bool, typer.Option("--all-collections", help="Copy every collection; FILE is a new folder.")
    ] = False,
) -> None:
    """Copy the whole library to a file.

    Works while the service runs: the copy is a consistent snapshot and blocks nobody. FILE appears only when
    the copy is complete and checked. It is an SQLite database like the original.

    \b
        shoal backup /mnt/backups/shoal-2026-01-31.db
        shoal restore /mnt/backups/shoal-2026-01-31.db
        shoal backup --all-collections /mnt/backups/2026-01-31
    """
    from shoal.maintenance.backup import check_is_file, create_backup

    if all_collections:
        _backup_all(session, file, force=force)
        return
    settings = session.library_settings()
    check_is_file(settings, "backup")
    with bar(session.err, "backup", bytes_total=0) as progress_bar:
        copy = create_backup(settings.database_path, file, force=force, watch=_follow(progress_bar))
    session.emit(
        {
            "file": str(copy.path),
            "bytes": copy.n_bytes,
            "documents": copy.n_documents,
            "notes": copy.n_notes,
            "forgotten_notes": copy.n_forgotten,
            "schema": copy.schema,
        }
    )
    session.say(f"{_contents(copy)} in {copy.path} ({data_size(copy.n_bytes)}), checked")


def _contents(copy: Copy) -> str:
    """Say what a backup holds, also of notes that were forgotten."""
    notes = f", {quantity(copy.n_notes, 'note')}" if copy.n_notes else ""
    forgotten = (
        f", a digest of each of {quantity(copy.n_forgotten, 'forgotten note')}" if copy.n_forgotten else ""
    )
    return f"{quantity(copy.n_documents, 'document')}{notes}{forgotten}"


def restore(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup made by `shoal backup`.")],
    all_collections: Annotated[
        bool, typer.Option("--all-collections", help="Restore every collection of the folder FILE.")
    ] = False,
) -> None:
    """Replace the library with a backup.

    Fails while any process uses the library: stop the service and its workers first. FILE is checked before
    anything changes. The previous library is kept next to the restored one, and FILE itself does not change.
    With --all-collections, missing collections are created, and those that the backup lacks stay as they are.
    A collection whose file is missing gets it back under its id, which its keys name.
    """
    if all_collections:
        _restore_all(session, file)
        return
    from shoal.maintenance.backup import check_is_file
    from shoal.maintenance.backup import restore as restore_copy

    settings = session.library_settings(must_exist=False)
    check_is_file(settings, "restore")
    path = settings.database_path
    with bar(session.err, "restore", bytes_total=0) as progress_bar:
        result = restore_copy(path, file, watch=_follow(progress_bar))
    session.emit(
        {
            "file": str(file),
            "database": str(result.copy.path),
            "documents": result.copy.n_documents,
            "notes": result.copy.n_notes,
            "forgotten_notes": result.copy.n_forgotten,
            "schema_before": result.copy.schema,
            "aside": None if result.aside is None else str(result.aside),
        }
    )
    session.say(f"{result.copy.path} has {_contents(result.copy)}, as in {file}")
    if result.aside is not None:
        session.say(f"the previous library is in {result.aside}; delete it when you no longer need it")


def _backup_all(session: Session, folder: Path, *, force: bool) -> None:
    from shoal.collections.backup import backup_all

    with bar(session.err, "backup", bytes_total=0) as progress_bar:
        copies = backup_all(session.settings(), folder, force=force, watch=_follow(progress_bar))
    n_documents = sum(each.copy.n_documents for each in copies)
    n_bytes = sum(each.copy.n_bytes for each in copies)
    session.emit(
        {
            "folder": str(folder),
            "bytes": n_bytes,
            "documents": n_documents,
            "collections": {each.name: each.copy.n_documents for each in copies},
        }
    )
    session.say(
        f"{quantity(len(copies), 'collection')} with {quantity(n_documents, 'document')} in {folder} "
        f"({data_size(n_bytes)}), checked"
    )


def _restore_all(session: Session, folder: Path) -> None:
    from shoal.collections.backup import restore_all

    # Each at once, so that an error at a later collection hides none.
    def watch(restored: RestoredCollection) -> None:
        if restored.aside is not None:
            session.say(
                f"{restored.name}: the previous library is in {restored.aside}; delete it when you no longer "
                "need it"
            )
        if restored.is_new:
            session.say(
                f"{restored.name}: created with a new id; keys made before for a collection of this name do "
                "not open it"
            )

    collections = restore_all(session.settings(), folder, watch=watch)
    session.emit(
        {
            "folder": str(folder),
            "collections": [each.name for each in collections],
            "created": [each.name for each in collections if each.is_new],
            "aside": {each.name: str(each.aside) for each in collections if each.aside is not None},
        }
    )
    session.say(f"{quantity(len(collections), 'collection')} restored from {folder}")


def import_file(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", allow_dash=True, help="An export; - for stdin.")],
    rescore: Annotated[
        bool, typer.Option(help="Learn words again at the end if they were learned in several steps.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Store the documents of an export.

    Titles, tags, metadata and source paths are kept; passages are cut and scored again. Ids and times are not
    kept: use `shoal backup` for those. Documents that are already stored are skipped, so a second run stores
    the rest.

    A bad line is reported with its number and does not stop the others; the exit code is then 1.

    \b
        shoal export library.jsonl
        shoal --db other.db import library.jsonl
    """
    from shoal.service.process_setup import reduce_collections

    reduce_collections()
    source = nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
    with (
        source as lines,
        session.engine(must_exist=False) as engine,
        bar(session.err, "import", bytes_total=0) as progress_bar,
    ):
        result = engine.maintenance.import_export(
            lines, rescore=rescore, processes=workers, watch=progress_bar.follow
        )
    for bad_line in result.bad[:BAD_LINES_SHOWN]:
        session.warn(f"failed: line {bad_line.line}: {one_line(bad_line.reason)}")
    if result.n_bad > BAD_LINES_SHOWN:
        session.warn(f"and {result.n_bad - BAD_LINES_SHOWN:,} more")
    session.emit(result)
    stored, duplicates = f"{result.stored:,} stored", quantity(result.duplicates, "duplicate")
    notes = f"{quantity(result.notes, 'note')}, " if result.notes or result.duplicate_notes else ""
    notes += f"{quantity(result.pins, 'pin')}, " if result.pins else ""
    if result.forgotten_notes:
        session.warn(f"left out: {quantity(result.forgotten_notes, 'note')} that were forgotten")
    if result.left_out:
        records = quantity(result.left_out, "record")
        session.warn(f"left out: {records} of merges whose notes are not those of this library")
    session.say(
        f"{stored}, {duplicates}, {notes}{quantity(result.n_bad, 'bad line')}"
        + ("; words were learned again" if result.is_rescored else "")
    )
    if result.n_bad:
        raise typer.Exit(1)


def reconvert(
    session: Session,
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Convert files again that an earlier version of Shoal converted.

    A new version may read more of a file, such as the attachments of a mail. Files that are kept
    (SHOAL_KEEP_ORIGINALS) are converted again; their documents keep number, title, tags and metadata. The
    others are listed: send their files again. If the command is interrupted, the next run converts the rest.
    """
    from shoal.service.process_setup import reduce_collections

    reduce_collections()
    with session.engine() as engine, bar(session.err, "reconvert", bytes_total=0) as progress_bar:
        result = engine.maintenance.reconvert(processes=workers, watch=progress_bar.follow)
    for title, reason in result.failed:
        session.warn(f"failed: {one_line(title)}: {reason}")
    for document in result.without_file:
        session.warn(f"not kept: document {document.id}: {one_line(document.source_path or document.title)}")
    session.emit(result)
    session.say(
        f"{quantity(result.n_converted, 'document')} converted, "
        f"{quantity(result.n_attachments, 'attachment')}, {len(result.failed):,} failed, "
        f"{result.n_without_file:,} without their files"
    )
    if result.failed:
        raise typer.Exit(1)


def import_index(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON with embeddings and documents.")],
    encoder: Annotated[
        str,
        typer.Option(help="Model that made the embeddings, as `shoal encoder check` names it."),
    ],
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Store texts with embeddings that were made elsewhere.

    FILE is one JSON object, plain or compressed by gzip: {"embeddings": [[0.1, ...], ...], "documents":
    [{"content": "...", "metadata": {...}}, ...]}. It is checked as a whole before anything is stored, and
    memory does not grow with its size. SHOAL_ENCODER must name the same model.

    Each text becomes a document with one passage, which keeps the given embedding. Texts that are already
    stored are skipped, so a second run stores the rest. A document that cannot be stored is reported with its
    number, counted from 0, and does not stop the others; the exit code is then 1.

    \b
        shoal import-index docs.json --encoder all-MiniLM-L6-v2
    """
    from shoal.service.process_setup import reduce_collections

    reduce_collections()
    with (
        file.open("rb") as source,
        session.engine(must_exist=False) as engine,
        bar(session.err, "import", bytes_total=0) as progress_bar,
    ):
        result = engine.maintenance.import_index(
            source, encoder_name=encoder, processes=workers, watch=progress_bar.follow
        )
    for bad in result.bad[:BAD_LINES_SHOWN]:
        session.warn(f"failed: document {bad.number}: {one_line(bad.reason)}")
    if result.n_bad > BAD_LINES_SHOWN:
        session.warn(f"and {result.n_bad - BAD_LINES_SHOWN:,} more")
    if result.cut:
        session.warn(
            f"{quantity(result.cut, 'document')} with several passages: a given embedding stands for none of "
            "them; `shoal encoder embed` embeds them"
        )
    session.emit(result)
    session.say(
        f"{result.stored:,} stored, {quantity(result.duplicates, 'duplicate')}, "
        f"{quantity(result.vectors, 'embedding')}, {quantity(result.n_bad, 'bad document')}"
    )
    if result.n_bad:
        raise typer.Exit(1)


def _follow(progress_bar: Bar) -> Watcher:
    def watch(n_bytes: int, bytes_total: int) -> None:
        progress_bar.move_to(n_bytes, 0, bytes_total=bytes_total, items_total=0)

    return watch
