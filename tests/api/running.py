"""The service as a process of its own, on a real socket."""

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
"""Seconds for anything that a process does; it takes a second or two on an idle machine."""


def environment_of(settings: Settings, home: Path) -> dict[str, str]:
    """What a service is started with; `home` is made."""
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
    """A request as it is sent: `GET /health` and what goes with it."""
    head = [f"{line} HTTP/1.1", "Host: localhost", *headers]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def answer_of(connection: socket.socket) -> bytes:
    """The next answer on a connection: its head, and its body as far as its length is announced."""
    answer = b""
    while b"\r\n\r\n" not in answer and (data := connection.recv(65536)):
        answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    announced = re.search(rb"(?i)^content-length: *(\d+)\r?$", head, re.MULTILINE)
    missing = int(announced.group(1)) - len(body) if announced else 0
    while missing > 0 and (data := connection.recv(missing)):
        answer += data
        missing -= len(data)
    return answer


class Running:
    """A started service; its log is read to the end of its life."""

    def __init__(self, environment: Mapping[str, str], folder: Path, program: str = "") -> None:
        """`program` is run instead of the module, for a service that is changed before it starts."""
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
            if found := re.search(r"http://[^\"]+:\d+", line):
                self.url = self.url or found.group()
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
        """Stop whatever is left of it."""
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]
