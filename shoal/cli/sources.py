"""The commands `shoal source …`: places that the library follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from shoal.cli.search_options import of_operation, options_of, values_of
from shoal.cli.session import Limit, Offset, Session, add_group
from shoal.cli.terminal import quantity
from shoal.declared.operations.sources import SourceOperations
from shoal.errors import QueryError, SourceError
from shoal.models.sources import (
    RunStatus,
    Source,
    SourceObjectPage,
    SourcePage,
    SourcePreview,
    SourceRun,
    SourceRunPage,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the source.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="How it is reached, such as region=eu-west-1."),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=WHERE",
        help="Where a secret is, such as key=env:SOURCE_SECRET_KEY, key=file:s3-key or keyring:SERVICE/NAME.",
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="GLOB", help="Only what matches; may be repeated."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Not what matches; may be repeated."),
]
ADDED = {
    name: each
    for name, each in of_operation(SourceOperations.add_source).items()
    if name not in ("name", "url", "options", "secrets", "include", "exclude")
}
CHANGED = of_operation(SourceOperations.change_source)


def register(app: typer.Typer) -> None:
    """Add the group of this module."""
    add_group(
        app,
        "source",
        "Folders, buckets and other places that the library follows (docs/sources.md).",
        ("add", add, _say),
        ("list", list_sources, _say_page),
        ("show", show, _say),
        ("change", change, _say),
        ("preview", preview, _say_preview),
        ("run", run, _say_run),
        ("stop", stop, "stopped: {stopped}"),
        ("runs", runs, _say_runs),
        ("objects", objects, _say_objects),
        ("remove", remove, _say_removed),
        declared={
            "add": options_of(ADDED, has_defaults=False),
            "change": options_of(CHANGED, has_defaults=False),
        },
    )


def add(
    session: Session,
    name: Name,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="What is followed, such as s3://BUCKET or /srv/texts.")
    ],
    option: Options = None,
    secret: Secrets = None,
    include: Include = None,
    exclude: Exclude = None,
    **options: Any,
) -> Source:
    """Follow a folder, a bucket or another place.

    SHOAL_SOURCES names the addresses that sources may have. `shoal source run` follows it at once, and with
    --every a worker does so again and again.

    \b
        export SHOAL_SOURCES=s3://reports
        shoal source add reports s3://reports --every "15 min" --option anon=1
        shoal source preview reports
    """
    with session.engine(must_exist=False) as engine:
        return engine.sources.add(
            name,
            url,
            options=_pairs("option", option),
            secrets=_pairs("secret", secret),
            include=include or (),
            exclude=exclude or (),
            **values_of(ADDED, options),
        )


def list_sources(session: Session, limit: Limit = 50, offset: Offset = 0) -> SourcePage:
    """List sources.

    \b
        shoal source list
    """
    with session.engine() as engine:
        return engine.sources.list(limit=limit, offset=offset)


def show(session: Session, name: Name) -> Source:
    """Show a source with its last run.

    \b
        shoal source show reports
    """
    with session.engine() as engine:
        return engine.sources.get(name)


def change(session: Session, name: Name, **options: Any) -> Source:
    """Change when and how a source is followed.

    \b
        shoal source change reports --every "1 day"
        shoal source change reports --every ""
        shoal source change reports --paused
    """
    with session.engine() as engine:
        return engine.sources.change(name, **values_of(CHANGED, options))


def preview(session: Session, name: Name) -> SourcePreview:
    """Show what a run would do, and its first ten documents. Nothing is stored.

    \b
        shoal source preview reports
    """
    with session.engine() as engine:
        return engine.sources.preview(name)


def run(
    session: Session,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Documents go even if nothing is listed any more.")
    ] = False,
) -> SourceRun:
    """Follow a source now, in this process, until it is done.

    Interrupted or failed, the next run goes on where this one was.

    \b
        shoal source run reports
    """
    with session.engine() as engine:
        ended = engine.sources.run(name, force=force, watch=lambda run: session.err.print(_progress(run)))
    if ended.status is RunStatus.failed:
        raise SourceError(_run_line(ended))
    return ended


def stop(session: Session, name: Name) -> dict[str, bool]:
    """End the open run of a source. What it stored stays.

    \b
        shoal source stop reports
    """
    with session.engine() as engine:
        return {"stopped": engine.sources.stop(name)}


def runs(session: Session, name: Name, limit: Limit = 50, offset: Offset = 0) -> SourceRunPage:
    """List the runs of a source, newest first.

    \b
        shoal source runs reports
    """
    with session.engine() as engine:
        return engine.sources.runs(name, limit=limit, offset=offset)


def objects(
    session: Session,
    name: Name,
    errors: Annotated[bool, typer.Option("--errors", help="Only objects that are not stored.")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> SourceObjectPage:
    """List the objects of a source, with their documents or errors.

    \b
        shoal source objects reports --errors
    """
    with session.engine() as engine:
        return engine.sources.objects(name, only_errors=errors, limit=limit, offset=offset)


def remove(
    session: Session,
    name: Name,
    documents: Annotated[
        bool, typer.Option("--documents", help="Delete its documents too; without it, they stay.")
    ] = False,
) -> dict[str, Any]:
    """Follow a source no longer.

    \b
        shoal source remove reports
    """
    with session.engine() as engine:
        return {"removed": name, "n_deleted": engine.sources.remove(name, with_documents=documents)}


def _say_removed(session: Session, answer: dict[str, Any]) -> None:
    number = answer["n_deleted"]
    became = f"a job deletes {quantity(number, 'document')}" if number else "its documents stay"
    session.say(f"source {answer['removed']} is removed; {became}")


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for each in given or ():
        name, is_pair, value = each.partition("=")
        if not is_pair:
            raise QueryError(option, f"must be NAME=VALUE, not {each[:40]!r}")
        pairs[name] = value
    return pairs


def _say(session: Session, source: Source) -> None:
    session.say(f"{source.name}: {source.url}")
    state = "paused" if source.is_paused else f"next run {source.next_run_at or 'when asked for'}"
    errors = f", {source.n_errors:,} not stored" if source.n_errors else ""
    session.say(f"  {state}; {quantity(source.n_objects, 'object')}{errors}")
    if source.last_run is not None:
        session.say(f"  last run: {_run_line(source.last_run)}")


def _say_page(session: Session, page: SourcePage) -> None:
    for source in page.sources:
        _say(session, source)
    session.say_rest(len(page.sources), page.total, "no sources")


def _progress(run: SourceRun) -> str:
    match run.status:
        case RunStatus.listing:
            return f"listing: {run.n_listed:,}"
        case RunStatus.reading:
            return f"reading: {decimal(run.n_bytes)}, {run.n_new + run.n_changed + run.n_moved:,} objects"
        case _:
            return f"{run.status}"


def _run_line(run: SourceRun) -> str:
    counts = {
        "listed": run.n_listed,
        "new": run.n_new,
        "changed": run.n_changed,
        "moved": run.n_moved,
        "gone": run.n_removed,
        "skipped": run.n_skipped,
        "failed": run.n_failed,
    }
    parts = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "listed")
    error = f": {run.error}" if run.error else ""
    return f"{run.status}{error}; {parts}; {decimal(run.n_bytes)} read"


def _say_run(session: Session, run: SourceRun) -> None:
    session.say(_run_line(run))
    if not run.n_listed and not run.n_skipped:
        session.say("  there is nothing; is the address right?")


def _say_runs(session: Session, page: SourceRunPage) -> None:
    for run in page.runs:
        session.say(f"{run.id}  {run.started_at}  {_run_line(run)}")
    session.say_rest(len(page.runs), page.total, "no runs")


def _say_objects(session: Session, page: SourceObjectPage) -> None:
    for each in page.objects:
        what = each.error or (f"document {each.document_id}" if each.document_id else "the next run reads it")
        session.say(f"{each.name}: {what}")
    session.say_rest(len(page.objects), page.total, "no objects")


def _say_preview(session: Session, preview: SourcePreview) -> None:
    more = "" if preview.is_complete else " or more"
    session.say(
        f"{preview.n_listed:,}{more} listed, {preview.n_skipped:,} skipped: {preview.n_new:,} new, "
        f"{preview.n_changed:,} changed, {preview.n_removed:,} gone; {decimal(preview.n_bytes)} to read"
    )
    for each in preview.first:
        session.say(f"{each.name}: {each.error or each.title}")
        if not each.error:
            session.say(f"  {' '.join(each.text.split())[:100]}")
