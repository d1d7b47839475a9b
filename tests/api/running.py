"""The service in its own process, on a real socket."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.settings import Settings

PATIENCE = 120
"""Timeout in seconds for any step of a process; on an idle machine a step takes a second or two."""


def environment_of(settings: Settings, home: Path) -> dict[str, str]:
    """Return the environment of a service; `home` is created."""
    home.mkdir()
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name != "XDG_RUNTIME_DIR" and not name.startswith("SHOAL_")
        },
        "HOME": str(home),
        "SHOAL_PORT": "0",
        "SHOAL_LOG_FORMAT": "json",
        **settings.environment(),
    }


def request(line: str, body: bytes = b"", *headers: str) -> bytes:
    """Return the bytes of a request, for example of `GET /health`."""
    head = [f"{line} HTTP/1.1", "Host: localhost", *headers]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def read_response(connection: socket.socket) -> bytes:
    """Read the next response of a connection: its head, and a body with a Content-Length."""
    response = b""
    while b"\r\n\r\n" not in response and (data := connection.recv(65536)):
        response += data
    head, _, body = response.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)^content-length: *(\d+)\r?$", head, re.MULTILINE)
    missing = int(length.group(1)) - len(body) if length else 0
    while missing > 0 and (data := connection.recv(missing)):
        response += data
        missing -= len(data)
    return response


class Running:
    """A started service and the lines of its log."""

    def __init__(self, environment: Mapping[str, str], folder: Path, program: str = "") -> None:
        """`program`: Python code that runs instead of the module."""
        command = ["-c", program] if program else ["-m", "shoal_api"]
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self.url = ""
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"http://[^\"]+:\d+", line):
                self.url = self.url or match.group()
                self._listening.set()
        self._listening.set()

    def wait(self) -> Running:
        assert self._listening.wait(PATIENCE), "".join(self.lines)
        assert self.url, "".join(self.lines)
        return self

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code

    def end(self) -> None:
        """Kill the process if it is still running."""
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]
