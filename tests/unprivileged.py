"""Running programs under file permissions, even when root runs the tests."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

REFUSED = 77
"""Exit code if the capabilities cannot be dropped; no command uses it."""

PR_CAPBSET_DROP = 24  # linux/prctl.h
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2  # linux/capability.h


def run_shoal(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of Shoal without root's capabilities to bypass file permissions."""
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", *map(str, arguments)],
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
