"""The wheel contains everything needed at run time: data, pages, migrations, the sample corpus, types."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from python_versions import SUPPORTED

from shoal import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "lagoon": "lagoon",
    "shoal": "shoal",
    "api/shoal_api": "shoal_api",
    "worker/shoal_worker": "shoal_worker",
}
NOT_SHIPPED = {"__pycache__", "sense_teacher.npz"}
"""The second is for the build of the data alone."""
OF_LAGOON_ALONE = {"lagoon/README.md", "lagoon/pyproject.toml"}
"""They make a distribution of lagoon without shoal."""


BUILD_SECONDS = 170


def _only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        timeout=BUILD_SECONDS,
    )
    return _only(folder, "shoal-*-py3-none-any.whl")


@pytest.fixture(scope="module")
def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        return message_from_string(opened.read(f"shoal-{__version__}.dist-info/METADATA").decode())


def test_the_wheel_contains_every_file_of_its_packages(members: set[str]) -> None:
    expected = {
        f"{name}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, name in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not NOT_SHIPPED & set(path.parts)
    }
    assert {name for name in expected if name.endswith((".npy", ".html", ".js", ".css", ".md"))}
    assert expected - members == OF_LAGOON_ALONE


def test_the_wheel_contains_migrations_and_types(members: set[str]) -> None:
    revisions = {path.name for path in (ROOT / "migrations").iterdir()}
    assert revisions
    assert {f"shoal/storage/migrations/{name}" for name in revisions} <= members
    assert {f"{name}/py.typed" for name in PACKAGES.values()} <= members


def test_the_wheel_has_the_version_of_the_program(members: set[str]) -> None:
    assert f"shoal-{__version__}.dist-info/METADATA" in members


def test_the_wheel_contains_nothing_else(members: set[str]) -> None:
    top = {name.split("/")[0] for name in members}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES.values())


def test_a_wheel_of_the_sdist_has_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    # `build` makes the sdist first, then the wheel from it.
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, timeout=BUILD_SECONDS, stdout=subprocess.DEVNULL)
    assert _only(tmp_path, "shoal-*.tar.gz").name == f"shoal-{__version__}.tar.gz"
    assert _only(tmp_path, "shoal-*.whl").read_bytes() == wheel.read_bytes()


def test_the_metadata_declares_the_tested_versions(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    versions = [
        name.removeprefix("Programming Language :: Python :: ")
        for name in classifiers
        if "Python :: 3." in name
    ]
    assert tuple(versions) == SUPPORTED, "the tested versions are the declared ones"
    assert metadata["Requires-Python"] == f">={SUPPORTED[0]}"
