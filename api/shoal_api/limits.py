"""Limit of the job queue, sizes of request bodies, and what compressed bodies unpack to."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import IO

import flask
from werkzeug.wsgi import get_input_stream

from shoal.conversion.converted import largest_file
from shoal.conversion.inflating import DEFLATE, GZIP, RATIO_FLOOR, Inflated, PackedDataError
from shoal.declared.operations.drop_in import FILES
from shoal.jobs.jobs import Jobs
from shoal.jobs.queue.queries import Waiting
from shoal.settings import Settings
from shoal.support.byte_units import MIB
from shoal_api.paths import DOCUMENTS, ID, NOTES, without_collection
from shoal_api.problems import ProblemError
from shoal_api.spool import SPOOL_FROM, disk_full_is_an_error, has_body, spool_folder

CODINGS = {GZIP: GZIP, "x-gzip": GZIP, DEFLATE: DEFLATE}
"""Names in the header, and the coding that each means (RFC 9110, 8.4.1)."""
IDENTITY = ("", "identity")


def unpack_body(request: flask.Request, settings: Settings) -> IO[bytes] | None:
    """Replace a compressed body by what it unpacks to; return the file, to be closed after the request.

    Raises ProblemError: 415 for an unknown coding, 400 for damaged data, 413 for more than the limit of the
    body (`max_content_length`) or for an unusual ratio. Raises DiskFullError.
    """
    name = request.headers.get("Content-Encoding", "").strip().lower()
    if name in IDENTITY or not has_body(request):
        return None
    if name not in CODINGS:
        taken = f"{GZIP}, {DEFLATE}"
        raise ProblemError(
            415,
            f"send the body with `Content-Encoding: {GZIP}` or `{DEFLATE}`, or without; an archive is "
            "recognized by its content type",
            headers={"Accept-Encoding": taken},
        )
    environ, limit = request.environ, request.max_content_length

    def check_size(n_bytes: int, n_packed: int) -> None:
        if limit is not None and n_bytes > limit:
            raise ProblemError(413, f"the body unpacks to more than {limit:,} bytes, which is the limit")
        most = settings.max_archive_ratio
        if n_bytes > max(RATIO_FLOOR, most * n_packed):
            raise ProblemError(413, f"the body unpacks to over {most:g} times its size, which is the limit")

    with disk_full_is_an_error():
        file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed after the request
            SPOOL_FROM, "w+b", dir=str(spool_folder(settings)), prefix="body-"
        )
        try:
            packed = get_input_stream(environ, max_content_length=limit)
            inflated = Inflated(packed, check_size, CODINGS[name])
            while data := inflated.read():
                file.write(data)
        except PackedDataError as error:
            file.close()
            raise ProblemError(400, str(error)) from None
        except BaseException:
            file.close()
            raise
    environ["CONTENT_LENGTH"] = str(file.tell())
    file.seek(0)
    environ["wsgi.input"] = file
    environ.pop("HTTP_CONTENT_ENCODING")
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return file


ESCAPED = 3
"""Most bytes of JSON per byte of text in practice: `\\u0434` for the two bytes of a Cyrillic letter."""

MAX_JSON_BYTES = MIB
"""Limit of a body without a document, and of the other fields of a document besides content and metadata. A
search with ten thousand ids in its filters fits."""

MAX_NOTES_BYTES = 16 * MIB
"""Limit of a bulk upload of notes, whose lines have the limit of other bodies. A thousand notes of average
length have less than one mebibyte."""

QUEUE_RETRY_SECONDS = 30
"""Value of `Retry-After` where the queue is full: about what a worker needs for a shelf of books."""

MANY_JOBS = 1000
COUNT_AGE_SECONDS = 1.0
"""With more open jobs than MANY_JOBS, counting takes milliseconds, so the count is cached for
COUNT_AGE_SECONDS."""
MAX_COUNTED = 1000
"""Most counts that are cached."""

QUEUE = "shoal queue limit"

FILLS_QUEUE = frozenset(
    {
        ("POST", DOCUMENTS),
        ("POST", f"{DOCUMENTS}/bulk"),
        ("PUT", f"{DOCUMENTS}/<{ID}:document_id>"),
    }
)
"""Methods and routes that add items to the queue."""


def max_body_bytes(settings: Settings) -> int:
    """Return the largest JSON body, in bytes, of a document within the limits."""
    return ESCAPED * settings.max_document_bytes + max_beside_content(settings)


def max_beside_content(settings: Settings) -> int:
    """Return how many bytes of such a body may be something other than the content."""
    return ESCAPED * settings.max_metadata_bytes + MAX_JSON_BYTES


def max_body(path: str, settings: Settings) -> int:
    """Return the limit, in bytes, of a body sent to `path`, and of what it unpacks to."""
    path = without_collection(path)
    if path.startswith(f"{DOCUMENTS}/bulk"):
        return settings.max_upload_bytes
    if path.startswith(f"{NOTES}/bulk"):
        return MAX_NOTES_BYTES
    if path == FILES:
        return largest_file(settings) + MAX_JSON_BYTES
    return max_body_bytes(settings) if path.startswith(DOCUMENTS) else MAX_JSON_BYTES


class QueueLimit:
    """Limit of the documents that wait for the workers, by number and bytes."""

    def __init__(self, settings: Settings) -> None:
        self._items = settings.max_queue_items
        self._bytes = settings.max_queue_bytes
        # By collection, while it has many jobs.
        self._counted: dict[str, tuple[Waiting, float]] = {}

    def check(self, jobs: Jobs, collection_id: str) -> None:
        """Raise a 429 problem if the queue of a collection is full. An upload accepted before that may exceed
        the limit."""
        if not self._items and not self._bytes:
            return
        waiting = self._waiting(jobs, collection_id)
        if not (
            (self._items and waiting.items >= self._items) or (self._bytes and waiting.bytes >= self._bytes)
        ):
            return
        raise ProblemError(
            429,
            f"the queue is full: {waiting.items:,} documents wait for the workers; nothing of this request "
            "was stored; send it again later",
            code="queue_full",
            headers={"Retry-After": str(QUEUE_RETRY_SECONDS)},
        )

    def _waiting(self, jobs: Jobs, collection_id: str) -> Waiting:
        now = time.monotonic()
        counted = self._counted.get(collection_id)
        if counted is not None and now - counted[1] < COUNT_AGE_SECONDS:
            return counted[0]
        waiting = jobs.backlog()
        self._counted.pop(collection_id, None)
        if waiting.jobs > MANY_JOBS:
            if len(self._counted) >= MAX_COUNTED:
                self._counted.clear()
            self._counted[collection_id] = (waiting, now)
        return waiting


def check_queue(jobs: Jobs, collection_id: str) -> None:
    """Raise a 429 problem if the queue of a collection is full. For views that let their request into it."""
    queue: QueueLimit = flask.current_app.extensions[QUEUE]
    queue.check(jobs, collection_id)


def register(app: flask.Flask, library: Callable[[], tuple[Jobs, str]], settings: Settings) -> None:
    """Check the URL and the queue limit of each request before its body is read, and limit and unpack its
    body.

    `library` returns the jobs of the collection of the request, and its id.
    """
    queue = app.extensions[QUEUE] = QueueLimit(settings)

    @app.before_request
    def check_address() -> None:
        try:
            flask.request.query_string.decode()
        except UnicodeDecodeError:
            raise ProblemError(400, "the URL is not UTF-8; write other bytes as %XX") from None

    @app.before_request
    def check_queue() -> None:
        request = flask.request
        rule = request.url_rule
        if rule is None or (request.method, rule.rule) not in FILLS_QUEUE:
            return
        jobs, collection_id = library()
        key = request.headers.get("Idempotency-Key")
        # A repeated request returns its accepted job even while the queue is full.
        if key is None or jobs.by_key(key) is None:
            queue.check(jobs, collection_id)

    @app.before_request
    def receive_body() -> None:
        request = flask.request
        request.max_content_length = max_body(request.path, settings)
        flask.g.unpacked = unpack_body(request, settings)

    @app.teardown_request
    def close_body(_error: BaseException | None) -> None:
        unpacked = flask.g.pop("unpacked", None)
        if unpacked is not None:
            unpacked.close()
