"""An OpenAI-compatible chat endpoint on a real socket, which answers as a test says."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

DRIP_SECONDS = 0.05


@dataclass
class Reply:
    """One answer. `content`: of the message, or the whole body if `is_raw`; `drips`: sent byte by byte;
    `cut`: the connection breaks off after so many bytes."""

    content: Any = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str | None = "stop"
    is_raw: bool = False
    wait: float = 0.0
    drips: bool = False
    cut: int | None = None

    def body(self) -> bytes:
        content = self.content if isinstance(self.content, str) else json.dumps(self.content)
        if self.is_raw or self.status != 200:
            return content.encode()
        message = {"role": "assistant", "content": content}
        return json.dumps({"choices": [{"message": message, "finish_reason": self.finish_reason}]}).encode()


Answer = str | int
"""The text of an answer, or the status of an error."""
Answering = Callable[[dict[str, Any]], Answer]


@dataclass
class ChatServer:
    """`replies` are sent in order, the last one again and again; `requests` are those received. With
    `answer`, its result for the JSON object of a request is sent instead."""

    url: str
    replies: list[Reply]
    answer: Answering | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The JSON objects of all requests."""
        return [self.sent_text(number) for number in range(len(self.requests))]

    def sent_text(self, number: int = -1) -> dict[str, Any]:
        """The JSON object in a request."""
        value: dict[str, Any] = json.loads(self.requests[number]["messages"][1]["content"])
        return value

    def reply(self) -> Reply:
        """The reply to the last request."""
        if self.answer is None:
            return self.replies[min(len(self.requests), len(self.replies)) - 1]
        given = self.answer(self.sent_text())
        return Reply(status=given) if isinstance(given, int) else Reply(given)


@contextmanager
def chat_server(*replies: Reply, answer: Answering | None = None) -> Iterator[ChatServer]:
    """Run an endpoint that sends `replies`, or what `answer` returns."""
    stopping = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(json.loads(body))
            state.headers.append(dict(self.headers))
            state.paths.append(self.path)
            reply = state.reply()
            stopping.wait(reply.wait)
            data = reply.body()
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                if reply.drips:
                    for i in range(len(data)):
                        self.wfile.write(data[i : i + 1])
                        if stopping.wait(DRIP_SECONDS):
                            return
                self.wfile.write(data[: reply.cut])
            except OSError:
                time.sleep(0)  # the client has gone

        def log_message(self, *_: Any) -> None:
            """Keep the output of tests clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1", list(replies), answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
