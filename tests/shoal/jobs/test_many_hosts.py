"""Workers on several hosts: their clocks differ, their names repeat, and one that was cut off stores nothing."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from embedded_library import library_of
from fake_encoder import FakeEncoder
from job_parts import rows, value
from learning_parts import handlers, ingest, learning_settings, upload
from teaching_texts import about

from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, claim, release
from shoal.jobs.queue.embed_items import submit_embedding
from shoal.jobs.queue.recovery import Watchdog, reclaim_expired_leases, reconcile
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.stages import embed, score
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.embed import Embedding
from shoal.jobs.stages.runner import process
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.sqlite.database import SqliteDatabase, SqliteSnapshot

HOUR = 3600.0
TEXTS = [about("fire", "zorblat"), about("law", "quendle"), about("sea", "hoxley wump", 6)]
LATER = [about("bees", "zorblat"), about("fire", "mirthog")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings, max_attempts=3)


@contextmanager
def host_clock(offset: float) -> Iterator[None]:
    """Let the clock of this host be wrong by some seconds; the store's is right."""
    right = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: right() + offset)
        patch.setattr(SqliteSnapshot, "now", lambda _: right())
        patch.setattr(SqliteDatabase, "now", lambda _: right())
        yield


@contextmanager
def on_host(boot: str) -> Iterator[None]:
    """Be on a machine with this identity and the same process namespace, as the first of any machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "_boot", lambda: boot)
        yield


def must(batch: Batch | None) -> Batch:
    assert batch is not None
    return batch


@pytest.mark.parametrize("offset", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_a_host_whose_clock_is_wrong_neither_loses_nor_steals_work(
    database: Database, settings: Settings, offset: float
) -> None:
    upload(database, settings, TEXTS)
    started = time.time()
    with host_clock(offset):
        batch = must(claim(database, claims.new_owner(), settings))
    (expires,) = {
        row[0] for row in rows(database, "SELECT lease_expires_at FROM job_items WHERE lease_expires_at > 0")
    }
    assert started <= float(str(expires)) - settings.lease_seconds <= time.time()
    with on_host("another"):
        assert reconcile(database, settings).reclaimed == 0
    with host_clock(offset), on_host("a third"):
        assert reconcile(database, settings).reclaimed == 0
        Watchdog(database, settings).watch([batch.owner])
    with host_clock(offset):
        # It renews in time, and not without end.
        assert Watchdog(database, settings).watch([batch.owner]) == []
        process(batch, database, handlers(database, settings), settings)
    assert value(database, "SELECT MAX(updated_at) FROM job_items") <= "3"
    late = time.time() + offset
    times = rows(database, "SELECT updated_at FROM job_items WHERE status = 'discovered'")
    assert times
    shown = time.strftime("%Y-%m-%dT%H", time.gmtime(late))
    assert not any(str(text).startswith(shown) for (text,) in times)


def test_only_the_own_process_table_shows_a_death(database: Database, settings: Settings) -> None:
    upload(database, settings, TEXTS)
    code = "from shoal.jobs.queue import claims; print(claims.new_owner())"
    owner = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert claims.is_local(owner)
    assert claims.is_dead(owner)
    must(claim(database, owner, settings))
    # The host has the same name, and no process of this number.
    with on_host("another"):
        assert not claims.is_local(owner)
        assert not claims.is_dead(owner)
        assert not claims.has_parent(owner)
        assert reconcile(database, settings).reclaimed == 0
        assert reclaim_expired_leases(database, settings, time.time() + settings.lease_seconds + 1)[0] > 0


def test_owners_of_two_hosts_with_one_name_differ() -> None:
    mine = claims.host()
    with on_host("another"):
        assert claims.host() != mine
    assert len(mine) < 100
    assert claims.BOOT_ID.exists()
    assert claims.BOOT_ID.read_text().strip() in mine


def test_without_a_boot_id_the_network_card_tells_hosts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BOOT_ID", Path("/nowhere"))
    claims._boot.cache_clear()
    try:
        assert claims._boot().startswith(f"{os.uname().nodename}-")
    finally:
        claims._boot.cache_clear()


class Thief:
    """Lets a worker lose its lease to another host, right before it begins its n-th write transaction."""

    def __init__(self, settings: Settings, n: int) -> None:
        self._settings = settings
        self._left = n
        self.stolen: list[Batch] = []
        self.before: list[str] = []

    def steal(self) -> None:
        other = open_database(self._settings.database_url)
        with on_host("another"):
            reclaim_expired_leases(other, self._settings, time.time() + self._settings.lease_seconds + 1)
            while batch := claim(other, claims.new_owner(), self._settings):
                self.stolen.append(batch)
        self.before = dump(other)
        other.close()

    @contextmanager
    def at_work(self, database: Database) -> Iterator[None]:
        write = database.write

        @contextmanager
        def wait_and_write() -> Iterator[Any]:
            if self._left == 0 and not self.stolen:
                self.steal()
            self._left -= 1
            with write() as transaction:
                yield transaction

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "write", wait_and_write)
            yield


def dump(database: Database) -> list[str]:
    """All rows but those of the index, which any process may bring up to date."""
    derived = ("index_", "changed_documents", "sqlite_sequence", "unindexed_vectors")
    begin = tuple(f'INSERT INTO "{name}' for name in derived)
    with database.snapshot() as snapshot:
        if not database.is_sqlite:
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
            names = [row[0] for row in snapshot.rows(tables) if not row[0].startswith(derived)]
            return [
                f"{name} {row[0]}"
                for name in names
                for row in snapshot.rows(f'SELECT t::text FROM "{name}" t ORDER BY 1')
            ]
        return [line for line in snapshot.connection.iterdump() if not line.startswith(begin)]


def all_handlers(database: Database, settings: Settings) -> Handlers:
    return {
        **handlers(database, settings),
        Stage.embed: Embedding(database, settings, FakeEncoder),
    }


def submit_everything(database: Database, settings: Settings) -> None:
    """Leave work of every stage: a rescore, a delete, an upload, and documents to embed."""
    ingest(database, settings, TEXTS)
    ingest(database, settings, LATER)
    submit_delete(database, settings, [2])
    submit_rescore(database, settings)
    upload(database, settings, [about("law", "vimbly"), about("sea", "vimbly")])
    submit_embedding(database, settings)


@pytest.mark.parametrize("n", [0, 2], ids=["at once", "after two transactions"])
def test_a_worker_that_was_cut_off_stores_nothing(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """Every stage of every kind of job, on the way from the upload to the end."""
    monkeypatch.setattr(score, "CHUNKS_WRITTEN", 1)
    monkeypatch.setattr(embed, "JOIN_VECTORS", 1 << 30)
    settings = dataclasses.replace(settings, encoder_batch=1, max_attempts=1000)
    submit_everything(database, settings)
    # Each worker has its own database object and its own handlers.
    late = open_database(settings.database_url)
    seen: set[Stage] = set()
    cut_off: set[Stage] = set()
    using = all_handlers(database, settings)
    for _ in range(200):
        batch = claim(database, claims.new_owner(), settings)
        if batch is None:
            break
        seen.add(batch.stage)
        thief = Thief(settings, n)
        with thief.at_work(late):
            process(batch, late, all_handlers(late, settings), settings)
        if not thief.stolen:
            continue
        cut_off.add(batch.stage)
        assert dump(late) == thief.before, batch.stage
        for stolen in thief.stolen:
            if stolen.stage is batch.stage:
                process(stolen, database, using, settings)
            else:
                release(database, stolen)
    else:
        pytest.fail("the work does not end")
    late.close()
    assert seen >= {Stage.discover, Stage.learn, Stage.score, Stage.rediscover, Stage.relearn, Stage.rescore}
    assert seen >= {Stage.delete, Stage.embed}
    assert cut_off >= (seen if n == 0 else {Stage.learn, Stage.embed})
    assert value(database, "SELECT COUNT(*) FROM jobs WHERE status <> 'succeeded'") == 0
    assert library_of(database).n_chunks == value(database, "SELECT COUNT(*) FROM chunks")
