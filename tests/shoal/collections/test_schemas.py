"""Collections on PostgreSQL, where there is a server."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from waiting import until

from shoal.access.key_store import KeyStore
from shoal.collections import registry
from shoal.collections.backup import backup_all, restore_all
from shoal.collections.catalog import catalog_schema, schema_base
from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.errors import BackupError, CollectionNotFoundError, ShoalError
from shoal.settings import Settings
from shoal.storage.postgres.address import MAX_SCHEMA_CHARS, parse_address, with_schema
from shoal.support.collection_names import new_id

SERVER = os.environ.get("SHOAL_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/test")

RAIN = "Rain and storm in the wet season. Wind, cloud and rain fall on the coast."
LAVA = "A volcano throws lava and ash. Lava cools to basalt."

Install = Callable[[], Collections]


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """Make installations in one database, each with a schema of its own for `main`."""
    psycopg = pytest.importorskip("psycopg")
    try:
        server = psycopg.connect(SERVER, autocommit=True, connect_timeout=2)
    except psycopg.OperationalError as error:
        pytest.skip(f"there is no PostgreSQL at {SERVER} (SHOAL_TEST_POSTGRES_URL): {error}")
    prefix = f"shoal_test_{secrets.token_hex(4)}"
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        made: list[str] = []

        def make() -> Collections:
            # The name of one begins with that of the other.
            made.append(prefix + "_c" * len(made))
            folder = tmp_path_factory.mktemp("machine")
            url = with_schema(SERVER, made[-1])
            settings = Settings(database_url=url, data_dir=str(folder), learning=False)
            main = stack.enter_context(Engine(settings=settings, scorer=FakeScorer()))
            return stack.enter_context(Collections(settings, main=main))

        try:
            yield make
        finally:
            stack.close()
            named = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)"
            for (name,) in server.execute(named, [prefix]).fetchall():
                server.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="module")
def collections(install: Install) -> Collections:
    return install()


@pytest.fixture
def no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what was made just now for the rest of an interrupted creation."""
    monkeypatch.setattr(registry, "ORPHAN_SECONDS", -60.0)


def test_a_collection_is_a_schema(collections: Collections) -> None:
    assert collections.list().total == 1
    for name, text in (("weather", RAIN), ("fire", LAVA)):
        collections.create(name)
        with collections.engine(name) as engine:
            engine.ingest(title=name, content=text)
    with collections.engine("weather") as weather, collections.engine("fire") as fire:
        assert [result.document_title for result in weather.search("rain lava").results] == ["weather"]
        assert [result.document_title for result in fire.search("rain lava").results] == ["fire"]
        assert weather.jobs.work().waiting["enqueued"] == 0
        assert fire.maintenance.doctor().is_healthy
    collections.swap("weather", "fire")
    with collections.engine("weather") as engine:
        assert [each.title for each in engine.documents.list().documents] == ["fire"]
        assert collections.delete("weather")
        with pytest.raises(ShoalError):
            engine.search("rain")
    with pytest.raises(CollectionNotFoundError):
        collections.describe("weather")
    assert collections.clean(orphans=True) == 0
    assert collections.describe("fire").n_documents == 1
    with pytest.raises(BackupError, match="pg_dump"):
        backup_all(collections.settings, Path("nowhere"))
    with pytest.raises(BackupError, match="pg_restore"):
        restore_all(collections.settings, Path("nowhere"))


def test_installations_in_one_database_share_nothing(
    collections: Collections, install: Install, no_age: None
) -> None:
    other = install()
    assert other.list().total == 1
    other.create("elsewhere")
    key = KeyStore(other.catalog).create("k", [("*", "read")])
    assert {each.name for each in collections.list().collections} == {"main", "fire"}
    assert key.details.id not in {each.id for each in KeyStore(collections.catalog).page(10).keys}
    # Neither takes the libraries of the other for what an interrupted creation left.
    for each in (collections, other):
        each.clean(orphans=True)
    assert collections.describe("fire").n_documents == 1
    assert other.describe("elsewhere").n_documents == 0


def test_only_the_rest_of_a_creation_is_removed(collections: Collections, no_age: None) -> None:
    store = registry.CollectionSchemas(collections.settings, collections.catalog.database)
    kept = collections.catalog.find("fire")
    empty = new_id()
    with collections.catalog.database().write() as transaction:
        # A creation that was killed after its first transaction.
        transaction.execute(f"CREATE SCHEMA {schema_base(collections.settings)}_c_{empty}")
        transaction.execute(f"COMMENT ON SCHEMA {schema_base(collections.settings)}_c_{empty} IS '0'")
        # A catalog from before the collection.
        transaction.execute("UPDATE collections SET id = 'x' WHERE id = :id", {"id": kept.id})
    assert store.exists(empty)
    assert collections.clean(orphans=True) == 1
    assert (store.exists(empty), store.exists(kept.id)) == (False, True)
    with collections.catalog.database().write() as transaction:
        transaction.execute("UPDATE collections SET id = :id WHERE id = 'x'", {"id": kept.id})
    assert collections.describe("fire").n_documents == 1


def test_a_read_in_a_deleted_collection_holds_up_no_other(
    collections: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    collections.create("read")
    read = collections.catalog.find("read").id
    store = registry.CollectionSchemas(collections.settings, collections.catalog.database)
    with collections.engine("read") as engine, engine.database.snapshot(limited=False) as snapshot:
        snapshot.rows("SELECT COUNT(*) FROM documents")
        started = time.monotonic()
        assert not collections.delete("read")
        # Nothing ends the read, so a deletion that waited for it would take until its own timeout.
        assert time.monotonic() - started < 15.0, "the turn of the catalog's writers is held meanwhile"
        assert not store.remove(read)
    assert not store.remove(read), "it was in use just now"
    assert store.exists(read)
    monkeypatch.setattr(registry, "PAUSE_SECONDS", 0.0)
    assert collections.clean() == 1
    assert not store.exists(read)


def test_an_index_of_a_collection_that_another_machine_deleted_goes(
    collections: Collections, no_age: None
) -> None:
    folder = collections.settings.data_path / "index" / f"{schema_base(collections.settings)}_c_{new_id()}"
    folder.mkdir(parents=True)
    collections.clean(orphans=True)
    assert not folder.exists()
    assert (folder.parent / f"{folder.name[:-16]}{collections.catalog.find('fire').id}").exists()


def test_a_mark_wakes_those_who_listen(collections: Collections) -> None:
    with contextlib.closing(collections.catalog.listener()) as listener:  # type: ignore[type-var]
        assert listener is not None
        assert listener.wait("work", 0.1), "what came before it listened is unknown"
        assert not listener.wait("work", 0.1)
        collections.catalog.mark_work(collections.catalog.find("fire").id)
        assert listener.wait("work", 5)


def test_the_index_of_an_open_collection_is_followed(collections: Collections) -> None:
    with Collections(collections.settings, main=collections.main) as machine:
        machine.follow()
        with machine.engine("fire") as engine:
            engine.ingest(title="more", content=RAIN)
            until(lambda: engine.index_lag() == (0, 0.0))
            assert engine.search("storm").results
        fire = machine.catalog.find("fire").id
        until(lambda: machine.index_lags() == {fire: (0, 0.0)})


def test_searches_of_a_collection_read_its_schema_on_the_standby() -> None:
    standby = "postgresql://b/d?schema=library&target_session_attrs=any"
    settings = Settings(database_url="postgresql://a/d?schema=library", read_database_url=standby)
    collection_id = new_id()
    changed = registry.CollectionSchemas(settings, _no_database).settings_of(collection_id)
    own = parse_address(changed.database_url)
    read = parse_address(changed.read_database_url)
    assert own.schema == read.schema == f"library_c_{collection_id}"
    assert "//b/d" in read.url
    assert "target_session_attrs=any" in read.url


def test_names_of_schemas_fit_also_for_a_long_one() -> None:
    names = [f"{'a' * (MAX_SCHEMA_CHARS - 1)}{end}" for end in "xy"]
    installations = [Settings(database_url=f"postgresql://a/d?schema={name}") for name in names]
    bases = [schema_base(each) for each in installations]
    assert bases[0] != bases[1]
    for each in installations:
        changed = registry.CollectionSchemas(each, _no_database).settings_of(new_id())
        assert len(parse_address(changed.database_url).schema) <= MAX_SCHEMA_CHARS
        assert len(catalog_schema(each)) <= MAX_SCHEMA_CHARS
    with pytest.raises(ShoalError, match="1 to 57"):
        parse_address(f"postgresql://a/d?schema={'a' * (MAX_SCHEMA_CHARS + 1)}")


def _no_database() -> Any:
    raise AssertionError("a name needs no database")
