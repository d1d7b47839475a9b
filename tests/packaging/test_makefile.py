"""`make help` and CONTRIBUTING.md list exactly the targets of the Makefile."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTER_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}


def _targets() -> set[str]:
    """Return the phony targets of the Makefile, which people call."""
    [declared] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return set(declared.split())


def _make(*arguments: str, folder: Path = ROOT) -> str:
    """Run make and return its output, also within `make test`."""
    environment = {name: value for name, value in os.environ.items() if name not in OUTER_MAKE}
    made = subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return made.stdout


def test_help_lists_every_target_with_what_it_does() -> None:
    listed = dict(line.split(maxsplit=1) for line in _make("help").splitlines())
    assert set(listed) == _targets()
    assert _make() == _make("help"), "help is the default target"


def test_contributing_documents_every_target() -> None:
    documented = set(re.findall(r"`?make ([a-z-]+)\b", (ROOT / "CONTRIBUTING.md").read_text()))
    assert documented - _targets() == set()
    assert _targets() - documented == {"help", "run"}, "help is the default; README documents `make run`"


@pytest.mark.parametrize(
    "left", ["build/site/index.html", "dist/shoal.whl", ".venv/pyvenv.cfg", "shoal/__pycache__/a.pyc"]
)
def test_clean_removes_only_generated_files(tmp_path: Path, left: str) -> None:
    for name in ("Makefile", "shoal/engine.py", "shoal.db", left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / "Makefile").read_bytes() if name == "Makefile" else b"")
    _make("clean", folder=tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        "Makefile",
        "shoal/engine.py",
        "shoal.db",
    }
