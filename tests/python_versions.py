"""Install a wheel under every supported Python found on this machine, try it in an empty folder, run the fast tests.

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


def build(folder: str) -> str:
    """A wheel of the checkout."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, "."], cwd=ROOT, check=True
    )
    [wheel] = Path(folder).glob("shoal-*.whl")
    return str(wheel)


def check(interpreter: str, wheel: str) -> bool:
    """Install the locked dependencies and the wheel for one interpreter; run the demonstration where there is nothing
    of the checkout, then the tests that are not slow."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        python = f"{folder}/bin/python"
        steps = (
            ([interpreter, "-m", "venv", folder], ROOT),
            ([python, "-m", "pip", "install", "-q", "-r", "requirements.lock"], ROOT),
            ([python, "-m", "pip", "install", "-q", "--no-deps", wheel], ROOT),
            ([f"{folder}/bin/shoal", "demo"], empty),
            ([python, "-m", "pip", "install", "-q", "-r", "requirements-dev.lock"], ROOT),
            ([python, "-m", "pytest", "-q", "-m", "not slow and not chaos"], ROOT),
        )
        return all(subprocess.run(step, cwd=cwd, check=False).returncode == 0 for step, cwd in steps)


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
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(folder)
        results = _results(wheel)
    sys.stdout.write("".join(f"Python {version}: {result}\n" for version, result in results.items()))
    return int("FAILED" in results.values() or "passed" not in results.values())


def _results(wheel: str) -> dict[str, str]:
    results: dict[str, str] = {}
    for version in sys.argv[1:] or SUPPORTED:
        interpreter = find(version)
        if interpreter is None:
            results[version] = "not on this machine"
        else:
            results[version] = "passed" if check(interpreter, wheel) else "FAILED"
    return results


if __name__ == "__main__":
    raise SystemExit(main())
