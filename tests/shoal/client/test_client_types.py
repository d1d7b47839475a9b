"""Both clients have precise types, although each operation is written once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.mark.slow
def test_mypy_checks_arguments_and_results_of_both_clients() -> None:
    mypy = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(PROGRAM.relative_to(ROOT))],
        cwd=ROOT, capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert mypy.returncode == 0, mypy.stdout
