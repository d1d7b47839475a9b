"""The index of a machine follows a shared library by itself; searches wait for what was written, or say so."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from generated_libraries import fill
from test_indexing import PLAIN
from waiting import until

from shoal import Engine
from shoal.errors import IndexBehindError, InvalidFieldError, ReplicaBehindError
from shoal.index import upkeep
from shoal.settings import Settings
from shoal.storage import index_records
from shoal.storage.index_records import Lag
from shoal.storage.postgres.transactions import PostgresListener

FD_SETSIZE = 1024
"""From this descriptor on, `select` refuses files."""


@pytest.fixture
def shared(empty_postgres: str, tmp_path: Path) -> Settings:
    """The settings of a machine of several."""
    return Settings(database_url=empty_postgres, data_dir=str(tmp_path / "data"), learning=False)


@pytest.fixture
def engine(shared: Settings) -> Iterator[Engine]:
    with Engine(settings=shared, scorer=FakeScorer()) as opened:
        yield opened


def lag_of(engine: Engine) -> Lag:
    lag = engine.index_lag()
    assert lag is not None
    return lag


def test_an_index_follows_the_changes_of_another_machine_within_a_second(
    engine: Engine, shared: Settings, tmp_path: Path
) -> None:
    engine.follow()
    other = dataclasses.replace(shared, data_dir=str(tmp_path / "other"))
    with Engine(settings=other, scorer=FakeScorer()) as writer:
        slowest = 0.0
        for number in range(5):
            fill(writer.database, [PLAIN], first=number)
            started = time.monotonic()
            until(lambda number=number: _n_indexed(engine) == number + 1)
            slowest = max(slowest, time.monotonic() - started)
        assert lag_of(engine) == (0, 0.0)
        assert _n_indexed(writer) == 0, "a machine that does not search need not index"
    assert slowest < 5.0


def _n_indexed(engine: Engine) -> int:
    cache = engine._library.index
    with cache._records.newest(cache._database) as view:
        return sum(row.n_documents for row in view.segments())


def test_without_notifications_the_index_is_followed_by_polling(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(type(engine.database), "listener", lambda _: None)
    engine.follow()
    fill(engine.database, [PLAIN])
    until(lambda: _n_indexed(engine) == 1)


def test_the_index_is_followed_also_when_its_listener_fails(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(*_: object) -> bool:
        failed.set()
        raise ValueError("a defect")

    monkeypatch.setattr(upkeep, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(PostgresListener, "wait", fail)
    engine.follow()
    assert failed.wait(30)
    fill(engine.database, [PLAIN])
    until(lambda: _n_indexed(engine) == 1, 30)


def test_searches_are_refused_while_the_index_is_behind_by_more_than_the_bound(
    shared: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = dataclasses.replace(shared, index_lag_seconds=0.2)
    with Engine(settings=bounded, scorer=FakeScorer()) as engine:
        engine.search("rain")
        engine.check_index()
        with engine._library.index._records.alone_if_free():
            # Another process of the machine writes, and does not get on.
            fill(engine.database, [PLAIN])
            assert lag_of(engine).n_documents == 1
            time.sleep(0.4)
            with pytest.raises(IndexBehindError, match="behind"):
                engine.check_index()
        upkeep.update_index(engine.database)
        engine.check_index()
    with Engine(settings=shared, scorer=FakeScorer()) as unbounded:
        fill(unbounded.database, [PLAIN], first=1)
        time.sleep(0.3)
        unbounded.check_index()


def test_a_search_waits_for_what_its_caller_wrote(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    token = engine.written()
    engine.await_written(token)
    arrived = threading.Event()
    monkeypatch.setattr(index_records, "has", lambda *_: arrived.is_set())
    monkeypatch.setattr("shoal.library.state.MAX_SECONDS", 0.3)
    with pytest.raises(ReplicaBehindError, match="try again"):
        engine.await_written(token)
    threading.Timer(0.1, arrived.set).start()
    engine.await_written(token)
    for wrong in ("", "17", "0/0/0", "'; DROP TABLE documents", "0/FFFFFFFFFF"):
        with pytest.raises(InvalidFieldError):
            engine.await_written(wrong)


def test_a_listener_hears_of_changes_and_of_work_and_survives_its_connection(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.storage.postgres.transactions.RECONNECT_SECONDS", 0.2)
    with contextlib.closing(engine.database.listener()) as listener:  # type: ignore[type-var]
        assert listener is not None
        assert listener.wait("index", 0.1), "what came before it listened is unknown"
        assert not listener.wait("index", 0.1)
        fill(engine.database, [PLAIN])
        assert listener.wait("index", 5)
        engine.jobs.submit_delete([1])
        assert listener.wait("work", 5)
        with engine.database.write() as transaction:
            ended = transaction.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = :query",
                {"query": f'LISTEN "shoal_{engine.database.schema}"'},  # type: ignore[attr-defined]
            )
        assert ended
        listener.wait("index", 0.2)
        until(lambda: listener.wait("index", 0.2))


def test_a_listener_works_in_a_process_with_many_open_files(engine: Engine) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 2 * FD_SETSIZE
    if hard != resource.RLIM_INFINITY and hard < enough:
        pytest.skip("the system allows too few open files")
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while (held := os.open(os.devnull, os.O_RDONLY)) < FD_SETSIZE:
            stack.callback(os.close, held)
        stack.callback(os.close, held)
        listener = stack.enter_context(contextlib.closing(engine.database.listener()))  # type: ignore[type-var]
        assert listener is not None
        assert listener.wait("index", 0.1)
        assert not listener.wait("index", 0.1)
        fill(engine.database, [PLAIN])
        assert listener.wait("index", 5)
