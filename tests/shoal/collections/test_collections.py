"""Collections: life cycle, what they share, deletion while in use, and processes that die in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fake_scorer import FakeScorer

from shoal.collections import registry
from shoal.collections.catalog import Catalog
from shoal.collections.collections import Collections
from shoal.collections.registry import CollectionFiles
from shoal.engine import Engine
from shoal.errors import (
    CollectionExistsError,
    CollectionNameError,
    CollectionNotFoundError,
    CollectionStateError,
    CommitUnknownError,
    DatabaseUnavailableError,
)
from shoal.settings import Settings
from shoal.storage.sqlite.database import SqliteTransaction

RAIN = "Rain and storm in the wet season. Wind, cloud and rain fall on the coast."
LAVA = "A volcano throws lava and ash. Lava cools to basalt."


def files_of(settings: Settings, collection_id: str) -> list[str]:
    return sorted(path.name for path in (settings.data_path / "collections").glob(f"{collection_id}*"))


def die_in_child(work: Callable[[], object]) -> None:
    """Run `work`, which ends the process before it returns, in a child that shares only the files."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 42, "the child died at another place"


def test_a_collection_is_a_library_of_its_own(collections: Collections) -> None:
    collections.create("weather")
    collections.create("fire")
    with collections.engine("weather") as weather, collections.engine("fire") as fire:
        weather.ingest(title="Rain", content=RAIN, tags=["wet"])
        fire.ingest(title="Lava", content=LAVA, tags=["hot"])
        assert [result.document_title for result in weather.search("rain lava").results] == ["Rain"]
        assert [result.document_title for result in fire.search("rain lava").results] == ["Lava"]
    assert not collections.main.search("rain lava").results
    details = collections.describe("weather")
    assert (details.n_documents, details.n_chunks, details.content_bytes) == (1, 1, len(RAIN))
    assert details.created_at is not None
    assert details.database_bytes > 0
    assert collections.describe("main").n_documents == 0


def test_collections_share_scorer_and_encoder_only(collections: Collections) -> None:
    collections.create("a")
    with collections.engine("a") as engine:
        assert engine.scorer is collections.main.scorer
        assert engine.database is not collections.main.database
        assert engine._library.index is not collections.main._library.index
        assert engine._library.suggester is not collections.main._library.suggester


def test_a_name_is_used_once(collections: Collections, settings: Settings) -> None:
    first = collections.create("a")
    with pytest.raises(CollectionExistsError):
        collections.create("a")
    with pytest.raises(CollectionNameError):
        collections.create("../../etc/passwd")
    with pytest.raises(CollectionNameError):
        collections.create("main")
    names = {path.name.partition(".")[0] for path in (settings.data_path / "collections").glob("*.db")}
    assert {name for name in names if not name.startswith("empty")} == {first.id}


def test_swapping_changes_what_a_name_means(collections: Collections) -> None:
    for name, text in (("live", RAIN), ("next", LAVA)):
        collections.create(name)
        with collections.engine(name) as engine:
            engine.ingest(title=name, content=text)
    with collections.engine("next") as in_use:
        collections.swap("live", "next")
        # Who has it open goes on in it.
        in_use.ingest(title="more", content="The eruption of a crater.")
    with collections.engine("live") as engine:
        assert [each.title for each in engine.documents.list().documents] == ["next", "more"]
    with pytest.raises(CollectionStateError):
        collections.swap("live", "main")


def test_deleted_files_go_when_nobody_uses_them(collections: Collections, settings: Settings) -> None:
    collection = collections.create("a")
    with collections.engine("a") as engine:
        engine.ingest(title="Rain", content=RAIN)
        assert not collections.delete("a")
        # A running request ends in peace.
        assert len(engine.search("rain").results) == 1
        assert f"{collection.id}.db" in files_of(settings, collection.id)
        assert collections.clean() == 0
    with pytest.raises(CollectionNotFoundError), collections.engine("a"):
        pass
    assert collections.clean() == 1
    assert files_of(settings, collection.id) == []
    assert collections.catalog.deleted(10) == []


def test_unused_files_go_at_once(collections: Collections, settings: Settings) -> None:
    collection = collections.create("a")
    with collections.engine("a") as engine:
        engine.ingest(title="Rain", content=RAIN)
    assert collections.delete("a")
    assert files_of(settings, collection.id) == []


def test_another_process_keeps_the_files(collections: Collections, settings: Settings, main: Engine) -> None:
    collection = collections.create("a")
    with Collections(settings, main=main) as other:
        with other.engine("a"):
            pass
        assert not collections.delete("a")
        assert files_of(settings, collection.id)
        # The other one notices the deletion by itself.
        assert other.clean() == 1
    assert files_of(settings, collection.id) == []


def test_a_deleted_collection_is_not_created_by_opening_it(
    collections: Collections, settings: Settings
) -> None:
    collection = collections.create("a")
    collections.delete("a")
    with pytest.raises(CollectionNotFoundError):
        collections.lease(collection)
    assert [name for name in files_of(settings, collection.id) if not name.endswith(".use")] == []


def test_a_lost_database_is_an_error_and_not_an_empty_library(
    collections: Collections, settings: Settings
) -> None:
    collection = collections.create("a")
    (settings.data_path / "collections" / f"{collection.id}.db").unlink()
    with pytest.raises(DatabaseUnavailableError, match="missing"), collections.engine("a"):
        pass


def test_a_bounded_number_stays_open(settings: Settings, main: Engine) -> None:
    import dataclasses

    limited = dataclasses.replace(settings, open_collections=3)
    with Collections(limited, main=main) as collections:
        names = [f"c{i}" for i in range(8)]
        for name in names:
            collections.create(name)
        for name in names:
            with collections.engine(name) as engine:
                engine.status()
        assert len(collections.open_ids()) == 3
        leases = [collections.lease(collections.catalog.find(name)) for name in names]
        assert len(collections.open_ids()) == 8
        assert [lease.value.status().n_documents for lease in leases] == [0] * 8
        for lease in leases:
            lease.release()
            lease.release()
        assert len(collections.open_ids()) == 3


def test_a_collection_whose_name_may_be_stored_keeps_its_database(
    collections: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = collections.catalog.add

    def add_and_lose_the_answer(*given: str) -> NoReturn:
        add(*given)
        raise CommitUnknownError

    monkeypatch.setattr(collections.catalog, "add", add_and_lose_the_answer)
    with pytest.raises(CommitUnknownError):
        collections.create("a")
    with collections.engine("a") as engine:
        assert engine.status().n_documents == 0


@pytest.mark.chaos
def test_a_process_dies_between_the_file_and_its_name(
    collections: Collections, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create() -> None:
        Catalog.add = lambda *_: os._exit(42)  # type: ignore[assignment, method-assign]
        Collections(settings).create("a")

    die_in_child(create)
    left = list((settings.data_path / "collections").glob("????????????????.db"))
    assert len(left) == 1
    assert [each.name for each in collections.list().collections] == ["main"]
    # A young file may belong to a creation in progress.
    assert collections.clean(orphans=True) == 0
    os.utime(left[0], (time.time() - 7200, time.time() - 7200))
    kept = collections.create("a")
    assert collections.clean(orphans=True) == 1
    assert not left[0].exists()
    assert files_of(settings, kept.id)


@pytest.mark.chaos
def test_a_process_dies_between_the_row_and_the_files(collections: Collections, settings: Settings) -> None:
    collection = collections.create("a")

    def delete() -> None:
        CollectionFiles.remove = lambda *_: os._exit(42)  # type: ignore[assignment, method-assign]
        Collections(settings).delete("a")

    die_in_child(delete)
    with pytest.raises(CollectionNotFoundError):
        collections.describe("a")
    assert files_of(settings, collection.id)
    assert collections.clean() == 1
    assert files_of(settings, collection.id) == []


@pytest.mark.chaos
@pytest.mark.parametrize("after", range(1, 4))
def test_a_process_dies_while_it_removes_files(
    collections: Collections, settings: Settings, after: int
) -> None:
    collection = collections.create("a")
    with collections.engine("a") as engine:
        engine.ingest(title="Rain", content=RAIN)

    def delete() -> None:
        unlinked = 0
        unlink = Path.unlink

        def dying(self: Path, missing_ok: bool = False) -> None:
            nonlocal unlinked
            unlinked += 1
            if unlinked > after:
                os._exit(42)
            unlink(self, missing_ok=missing_ok)

        Path.unlink = dying  # type: ignore[method-assign]
        Collections(settings).delete("a")

    collections._open.close()
    die_in_child(delete)
    assert collections.clean() == 1
    assert files_of(settings, collection.id) == []


@pytest.mark.chaos
@pytest.mark.parametrize("after", range(1, 4))
def test_a_process_dies_in_a_swap(collections: Collections, settings: Settings, after: int) -> None:
    ids = [collections.create(name).id for name in ("a", "b")]

    def swap() -> None:
        execute = SqliteTransaction.execute
        executed = 0

        def dying(self: SqliteTransaction, *given: Any) -> int:
            nonlocal executed
            changed = execute(self, *given)
            executed += 1
            if executed == after:
                os._exit(42)
            return changed

        catalog = Catalog(settings)
        catalog.database()
        SqliteTransaction.execute = dying  # type: ignore[method-assign]
        catalog.swap("a", "b")

    die_in_child(swap)
    assert [collections.catalog.find(name).id for name in ("a", "b")] == ids
    collections.swap("a", "b")
    assert [collections.catalog.find(name).id for name in ("b", "a")] == ids


def test_the_empty_library_is_made_again_for_another_schema(settings: Settings, tmp_path: Path) -> None:
    folder = settings.data_path / "collections"
    for path in folder.glob("empty-*"):
        path.rename(folder / "empty-0001.db")
    with Collections(settings, main=Engine(settings=settings, scorer=FakeScorer())) as collections:
        collections.create("a")
        with collections.engine("a") as engine:
            engine.check()
    assert [path.name for path in folder.glob("empty-*")] == [f"empty-{registry.migrate.HEAD}.db"]
