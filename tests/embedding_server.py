"""An OpenAI-compatible endpoint of embeddings on a real socket, which answers as a test says."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

DRIP_SECONDS = 0.05


def vector_of(text: str) -> list[float]:
    """Return a vector of 4 numbers that depends on the length of a text."""
    return [1.0, float(len(text)), 0.5, -1.0]


@dataclass
class Answer:
    """One answer. `make`: the vectors or the whole body for the texts; `wait`: seconds before it; `drips`: sent byte
    by byte; `cut`: the connection breaks off after so many bytes."""

    make: Callable[[Sequence[str]], Any] = lambda texts: [vector_of(text) for text in texts]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    drips: bool = False
    cut: int | None = None

    def body(self, texts: Sequence[str]) -> bytes:
        made = self.make(texts)
        if isinstance(made, bytes):
            return made
        items = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(made)]
        return json.dumps({"object": "list", "data": items, "model": "m"}).encode()


@dataclass
class EmbeddingServer:
    """`answers` are sent in order, the last one again and again; `requests` are those received."""

    url: str
    answers: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [request["input"] for request in self.requests]


@contextmanager
def embedding_server(*answers: Answer) -> Iterator[EmbeddingServer]:
    """Run an endpoint that sends `answers`; without any, a vector for each text."""
    stopping = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append(request)
            state.headers.append(dict(self.headers))
            state.paths.append(self.path)
            answer = state.answers[min(len(state.requests), len(state.answers)) - 1]
            stopping.wait(answer.wait)
            data = answer.body(request["input"])
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(data)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for i in range(len(data) if answer.drips else 0):
                    self.wfile.write(data[i : i + 1])
                    if stopping.wait(DRIP_SECONDS):
                        return
                self.wfile.write(b"" if answer.drips else data[: answer.cut])
            except OSError:
                return  # the client has gone

        def log_message(self, *_: Any) -> None:
            """Keep the output of tests clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = EmbeddingServer(f"http://127.0.0.1:{server.server_address[1]}/v1", list(answers) or [Answer()])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
