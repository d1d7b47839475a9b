"""`shoal collection`, `--collection` on other commands, and backups of all collections."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli.app import run
from shoal.storage import migrate

RAIN = "Rain and storm in the wet season. Wind, cloud and rain fall on the coast."
LAVA = "A volcano throws lava and ash. Lava cools to basalt."


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shoal = Callable[..., Result]


@pytest.fixture
def shoal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_file: Path
) -> Shoal:
    """Run a command in a folder with an empty library."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copyfile(migrated_file, folder / "shoal.db")
    collections = folder / "shoal.db-data" / "collections"
    collections.mkdir(parents=True)
    shutil.copyfile(migrated_file, collections / f"empty-{migrate.HEAD}.db")
    (folder / "rain.txt").write_text(RAIN)
    (folder / "lava.txt").write_text(LAVA)

    def run_shoal(*arguments: object) -> Result:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run_shoal


def test_the_life_of_a_collection(shoal: Shoal) -> None:
    created = shoal("collection", "create", "birds", "--json")
    assert created.code == 0
    assert created.json["name"] == "birds"
    assert shoal("ingest", "rain.txt", "--collection", "birds").code == 0
    assert shoal("--collection", "birds", "list", "--json").json["total"] == 1
    assert shoal("list", "--json").json["total"] == 0
    assert "1 document" in shoal("collection", "show", "birds").out
    assert shoal("collection", "rename", "birds", "fish").code == 0
    assert shoal("search", "rain", "--collection", "fish", "--json").json["results"]
    assert [each["name"] for each in shoal("collection", "list", "--json").json["collections"]] == [
        "main",
        "fish",
    ]
    shoal("collection", "create", "birds")
    assert shoal("collection", "swap", "birds", "fish").code == 0
    assert shoal("status", "--collection", "birds", "--json").json["n_documents"] == 1
    deleted = shoal("collection", "delete", "birds", "--yes", "--json")
    assert deleted.json == {"deleted": "birds", "documents": 1, "files_removed": False}
    missing = shoal("list", "--collection", "birds")
    assert missing.code == 1
    assert "there is no collection 'birds'" in missing.err


def test_the_variable_names_the_collection(shoal: Shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    shoal("collection", "create", "a")
    monkeypatch.setenv("SHOAL_COLLECTION", "a")
    assert shoal("ingest", "rain.txt").code == 0
    assert shoal("status", "--json").json["n_documents"] == 1
    assert shoal("status", "--json", "--collection", "main").json["n_documents"] == 0
    monkeypatch.setenv("SHOAL_COLLECTION", "../a")
    refused = shoal("status")
    assert refused.code == 1
    assert "SHOAL_COLLECTION" in refused.err


@pytest.mark.parametrize("name", ["../a", "A", "main", "swap", "a" * 64, "a;b", ""])
def test_a_bad_name_is_refused(shoal: Shoal, name: str) -> None:
    refused = shoal("collection", "create", name)
    assert refused.code == 2
    assert "error: name: " in refused.err


def test_deleting_asks_first(shoal: Shoal) -> None:
    shoal("collection", "create", "a")
    assert shoal("collection", "delete", "a").code != 0
    assert shoal("collection", "show", "a").code == 0


def test_one_collection_is_checked_exported_and_backed_up(shoal: Shoal) -> None:
    shoal("collection", "create", "a")
    shoal("ingest", "rain.txt", "--collection", "a")
    assert shoal("doctor", "--collection", "a", "--json").json["healthy"]
    assert shoal("backup", "a.db", "--collection", "a", "--json").json["documents"] == 1
    assert shoal("backup", "main.db", "--json").json["documents"] == 0


def test_all_collections_are_backed_up_and_restored(shoal: Shoal) -> None:
    shoal("ingest", "lava.txt")
    for name in ("a", "b"):
        shoal("collection", "create", name)
    shoal("ingest", "rain.txt", "--collection", "a")
    done = shoal("backup", "--all-collections", "copies", "--json")
    assert done.json["collections"] == {"main": 1, "a": 1, "b": 0}
    assert sorted(path.name for path in Path("copies").iterdir()) == [
        "a.db",
        "b.db",
        "collections.json",
        "main.db",
    ]
    again = shoal("backup", "--all-collections", "copies")
    assert again.code == 1
    assert "not an empty folder" in again.err
    assert shoal("backup", "--all-collections", "copies", "--force").code == 0

    # Into another installation, which has another collection.
    other = Path("other")
    other.mkdir()
    shutil.copyfile(next(Path("shoal.db-data/collections").glob("empty-*")), other / "new.db")
    assert shoal("--db", other / "new.db", "collection", "create", "kept").code == 0
    restored = shoal("--db", other / "new.db", "restore", "--all-collections", "copies", "--json")
    assert restored.code == 0, restored.err
    assert restored.json["collections"] == ["main", "a", "b"]
    for name, n in (("main", 1), ("a", 1), ("b", 0), ("kept", 0)):
        assert (
            shoal("--db", other / "new.db", "status", "--collection", name, "--json").json["n_documents"] == n
        )


@pytest.mark.parametrize("is_folder_left", [False, True])
def test_lost_files_come_back_under_their_ids(shoal: Shoal, is_folder_left: bool) -> None:
    ids = {name: shoal("collection", "create", name, "--json").json["id"] for name in ("sea", "sky")}
    shoal("ingest", "rain.txt", "--collection", "sea")
    shoal("backup", "--all-collections", "copies")
    Path("lost/shoal.db-data").mkdir(parents=True)
    shutil.copyfile("shoal.db-data/catalog.db", "lost/shoal.db-data/catalog.db")
    if is_folder_left:
        Path("lost/shoal.db-data/collections").mkdir()
    db = ("--db", "lost/shoal.db")
    one = shoal(*db, "restore", "copies/sea.db", "--collection", "sea")
    assert one.code == 0, one.err
    assert "previous library" not in one.out
    restored = shoal(*db, "restore", "--all-collections", "copies", "--json")
    assert restored.code == 0, restored.err
    assert restored.json["created"] == []
    assert list(restored.json["aside"]) == ["sea"], "the others were missing"
    listed = shoal(*db, "collection", "list", "--json").json["collections"]
    assert {each["name"]: each["id"] for each in listed if each["name"] != "main"} == ids
    assert shoal(*db, "status", "--collection", "sea", "--json").json["n_documents"] == 1


def test_restoring_all_names_new_collections_and_previous_libraries(shoal: Shoal) -> None:
    for name in ("gone", "kept"):
        shoal("collection", "create", name)
    shoal("backup", "--all-collections", "copies")
    old_id = shoal("collection", "show", "gone", "--json").json["id"]
    shoal("collection", "delete", "gone", "--yes")
    restored = shoal("restore", "--all-collections", "copies")
    assert restored.code == 0, restored.err
    new_id = shoal("collection", "show", "gone", "--json").json["id"]
    assert new_id != old_id
    assert "gone: created with a new id; keys made before" in restored.out
    assert "kept: created" not in restored.out
    copies = {str(path) for path in Path().absolute().rglob("*.before-restore-*")}
    assert {word.rstrip(";") for word in restored.out.split() if ".before-restore-" in word} == copies
    assert len(copies) == 2, "of main and kept"
    assert not any(new_id in path for path in copies)


def test_an_incomplete_backup_is_refused(shoal: Shoal) -> None:
    shoal("backup", "--all-collections", "copies")
    Path("copies/collections.json").write_text('{"format": 1, "collections": ["../main"]}')
    assert shoal("restore", "--all-collections", "copies").code == 1
    Path("copies/collections.json").unlink()
    refused = shoal("restore", "--all-collections", "copies")
    assert refused.code == 1
    assert "incomplete" in refused.err


def test_a_service_is_named_in_the_configuration_of_agents(shoal: Shoal) -> None:
    shoal("collection", "create", "a")
    printed = shoal("mcp", "--print-config", "--collection", "a")
    assert "--collection" in printed.out
    hooks = shoal("hook", "--print-config", "--collection", "a")
    assert "--collection=a" in hooks.out, hooks.err


def test_copy_takes_one_collection_to_that_of_the_same_name(shoal: Shoal) -> None:
    shoal("collection", "create", "birds")
    assert shoal("ingest", "rain.txt", "--collection", "birds").code == 0
    main = shoal("copy", "shoal.db", "other.db")
    assert main.code == 0
    assert "1 collection of SOURCE left out" in main.err
    assert "`shoal copy --collection NAME SOURCE TARGET`" in main.err
    copied = shoal("copy", "--collection", "birds", "shoal.db", "other.db")
    assert copied.code == 0, copied.err
    assert copied.out.startswith("1 document ")
    assert "left out" not in copied.err
    found = shoal("search", "rain", "--db", "other.db", "--collection", "birds", "--json")
    assert len(found.json["results"]) == 1
    assert shoal("list", "--db", "other.db", "--json").json["total"] == 0
    assert shoal("copy", "--collection", "fish", "shoal.db", "other.db").code == 1
