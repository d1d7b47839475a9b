"""A small HTTP server on loopback that answers as a test says, one connection at a time or several."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Answer = Callable[[socket.socket, str, dict[str, str]], None]
"""Writes the answer to a request with this target and these headers, named in lower case."""


def response(
    body: bytes = b"", status: str = "200 OK", *, length: int | None = None, **headers: str
) -> bytes:
    """Return a whole answer; `_` in the name of a header stands for `-`."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class WebServer:
    """`answers` by path; unknown paths are 404. `requests`: target and headers of each; `bodies`: what
    followed them."""

    port: int
    answers: dict[str, Answer | bytes] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: str | bytes, **headers: str) -> str:
        """Serve a page and return its URL. With an ETag, its version is compared."""
        data = body.encode() if isinstance(body, str) else body
        whole = response(data, **{"Content_Type": "text/plain; charset=utf-8", **headers})

        def answer(connection: socket.socket, target: str, given: dict[str, str]) -> None:
            is_known = "ETag" in headers and given.get("if-none-match") == headers["ETag"]
            is_known |= (
                "Last_Modified" in headers and given.get("if-modified-since") == headers["Last_Modified"]
            )
            connection.sendall(response(status="304 Not Modified") if is_known else whole)

        self.answers[path] = answer
        return self.url(path)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(20)
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            first, *lines = head.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
            target = first.split(" ")[1]
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            body = head.partition(b"\r\n\r\n")[2]
            while len(body) < int(headers.get("content-length", 0)):
                body += connection.recv(65536)
            self.bodies.append(body)
            self.requests.append((target, headers))
            answer = self.answers.get(target.partition("?")[0], response(status="404 Not Found"))
            if callable(answer):
                answer(connection, target, headers)
            else:
                connection.sendall(answer)


@contextlib.contextmanager
def running(host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    """Run a server at a free port; with a `context` it speaks TLS."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        server = WebServer(listener.getsockname()[1])

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                server._serve(connection)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            # Closing alone does not end an accept that waits.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
