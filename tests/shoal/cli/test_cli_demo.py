"""`shoal demo` without a usable service: the error says how to start one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from shoal.cli import demo
from shoal.cli.app import run
from shoal.client import Client

NO_SERVICE = (
    'import sys; print(\'{\\n"url": "http://127.0.0.1:9"\\n}\'); sys.stderr.write("the last line\\n")'
)
NO_START = 'import sys; sys.stderr.write("no space left on device\\n")'


def _replace_service(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def start(_folder: Path, log_file: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=log_file)

    monkeypatch.setattr(demo, "_start_service", start)
    defaults = {**Client.__init__.__kwdefaults__, "patience": 0.0}
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", defaults)


@pytest.mark.parametrize(
    ("code", "reason", "log"),
    [
        (NO_SERVICE, "`shoal demo` cannot reach its service", "the last line"),
        (NO_START, "`shoal demo` could not start its service", "no space left on device"),
    ],
    ids=["unreachable", "not started"],
)
def test_demo_error_names_the_command_and_how_to_start_a_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, reason: str, log: str
) -> None:
    _replace_service(monkeypatch, code)
    assert run(["demo"]) == 1
    assert capsys.readouterr().err == (
        f"error: {reason}; run `shoal demo` again, or start a service with `shoal up`. "
        f"The end of the log:\n{log}\n"
    )
