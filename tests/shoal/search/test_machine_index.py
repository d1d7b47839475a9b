"""Machines that share a library each have an index of their own, and every search sees its snapshot exactly."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedded_library import library_of, nearest, with_vector
from fake_encoder import FakeEncoder
from generated_libraries import fill, scored_document
from test_dense_scores import TEXTS, embed, store
from test_indexing import (
    PLAIN,
    Ranked,
    assert_found,
    fresh_rankings,
    rankings,
    replace,
    rescore,
    segment_files,
)

from shoal.index import upkeep
from shoal.index.upkeep import rebuild_index, update_index
from shoal.models.documents import DocFormat
from shoal.search.library_index import IndexCache
from shoal.storage import document_writer, index_tables, machine_index, vectors
from shoal.storage.database import Snapshot
from shoal.storage.index_records import open_records
from shoal.storage.machine_index import FILE_NAME, MachineRecords
from shoal.storage.sqlite.database import SqliteDatabase, SqliteSnapshot
from shoal.support.clock import timestamp

FLAT = (0.0, 0.0, 0.0, 0.0)
WORDS = ["rain", "storm", "king", "lava", "reef"]


class SharedDatabase(SqliteDatabase):
    """A library as one machine of several sees it."""

    has_index_records = False

    def __init__(self, path: Path, folder: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self._folder = folder

    @property
    def index_folder(self) -> Path:
        return self._folder


@pytest.fixture
def machines(
    tmp_path: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SharedDatabase, SharedDatabase]]:
    monkeypatch.setattr(SqliteSnapshot, "is_sqlite", False)
    path = tmp_path / "shared.db"
    shutil.copyfile(migrated_file, path)
    opened = SharedDatabase(path, tmp_path / "first"), SharedDatabase(path, tmp_path / "second")
    yield opened
    for database in opened:
        database.close()


@pytest.fixture
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge after every second segment."""
    monkeypatch.setattr(upkeep, "MERGED_TOGETHER", 2)
    monkeypatch.setattr(upkeep, "SMALLEST_LEVEL", 4)


def facts(numbers: random.Random) -> tuple[Any, ...]:
    chunks = [
        ({numbers.randrange(6): 1.0 + numbers.random()}, 1.0, FLAT, " ".join(numbers.choices(WORDS, k=3)))
        for _ in range(numbers.randint(1, 3))
    ]
    return chunks, set[str](), 1.0, DocFormat.markdown, numbers.choice(WORDS)


def n_open(database: SharedDatabase) -> int:
    with open_records(database).newest(database) as view:
        return view.count_open()


@pytest.mark.usefixtures("small_levels")
@pytest.mark.parametrize("seed", range(2 if os.environ.get("SHOAL_TEST_LONG") else 1))
def test_two_machines_follow_every_change_and_snapshots_see_their_own_state(
    machines: tuple[SharedDatabase, SharedDatabase], seed: int
) -> None:
    numbers = random.Random(seed)
    stored: list[int] = []
    first, _ = machines
    caches = [IndexCache(database) for database in machines]
    older: list[tuple[Snapshot, list[list[Ranked]]]] = []
    with contextlib.ExitStack() as opened:
        for number in range(25):
            action = numbers.choice(
                ["add", "add", "replace", "rescore", "delete", "index", "index", "search"]
            )
            writer = numbers.choice(machines)
            if action == "add":
                with writer.write() as transaction:
                    scored = scored_document(number, facts(numbers))
                    stored.append(document_writer.insert_document(transaction, scored, now=timestamp()))
            elif action == "index":
                assert update_index(writer)
                assert n_open(writer) == 0
            elif stored and action == "replace":
                replace(writer, numbers.choice(stored), number, facts(numbers))
            elif stored and action == "rescore":
                rescore(writer, numbers.choice(stored), number + 1, numbers.randrange(6))
            elif stored and action == "delete":
                gone = stored.pop(numbers.randrange(len(stored)))
                with writer.write() as transaction:
                    document_writer.delete_document(transaction, gone)
            elif action == "search":
                for database, cache in zip(machines, caches, strict=True):
                    cache.prepare()
                    with database.snapshot() as snapshot:
                        assert rankings(snapshot, cache.of(snapshot)) == fresh_rankings(snapshot)
            snapshot = opened.enter_context(first.snapshot())
            older.append((snapshot, fresh_rankings(snapshot)))
        # The records of both machines are ahead of these snapshots, or behind them.
        for snapshot, expected in older[::-2] + older[::2]:
            for cache in caches:
                assert rankings(snapshot, cache.of(snapshot)) == expected
    for database in machines:
        assert_found(database, len(stored))
        update_index(database)
        assert_found(database, len(stored))
        rebuild_index(database)
        assert_found(database, len(stored))
        assert n_open(database) == 0


def test_a_machine_that_was_away_finds_deletions_that_are_no_longer_noted(
    machines: tuple[SharedDatabase, SharedDatabase],
) -> None:
    first, second = machines
    fill(first, [PLAIN] * 3)
    for database in machines:
        update_index(database)
    with first.write() as transaction:
        document_writer.delete_document(transaction, 2)
        index_tables.prune_changes(transaction, transaction.now() + 1)
    with second.snapshot() as snapshot:
        assert not [row for row in snapshot.tuples(index_tables.CHANGES) if row[0] == 2]
    assert_found(second, 2)
    update_index(second)
    assert_found(second, 2)


@pytest.mark.parametrize("n_after", [0, 5], ids=["fewer commits", "as many other commits"])
def test_a_machine_follows_a_library_that_lost_commits(
    machines: tuple[SharedDatabase, SharedDatabase],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    n_after: int,
) -> None:
    """As after a failover to a standby that did not have the last commits."""
    first, second = machines
    fill(first, [PLAIN] * 3)
    update_index(second)
    standby = tmp_path / "standby.db"
    assert first.is_state_common()
    shutil.copyfile(first.path, standby)
    # These are lost.
    fill(first, [PLAIN] * 2, first=3)
    replace(first, 1, 8, PLAIN)
    update_index(second)
    cache = IndexCache(second)
    cache.load()
    for database in machines:
        database.close()
    promoted = SharedDatabase(standby, second.index_folder)
    state_of = MachineRecords._state_of
    monkeypatch.setattr(
        MachineRecords,
        "_state_of",
        lambda records, snapshot: state_of(records, snapshot)._replace(timeline=2),
    )
    other = (
        [({2: 3.0}, 1.0, FLAT, "king lava"), ({1: 1.0}, 1.0, FLAT, "rain")],
        set(),
        1.0,
        PLAIN[3],
        "storm",
    )
    for number in range(n_after):
        fill(promoted, [other], first=10 + number)
    replace(promoted, 2, 9, other)
    assert_found(promoted, 3 + n_after)
    # So it is for a process that had searched the lost state.
    cache._database, cache._records = promoted, open_records(promoted)
    cache.prepare()
    with promoted.snapshot() as snapshot:
        assert rankings(snapshot, cache.of(snapshot)) == fresh_rankings(snapshot)
    update_index(promoted)
    assert_found(promoted, 3 + n_after)
    promoted.close()


def test_a_standby_that_is_behind_is_searched_as_it_is(
    machines: tuple[SharedDatabase, SharedDatabase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines
    fill(first, [PLAIN] * 3)
    assert first.is_state_common()
    shutil.copyfile(first.path, tmp_path / "standby.db")
    fill(first, [PLAIN], first=3)
    replace(first, 1, 8, PLAIN)
    with first.write() as transaction:
        document_writer.delete_document(transaction, 2)
    update_index(second)
    standby = SharedDatabase(tmp_path / "standby.db", second.index_folder)
    state_of = MachineRecords._state_of
    monkeypatch.setattr(
        MachineRecords,
        "_state_of",
        lambda records, snapshot: state_of(records, snapshot)._replace(
            is_standby=records._library is standby
        ),
    )
    assert_found(standby, 3)
    update = IndexCache(second)
    files = segment_files(second)
    with standby.snapshot() as snapshot:
        assert rankings(snapshot, update.of(snapshot)) == fresh_rankings(snapshot)
    assert_found(second, 3)
    assert segment_files(second) == files, "the index that was ahead is not thrown away"
    standby.close()


def test_records_that_are_damaged_or_of_another_version_are_made_anew(
    machines: tuple[SharedDatabase, SharedDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = machines
    fill(first, [PLAIN] * 2)
    update_index(first)
    for damage in (b"no database at all" * 300, b""):
        open_records(first)._records.close()
        machine_index._OPENED.clear()
        (first.index_folder / FILE_NAME).write_bytes(damage)
        assert_found(first, 2)
        update_index(first)
        assert_found(first, 2)
    assert len(segment_files(first)) == 1
    # A folder that vanished while the process has it open.
    open_records(first)._records.close()
    shutil.rmtree(first.index_folder)
    assert_found(first, 2)


def test_only_one_process_of_a_machine_writes_and_machines_do_not_wait_for_each_other(
    machines: tuple[SharedDatabase, SharedDatabase],
) -> None:
    first, second = machines
    fill(first, [PLAIN])
    with open_records(first).alone_if_free() as is_free:
        assert is_free
        assert update_index(first) is False
        assert update_index(second) is True
    assert update_index(first) is True


def test_vectors_reach_the_files_of_every_machine(machines: tuple[SharedDatabase, SharedDatabase]) -> None:
    first, second = machines
    encoder = FakeEncoder()
    store(first, *TEXTS)
    update_index(second)
    embed(first, encoder)
    for database in machines:
        update_index(database)
        assert sorted(nearest(library_of(database), encoder, "rain")) == with_vector(database) != []
    vectors.delete_all(first)
    # No machine searches those of the former epoch, from the first transaction on.
    cache = IndexCache(second)
    with second.snapshot() as snapshot:
        assert not any(cache.of(snapshot).vectors)
    other = FakeEncoder(dimension=33, revision="2")
    embed(first, other)
    for database in machines:
        update_index(database)
        assert sorted(nearest(library_of(database), other, "rain")) == with_vector(database) != []


def test_the_lag_is_the_age_of_the_oldest_change_that_is_not_indexed(
    machines: tuple[SharedDatabase, SharedDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines
    fill(first, [PLAIN])
    update_index(second)
    assert IndexCache(second).lag() == (0, 0.0)
    now = first.now()
    monkeypatch.setattr(SqliteSnapshot, "now", lambda _: now)
    fill(first, [PLAIN], first=1)
    monkeypatch.setattr(SqliteSnapshot, "now", lambda _: now + 30)
    fill(first, [PLAIN], first=2)
    assert IndexCache(second).lag() == (2, pytest.approx(30.0))
    update_index(second)
    assert IndexCache(second).lag() == (0, 0.0)


def test_a_change_that_comes_while_a_machine_follows_is_indexed_once(
    machines: tuple[SharedDatabase, SharedDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines
    fill(first, [PLAIN])
    follow = MachineRecords.follow
    n = 1

    def follow_and_change(records: MachineRecords) -> None:
        nonlocal n
        follow(records)
        if n < 8:
            replace(first, 1, 20 + n, PLAIN)
            fill(first, [PLAIN], first=n)
            n += 1

    monkeypatch.setattr(MachineRecords, "follow", follow_and_change)
    update_index(second)
    assert n == 8
    assert n_open(second) == 0
    assert_found(second, n)
