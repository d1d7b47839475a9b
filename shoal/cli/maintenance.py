"""Commands for keeping a library: copies of it, and its health."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command
from shoal.cli.terminal import counted, one_line

if TYPE_CHECKING:
    from shoal.cli.progress import Bar
    from shoal.maintenance.backup import Watcher
    from shoal.maintenance.doctor import Report

MAX_WORKERS = 64
MOST_BAD_LINES = 50
"""Lines told one by one; of a file that is no export each might be bad."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "doctor")(doctor)
    command(app, "backup")(backup)
    command(app, "restore")(restore)
    command(app, "import")(import_file)


def doctor(
    session: Session,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended without losing a document.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what reads the whole library.")] = False,
) -> None:
    """Look whether the library is whole.

    The database file, its schema, every text and its passages, the indexes that searches read, accepted work, and what
    was learned. Every finding says what it means and what to do. Works while the service runs; writers wait some
    seconds for a large library.

    Where the library may only be read, a check that has to write is left out and named. Exit code 1 if something is
    wrong and not repaired.
    """
    from contextlib import closing

    from shoal.errors import NotFoundError
    from shoal.maintenance.doctor import Check, CheckContext, examine

    settings = session.settings()
    if not settings.database_path.exists():
        raise NotFoundError(f"there is no database {settings.database_path}; `--db` names another")

    def watch(check: Check) -> None:
        if session.err.is_terminal:
            session.err.print(f"looking at {check.what} ...", style="dim")

    with closing(CheckContext(settings)) as patient:
        report = examine(patient, repair=repair, quick=quick, watch=watch)
    if session.as_json:
        session.emit({"healthy": report.is_healthy, **json_form(report)})
    for finding in report.repaired:
        session.say(f"repaired  {finding.check}: {finding.problem}")
    for finding in report.findings:
        session.say(f"{'PROBLEM ' if finding.is_harm else 'note    '}  {finding.check}: {finding.problem}")
        for example in finding.examples:
            session.say(f"            - {example}")
        session.say(f"          means: {finding.meaning}")
        session.say(f"          do:    {finding.advice}")
    unseen = sum(finding.is_unseen for finding in report.findings)
    session.say(
        f"{counted(len(report.looked_at), 'check')}: {_verdict(report)}"
        + (f"; {counted(unseen, 'check')} could not be made" if unseen else "")
    )
    if not report.is_healthy:
        raise typer.Exit(1)


def _verdict(report: Report) -> str:
    harm = sum(finding.is_harm for finding in report.findings)
    if not harm:
        return "the library is whole"
    can = sum(finding.is_harm and finding.can_repair for finding in report.findings)
    return f"{counted(harm, 'problem')}" + (f"; `shoal doctor --repair` can mend {can}" if can else "")


def backup(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Copy the whole library to a file.

    Works while the service runs: the copy shows one moment, and nobody waits for it. FILE appears only once the copy
    is whole and was checked; it is an SQLite database like the original.

    \b
        shoal backup /mnt/backups/shoal-2026-01-31.db
        shoal restore /mnt/backups/shoal-2026-01-31.db
    """
    from shoal.cli.progress import bar
    from shoal.maintenance.backup import back_up

    with bar(session.err, "backup", bytes_total=0) as drawn:
        made = back_up(session.settings().database_path, file, force=force, watch=_follow(drawn))
    if session.as_json:
        session.emit(
            {
                "file": str(made.path),
                "bytes": made.n_bytes,
                "documents": made.n_documents,
                "schema": made.schema,
            }
        )
    session.say(
        f"{counted(made.n_documents, 'document')} in {made.path} ({made.n_bytes / 1e6:,.1f} MB), checked"
    )


def restore(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `shoal backup` has made.")],
) -> None:
    """Make the library what it was in a backup.

    Refuses while anything uses the library: stop the service and its workers first. FILE is checked before anything
    is touched, the library as it was is kept beside the restored one, and FILE itself stays as it is.
    """
    from shoal.cli.progress import bar
    from shoal.maintenance.restore import restore as restore_copy

    path = session.settings().database_path
    with bar(session.err, "restore", bytes_total=0) as drawn:
        done = restore_copy(path, file, watch=_follow(drawn))
    if session.as_json:
        session.emit(
            {
                "file": str(file),
                "database": str(done.copy.path),
                "documents": done.copy.n_documents,
                "schema_before": done.copy.schema,
                "aside": None if done.aside is None else str(done.aside),
            }
        )
    session.say(f"{done.copy.path} has {counted(done.copy.n_documents, 'document')}, as in {file}")
    if done.aside is not None:
        session.say(f"the library as it was before is in {done.aside}; delete it once you don't need it")


def import_file(
    session: Session,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", allow_dash=True, help="An export; - reads from stdin.")
    ],
    rescore: Annotated[
        bool, typer.Option(help="Learn words afresh at the end, where they were learned in several steps.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")] = 1,
) -> None:
    """Take in the documents of an export.

    With their titles, tags, metadata and source paths; their passages are cut and scored anew. Ids and times are not
    brought back: `shoal backup` keeps those, too. Documents that are stored already are passed over, so running it
    again takes in the rest.

    A bad line is told with its number and does not stop the rest; exit code 1 if there was one.

    \b
        shoal export library.jsonl
        shoal --db other.db import library.jsonl
    """
    from contextlib import nullcontext

    from shoal.cli.progress import bar
    from shoal.maintenance.import_export import import_export
    from shoal.service.garbage_collection import relax_collector

    relax_collector()
    opened = nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
    with (
        opened as lines,
        session.engine(must_exist=False) as engine,
        bar(session.err, "import", bytes_total=0) as drawn,
    ):
        done = import_export(engine, lines, rescore=rescore, processes=workers, watch=drawn.follow)
    for bad in done.bad[:MOST_BAD_LINES]:
        session.warn(f"failed: line {bad.line}: {one_line(bad.reason)}")
    if done.n_bad > MOST_BAD_LINES:
        session.warn(f"and {done.n_bad - MOST_BAD_LINES:,} more")
    if session.as_json:
        session.emit(json_form(done))
    session.say(
        f"{done.stored:,} stored, {counted(done.duplicates, 'duplicate')}, {counted(done.n_bad, 'bad line')}"
        + ("; words were learned afresh" if done.is_rescored else "")
    )
    if done.n_bad:
        raise typer.Exit(1)


def _follow(drawn: Bar) -> Watcher:
    def watch(n_bytes: int, bytes_total: int) -> None:
        drawn.move_to(n_bytes, 0, bytes_total=bytes_total, items_total=0)

    return watch
