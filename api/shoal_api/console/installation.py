"""Pages of the installation: status, collections, jobs and keys, and pages for what does not exist."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import flask
from flask.globals import request_ctx
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from shoal.errors import CollectionNotFoundError, InvalidFieldError
from shoal.jobs.queue.queries import Job, WaveProgress, live_workers
from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal.models.keys import Right
from shoal.storage.statistics import WORKER_SEEN_SECONDS
from shoal.support.collection_names import is_name
from shoal_api import access, service
from shoal_api import installation as resource
from shoal_api.access import FIRST_KEY, NO_FIRST_KEY
from shoal_api.console import layout
from shoal_api.console.layout import PART, blueprint, page, page_number, respond
from shoal_api.installation import represent, visible
from shoal_api.jobs import visible_job
from shoal_api.paths import COLLECTION, CONSOLE_COLLECTIONS, ID
from shoal_api.problems import ProblemError, for_error, for_http_error

LISTED_SECONDS = 24 * 3600.0
"""Workers are listed for at most so long after their last heartbeat."""


@blueprint.get("/status")
@page()
def status() -> tuple[str, Mapping[str, Any]]:
    """Show the workers, the queue, the index and the sizes of the library."""
    engine = service.current().engine
    now = time.time()
    seen = [
        (worker, max(0.0, now - worker.seen_at)) for worker in live_workers(engine.database, LISTED_SECONDS)
    ]
    work = engine.jobs.work()
    return "status.html", {
        "workers": seen,
        "silent_after": WORKER_SEEN_SECONDS,
        "n_alive": sum(seconds <= WORKER_SEEN_SECONDS for _, seconds in seen),
        "work": work,
        "n_waiting": sum(work.waiting.values()),
        "library": engine.status(access.current().owners),
        "n_to_index": engine.maintenance.n_to_index(),
    }


PER_PAGE = 100


@blueprint.get("/collections")
@page()
def collections() -> tuple[str, Mapping[str, Any]]:
    """List the collections."""
    number = page_number()
    listed = visible(PER_PAGE, (number - 1) * PER_PAGE)
    return "collections.html", {
        "collections": list(map(represent, listed.collections)),
        "total": listed.total,
        "page": number,
        "per_page": PER_PAGE,
    }


JOBS = 50
ITEMS = 100
FAILED = 20
"""Failed items shown above the list of all items."""


@blueprint.get("/jobs")
@page("page", "status")
def jobs() -> tuple[str, Mapping[str, Any]]:
    """List jobs with their progress."""
    here = service.current()
    number = layout.page_number()
    status = layout.choice("status", JobStatus, "status of a job")
    owners = access.current().owners
    listed = here.engine.jobs.list(status, JOBS, (number - 1) * JOBS, owners=owners)
    return "jobs.html", {
        "jobs": [
            (
                job,
                here.progress_estimator.estimate(job, _waves(job), here.collection.id),
                here.engine.jobs.can_retry(job),
            )
            for job in listed
        ],
        "any_open": any(not job.ended for job in listed),
        "total": here.engine.jobs.count(status, owners=owners),
        "statuses": [member.value for member in JobStatus],
        "status": status,
        "page": number,
        "per_page": JOBS,
    }


@blueprint.get(f"/jobs/<{ID}:job_id>")
@page("page", "items")
def job(job_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a job, live while it runs, with its failed items."""
    here = service.current()
    shown, all_jobs = visible_job(job_id), here.engine.jobs
    number = layout.page_number()
    status = layout.choice("items", ItemStatus, "status of an item")
    failed = all_jobs.items(job_id, ItemStatus.failed, FAILED, 0) if shown.progress.failed else []
    return "job.html", {
        "job": shown,
        "estimate": here.progress_estimator.estimate(shown, _waves(shown), here.collection.id),
        "can_retry": here.engine.jobs.can_retry(shown),
        "owners": all_jobs.compared_owners(job_id) if shown.kind is JobKind.dedup else (),
        "failed": failed,
        "items": all_jobs.items(job_id, status, ITEMS, (number - 1) * ITEMS),
        "status": status,
        "statuses": [member.value for member in ItemStatus],
        "total": here.engine.jobs.count_items(job_id, status),
        "page": number,
        "per_page": ITEMS,
    }


def _waves(job: Job) -> Sequence[WaveProgress]:
    return service.current().engine.jobs.waves(job.id)


KEYS = 50
DAY = 86_400.0


@blueprint.get("/keys")
@page("page")
def keys() -> tuple[str, Mapping[str, Any]]:
    """List keys, with a form for a new one."""
    return "keys.html", _values()


@blueprint.post("/keys")
@page()
def create_key() -> Response:
    """Create a key and show it this once; if it is not possible, say why, with what was sent."""
    form = flask.request.form
    try:
        created = resource.store().create(
            form.get("name", "").strip(),
            [_scope(part) for part in _parts(form.get("scopes", ""))],
            owners=_parts(form.get("owners", "")) or None,
            expires_at=_moment(form.get("days", "")),
            requests_per_second=_number("rate", form.get("rate", "")),
        )
    except InvalidFieldError as error:
        return respond("keys.html", _values() | {"problem": str(error), "given": form}, status=422)
    return respond("keys.html", _values() | {"created": created})


@blueprint.post("/keys/<string(minlength=1, maxlength=64):key_id>/<any(revoke, rotate):change>")
@page()
def change_key(key_id: str, change: str) -> Response:
    """Revoke a key, or replace it by another, which is shown this once."""
    if change == "revoke":
        resource.revoke(key_id)
        return flask.redirect(flask.url_for("console.keys"), 303)
    try:
        created = resource.rotate(key_id)
    except InvalidFieldError as error:
        return respond("keys.html", _values() | {"problem": str(error)}, status=422)
    return respond("keys.html", _values() | {"created": created})


def _values() -> dict[str, Any]:
    number = layout.page_number()
    return {
        "listed": resource.store().page(KEYS, (number - 1) * KEYS),
        "page": number,
        "per_page": KEYS,
        "rights": ", ".join(Right),
        "problem": None,
        "created": None,
        "given": {},
    }


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]


def _scope(text: str) -> tuple[str, str]:
    collection, _, right = text.rpartition(":")
    return collection.strip(), right.strip()


def _moment(days: str) -> float | None:
    number = _number("days", days)
    return None if number is None else time.time() + number * DAY


def _number(field: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidFieldError(field, "must be a number") from None


PROGRAMS = ("/api/", "/static/")
"""Paths below which nothing is a page."""


@blueprint.app_errorhandler(404)
def show_missing(error: NotFound) -> Response:
    """Answer a request for an unknown address."""
    if not _wants_page():
        return for_http_error(error)
    if not is_name(service.collection_name()):
        _leave_collection()
    return respond("missing_page.html", {}, status=404)


@blueprint.app_errorhandler(CollectionNotFoundError)
def show_missing_collection(error: CollectionNotFoundError) -> Response:
    """Answer a request for a collection that does not exist, or was deleted."""
    return show_problem(for_error(error))


@blueprint.app_errorhandler(ProblemError)
def show_problem(problem: ProblemError) -> Response:
    """Answer with a problem document, or with a page if a browser asks for a collection or for keys.

    The page is the same for a collection that does not exist and one that the key does not open.
    """
    if problem.detail == NO_FIRST_KEY and _wants_page():
        return respond("no_first_key.html", {"command": FIRST_KEY}, status=problem.status)
    if problem.code != CollectionNotFoundError.code or not _wants_page():
        return problem.response()
    _leave_collection()
    return respond("missing_collection.html", {}, status=problem.status)


def _wants_page() -> bool:
    request = flask.request
    # A program that accepts anything accepts a problem document.
    kinds = request.accept_mimetypes
    wants_page = kinds.best_match(["application/problem+json", "text/html"]) == "text/html"
    return not request.path.startswith(PROGRAMS) and (wants_page or PART in request.headers)


def _leave_collection() -> None:
    """Let links of the page lead to `main`: those with the prefix of the request lead nowhere."""
    environ = flask.request.environ
    name = environ.pop(COLLECTION, None)
    flask.g.pop("bound", None)
    if name is not None:
        prefix = f"{CONSOLE_COLLECTIONS}/{name}"
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "").removesuffix(prefix)
        request_ctx.url_adapter = flask.current_app.create_url_adapter(flask.request)
