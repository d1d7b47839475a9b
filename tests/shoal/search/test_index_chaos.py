"""The index survives `kill -9` and a full disk at every write: no ranking changes, then or later.

SHOAL_TEST_LONG=1 kills at every write; otherwise at some.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import DONE, FAILED, KILLED, full_from, killed_at
from generated_libraries import fill, rank_query

from shoal.index import upkeep
from shoal.index.building import segment_bytes
from shoal.index.index import Index
from shoal.index.segment import Segment
from shoal.index.upkeep import read_documents, rebuild_index, update_index
from shoal.models.documents import DocFormat
from shoal.models.queries import QueryReef
from shoal.models.search import SearchMode
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.ranking import Ranked
from shoal.storage import document_writer, index_tables, migrate
from shoal.storage.database import Database, Snapshot
from shoal.storage.opening import open_database
from shoal.words.terms import TERMS

STRIDE = 1 if os.environ.get("SHOAL_TEST_LONG") else 23
"""Every which write is one to die at."""
FLAT = (0.0, 0.0, 0.0, 0.0)
REEFS = [QueryReef(1, "reef 1", 2.0), QueryReef(4, "reef 4", 1.0)]
WORDS = ("rain storm", "lava", "king rain", "red storm lava", "rain")
N_DOCUMENTS = 12


def facts(i: int) -> tuple[Any, ...]:
    chunks = [
        ({j % 8: 1.0 + i % 3, (i + j) % 8: 2.0}, 1.0, FLAT, WORDS[(i + j) % 5]) for j in range(1 + i % 4)
    ]
    return chunks, {"red"} if i % 2 else set[str](), 1.0, DocFormat.markdown, WORDS[i % 5]


@contextlib.contextmanager
def small_segments() -> Iterator[None]:
    """Index two documents at a time, and merge after every second segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "DOCUMENTS_TOGETHER", 2)
        patch.setattr(upkeep, "MERGED_TOGETHER", 2)
        patch.setattr(upkeep, "SMALLEST_LEVEL", 4)
        yield


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library with indexed, changed, deleted and new documents."""
    folder = tmp_path_factory.mktemp("prepared")
    database = opened(folder)
    migrate.upgrade(database)
    fill(database, [facts(i) for i in range(N_DOCUMENTS // 2)])
    with small_segments():
        update_index(database)
    fill(database, [facts(i) for i in range(N_DOCUMENTS // 2, N_DOCUMENTS)], first=N_DOCUMENTS // 2)
    with database.write() as transaction:
        document_writer.delete_document(transaction, 2)
    database.close()
    return folder


@pytest.fixture
def copy(prepared: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes copies of the library."""

    def make() -> Path:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(prepared, folder))

    return make


def opened(folder: Path) -> Database:
    return open_database(f"sqlite:///{folder / 'shoal.db'}")


def work_on(folder: Path, work: Callable[[Database], object]) -> None:
    """What a process does that opens the library for itself."""
    with small_segments():
        work(opened(folder))


def rankings(snapshot: Snapshot, library: LibraryIndex) -> list[list[Ranked]]:
    return [
        rank_query(snapshot, library, query, REEFS, mode=mode).first(1000, None)
        for query in ("rain storm king", '"red storm" -king')
        for mode in SearchMode
    ]


def assert_searches_are_exact(database: Database) -> None:
    """Check that a process that starts now ranks as with an index of nothing but the stored documents."""
    cache = IndexCache(database)
    with database.snapshot() as snapshot:
        ids = [row[0] for row in snapshot.tuples("SELECT id FROM documents ORDER BY id")]
        fresh = LibraryIndex(Index([(Segment(segment_bytes(read_documents(snapshot, ids), TERMS)), [])]))
        assert len(ids) == N_DOCUMENTS - 1
        assert rankings(snapshot, cache.of(snapshot)) == rankings(snapshot, fresh)


def assert_recovers(folder: Path) -> None:
    """Check the rankings at once, after an update and after a rebuild, and that all is indexed then."""
    database = opened(folder)
    assert_searches_are_exact(database)
    for repair in (update_index, rebuild_index):
        repair(database)
        assert_searches_are_exact(database)
        with database.snapshot() as snapshot:
            assert index_tables.count_open(snapshot) == 0
            assert snapshot.value("PRAGMA integrity_check") == "ok"
    database.close()


@pytest.mark.parametrize("work", [update_index, rebuild_index])
@pytest.mark.parametrize(("fault", "code"), [(killed_at, KILLED), (full_from, FAILED)])
def test_a_fault_at_any_write_of_segments_or_merges_changes_no_ranking(
    copy: Callable[[], Path], fault: Callable[..., tuple[int, str]], code: int, work: Callable[..., object]
) -> None:
    place, codes = 1, []
    while not codes or codes[-1] == code:
        folder = copy()
        outcome, message = fault(place, functools.partial(work_on, folder, work))
        codes.append(outcome)
        assert outcome in (code, DONE), message
        assert outcome != FAILED or ("no space left" in message and "free some" in message), message
        assert_recovers(folder)
        place += STRIDE
    assert codes[-1] == DONE
    assert place > 40, "the work has fewer writes than expected"
