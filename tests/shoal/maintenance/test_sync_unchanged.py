"""A sync does not read files again whose size and times are those of an earlier sync."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from libraries import follow, make

from shoal.engine import Engine
from shoal.maintenance.sync import SyncResult, folder
from shoal.settings import Settings
from shoal.storage.opening import open_database

STAMPS = "SELECT path, size, mtime_ns, ctime_ns FROM file_stamps ORDER BY path"
FORGE = "UPDATE file_stamps SET size = :size, mtime_ns = :mtime_ns, ctime_ns = :ctime_ns WHERE path = :path"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    (notes / "sea").mkdir(parents=True)
    (notes / "fire.md").write_text("A volcano throws lava.\n")
    (notes / "sea" / "storm.txt").write_text("Rain and wind over the sea.\n")
    return notes


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are young; this one trusts their times at once."""
    monkeypatch.setattr(folder, "SETTLED_NS", 0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read."""
    names: list[str] = []
    original = folder.read

    def spied(path: Path, *arguments: Any, **options: Any) -> Any:
        names.append(path.name)
        return original(path, *arguments, **options)

    monkeypatch.setattr(folder, "read", spied)
    return names


def stamps(library: Path) -> dict[str, tuple[int, int, int]]:
    database = open_database(f"sqlite:///{library}")
    try:
        with database.snapshot() as snapshot:
            return {Path(path).name: tuple(stamp) for path, *stamp in snapshot.tuples(STAMPS)}  # type: ignore[misc]
    finally:
        database.close()


def forge_stamp(library: Path, path: Path) -> None:
    """Let the stored stamp be the present one, as if the file had changed without a trace."""
    status = path.stat()
    row = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
    database = open_database(f"sqlite:///{library}")
    with database.write() as transaction:
        assert transaction.execute(FORGE, {**row, "path": str(path)}) == 1
    database.close()


def n_changes(result: SyncResult) -> tuple[int, int, int]:
    return len(result.new), len(result.changed), result.unchanged


@pytest.mark.usefixtures("_settled")
def test_an_unchanged_file_is_not_read_again(library: Path, notes: Path, read: list[str]) -> None:
    assert n_changes(follow(library, notes)) == (2, 0, 0)
    assert read
    read.clear()
    assert n_changes(follow(library, notes)) == (0, 0, 2)
    assert read == []
    (notes / "fire.md").write_text("A volcano throws ashes.\n")
    assert n_changes(follow(library, notes)) == (0, 1, 1)
    assert "storm.txt" not in read


def test_a_young_file_is_read_again(library: Path, notes: Path, read: list[str]) -> None:
    follow(library, notes)
    assert stamps(library) == {}
    read.clear()
    assert n_changes(follow(library, notes)) == (0, 0, 2)
    assert sorted(read) == ["fire.md", "storm.txt"]


@pytest.mark.usefixtures("_settled")
def test_a_file_with_its_old_size_and_time_is_read_if_it_was_changed(library: Path, notes: Path) -> None:
    fire = notes / "fire.md"
    follow(library, notes)
    before = fire.stat()
    fire.write_text("A volcano throws ash..\n")
    os.utime(fire, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (fire.stat().st_size, fire.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert n_changes(follow(library, notes)) == (0, 1, 1)


@pytest.mark.usefixtures("_settled")
def test_checksum_finds_a_change_without_a_trace(library: Path, notes: Path) -> None:
    follow(library, notes)
    (notes / "fire.md").write_text("A volcano throws ashes.\n")
    forge_stamp(library, notes / "fire.md")
    assert n_changes(follow(library, notes)) == (0, 0, 2)
    assert n_changes(follow(library, notes, checksum=True)) == (0, 1, 1)
    assert n_changes(follow(library, notes)) == (0, 0, 2)


@pytest.mark.usefixtures("_settled")
def test_other_settings_read_all_files_again(library: Path, notes: Path, read: list[str]) -> None:
    follow(library, notes)
    read.clear()
    settings = Settings(database_url=f"sqlite:///{library}", min_charset_confidence=0.9)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.maintenance.sync(notes)
    assert sorted(read) == ["fire.md", "storm.txt"]


@pytest.mark.usefixtures("_settled")
def test_stamps_of_missing_files_go_and_a_dry_run_writes_none(library: Path, notes: Path) -> None:
    follow(library, notes, dry_run=True)
    assert stamps(library) == {}
    follow(library, notes)
    assert sorted(stamps(library)) == ["fire.md", "storm.txt"]
    (notes / "fire.md").unlink()
    follow(library, notes)
    assert sorted(stamps(library)) == ["storm.txt"]


@pytest.mark.usefixtures("_settled")
def test_a_document_that_was_deleted_comes_back_with_its_file_unchanged(library: Path, notes: Path) -> None:
    first = follow(library, notes)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert first.new[0].document_id is not None
        engine.documents.delete(first.new[0].document_id)
    assert n_changes(follow(library, notes)) == (1, 0, 1)
