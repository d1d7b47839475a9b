"""A read-only library: reading works, and commands that write name the obstacle."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from libraries import copy, index_of
from unprivileged import run_commands, run_shoal

from shoal.engine import Engine
from shoal.storage import index_tables
from shoal.storage.opening import open_database

TEXT = "The bees gather nectar from flowers and carry pollen home to the hive.\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drops root privileges as on Linux")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shoal.db"
    with Engine(db_path=path) as engine:
        engine.ingest(title="Bees", content=TEXT)
    return path


@pytest.fixture(params=["file and folder", "folder"])
def library(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A library whose folder, or whose file and folder, are read-only."""
    folder = tmp_path / "read only"
    folder.mkdir()
    path = copy(made, folder / "shoal.db")
    path.chmod(0o444 if "file" in request.param else 0o644)
    folder.chmod(0o555 if "folder" in request.param else 0o755)
    yield path
    folder.chmod(0o755)


def test_read_only_library_can_be_read(library: Path) -> None:
    commands = (
        ["status", "--json"],
        ["search", "bees"],
        ["explain", "bees", "--document", 1],
        ["list"],
        ["show", "Bees", "--text"],
        ["export"],
    )
    results = run_commands(*(["--db", library, *command] for command in commands))
    status, search, explanation, documents, text, export = (result.stdout for result in results)
    assert json.loads(status)["n_documents"] == 1
    assert "document 1, passage #0" in search
    assert "Number 1 of the results" in explanation
    assert "Bees" in documents
    assert TEXT.strip() in text
    assert json.loads(export.splitlines()[1])["content"] == TEXT


def test_read_only_library_can_be_checked(library: Path) -> None:
    result, repair = run_commands(
        ["--db", library, "doctor", "--json"], ["--db", library, "doctor", "--repair"]
    )
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert report["healthy"]
    assert report["findings"] == []
    assert repair.returncode == 0
    assert f"{len(report['looked_at'])} checks: the library is whole\n" in repair.stdout


def test_documents_that_wait_to_be_indexed_are_found_in_a_read_only_library(
    made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "waiting"
    folder.mkdir()
    path = copy(made, folder / "shoal.db")
    database = open_database(f"sqlite:///{path}")
    with database.write() as transaction:
        index_tables.start_again(transaction)
    database.close()
    shutil.rmtree(index_of(path))
    folder.chmod(0o555)
    result = run_shoal("--db", path, "search", "bees")
    folder.chmod(0o755)
    assert "document 1, passage #0" in result.stdout


def test_search_of_a_read_only_library_without_its_index_names_the_obstacle(
    made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "no index"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    folder.chmod(0o555)
    result, listed = run_commands(["--db", path, "search", "bees"], ["--db", path, "list"])
    folder.chmod(0o755)
    assert result.returncode == 1
    assert "cannot write to shoal.db or its folder" in result.stderr
    assert "Bees" in listed.stdout


def test_command_that_writes_names_the_obstacle(library: Path, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("A storm and its wind.\n")
    before = library.read_bytes()
    commands = (["ingest", tmp_path / "new.md"], ["tags", 1, "a"], ["delete", 1])
    for result in run_commands(*(["--db", library, *command] for command in commands)):
        assert result.returncode == 1
        assert "cannot write to shoal.db or its folder" in result.stderr
    assert library.read_bytes() == before


def test_read_only_log_with_unmerged_writes_is_an_error(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    writer = sqlite3.connect(path)
    writer.execute("INSERT INTO workers VALUES ('a', 'host', 1, 1, '1', 'then', 0)")
    writer.commit()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("shoal.db", "shoal.db-wal"):
        shutil.copy(folder / name, copy)
    writer.close()
    copy.chmod(0o555)
    result = run_shoal("--db", copy / "shoal.db", "status")
    copy.chmod(0o755)
    assert result.returncode == 1
    assert "shoal.db-wal holds the latest changes" in result.stderr


def test_unreadable_library_is_an_error(made: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(made, tmp_path))
    path.chmod(0o000)
    result = run_shoal("--db", path, "search", "bees")
    assert result.returncode == 1
    assert "shoal.db may not be read by this user" in result.stderr


def test_read_only_library_of_an_older_version_is_an_error(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    path = Path(shutil.copy(made, folder))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_revision SET revision = '0033'")
    connection.close()
    folder.chmod(0o555)
    result = run_shoal("--db", path, "search", "bees")
    folder.chmod(0o755)
    assert result.returncode == 1
    assert "cannot write to shoal.db or its folder" in result.stderr
