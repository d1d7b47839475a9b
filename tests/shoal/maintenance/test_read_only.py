"""A library that may only be read: it is, and what would write says what is in the way."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from unprivileged import run_shoal

from shoal.engine import Engine

TEXT = "The bees gather nectar from flowers and carry pollen home to the hive.\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="takes rights from root as Linux does")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shoal.db"
    with Engine(db_path=path) as engine:
        engine.ingest(title="Bees", content=TEXT)
    return path


@pytest.fixture(params=["file and folder", "folder"])
def library(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A library of which the file, its folder or both are not to be written to."""
    folder = tmp_path / "read only"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    path.chmod(0o444 if "file" in request.param else 0o644)
    folder.chmod(0o555 if "folder" in request.param else 0o755)
    yield path
    folder.chmod(0o755)


def test_a_library_that_may_only_be_read_is_read(library: Path) -> None:
    assert json.loads(run_shoal("--db", library, "status", "--json").stdout)["n_documents"] == 1
    assert "document 1, passage #0" in run_shoal("--db", library, "search", "bees").stdout
    assert "Number 1 of the results" in run_shoal("--db", library, "explain", "bees", "--document", 1).stdout
    assert "Bees" in run_shoal("--db", library, "list").stdout
    assert TEXT.strip() in run_shoal("--db", library, "show", "Bees", "--text").stdout
    assert json.loads(run_shoal("--db", library, "export").stdout.splitlines()[1])["content"] == TEXT


def test_a_library_that_may_only_be_read_is_examined(library: Path) -> None:
    ran = run_shoal("--db", library, "doctor", "--json")
    assert ran.returncode == 0
    report = json.loads(ran.stdout)
    assert report["healthy"]
    # The check of the full-text index is a statement that writes.
    assert [(one["check"], one["is_harm"], one["is_unseen"]) for one in report["findings"]] == [
        ("full-text words", False, True)
    ]
    assert "cannot write to shoal.db" in report["findings"][0]["problem"]
    assert len(report["looked_at"]) == 18
    said = run_shoal("--db", library, "doctor", "--repair")
    assert said.returncode == 0
    assert "18 checks: the library is whole; 1 check could not be made" in said.stdout


def test_what_would_write_says_what_is_in_the_way(library: Path, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("A storm and its wind.\n")
    before = library.read_bytes()
    for command in (["ingest", tmp_path / "new.md"], ["tags", 1, "a"], ["delete", 1]):
        ran = run_shoal("--db", library, *command)
        assert ran.returncode == 1
        assert "cannot write to shoal.db or its folder" in ran.stderr
    assert library.read_bytes() == before


def test_what_is_only_in_the_log_is_not_passed_over(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    writer = sqlite3.connect(path)
    writer.execute("INSERT INTO workers VALUES ('a', 'host', 1, 1, '1', 'then', 0)")
    writer.commit()
    left = tmp_path / "left"
    left.mkdir()
    for name in ("shoal.db", "shoal.db-wal"):
        shutil.copy(folder / name, left)
    writer.close()
    left.chmod(0o555)
    ran = run_shoal("--db", left / "shoal.db", "status")
    left.chmod(0o755)
    assert ran.returncode == 1
    assert "shoal.db-wal holds the latest changes" in ran.stderr


def test_a_library_that_may_not_be_read_says_so(made: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(made, tmp_path))
    path.chmod(0o000)
    ran = run_shoal("--db", path, "search", "bees")
    assert ran.returncode == 1
    assert "shoal.db may not be read by this user" in ran.stderr


def test_a_library_of_an_older_version_says_that_it_has_to_be_written(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    folder.chmod(0o555)
    ran = run_shoal("--db", path, "search", "bees")
    folder.chmod(0o755)
    assert ran.returncode == 1
    assert "cannot write to shoal.db or its folder" in ran.stderr
