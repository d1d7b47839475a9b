"""Commands that use a running service: `upload` and `jobs`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from shoal.cli.folder_options import Exclude, Gitignore, Include, Verbose, selection_of, warn_of_skipped
from shoal.cli.job_lines import progress_line, summary, with_reason
from shoal.cli.progress import bar
from shoal.cli.session import (
    MAIN,
    ChunkTokens,
    InterruptedCommandError,
    Key,
    Limit,
    Offset,
    Session,
    TextLanguage,
    command,
    is_url,
    json_form,
    split_tags,
)
from shoal.cli.terminal import quantity
from shoal.conversion.folder_listing import (
    EVERYTHING,
    Selection,
    Skipped,
    SkipReason,
    count_skipped,
    list_folder,
    no_texts_line,
    reason_of,
)
from shoal.errors import NotFoundError
from shoal.models.jobs import ItemStatus, JobKind, OnConflict
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.client import Client, ClientError, Item, Job, UploadFile


@dataclass(frozen=True, slots=True)
class UploadSelection:
    """The files to send.

    `unreadable` is the number of files and folders that cannot be read. `skipped` are the skipped files of
    folders.
    """

    files: tuple[UploadFile, ...]
    unreadable: int
    skipped: tuple[Skipped, ...]


def select_files(session: Session, paths: list[Path], selection: Selection = EVERYTHING) -> UploadSelection:
    """Select the files to send; `selection` is for those of folders.

    Prints a line for each unreadable path and each folder without files to read.
    """
    from shoal.client import UploadFile

    files: list[UploadFile] = []
    skipped: list[Skipped] = []
    unreadable = 0

    def report_unreadable(path: Path, reason: str) -> None:
        nonlocal unreadable
        session.warn(f"failed: {one_line(str(path))}: {reason}")
        unreadable += 1

    def texts_of(folder: Path) -> Iterator[Path]:
        listing = list_folder(folder, selection)
        for entry in listing.unreadable:
            report_unreadable(entry.path, entry.reason)
        if not listing.texts and not listing.unreadable:
            # Without the skipped files: the caller prints them once for all folders.
            session.warn(f"warning: {no_texts_line(folder, ())}")
        skipped.extend(listing.skipped)
        yield from listing.texts

    for path in paths:
        folder = path if path.is_dir() else None
        for file in texts_of(path) if folder else (path,):
            try:
                upload = UploadFile.of(file, folder=folder)
            except OSError as error:
                report_unreadable(file, reason_of(error))
                continue
            if folder and not upload.size:
                skipped.append(Skipped.because(SkipReason.empty, str(file)))
            else:
                files.append(upload)
    return UploadSelection(tuple(files), unreadable, tuple(skipped))


DEFAULT_PORT = 8000
DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
FAILED_SHOWN = 50
"""Failed items printed after an upload; `shoal jobs ID --status failed` has all of them."""
WARNED_SHOWN = 10
"""Items printed with their warnings after an upload; `shoal jobs ID` has all of them."""
PROGRESS_LINE_SECONDS = 10.0
"""Time between two progress lines of a job if stderr is not a terminal."""
KINDS_WITH_TEXT = (JobKind.ingest, JobKind.replacing)
"""Kinds of jobs whose items have a text. Only these items can have warnings."""
PAGE = 500

OnConflictOption = Annotated[
    OnConflict,
    typer.Option(
        "--on-conflict",
        metavar="/".join(OnConflict),
        help="For a file whose path a stored document has: keep that document and store another, or replace "
        "its content.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help=f"Address of the service. Default: that of `shoal up` for this database, else {DEFAULT_SERVER}.",
    ),
]


@dataclass(frozen=True, slots=True)
class ItemReport:
    """Failed items and items with warnings of an ended job, at most PAGE of each."""

    failed: tuple[Item, ...] = ()
    warned: tuple[Item, ...] = ()

    @classmethod
    def of(cls, client: Client, job: Job) -> ItemReport:
        failed = client.items(job, status=ItemStatus.failed, limit=PAGE).items if job.progress.failed else ()
        has_texts = job.kind in KINDS_WITH_TEXT and job.progress.done > job.progress.failed
        items = client.each_item(job) if has_texts else ()
        warned = (item for item in items if item.warnings and item.status != ItemStatus.failed)
        return cls(failed, tuple(islice(warned, PAGE)))


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "upload")(upload)
    command(app, "jobs")(jobs)


def upload(
    session: Session,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files and folders, or URLs for the service."),
    ],
    server: Server = None,
    key: Key = None,
    tags: Annotated[
        str | None,
        typer.Option("--tags", metavar="A,B", help="Tags for every document, separated by commas."),
    ] = None,
    language: TextLanguage = None,
    chunk_tokens: ChunkTokens = None,
    on_conflict: OnConflictOption = OnConflict.keep,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job.")] = False,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = False,
    verbose: Verbose = False,
) -> None:
    """Send files to a running service.

    One upload is one job. From a folder, every file of a known kind below it is sent; other files, hidden
    ones and links are skipped and counted. --include, --exclude and --gitignore choose among the files of
    folders. A file given by name is sent with any extension, but not a link that leads out of its folder. A
    .zip, .tar.gz or .tgz is sent unchanged and must be the only PATH: the service makes each file in it a
    document. The same holds for .ndjson and .jsonl: each line is a document with its own fields. Files are
    streamed from disk. The service responds once everything is durably stored; from then on nothing is lost
    if the service stops.

    URLs are fetched by the service, if its SHOAL_FETCH_URLS lists their hosts. They are an upload without
    files.

    With --wait, the exit code is 1 if any item failed; failed items are listed with the reason.

    \b
        shoal up                                 in one terminal
        shoal upload books/ --tags books --wait  in another
        shoal upload notes.zip --wait
        shoal upload books/ --on-conflict replace   changed files replace their documents
    """
    server = server or _running_server(session)
    urls = [path for path in paths if is_url(path)]
    if urls:
        if len(urls) < len(paths):
            raise typer.BadParameter("URLs are a job of their own; upload them alone", param_hint="PATH")
        _upload_urls(session, urls, split_tags(tags), language, chunk_tokens, server, key, wait=wait)
        return
    chosen = selection_of(include, exclude, gitignore=gitignore)
    selection = select_files(session, [Path(path) for path in paths], chosen)
    files = selection.files
    warn_of_skipped(session, selection.skipped, verbose=verbose)
    if not files:
        raise NotFoundError("nothing to upload: no file could be read")
    from shoal.client import archive_type, holds_records

    is_archive = any(archive_type(file.path) for file in files)
    is_records = any(holds_records(file.path) for file in files)
    if (is_archive or is_records) and len(paths) > 1:
        kind = "an archive" if is_archive else "a file of records"
        raise typer.BadParameter(f"{kind} is a job of its own; upload it alone", param_hint="PATH")
    given = {"--tags": tags, "--language": language, "--chunk-tokens": chunk_tokens}
    if is_records and any(given.values()):
        option = next(name for name, value in given.items() if value)
        raise typer.BadParameter("records have their own tags, language and tokens", param_hint=option)
    with connect(session, server, key, command_name="shoal upload") as client:
        size = sum(file.size for file in files)
        with (
            _interruptible_upload(size, _service_options(session, client.server)) as count_sent,
            bar(session.err, "upload", bytes_total=size) as progress_bar,
        ):

            def on_sent(n_bytes: int) -> None:
                count_sent(n_bytes)
                progress_bar.advance(n_bytes)

            if is_archive:
                job = client.upload_archive(
                    files[0],
                    tags=split_tags(tags),
                    language=language,
                    chunk_tokens=chunk_tokens,
                    on_conflict=on_conflict,
                    sent=on_sent,
                )
            elif is_records:
                job = client.upload_records(files[0], on_conflict=on_conflict, sent=on_sent)
            else:
                job = client.upload(
                    files,
                    tags=split_tags(tags),
                    language=language,
                    chunk_tokens=chunk_tokens,
                    on_conflict=on_conflict,
                    sent=on_sent,
                )
        job, report = _outcome_of(session, client, job, wait=wait)
    _print_outcome(session, job, report, waited=wait, server=client.server, skipped=selection.skipped)
    if selection.unreadable or (wait and not job.succeeded):
        raise typer.Exit(1)


def _upload_urls(
    session: Session,
    urls: Sequence[str],
    tags: Sequence[str],
    language: str | None,
    chunk_tokens: str | None,
    server: str,
    key: str | None,
    *,
    wait: bool,
) -> None:
    """Have a service fetch pages, as one job."""
    with connect(session, server, key, command_name="shoal upload") as client:
        job = client.upload_documents(
            [
                {"url": url, "tags": list(tags), "language": language, "chunk_tokens": chunk_tokens}
                for url in urls
            ]
        )
        job, report = _outcome_of(session, client, job, wait=wait)
    _print_outcome(session, job, report, waited=wait, server=client.server)
    if wait and not job.succeeded:
        raise typer.Exit(1)


def _outcome_of(session: Session, client: Client, job: Job, *, wait: bool) -> tuple[Job, ItemReport]:
    """Return an accepted job and its report: with `wait`, once it has ended."""
    if not wait:
        return job, ItemReport()
    options = _service_options(session, client.server)
    with _accepted_job(job.id, options):
        with _interruptible_wait(job.id, options):
            job = follow(session, client, job.id)
        return job, ItemReport.of(client, job)


def jobs(
    session: Session,
    job_id: Annotated[int | None, typer.Argument(metavar="[ID]", help="One job, with its items.")] = None,
    server: Server = None,
    key: Key = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", help="Only jobs (with ID: only items) with this status, such as failed."
        ),
    ] = None,
    limit: Limit = 20,
    offset: Offset = 0,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel this job. Stored documents stay.")] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Retry the failed and canceled items of this job.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of this job.")] = False,
) -> None:
    """Show, cancel and retry the jobs of a running service.

    Lists all jobs, newest first. With an ID, shows that job with its items.
    With --wait, the exit code is 1 if any item failed.

    \b
        shoal jobs                    all jobs
        shoal jobs 7 --status failed  the failed items of a job, with the reasons
        shoal jobs 7 --retry --wait   retry them after the cause is fixed
    """
    if job_id is None and (cancel or retry or wait):
        raise typer.BadParameter("name the job: shoal jobs ID ...", param_hint="[ID]")
    if cancel and retry:
        raise typer.BadParameter("a job can be canceled or retried, not both", param_hint="--retry")
    server = server or _running_server(session)
    if job_id is not None and (cancel or retry or wait):
        with connect(session, server, key, command_name="shoal jobs") as client:
            _change_job(session, client, job_id, cancel=cancel, retry=retry, wait=wait)
        return
    with connect(session, server, key, command_name="shoal jobs") as client:
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


def _change_job(
    session: Session, client: Client, job_id: int, *, cancel: bool, retry: bool, wait: bool
) -> None:
    """Cancel or retry a job, wait for its end if asked to, and print its outcome."""
    if cancel:
        client.cancel_job(job_id)
    if retry:
        client.retry_job(job_id)
    job = client.job(job_id)
    job, report = _outcome_of(session, client, job, wait=wait)
    _print_outcome(session, job, report, waited=wait or cancel, server=client.server)
    if wait and not cancel and not job.succeeded:
        raise typer.Exit(1)


def rescore_on(session: Session, server: str, key: str | None, *, wait: bool) -> None:
    """Start a rescore job on a service."""
    with connect(session, server, key, command_name="shoal rescore") as client:
        _change_job(session, client, client.rescore().id, cancel=False, retry=False, wait=wait)


def dedup_on(session: Session, server: str, key: str | None, *, owner: str, recheck: bool) -> None:
    """Have a service compare the notes of an owner, and follow the job to its end."""
    with connect(session, server, key, command_name="shoal note dedup") as client:
        job = client.dedup_notes(owner=owner, recheck=recheck)
        job, report = _outcome_of(session, client, job, wait=True)
        n_proposals = client.merge_proposals(owner=owner, limit=1).total
    _print_outcome(session, job, report, waited=True, server=server)
    if n_proposals:
        session.say(f"{quantity(n_proposals, 'open proposal')} to merge notes of {one_line(owner)}")
    if not job.succeeded:
        raise typer.Exit(1)


def embed_on(session: Session, server: str, key: str | None, *, wait: bool) -> None:
    """Let a service embed the documents that lack vectors."""
    with connect(session, server, key, command_name="shoal encoder embed") as client:
        _change_job(session, client, client.embed().id, cancel=False, retry=False, wait=wait)


def _running_server(session: Session) -> str:
    """The address of the service that `shoal up` runs for the database of this run, else DEFAULT_SERVER."""
    from shoal.hook import running_service

    settings = session.settings()
    return (settings.is_sqlite and running_service(str(settings.database_path))) or DEFAULT_SERVER


@contextmanager
def connect(session: Session, server: str, key: str | None, *, command_name: str) -> Iterator[Client]:
    """Open a client for the command `command_name`.

    If no service listens at `server`, the command fails at once and says how to start one. If the service
    goes away later or is busy, the client retries and prints each reason once. Raises ClientError.
    """
    from shoal.client import Client, UnreachableError

    printed: set[str] = set()

    def print_retry(reason: ClientError, _seconds: float) -> None:
        if str(reason) not in printed:
            printed.add(str(reason))
            # The console of the progress bar makes room for the line.
            session.err.print(one_line(f"{reason}; trying again"), markup=False, highlight=False)

    with Client(
        server,
        key=key,
        collection=session.settings().collection,
        waits_for_start=False,
        retrying=print_retry,
    ) as client:
        try:
            yield client
        except UnreachableError as error:
            if error.was_sent or error.is_silence:
                raise
            raise UnreachableError(
                _unreachable_message(command_name, client.server), was_sent=False
            ) from error


def _unreachable_message(command_name: str, server: str) -> str:
    """The error for a command that no service answers, with the command that starts one."""
    url = urlsplit(server)
    if url.hostname in LOCAL_HOSTS:
        port = "" if url.port == DEFAULT_PORT else f" --port {url.port or 80}"
        hint = f"start one with `shoal up{port}` in another terminal, or name another address with --server"
    else:
        hint = "start one on that machine with `shoal up`, or name another address with --server"
    return f"`{command_name}` cannot reach a service at {server}; {hint}, then run `{command_name}` again"


def follow(session: Session, client: Client, job_id: int) -> Job:
    """Show a job's progress until it ends, and return the ended job.

    Draws a bar on a terminal; otherwise prints a line every PROGRESS_LINE_SECONDS.
    """
    printed_at = time.monotonic()

    with bar(session.err, f"job {job_id}", bytes_total=0) as progress_bar:

        def show_progress(job: Job) -> None:
            nonlocal printed_at
            progress = job.progress
            now = time.monotonic()
            is_due = now - printed_at >= PROGRESS_LINE_SECONDS
            if not session.err.is_terminal and not job.ended and is_due:
                printed_at = now
                session.warn(progress_line(json_form(job)))
            progress_bar.title(f"job {job_id}: {job.stage or job.status}")
            progress_bar.move_to(
                # `fraction` counts discovered documents as half done, so one big file moves before its end.
                max(progress.bytes_done, int(progress.fraction * progress.bytes_total)),
                progress.done if progress.stage_done is None else progress.stage_done,
                bytes_total=progress.bytes_total,
                items_total=progress.total,
            )

        return client.wait_for_job(job_id, seen=show_progress)


@contextmanager
def _accepted_job(job_id: int, options: str) -> Iterator[None]:
    """If the service becomes unavailable in the block, add to the error that the accepted job is safe."""
    from shoal.client import ClientError

    try:
        yield
    except ClientError as error:
        if not error.is_away:
            raise
        raise ClientError(
            f"{error}\njob {job_id} was accepted and is safe; it continues when the service is back, and "
            f"`shoal jobs {job_id}{options}` shows its progress",
            error.status,
        ) from error


@contextmanager
def _interruptible_upload(size: int, options: str) -> Iterator[Callable[[int], None]]:
    """On Ctrl-C in the block, raise InterruptedCommandError that says whether the upload may be accepted.

    Yields a function that counts sent bytes, of `size` in all.
    """
    sent = 0

    def count(n_bytes: int) -> None:
        nonlocal sent
        sent += n_bytes

    try:
        yield count
    except KeyboardInterrupt:
        # A complete upload may have been accepted although its response has not arrived.
        raise InterruptedCommandError(
            "interrupted: nothing was accepted; run it again"
            if sent < size
            else "interrupted: everything was sent, but it is unknown whether it was accepted; "
            f"`shoal jobs{options}` shows it, and uploading again stores nothing twice"
        ) from None


@contextmanager
def _interruptible_wait(job_id: int, options: str) -> Iterator[None]:
    """On Ctrl-C in the block, raise InterruptedCommandError that says that the job continues."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedCommandError(
            f"interrupted: job {job_id} continues: `shoal jobs {job_id}{options}` shows it, "
            f"`shoal jobs {job_id} --cancel{options}` cancels it"
        ) from None


def _service_options(session: Session, server: str) -> str:
    """The options that name collection and service in a suggested command; empty for the defaults."""
    collection = session.settings().collection
    collection_option = "" if collection == MAIN else f" --collection {collection}"
    return collection_option + ("" if server == DEFAULT_SERVER else f" --server {server}")


def _print_outcome(
    session: Session,
    job: Job,
    report: ItemReport,
    *,
    waited: bool,
    server: str,
    skipped: Sequence[Skipped] | None = None,
) -> None:
    if session.as_json:
        items = {"failed_items": json_form(report.failed), "warned_items": json_form(report.warned)}
        files = (
            {}
            if skipped is None
            else {"skipped_files": count_skipped(skipped), "skipped": json_form(skipped)}
        )
        session.emit({**json_form(job), **(items if waited else {}), **files})
        return
    options = _service_options(session, server)
    for item in report.warned[:WARNED_SHOWN]:
        for warning in item.warnings:
            session.warn(f"warning: {item.source_path or item.title}: {warning}")
    if len(report.warned) > WARNED_SHOWN:
        session.warn(f"more items have warnings; `shoal jobs {job.id}{options}` lists them")
    for item in report.failed[:FAILED_SHOWN]:
        session.warn(f"failed: {with_reason(item.source_path or item.title, item.error or '')}")
    n_more = job.progress.failed - FAILED_SHOWN
    if n_more > 0:
        session.warn(f"and {n_more:,} more; `shoal jobs {job.id} --status failed{options}` lists them")
    if job.error:
        session.warn(f"job {job.id}: {job.error}")
    session.say(summary(json_form(job)))
    if not waited:
        session.say(f"`shoal jobs {job.id}{options}` shows its progress")
