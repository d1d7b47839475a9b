"""Programs that file permissions hold for, whoever runs the tests."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

REFUSED = 77
"""Exit code where the rights can't be given up; no command has it."""

PR_CAPBSET_DROP = 24  # linux/prctl.h
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2  # linux/capability.h


def run_shoal(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of Shoal without the rights to pass over file permissions that root has."""
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", *map(str, arguments)],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=_give_up_rights if os.geteuid() == 0 else None,
    )
    if done.returncode == REFUSED:
        pytest.skip("root may not give up its rights here")
    return done


def _give_up_rights() -> None:
    libc = ctypes.CDLL(None)
    for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0) != 0:
            os._exit(REFUSED)
