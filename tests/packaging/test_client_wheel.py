"""The wheel of the client has all that a client imports, and needs httpx alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from shoal import __version__

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 170
IMPORT_ALL = """
import importlib, sys
from pathlib import Path

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {"celery", "flask", "kombu", "lagoon", "marshmallow", "numba", "numpy", "redis", "typer"}:
            raise ImportError(f"the client imports {name}")
        return None

sys.meta_path.insert(0, Refuse())
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
names = sorted(
    ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    for part in ("client", "declared", "models")
    for path in (folder / "shoal" / part).rglob("*.py")
)
for name in names:
    module = importlib.import_module(name)
    assert Path(module.__file__).is_relative_to(folder), module.__file__
print(len(names))
"""


@pytest.mark.slow
def test_the_client_wheel_is_enough_for_a_client(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--wheel-dir", str(tmp_path), str(ROOT / "client")),
        ],
        check=True,
        timeout=BUILD_SECONDS,
    )
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / f"shoal_client-{__version__}-py3-none-any.whl") as wheel:
        wheel.extractall(unpacked)
    program = tmp_path / "import_all.py"
    program.write_text(IMPORT_ALL)
    done = subprocess.run(
        [sys.executable, str(program), str(unpacked)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(
        len(list((ROOT / "shoal" / part).rglob("*.py"))) for part in ("client", "declared", "models")
    )
