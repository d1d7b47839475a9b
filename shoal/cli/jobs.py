"""Commands that talk to a running service: `upload` and `jobs`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import InterruptedCommandError, Session, command, split_tags
from shoal.cli.terminal import counted, one_line
from shoal.cli.upload_files import choose
from shoal.errors import NotFoundError
from shoal.formats.folder_listing import passed_over_line

if TYPE_CHECKING:
    from shoal.client import Client, ClientError, Item, Job

DEFAULT_SERVER = "http://127.0.0.1:8000"
FAILED_SHOWN = 50
"""Failed items printed after an upload; `shoal jobs ID --status failed` has all of them."""
WARNED_SHOWN = 50
"""Items printed with their warnings after an upload; `shoal jobs ID` has all of them."""
TOLD_EVERY_SECONDS = 10.0
"""Between two lines on a job that is followed where no bar can be drawn: often enough for a log, and no more."""
WITH_TEXTS = ("ingest", "replace")
"""Kinds of jobs whose items bring a text, which may be warned of."""
PAGE = 500
STATUSES = (
    "enqueued",
    "discovering",
    "discovered",
    "scoring",
    "succeeded",
    "duplicate",
    "failed",
    "canceled",
)

Server = Annotated[str, typer.Option("--server", metavar="URL", help="Address of the service.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar="SHOAL_API_KEY",
        show_envvar=False,
        help="API key, where the service has any. Better in SHOAL_API_KEY: others see command lines.",
    ),
]


@dataclass(frozen=True, slots=True)
class Told:
    """Items of a job that has ended of which a person should know, at most PAGE of each sort."""

    failed: tuple[Item, ...] = ()
    warned: tuple[Item, ...] = ()

    @classmethod
    def of(cls, client: Client, job: Job) -> Told:
        failed = client.items(job, status="failed", limit=PAGE).items if job.progress.failed else ()
        has_texts = job.kind in WITH_TEXTS and job.progress.done > job.progress.failed
        items = client.each_item(job) if has_texts else ()
        warned = (item for item in items if item.warnings and item.status != "failed")
        return cls(failed, tuple(islice(warned, PAGE)))


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "upload")(upload)
    command(app, "jobs")(jobs)


def upload(
    session: Session,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    server: Server = DEFAULT_SERVER,
    key: Key = None,
    tags: Annotated[
        str | None, typer.Option("--tags", metavar="A,B", help="Tags for every document, by commas.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the job to its end.")] = False,
) -> None:
    """Send files to a running service.

    They are one job. Of a folder every .md, .markdown and .txt below it is sent; a file named by itself is
    sent whatever its extension; what is passed over is counted. A .zip, .tar.gz or .tgz is sent as it is, alone: the service makes every file
    in it a document. So is an .ndjson or .jsonl: every line of it is a document with fields of its own. Files
    are streamed from disk. The service answers once everything has arrived safely; from then on nothing is
    lost, whatever happens to it.

    With --wait, exit code 1 if any item failed; the failed ones are listed with the reason.

    \b
        shoal up                                 in one terminal
        shoal upload books/ --tags books --wait  in another
        shoal upload notes.zip --wait
    """
    chosen = choose(session, paths)
    files = chosen.files
    if chosen.passed_over:
        session.warn(passed_over_line(chosen.passed_over))
    if not files:
        raise NotFoundError("there is nothing to upload: no file could be read")
    from shoal.cli.progress import bar
    from shoal.client import archive_type, holds_records

    is_archive = any(archive_type(file.path) for file in files)
    is_records = any(holds_records(file.path) for file in files)
    if (is_archive or is_records) and len(paths) > 1:
        what = "an archive" if is_archive else "a file of records"
        raise typer.BadParameter(f"{what} is a job of its own; name it alone", param_hint="PATH")
    if is_records and tags:
        raise typer.BadParameter("every record has tags of its own", param_hint="--tags")
    with connected(session, server, key) as client:
        size = sum(file.size for file in files)
        with _sending(size, client.server) as count, bar(session.err, "upload", bytes_total=size) as drawn:

            def sent(n_bytes: int) -> None:
                count(n_bytes)
                drawn.advance(n_bytes)

            if is_archive:
                job = client.upload_archive(files[0], tags=split_tags(tags), sent=sent)
            elif is_records:
                job = client.upload_records(files[0], sent=sent)
            else:
                job = client.upload(files, tags=split_tags(tags), sent=sent)
        told = Told()
        if wait:
            with _accepted(job.id, client.server):
                with _following(job.id, client.server):
                    job = follow(session, client, job.id)
                told = Told.of(client, job)
    _tell(session, job, told, waited=wait, server=client.server, passed_over=chosen.passed_over)
    if chosen.unreadable or (wait and not job.succeeded):
        raise typer.Exit(1)


def jobs(
    session: Session,
    job_id: Annotated[int | None, typer.Argument(metavar="[ID]", help="One job, with its items.")] = None,
    server: Server = DEFAULT_SERVER,
    key: Key = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", help="Only jobs (with ID: only items) in this status, such as failed."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over.")] = 0,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End what has not ended of this job; what is stored stays.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what has failed of this job.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow this job to its end.")] = False,
) -> None:
    """Show the jobs of a running service, and act on them.

    The newest come first. With an ID, that one with its items.
    With --wait, exit code 1 if any item failed.

    \b
        shoal jobs                    all of them
        shoal jobs 7 --status failed  what failed of one, and why
        shoal jobs 7 --retry --wait   once the reason is gone
    """
    if job_id is None and (cancel or retry or wait):
        raise typer.BadParameter("say which job: shoal jobs ID ...", param_hint="[ID]")
    if cancel and retry:
        raise typer.BadParameter("a job is canceled or tried again, not both", param_hint="--retry")
    if job_id is not None and (cancel or retry or wait):
        with connected(session, server, key) as client:
            _act(session, client, job_id, cancel=cancel, retry=retry, wait=wait)
        return
    with connected(session, server, key) as client:
        if job_id is None:
            page = json_form(client.jobs(status=status, limit=limit, offset=offset))
        else:
            job = client.job(job_id)
            items = client.items(job, status=status, limit=limit, offset=offset)
            page = {"job": json_form(job), **json_form(items)}
    if session.as_json:
        session.emit(page)
        return
    from shoal.cli.tables import print_items, print_job, print_jobs

    if job_id is None:
        print_jobs(session.out, page["jobs"], total=page["total"])
    else:
        print_job(session.out, page["job"])
        print_items(session.out, page["items"], total=page["total"])


def _act(session: Session, client: Client, job_id: int, *, cancel: bool, retry: bool, wait: bool) -> None:
    """Cancel a job or try it again, and tell how it stands then."""
    if cancel:
        client.cancel_job(job_id)
    if retry:
        client.retry_job(job_id)
    job = client.job(job_id)
    told = Told()
    if wait:
        with _accepted(job_id, client.server):
            with _following(job.id, client.server):
                job = follow(session, client, job_id)
            told = Told.of(client, job)
    _tell(session, job, told, waited=wait or cancel, server=client.server)
    if wait and not cancel and not job.succeeded:
        raise typer.Exit(1)


def rescore_on(session: Session, server: str, key: str | None, *, wait: bool) -> None:
    """Have a service bring its library up to date."""
    with connected(session, server, key) as client:
        _act(session, client, client.rescore().id, cancel=False, retry=False, wait=wait)


def connected(session: Session, server: str, key: str | None) -> Client:
    """A client for a command. Where no service is at that address, a person is told at once; one that goes
    away meanwhile, or is busy, is waited for, and that is told once."""
    from shoal.client import Client

    told: set[str] = set()

    def retrying(reason: ClientError, _seconds: float) -> None:
        if str(reason) not in told:
            told.add(str(reason))
            # Through the console of the progress bar, which makes room for it.
            session.err.print(one_line(f"{reason}; trying again"), markup=False, highlight=False)

    return Client(server, key=key, waits_for_start=False, retrying=retrying)


def follow(session: Session, client: Client, job_id: int) -> Job:
    """Draw a job's progress until it has ended; the job then. Where there is no terminal, a line now and then."""
    from shoal.cli.progress import bar
    from shoal.cli.tables import progress_line

    told = time.monotonic()

    with bar(session.err, f"job {job_id}", bytes_total=0) as drawn:

        def seen(job: Job) -> None:
            nonlocal told
            progress = job.progress
            now = time.monotonic()
            if not session.err.is_terminal and not job.ended and now - told >= TOLD_EVERY_SECONDS:
                told = now
                session.warn(progress_line(json_form(job)))
            drawn.title(f"job {job_id}: {job.stage or job.status}")
            drawn.move_to(
                # Documents that were looked at count half, so that one big file is not at nothing until its end.
                max(progress.bytes_done, int(progress.fraction * progress.bytes_total)),
                progress.done,
                bytes_total=progress.bytes_total,
                items_total=progress.total,
            )

        return client.wait_for_job(job_id, seen=seen)


def summary(job: Mapping[str, Any]) -> str:
    """One line on how a job stands, from its JSON."""
    progress = job["progress"]
    # `done` counts every item that has ended, however.
    stored = progress["done"] - progress["failed"] - progress["duplicate"] - progress["canceled"]
    parts = [
        f"{stored:,} stored",
        counted(progress["duplicate"], "duplicate"),
        f"{progress['failed']:,} failed",
    ]
    if progress["canceled"]:
        parts.append(f"{progress['canceled']:,} canceled")
    if progress.get("skipped"):
        parts.append(f"{progress['skipped']:,} skipped")
    open_items = progress["total"] - progress["done"]
    if open_items:
        parts.append(f"{open_items:,} to do")
    return f"job {job['id']} {job['status']}: {', '.join(parts)}"


@contextmanager
def _accepted(job_id: int, server: str) -> Iterator[None]:
    """Where the service goes away while a job is followed, say what that means for the job."""
    from shoal.client import ClientError

    try:
        yield
    except ClientError as error:
        if not error.is_away:
            raise
        raise ClientError(
            f"{error}\njob {job_id} was accepted and is safe; it goes on when the service is back, and "
            f"`shoal jobs {job_id} --server {server}` shows how",
            error.status,
        ) from error


@contextmanager
def _sending(size: int, server: str) -> Iterator[Callable[[int], None]]:
    """Where Ctrl-C ends the block, tell whether anything was accepted; the value counts the bytes that leave. Raises
    InterruptedCommandError then."""
    sent = 0

    def count(n_bytes: int) -> None:
        nonlocal sent
        sent += n_bytes

    try:
        yield count
    except KeyboardInterrupt:
        # What is whole may have arrived, even if its answer has not.
        raise InterruptedCommandError(
            "interrupted: nothing was accepted; run it again"
            if sent < size
            else "interrupted: all was sent, and whether it was accepted is not known; "
            f"`shoal jobs{_at(server)}` shows that, and what is sent again is stored once"
        ) from None


@contextmanager
def _following(job_id: int, server: str) -> Iterator[None]:
    """Where Ctrl-C ends the block, tell that the job does not end by that. Raises InterruptedCommandError then."""
    try:
        yield
    except KeyboardInterrupt:
        where = _at(server)
        raise InterruptedCommandError(
            f"interrupted: job {job_id} goes on: `shoal jobs {job_id}{where}` shows it, "
            f"`shoal jobs {job_id} --cancel{where}` ends it"
        ) from None


def _at(server: str) -> str:
    """What a command needs to be told to find the service."""
    return "" if server == DEFAULT_SERVER else f" --server {server}"


def _tell(
    session: Session,
    job: Job,
    told: Told,
    *,
    waited: bool,
    server: str,
    passed_over: Mapping[str, int] | None = None,
) -> None:
    if session.as_json:
        items = {"failed_items": json_form(told.failed), "warned_items": json_form(told.warned)}
        files = {} if passed_over is None else {"passed_over": passed_over}
        session.emit({**json_form(job), **(items if waited else {}), **files})
        return
    from shoal.cli.tables import with_reason

    for item in told.warned[:WARNED_SHOWN]:
        for warning in item.warnings:
            session.warn(f"warning: {item.source_path or item.title}: {warning}")
    if len(told.warned) > WARNED_SHOWN:
        session.warn(f"and warnings of more; `shoal jobs {job.id} --server {server}` lists them")
    for item in told.failed[:FAILED_SHOWN]:
        session.warn(f"failed: {with_reason(item.source_path or item.title, item.error or '')}")
    left = job.progress.failed - FAILED_SHOWN
    if left > 0:
        session.warn(f"and {left:,} more; `shoal jobs {job.id} --status failed --server {server}` lists them")
    if job.error:
        session.warn(f"job {job.id}: {job.error}")
    session.say(summary(json_form(job)))
    if not waited:
        session.say(f"`shoal jobs {job.id} --server {server}` shows how it goes on")
