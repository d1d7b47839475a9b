"""A client of a running service: upload in bulk, follow jobs, search.

    with Client("http://127.0.0.1:8000") as client:
        job = client.upload([UploadFile.of(path) for path in paths], tags=["books"])
        job = client.wait_for_job(job["id"])

Answers are the JSON of the HTTP API as dicts. Memory does not grow with an upload: files are read from disk as
the connection takes them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import httpx

from shoal.errors import ShoalError

API = "/api/v1"
CHUNK_BYTES = 256 * 1024
"""How much of a file is read at a time; also how often progress is reported."""
LONG_POLL_SECONDS = 10
"""How long a request for a job's state may wait at the server for a change."""
MIN_POLL_SECONDS = 0.1
"""Shortest time between two looks at a job that keeps changing; fast enough for a smooth progress bar."""
PATIENCE_SECONDS = 30.0
"""How long a service that does not answer is asked again, while a job is followed. A restart takes less."""
KEY_HINT = "commands take it from SHOAL_API_KEY or --key"
ARCHIVES = {".zip": "application/zip", ".tar.gz": "application/gzip", ".tgz": "application/gzip"}
ENDED = ("succeeded", "partial", "failed", "canceled")

Sent = Callable[[int], None]
Seen = Callable[[Mapping[str, Any]], None]


class ClientError(ShoalError):
    """The service refused a request or could not be reached. `status` is None where there was no answer; `retry_after`
    is how many seconds the service asks to wait, 0 where it says nothing of that."""

    def __init__(self, message: str, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after

    @property
    def is_away(self) -> bool:
        """Whether the service could not be reached or cannot do its work now, rather than refused."""
        return self.status in (
            None,
            httpx.codes.TOO_MANY_REQUESTS,
            httpx.codes.BAD_GATEWAY,
            httpx.codes.SERVICE_UNAVAILABLE,
        )


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file to send: where it is, the name it goes by, its size in bytes when it was looked at."""

    path: Path
    name: str
    size: int

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> UploadFile:
        """Look at a file, named `name` or as its path is written. Raises OSError if it cannot be read."""
        with path.open("rb") as file:
            size = file.seek(0, 2)
        return cls(path, name or path.as_posix(), size)


class Client:
    """One service. Not to be shared between threads."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        timeout: float = 60.0,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`server` is the address up to the port, such as `http://127.0.0.1:8000`; `key` is one of the service's API
        keys, where it has any; `timeout` in seconds a step."""
        self.server = (server if "://" in server else f"http://{server}").rstrip("/")
        self._patience = patience
        if key and not (key.isascii() and key.isprintable()):
            raise ClientError("this is no API key: it holds characters that no key has")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._http = httpx.Client(base_url=self.server, timeout=timeout, headers=headers)
        except (httpx.InvalidURL, ValueError) as error:
            raise ClientError(f"{server!r} is not the address of a service") from error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # In

    def upload(
        self, files: Sequence[UploadFile], *, tags: Sequence[str] = (), sent: Sent | None = None
    ) -> dict[str, Any]:
        """Send files as one job and return it. `sent` is told the bytes of files as they leave.

        Raises ClientError if the service does not take them; nothing is accepted then.
        """
        body = MultipartBody(files, fields=[("tags", tag) for tag in tags], sent=sent)
        headers = {"Content-Type": body.content_type, "Content-Length": str(body.length)}
        return self._create("/documents/bulk", content=iter(body), headers=headers)

    def upload_archive(
        self, file: UploadFile, *, tags: Sequence[str] = (), sent: Sent | None = None
    ) -> dict[str, Any]:
        """Send a zip archive, or a tar archive compressed by gzip, as one job and return it. Raises as `upload`, and
        ClientError for a file that by its name is neither."""
        media_type = archive_type(file.path)
        if media_type is None:
            raise ClientError(f"{file.path} is no archive that is taken: {', '.join(ARCHIVES)}")
        query = urlencode({"tags": ",".join(tags)}) if tags else ""
        headers = {"Content-Type": media_type, "Content-Length": str(file.size)}
        content = content_of(file, sent or (lambda _n: None))
        return self._create(f"/documents/bulk?{query}".rstrip("?"), content=content, headers=headers)

    def upload_documents(self, lines: Iterable[bytes]) -> dict[str, Any]:
        """Send documents as NDJSON, one to a line as `POST /documents` takes them, as one job; return it."""
        return self._create(
            "/documents/bulk", content=iter(lines), headers={"Content-Type": "application/x-ndjson"}
        )

    # Jobs

    def job(self, job_id: int) -> dict[str, Any]:
        return self._ask(f"/jobs/{job_id}")

    def jobs(self, *, status: str | None = None, limit: int = 20, offset: int = 0) -> dict[str, Any]:
        """A page of the jobs, the newest first."""
        return self._ask("/jobs", {"status": status, "limit": limit, "offset": offset})

    def items(
        self, job_id: int, *, status: str | None = None, limit: int = 100, offset: int = 0
    ) -> dict[str, Any]:
        """A page of a job's items."""
        return self._ask(f"/jobs/{job_id}/items", {"status": status, "limit": limit, "offset": offset})

    def rescore(self) -> dict[str, Any]:
        """Have the service learn its words afresh and bring every chunk up to date; the job."""
        return self._create(
            "/jobs",
            content=iter([b'{"kind": "rescore"}']),
            headers={"Content-Type": "application/json"},
        )

    def cancel_job(self, job_id: int) -> dict[str, Any]:
        """Cancel what has not ended of a job; the job. Raises ClientError where it has ended."""
        job: dict[str, Any] = self._send(f"/jobs/{job_id}/cancel", {})["job"]
        return job

    def retry_job(self, job_id: int) -> dict[str, Any]:
        """Try the failed items of a job again; the job. Raises ClientError where there is nothing to try again."""
        job: dict[str, Any] = self._send(f"/jobs/{job_id}/retry", {})["job"]
        return job

    def wait_for_job(self, job_id: int, *, seen: Seen | None = None) -> dict[str, Any]:
        """Follow a job to its end. `seen` is told every state on the way and the last one.

        A service that is away for less than the client's patience (it restarts, say) is waited for.
        """
        job: dict[str, Any] = {}
        etag = None
        while True:
            began = time.monotonic()
            # The first look does not wait; later ones wait for something other than what was seen.
            answer = self._get(
                f"/jobs/{job_id}",
                {"wait": LONG_POLL_SECONDS} if etag else {},
                {"If-None-Match": etag} if etag else {},
            )
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                job, etag = _object(answer), answer.headers.get("ETag")
                if seen:
                    seen(job)
            if job.get("status") in ENDED:
                return job
            time.sleep(max(0.0, MIN_POLL_SECONDS - (time.monotonic() - began)))

    # Out

    def search(self, query: str, **arguments: Any) -> dict[str, Any]:
        """As `POST /search`; `arguments` are its other fields."""
        return self._send("/search", {"query": query, **arguments})

    def explain(self, query: str, **arguments: Any) -> dict[str, Any]:
        """As `POST /explain`."""
        return self._send("/explain", {"query": query, **arguments})

    def documents(
        self, *, tag: str | None = None, q: str | None = None, limit: int = 50, offset: int = 0
    ) -> dict[str, Any]:
        """A page of the documents: those with the tag, and with `q` in title or source path."""
        return self._ask("/documents", {"tag": tag, "q": q, "limit": limit, "offset": offset})

    def document(self, document_id: int) -> dict[str, Any]:
        """A document with its sections and report."""
        return self._ask(f"/documents/{document_id}")

    def content(self, document_id: int) -> str:
        """The text of a document, in which the offsets of results count."""
        with self._reaching():
            return _checked(self._http.get(f"{API}/documents/{document_id}/content")).text

    def status(self) -> dict[str, Any]:
        return self._ask("/status")

    # The wire

    def _create(self, path: str, *, content: Iterator[bytes], headers: dict[str, str]) -> dict[str, Any]:
        """POST a body that makes a job; the job."""
        headers["Idempotency-Key"] = str(uuid.uuid4())
        with self._reaching():
            answer = self._http.post(API + path, content=content, headers=headers)
        body = _object(_checked(answer))
        job: dict[str, Any] = body.get("job", body)
        return job

    def _send(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        with self._reaching():
            return _object(_checked(self._http.post(API + path, json=dict(body))))

    def _ask(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        with self._reaching():
            return _object(_checked(self._http.get(API + path, params=_given(query or {}))))

    def _get(self, path: str, query: Mapping[str, Any], headers: Mapping[str, str]) -> httpx.Response:
        """GET, asked again while the service is away. Raises ClientError once patience has run out."""
        deadline = time.monotonic() + self._patience
        pause = MIN_POLL_SECONDS
        while True:
            try:
                with self._reaching():
                    answer = self._http.get(API + path, params=dict(query), headers=dict(headers))
                return answer if answer.status_code == httpx.codes.NOT_MODIFIED else _checked(answer)
            except ClientError as error:
                wait = max(pause, error.retry_after)
                if not error.is_away or time.monotonic() + wait > deadline:
                    raise
            time.sleep(wait)
            pause = min(pause * 2, 2.0)

    def _reaching(self) -> _Reaching:
        return _Reaching(self.server)


class _Reaching:
    """Turns a failure on the way to the server into a ClientError that says where it was going."""

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, httpx.ConnectError):
            raise ClientError(
                f"no service answers at {self._server}; `shoal up` starts one on this machine"
            ) from error
        if isinstance(error, httpx.TimeoutException):
            raise ClientError(f"{self._server} took too long to answer") from error
        if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
            raise ClientError(f"the connection to {self._server} failed: {error}") from error


class MultipartBody:
    """A `multipart/form-data` body read from disk while it is sent; every file becomes a part named `files`.

    httpx can send files too, but opens all of them at once, which a folder of 100,000 notes would not survive.
    """

    def __init__(
        self,
        files: Sequence[UploadFile],
        *,
        fields: Sequence[tuple[str, str]] = (),
        sent: Sent | None = None,
    ) -> None:
        self._boundary = uuid.uuid4().hex
        self._files = files
        self._fields = fields
        self._sent = sent or (lambda _n: None)

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self._boundary}"

    @property
    def length(self) -> int:
        """Bytes of the whole body. Known before it is sent, so that a server can refuse it at once."""
        fields = sum(len(self._field(name, value)) for name, value in self._fields)
        files = sum(len(self._head(file)) + file.size + len(b"\r\n") for file in self._files)
        return fields + files + len(self._end())

    def __iter__(self) -> Iterator[bytes]:
        """Raises ClientError where a file is not what it was when it was looked at, OSError if it has gone."""
        for name, value in self._fields:
            yield self._field(name, value)
        for file in self._files:
            yield self._head(file)
            yield from content_of(file, self._sent)
            yield b"\r\n"
        yield self._end()

    def _field(self, name: str, value: str) -> bytes:
        return self._part(f'form-data; name="{_quoted(name)}"', "") + value.encode() + b"\r\n"

    def _head(self, file: UploadFile) -> bytes:
        return self._part(
            f'form-data; name="files"; filename="{_quoted(file.name)}"',
            "Content-Type: application/octet-stream\r\n",
        )

    def _part(self, disposition: str, more: str) -> bytes:
        head = f"--{self._boundary}\r\nContent-Disposition: {disposition}\r\n{more}\r\n"
        return head.encode("utf-8", "replace")

    def _end(self) -> bytes:
        return f"--{self._boundary}--\r\n".encode()


def content_of(file: UploadFile, sent: Sent) -> Iterator[bytes]:
    """A file piece by piece as it is sent. Raises ClientError where it is not what it was when it was looked at."""
    left = file.size
    with file.path.open("rb") as opened:
        while left:
            data = opened.read(min(CHUNK_BYTES, left))
            if not data:
                break
            left -= len(data)
            yield data
            sent(len(data))
        if left or opened.read(1):
            raise ClientError(f"{file.path} changed while it was being sent; nothing was uploaded")


def archive_type(path: Path) -> str | None:
    """The content type of a file that by its name is an archive the service takes apart; None for any other."""
    name = path.name.lower()
    return next((kind for suffix, kind in ARCHIVES.items() if name.endswith(suffix)), None)


def _quoted(name: str) -> str:
    """A parameter of Content-Disposition, escaped as browsers do (WHATWG HTML, multipart/form-data)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def _checked(answer: httpx.Response) -> httpx.Response:
    """The answer, unless it is an error: then a ClientError with what its problem document says."""
    if answer.is_success:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict) or not (problem.get("detail") or problem.get("title")):
        host = f"{answer.request.url.host}:{answer.request.url.port or 80}"
        raise ClientError(
            f"{host} answered {answer.status_code} {answer.reason_phrase}; is it a Shoal service?",
            answer.status_code,
        )
    fields = problem.get("errors") if isinstance(problem.get("errors"), dict) else {}
    reasons = [f"{name}: {_reasons(why)}" for name, why in (fields or {}).items()]
    message = "; ".join([str(problem.get("detail") or problem["title"]), *reasons])
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        message += f" ({KEY_HINT})"
    raise ClientError(message, answer.status_code, _retry_after(answer))


def _retry_after(answer: httpx.Response) -> float:
    """Seconds of `Retry-After`; 0 where it is absent or a date, which no service of ours sends."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0


def _reasons(why: Any) -> str:
    return ", ".join(str(reason) for reason in why) if isinstance(why, list) else str(why)


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ClientError(
            f"{answer.request.url.host} did not answer as a Shoal service does", answer.status_code
        )
    return body
