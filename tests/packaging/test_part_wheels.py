"""The wheels of the client and of lagoon have all that they import, and need nothing of the service."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import lagoon
from shoal import __version__

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 170
IMPORT_ALL = """
import importlib, sys
from pathlib import Path

folder, refused = Path(sys.argv[1]), set(sys.argv[2].split(","))

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ImportError(f"imports {name}")
        return None

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, str(folder))
names = sorted(
    ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    for path in folder.rglob("*.py")
)
for name in names:
    module = importlib.import_module(name)
    assert Path(module.__file__).is_relative_to(folder), module.__file__
exec(sys.argv[3])
print(len(names))
"""
SCORE = "assert importlib.import_module('lagoon').load().score('the roots of oak trees').top_reefs"
SERVICE = "celery,flask,kombu,marshmallow,numba,redis,scipy,typer"


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., int]:
    """Build the wheel of a folder of the repository, import all its modules with some packages refused,
    and run `code`. Returns the number of modules."""

    def build_and_import(folder: str, wheel: str, refused: str, code: str = "") -> int:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
                *("--wheel-dir", str(tmp_path), str(ROOT / folder)),
            ],
            check=True,
            timeout=BUILD_SECONDS,
        )
        unpacked = tmp_path / "unpacked"
        with zipfile.ZipFile(tmp_path / wheel) as file:
            file.extractall(unpacked)
        program = tmp_path / "import_all.py"
        program.write_text(IMPORT_ALL)
        done = subprocess.run(
            [sys.executable, str(program), str(unpacked), refused, code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    return build_and_import


@pytest.mark.slow
def test_the_client_wheel_is_enough_for_a_client(imported: Callable[..., int]) -> None:
    n_modules = imported("client", f"shoal_client-{__version__}-py3-none-any.whl", f"{SERVICE},lagoon,numpy")
    folders = ("client", "declared", "models", "support")
    parts = sum(len(list((ROOT / "shoal" / part).rglob("*.py"))) for part in folders)
    assert n_modules == parts + len(("__init__", "errors", "version"))


@pytest.mark.slow
def test_the_lagoon_wheel_scores_without_the_service(imported: Callable[..., int]) -> None:
    n_modules = imported(
        "lagoon", f"shoal_lagoon-{lagoon.__version__}-py3-none-any.whl", f"{SERVICE},shoal,httpx", SCORE
    )
    assert n_modules == len(list((ROOT / "lagoon").glob("*.py")))
