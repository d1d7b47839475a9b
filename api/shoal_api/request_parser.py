"""Strict parsing of request heads, and all checks before a body is read.

waitress receives the whole body, into a file if it is large, before a thread handles the request. So this
module checks everything that depends on the head alone: its form, the declared length and the key. A caller
without a key therefore cannot fill the disk.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from waitress import utilities
from waitress.parser import HTTPRequestParser
from waitress.receiver import ChunkedReceiver

from shoal.errors import StorageError
from shoal.service.connection_limits import MAX_HEADER, status_of_head
from shoal.service.process_setup import TOO_MANY_FILES
from shoal.settings import Settings
from shoal.support.byte_units import KIB
from shoal_api.access import Gate
from shoal_api.limits import max_body
from shoal_api.problems import CONTENT_TYPE, DETAILS, ProblemError, code_of_status, for_error
from shoal_api.spool import DISK_FULL
from shoal_api.trace import SECURITY_HEADERS

MAX_CHUNK_LINE = KIB
"""Most bytes of the line that begins a chunk. waitress buffers the line in memory until it is complete."""
MAX_TRAILER = MAX_HEADER

SMALL_CHUNKS_FROM = 8 * KIB
MIN_CHUNK_SHARE = 0.25
"""From SMALL_CHUNKS_FROM bytes on, this share of a chunked body must be content. Chunks of one byte, a share
of 1/6, would occupy the one thread that reads all requests."""


@dataclass
class Refusal(utilities.Error):  # type: ignore[misc]
    """An error response sent in place of the application.

    `code` is the status, as waitress expects it. `detail` is written for the caller. `problem_code` is the
    code in the body; the default depends on the status.
    """

    code: int
    detail: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    problem_code: str | None = None
    trace_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return the status line, headers and body."""
        phrase = HTTPStatus(self.code).phrase
        body = {
            "type": "about:blank",
            "title": phrase,
            "status": self.code,
            "code": self.problem_code or code_of_status(self.code),
            "detail": self.detail or DETAILS.get(self.code, phrase.lower()),
            "trace_id": self.trace_id,
        }
        headers = {
            "Content-Type": CONTENT_TYPE,
            "X-Trace-Id": self.trace_id,
            **SECURITY_HEADERS,
            **self.headers,
        }
        return f"{self.code} {phrase}", list(headers.items()), json.dumps(body).encode()


class Admission:
    """Decides which bodies are received: by the size limit of the route and by the key of the request."""

    def __init__(self, settings: Settings, gate: Gate | None = None) -> None:
        """`gate`: of the application that gets the requests; by default one for these settings."""
        self._gate = gate or Gate.of(settings)
        self._settings = settings

    def max_body(self, path: str) -> int:
        """Return the size limit, in bytes, for a body sent to `path`."""
        return max_body(path, self._settings)

    def check(self, method: str, path: str, authorization: str | None) -> Refusal | None:
        """Return a refusal if the key is missing, invalid or lacks the right, else None."""
        try:
            self._gate.check(method, path, authorization)
        except StorageError as error:
            problem = for_error(error)
        except ProblemError as refused:
            problem = refused
        else:
            return None
        return Refusal(problem.status, problem.detail, problem.headers, problem.code)


class RequestParser(HTTPRequestParser):  # type: ignore[misc]
    """A stricter version of waitress's parser. It reads its Admission from `adj.admission`."""

    max_body = 0
    error: utilities.Error | None = None

    def received(self, data: bytes) -> int:
        """Process the next bytes; return how many belong to this request. Sets `error` and `completed` to
        refuse it."""
        try:
            consumed: int = super().received(data)
        except OSError as error:
            status = 507 if error.errno in DISK_FULL else 503 if error.errno in TOO_MANY_FILES else None
            if status is None:
                raise
            self.error, consumed = Refusal(status), len(data)
        if self.body_bytes_received and not isinstance(self.error, Refusal):
            self.error = (
                Refusal(400, "the chunked encoding of the body is malformed")
                if self.error
                else self._check_body()
            )
        if self.error is not None:
            # Otherwise waitress would send `100 Continue` and wait for the body.
            self.expect_continue = False
            self.completed = True
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        """Parse a head; set `error` to refuse the request. Raises waitress's ParsingError."""
        refusal = _check_form(header_plus)
        super().parse_header(header_plus)
        self.max_body = self.adj.admission.max_body(self.path)
        self.error = refusal or self._check_head()

    def _check_head(self) -> Refusal | None:
        headers: dict[str, str] = self.headers
        has_length = "CONTENT_LENGTH" in headers
        if (
            self.version not in ("1.0", "1.1")
            or "TRANSFER_ENCODING" in headers
            or (self.chunked and has_length)
        ):
            return Refusal(400)
        if headers.get("EXPECT", "100-continue").lower() != "100-continue":
            return Refusal(417)
        if self.content_length > self.max_body:
            return Refusal(413)
        if not (self.content_length or self.chunked):
            return None
        admission: Admission = self.adj.admission
        return admission.check(self.command, self.path, headers.get("AUTHORIZATION"))

    def _check_body(self) -> Refusal | None:
        if self.body_bytes_received > self.max_body:
            return Refusal(413)
        chunks = self.body_rcv
        if not isinstance(chunks, ChunkedReceiver):
            return None
        if len(chunks.control_line) > MAX_CHUNK_LINE or len(chunks.trailer) > MAX_TRAILER:
            return Refusal(400)
        is_large = self.body_bytes_received > SMALL_CHUNKS_FROM
        if is_large and len(chunks) < MIN_CHUNK_SHARE * self.body_bytes_received:
            return Refusal(400, "the chunks of the body are too small; send chunks of at least 1 KiB")
        return None


def _check_form(head: bytes) -> Refusal | None:
    """Return a refusal of a head that is too long or that proxies may interpret differently, else None."""
    request_line, *lines = head.split(b"\r\n")
    headers = [(name, value) for name, _, value in (line.partition(b":") for line in lines if line)]
    status = status_of_head(len(request_line), headers)
    if status is not None:
        return Refusal(status)
    is_folded = any(line.startswith((b" ", b"\t")) for line in lines)
    has_codings = any(name.lower() == b"transfer-encoding" and b"," in value for name, value in headers)
    return Refusal(400) if is_folded or has_codings else None


def refusal_of(error: Any) -> Refusal:
    """Return an error of waitress as a Refusal."""
    return error if isinstance(error, Refusal) else Refusal(error.code)
