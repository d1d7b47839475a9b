"""Running programs under file permissions, even when root runs the tests."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

REFUSED = 77
"""Exit code if the capabilities cannot be dropped; no command uses it."""

PR_CAPBSET_DROP = 24  # linux/prctl.h
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2  # linux/capability.h


IN_ONE_PROCESS = """
import contextlib, io, json, sys
from shoal.cli.app import run
for arguments in json.loads(sys.argv[1]):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([arguments, code, *(stream.buffer.getvalue().decode() for stream in (out, err))]))
"""


def run_shoal(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of Shoal without root's capabilities to bypass file permissions."""
    return _run("-m", "shoal.cli", *map(str, arguments))


def run_commands(*commands: Sequence[object]) -> list[subprocess.CompletedProcess[str]]:
    """Run commands as `run_shoal` does, one after the other in one process, which starts faster than many."""
    done = _run("-c", IN_ONE_PROCESS, json.dumps([[*map(str, command)] for command in commands]))
    assert done.returncode == 0, done.stderr
    return [subprocess.CompletedProcess(*json.loads(line)) for line in done.stdout.splitlines()]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=_drop_capabilities if os.geteuid() == 0 else None,
    )
    if done.returncode == REFUSED:
        pytest.skip("root cannot drop its capabilities here")
    return done


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            os._exit(REFUSED)
