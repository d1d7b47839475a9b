"""A server on a real socket with prepared responses, for tests of clients."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

BROKEN = 0
"""In place of a status: the connection is closed without a response."""

PROGRESS = {"total": 2, "done": 2, "failed": 1, "duplicate": 0, "bytes_total": 9, "bytes_done": 9}
JOB: dict[str, Any] = {
    "id": 7,
    "kind": "ingest",
    "status": "partial",
    "stage": None,
    "error": None,
    "progress": PROGRESS,
    "created_at": "2026-01-31T00:00:00.000Z",
    "started_at": None,
    "finished_at": None,
}

Response = tuple[int, dict[str, str], Any]


def problem(status: int, detail: str, **headers: str) -> Response:
    """Make a problem response like those of the service."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return (status, names, {"title": "a problem", "detail": detail, "status": status})


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Sends the prepared responses in order, and repeats the last one."""

    protocol_version = "HTTP/1.1"
    prepared: list[Response]
    requests: list[ReceivedRequest]

    def _respond(self) -> None:
        body = self._body()
        self.requests.append(ReceivedRequest(self.command, self.path, dict(self.headers), body))
        status, headers, content = self.prepared.pop(0) if len(self.prepared) > 1 else self.prepared[0]
        if status == BROKEN:
            self.close_connection = True
            return
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        pass


class ScriptedService:
    def __init__(self) -> None:
        self._handler = type("Handler", (_Handler,), {"prepared": [], "requests": []})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def will_respond(self, *responses: Response) -> None:
        self._handler.prepared[:] = responses

    @property
    def requests(self) -> list[ReceivedRequest]:
        return self._handler.requests

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def scripted() -> Iterator[ScriptedService]:
    service = ScriptedService()
    try:
        yield service
    finally:
        service.close()
