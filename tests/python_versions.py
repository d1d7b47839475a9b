"""Run the fast tests under every supported Python found on this machine, each in an environment of its own.

python tests/python_versions.py        exit 1 if any of them fails; says which were not found
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).resolve().parents[1]


def check(interpreter: str) -> bool:
    """Install the locked dependencies and the project for one interpreter and run the tests that are not slow."""
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        steps = (
            [interpreter, "-m", "venv", folder],
            [python, "-m", "pip", "install", "-q", "-r", "requirements.lock", "-r", "requirements-dev.lock"],
            [python, "-m", "pip", "install", "-q", "--no-deps", "."],
            [python, "-m", "pytest", "-q", "-m", "not slow and not chaos"],
        )
        return all(subprocess.run(step, cwd=ROOT, check=False).returncode == 0 for step in steps)


def find(version: str) -> str | None:
    """An interpreter of that version which really runs: pyenv puts one on the PATH that may only print an error."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")))
    for candidate in (shutil.which(f"python{version}"), *installed):
        if (
            candidate
            and subprocess.run([candidate, "-c", ""], check=False, capture_output=True).returncode == 0
        ):
            return candidate
    return None


def main() -> int:
    results: dict[str, str] = {}
    for version in sys.argv[1:] or SUPPORTED:
        interpreter = find(version)
        if interpreter is None:
            results[version] = "not on this machine"
        else:
            results[version] = "passed" if check(interpreter) else "FAILED"
    sys.stdout.write("".join(f"Python {version}: {result}\n" for version, result in results.items()))
    return int("FAILED" in results.values() or "passed" not in results.values())


if __name__ == "__main__":
    raise SystemExit(main())
