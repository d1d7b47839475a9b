"""The service on a real socket with a worker, in the process of the test: fast to start, stop and restart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.stages.runner import handlers_for, process
from shoal_api import create_app

HOST = "127.0.0.1"
READ_OF_A_CUT = 100_000
"""Bytes of a body that arrive before its connection is cut."""


class LiveService:
    """A library behind HTTP. A worker runs only within `working()`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.app = create_app(engine.settings, engine=engine)
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""
        self.cuts = 0
        """Number of next requests whose connection is cut during the body or the response."""
        self._handlers = handlers_for(engine.database, engine.scorer, engine.settings)
        self._server: BaseWSGIServer | None = None
        self._serving: threading.Thread | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Start serving, at the same port as before if there was one."""
        self._server = make_server(HOST, self._port, self._record_and_serve, threaded=True)
        self._port = self._server.server_port
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._serving.start()

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None and self._serving is not None:
            self._server.shutdown()
            self._serving.join()
            self._server.server_close()
            self._server = None

    def _record_and_serve(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        if self.cuts:
            self.cuts -= 1
            environ["wsgi.input"].read(READ_OF_A_CUT)
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return self.app(environ, start_response)

    def work(self) -> None:
        """Process all open items."""
        while batch := claim(self.engine.database, new_owner(), self.engine.settings):
            process(batch, self.engine.database, self._handlers, self.engine.settings)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run a worker beside the service, as in production."""
        ended = threading.Event()

        def keep_working() -> None:
            while not ended.wait(0.02):
                self.work()

        thread = threading.Thread(target=keep_working, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def live(engine: Engine) -> Iterator[LiveService]:
    service = LiveService(engine)
    try:
        yield service
    finally:
        service.stop()
