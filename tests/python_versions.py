"""Install a wheel under every supported Python on this machine, try it in an empty folder, and run the fast
tests.

python tests/python_versions.py [VERSION...]     exits with 1 if any version fails; reports missing versions
    --wheel-only    skip the tests of the checkout
    --newest        install the newest releases that the wheel allows, as pip does, not the locked ones;
                    only with --wheel-only, because the tests have their own lock
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).resolve().parents[1]
TYPED_CLIENT = ROOT / "tests" / "typed_client.py"
TYPE_ERRORS = ['Incompatible types in assignment (expression has type "float", variable has type "str")']
"""The errors that mypy must report for the typed client: its one mistake."""

Step = Callable[[], bool]


def build(folder: str) -> str:
    """Build a wheel of the checkout from its sdist, so that the published wheel can be rebuilt from the
    sdist."""
    build = [sys.executable, "-m", "build", "--outdir", folder]
    subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
    [wheel] = Path(folder).glob("shoal-*.whl")
    return str(wheel)


def steps(
    interpreter: str, wheel: str, environment: str, options: argparse.Namespace
) -> Iterator[tuple[str, Step]]:
    """Generate the steps for one interpreter in order; each returns whether it succeeded."""
    python = f"{environment}/bin/python"
    pip = [python, "-m", "pip", "install", "-q"]
    yield "venv", lambda: _runs([interpreter, "-m", "venv", environment])
    if options.newest:
        yield "pip install", lambda: _runs([*pip, wheel])
    else:
        yield "pip install of the lock", lambda: _runs([*pip, "-r", "requirements.lock"])
        yield "pip install", lambda: _runs([*pip, "--no-deps", wheel])
    yield "pip check", lambda: _runs([python, "-m", "pip", "check"])
    yield "shoal demo", lambda: _runs_in_empty_folder([f"{environment}/bin/shoal", "demo"])
    yield "shoal up", lambda: _runs_in_empty_folder([python, str(ROOT / "tests" / "installed_wheel.py")])
    yield "types", lambda: _has_types(python)
    if not options.wheel_only:
        yield "pip install of the tools", lambda: _runs([*pip, "-r", "requirements-dev.lock"])
        yield "tests", lambda: _runs([python, "-m", "pytest", "-q", "-m", "not slow and not chaos"])


def check(version: str, interpreter: str, wheel: str, options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as environment:
        for name, step in steps(interpreter, wheel, environment, options):
            sys.stdout.write(f"-- Python {version}: {name}\n")
            sys.stdout.flush()
            if not step():
                return f"FAILED: {name}"
    return "passed"


def _runs(command: list[str], folder: Path = ROOT) -> bool:
    return subprocess.run(command, cwd=folder, check=False).returncode == 0


def _runs_in_empty_folder(command: list[str]) -> bool:
    """Run in an empty folder, without access to the checkout."""
    with tempfile.TemporaryDirectory() as empty:
        return _runs(command, Path(empty))


def _has_types(python: str) -> bool:
    """Whether the checkout's mypy sees the types of the packages that `python` has installed."""
    with tempfile.TemporaryDirectory() as empty:
        program = shutil.copy(TYPED_CLIENT, empty)
        mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-color-output"]
        done = subprocess.run(
            [*mypy, "--python-executable", python, "--cache-dir", f"{empty}/cache", program],
            cwd=empty,
            check=False,
            capture_output=True,
            text=True,
        )
    # FILE:LINE: error: MESSAGE  [CODE]
    errors = [line.split(" error: ")[-1].rsplit("  [", 1)[0] for line in done.stdout.splitlines()]
    if errors != TYPE_ERRORS:
        sys.stdout.write(done.stdout + done.stderr)
    return errors == TYPE_ERRORS


def find(version: str) -> str | None:
    """Find an interpreter of this version that runs: pyenv's shim on the PATH may only print an error."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", default=SUPPORTED)
    parser.add_argument("--wheel-only", action="store_true")
    parser.add_argument("--newest", action="store_true")
    options = parser.parse_args()
    if options.newest and not options.wheel_only:
        parser.error("--newest requires --wheel-only")
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(folder)
        for version in options.versions:
            interpreter = find(version)
            results[version] = (
                check(version, interpreter, wheel, options) if interpreter else "not on this machine"
            )
    sys.stdout.write("".join(f"Python {version}: {result}\n" for version, result in results.items()))
    failed = any(result.startswith("FAILED") for result in results.values())
    return int(failed or "passed" not in results.values())


if __name__ == "__main__":
    raise SystemExit(main())
