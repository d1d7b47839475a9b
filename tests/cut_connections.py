"""A port that forwards to a server, and whose connections can be cut."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class CutableServer:
    """A port that forwards to a server until it is cut: then connections break and new ones are refused."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.port = 0
        self._last: bytes | None = None
        self._is_cut_after_last = False
        self.reconnect()

    def reconnect(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            # A thread that accepts would keep the port open.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def break_off_at(self, message: bytes, *, for_good: bool = False) -> None:
        """Let the server get the next data that contains `message`, wait for its answer, and close that
        connection without it; `for_good`: then cut all."""
        self._last, self._is_cut_after_last = message, for_good

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                self._open += [near, far]
                threading.Thread(target=self._forward, args=(near, far), daemon=True).start()

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        """Copy both ways until one end closes."""
        with near, far, contextlib.suppress(OSError, ValueError):
            while True:
                for end in select.select([near, far], [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    if end is near and self._last is not None and self._last in data:
                        self._last = None
                        far.sendall(data)
                        far.recv(65536)
                        if self._is_cut_after_last:
                            self.cut()
                        return
                    (far if end is near else near).sendall(data)
