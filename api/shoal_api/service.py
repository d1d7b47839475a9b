"""What views share: engine, Celery application, metrics, limits for waiting requests, and reads after writes.

A search on a replica may come before what its caller wrote. The answer to a write has a token, and a search
that sends it back waits briefly until the replica and the index of this machine have it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flask
import structlog
from werkzeug.wrappers import Response

from shoal.collections.catalog import MAIN_COLLECTION, Collection
from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.errors import CollectionNotFoundError, StorageError
from shoal.jobs.queue.progress import ProgressEstimator
from shoal.jobs.queue.queries import Job
from shoal.jobs.transport.broker import worker_notifier
from shoal.models.responses import Status
from shoal.settings import Settings
from shoal.storage.statistics import count_workers
from shoal.support.collection_names import MAIN
from shoal_api import access
from shoal_api.events import Listeners
from shoal_api.metrics import Metrics
from shoal_api.paths import API, COLLECTION, COLLECTIONS

SLICE_SECONDS = 0.5
"""How long a stopping service waits at most for a waiting request to notice."""

_PREFERENCE = re.compile(r"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])""", re.IGNORECASE)
EXTENSION = "shoal"
WRITTEN = "Shoal-Written"
READ_AFTER = "Shoal-Read-After"
SEARCHES = frozenset({"search", "search_batch", "facets", "similarity"})
"""Blueprints whose requests read the index."""
ANSWERED = frozenset({"jobs"})
"""Blueprints whose answers to GET may tell of new documents."""
log = structlog.get_logger("shoal.api")


def preferred_wait(header: str | None) -> int | None:
    """Return the seconds of `Prefer: wait=N`; None if absent or invalid, as RFC 7240 specifies."""
    match = _PREFERENCE.search(header or "")
    return int(match.group(1)) if match else None


class WaitLimiter:
    """Lets half of the threads wait. Further requests get their response at once."""

    def __init__(self, threads: int, max_seconds: float) -> None:
        self._slots = threading.BoundedSemaphore(max(1, threads // 2))
        self._max_seconds = max_seconds
        self._closed = False

    def wait(self, seconds: float, look: Callable[[float], Job], enough: Callable[[Job], bool]) -> Job:
        """Return a job once `enough` accepts it, or its state after `seconds` (at most the setting).

        `look` returns the job after waiting up to the given seconds for a change.
        """
        with self._slot(seconds) as allowed:
            deadline = time.monotonic() + allowed
            while True:
                left = max(0.0, deadline - time.monotonic())
                job = look(min(left, SLICE_SECONDS))
                if enough(job) or left <= SLICE_SECONDS or self._closed:
                    return job

    def close(self) -> None:
        """End all waits soon, because the service is stopping."""
        self._closed = True

    @contextlib.contextmanager
    def _slot(self, seconds: float) -> Iterator[float]:
        """Yield the seconds the caller may wait; 0 if no slot is free."""
        if seconds <= 0 or self._closed or not self._slots.acquire(blocking=False):
            yield 0.0
            return
        try:
            yield min(seconds, self._max_seconds)
        finally:
            self._slots.release()


@dataclass(frozen=True)
class Service:
    """Objects shared by all threads of the process. Within a request, `engine` and `collection` are those
    that its URL names."""

    settings: Settings
    engine: Engine
    celery: Any
    metrics: Metrics
    waiting: WaitLimiter
    listeners: Listeners
    progress_estimator: ProgressEstimator
    collections: Collections
    collection: Collection = MAIN_COLLECTION

    def notify(self) -> None:
        """Notify workers of new work. Without the broker, the job starts later but is not lost."""
        from shoal_api.request_collection import mark

        if self.collection.id != MAIN:
            # Before the message: the worker that receives it looks at marked collections.
            mark(self)
            flask.g.is_marked = True
        worker_notifier(self.celery)()

    def status(self) -> Status:
        """Return the counts of the collection, of what the sender of the request may see. Workers serve all
        collections and are counted in `main`."""
        status = self.engine.status(access.current().owners)
        if self.collection.id != MAIN:
            with self.collections.main.database.snapshot() as snapshot:
                return dataclasses.replace(status, workers=count_workers(snapshot))
        return status

    def is_deleted(self) -> bool:
        """Whether the collection of the request was deleted since it began."""
        if self.collection.id == MAIN:
            return False
        try:
            return self.collections.catalog.by_id(self.collection.id) is None
        except StorageError:
            return False

    def local(self, path: str) -> str:
        """Return a path of the API, which begins with `/api/v1`, in the collection of the request."""
        if self.collection.id == MAIN:
            return path
        return f"{COLLECTIONS}/{self.collection.name}{path.removeprefix(API)}"

    def end(self) -> None:
        """End waiting requests and event streams, because the service is stopping."""
        self.waiting.close()
        self.listeners.close()


def library(*_: object) -> Engine:
    """Return the library of the collection of the request, on which methods serve operations."""
    return engine()


def current() -> Service:
    """Return the service of the application that handles the current request, bound to its collection."""
    bound: Service | None = flask.g.get("bound")
    if bound is not None:
        return bound
    whole = _current()
    viewer = access.viewer()
    if viewer is None:
        return whole
    if "restricted" not in flask.g:
        flask.g.restricted = dataclasses.replace(whole, engine=whole.engine.seen_by(viewer))
    restricted: Service = flask.g.restricted
    return restricted


def _current() -> Service:
    """Return the same with the whole library, whoever sent the request."""
    if collection_name() != MAIN:
        # A request for a collection is never answered from another one.
        raise CollectionNotFoundError("there is no such collection")
    service = flask.current_app.extensions[EXTENSION]
    assert isinstance(service, Service)
    return service


def engine() -> Engine:
    """Return the engine of the collection of the current request."""
    return current().engine


def collection_name() -> str:
    """Return the name of the collection that the URL of the request names; `main` without one."""
    name: str = flask.request.environ.get(COLLECTION, MAIN) if flask.has_request_context() else MAIN
    return name


def register(app: flask.Flask) -> None:
    """Let searches of the application wait, and give answers to writes a token."""

    @app.before_request
    def wait() -> None:
        if _is_search():
            await_index(current().engine)

    @app.after_request
    def mark(response: Response) -> Response:
        if response.status_code < 400 and _is_write():
            try:
                response.headers[WRITTEN] = current().engine.written()
            except StorageError as error:
                # What was written is stored all the same.
                log.warning("answer without a token", reason=str(error))
            except Exception:
                # An answer that says that something is stored must not become an error.
                log.exception("answer without a token")
        return response


def await_index(engine: Engine) -> None:
    """Wait until an index has what the caller wrote, as its request says. Raises IndexBehindError."""
    token = flask.request.headers.get(READ_AFTER, "").strip()
    if token:
        engine.await_written(token)
    engine.check_index()


def _is_search() -> bool:
    return flask.request.blueprint in SEARCHES


def _is_write() -> bool:
    request = flask.request
    if request.blueprint is None or _is_search() or access.viewer() is not None:
        # A search token writes nothing, and what others wrote is not for it.
        return False
    return request.method not in ("GET", "HEAD", "OPTIONS") or request.blueprint in ANSWERED
