"""What is installed from a wheel has everything it needs to run: data, pages, migrations, the sample corpus, types."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from shoal import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "lagoon": "lagoon",
    "shoal": "shoal",
    "api/shoal_api": "shoal_api",
    "worker/shoal_worker": "shoal_worker",
}
NOT_SHIPPED = {"__pycache__"}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel that is built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        timeout=170,
    )
    [wheel] = folder.glob("shoal-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_a_wheel_holds_every_file_of_its_packages(members: set[str]) -> None:
    expected = {
        f"{name}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, name in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not NOT_SHIPPED & set(path.parts)
    }
    assert {name for name in expected if name.endswith((".npy", ".html", ".js", ".css", ".md"))}
    assert expected - members == set()


def test_a_wheel_brings_the_migrations_and_its_types(members: set[str]) -> None:
    revisions = {path.name for path in (ROOT / "migrations" / "versions").glob("[0-9]*.py")}
    assert {f"shoal/storage/migrations/versions/{name}" for name in revisions} <= members
    assert {f"{name}/py.typed" for name in PACKAGES.values()} <= members


def test_a_wheel_is_of_the_version_that_the_program_tells(members: set[str]) -> None:
    assert f"shoal-{__version__}.dist-info/METADATA" in members


def test_a_wheel_holds_nothing_else(members: set[str]) -> None:
    top = {name.split("/")[0] for name in members}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES.values())
