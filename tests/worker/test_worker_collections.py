"""Workers serve all collections: in turn, after kills, and also where a mark was lost."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from waiting import until
from worker_parts import Worker, count, upload, wait_for_job
from worker_script import STUCK

from shoal.collections.registry import Registry
from shoal.errors import DatabaseUnavailableError
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.metrics import Counters
from shoal.jobs.transport.broker import make_celery, notify_workers
from shoal.models.jobs import JobStatus
from shoal.saved_searches import delivering, matching
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN
from shoal_worker import process
from shoal_worker.collection_keeper import CollectionKeeper
from shoal_worker.libraries import Libraries
from shoal_worker.reconciler import SLOT_BYTES, Slots

TEXT = "A volcano throws out magma and lava. The rain of a monsoon falls on the forest number {}."


@pytest.fixture
def registry(settings: Settings, migrated_file: Path) -> Iterator[Registry]:
    folder = settings.data_path / "collections"
    folder.mkdir(parents=True)
    shutil.copyfile(migrated_file, folder / f"empty-{migrate.HEAD}.db")
    opened = Registry(settings)
    yield opened
    opened.close()


@pytest.fixture
def create(registry: Registry) -> Iterator[Callable[[str], Database]]:
    opened: list[Database] = []

    def create_one(name: str) -> Database:
        registry.create(name)
        opened.append(open_database(registry.settings_of(name).database_url))
        return opened[-1]

    yield create_one
    for database in opened:
        database.close()


@pytest.fixture
def libraries(database: Database, settings: Settings) -> Libraries:
    del database
    return Libraries(settings, FakeScorer(), lambda: None, lambda: None)


def texts(n: int) -> list[str]:
    return [TEXT.format(i) for i in range(n)]


@pytest.mark.chaos
def test_workers_serve_all_collections_also_after_a_kill(
    database: Database,
    settings: Settings,
    registry: Registry,
    create: Callable[[str], Database],
    start_worker: Callable[..., Worker],
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.2, workers=2, batch_items=5)
    databases = {"a": create("a"), "b": create("b"), MAIN: database}
    jobs = {}
    for name, each in databases.items():
        jobs[name] = upload(each, settings, [*texts(8), f"{TEXT.format(9)} {STUCK}"])
        registry.catalog.mark_work(registry.catalog.find(name).id)
    first = start_worker(settings)
    notify_workers(make_celery(settings))
    # Both processes are stuck in a document, in different collections.
    leased = "SELECT COUNT(*) FROM job_items WHERE lease_owner IS NOT NULL"
    until(lambda: sum(count(each, leased) > 0 for each in databases.values()) == 2)
    first.kill_all()
    first.release()
    start_worker(settings)
    for name, each in databases.items():
        job = wait_for_job(each, jobs[name])
        assert (job.status, job.progress.done) == (JobStatus.succeeded, 9), name
        assert count(each, "SELECT COUNT(*) FROM documents") == 9
    until(lambda: registry.catalog.with_work() == [])


def test_collections_take_turns(
    libraries: Libraries, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    databases = {}
    for name in ("a", "b", "c"):
        each = create(name)
        upload(each, dataclasses.replace(settings, batch_items=1), texts(6))
        collection_id = registry.catalog.find(name).id
        registry.catalog.mark_work(collection_id)
        databases[collection_id] = each
    served = []
    for _ in range(12):
        for collection_id in libraries.turn():
            if collection_id != MAIN and claim(
                databases[collection_id], new_owner(), dataclasses.replace(settings, batch_items=1)
            ):
                served.append(collection_id)
                libraries.served(collection_id)
                break
            libraries.served(collection_id)
    # Twelve batches of three collections with six each: nobody waits for another's end.
    assert {collection_id: served.count(collection_id) for collection_id in databases} == dict.fromkeys(
        databases, 4
    )
    assert served[:3] == served[3:6]


def test_a_sweep_finds_a_job_without_a_mark(
    libraries: Libraries, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    messages: list[int] = []
    keeper = CollectionKeeper(libraries, settings, lambda: messages.append(1), Counters())
    for name in ("a", "b"):
        create(name)
    upload(create("c"), settings, texts(2))
    assert registry.catalog.with_work() == []
    keeper.keep()
    assert [each for each, _ in registry.catalog.with_work()] == [registry.catalog.find("c").id]
    assert messages == [1]
    keeper.keep()
    assert keeper.has_waiting()


def test_a_mark_is_cleared_when_nothing_waits(
    libraries: Libraries, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    keeper = CollectionKeeper(libraries, settings, lambda: None, Counters())
    database = create("a")
    collection_id = registry.catalog.find("a").id
    upload(database, settings, texts(2))
    registry.catalog.mark_work(collection_id)
    keeper.keep()
    assert registry.catalog.with_work()
    from shoal.jobs.stages.runner import process

    with libraries.using(collection_id) as library:
        while batch := claim(library.database, new_owner(), settings):
            process(batch, library.database, library.handlers, settings)
    keeper.keep()
    assert registry.catalog.with_work() == []
    assert not keeper.has_waiting()


def test_a_mark_stays_while_a_webhook_waits_for_its_next_try(
    libraries: Libraries, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    keeper = CollectionKeeper(libraries, settings, lambda: None, Counters())
    database = create("a")
    now = timestamp()
    search = {"name": "Lava", "arguments": "{}", "min_score": 0.0, "url": "http://127.0.0.1/", "secret": "s"}
    with database.write() as transaction:
        search_id = matching.insert(transaction, {**search, "is_active": 1, "evaluated": 0, "now": now})
        delivering.insert(
            transaction,
            delivery_id="d",
            search_id=search_id,
            event="match",
            n_passages=1,
            body="{}",
            due_at=transaction.now() + 600,
            now=now,
        )
    registry.catalog.mark_work(registry.catalog.find("a").id)
    keeper.keep()
    assert registry.catalog.with_work()
    with database.write() as transaction:
        transaction.execute("UPDATE webhook_deliveries SET status = 'failed'")
    keeper.keep()
    assert registry.catalog.with_work() == []


def test_a_deleted_collection_is_closed_and_its_files_go(
    libraries: Libraries, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    keeper = CollectionKeeper(libraries, settings, lambda: None, Counters())
    database = create("a")
    collection_id = registry.catalog.find("a").id
    upload(database, settings, texts(2))
    database.close()
    registry.catalog.mark_work(collection_id)
    keeper.keep()
    assert not registry.delete("a"), "the worker has it open"
    keeper.keep()
    folder = settings.data_path / "collections"
    assert [path.name for path in folder.iterdir() if path.name.startswith(collection_id)] == []


def test_a_message_while_the_catalog_is_away_is_no_error(
    libraries: Libraries, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> list[str]:
        raise DatabaseUnavailableError("the database server cannot be reached")

    monkeypatch.setattr(libraries, "turn", away)
    (tmp_path / "slots").write_bytes(bytes(SLOT_BYTES))
    with (tmp_path / "slots").open("r+b") as file:
        slots = Slots(file.fileno())
    child = process._Child(settings, FakeScorer(), make_celery(settings), slots, process.Ending())
    child._libraries = libraries
    child.work()
    assert not child._process_without_message()


def test_a_bounded_number_stays_open(
    database: Database, registry: Registry, create: Callable[[str], Database], settings: Settings
) -> None:
    limited = dataclasses.replace(settings, open_collections=8)
    libraries = Libraries(limited, FakeScorer(), lambda: None, lambda: None)
    keeper = CollectionKeeper(libraries, limited, lambda: None, Counters())
    for i in range(6):
        upload(create(f"c{i}"), settings, texts(1))
        registry.catalog.mark_work(registry.catalog.find(f"c{i}").id)
    keeper.keep()
    assert len(libraries._open.ids()) == 2
