"""The index follows every change, each snapshot sees its own state, and no crash loses a document."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest
from generated_libraries import (
    MANY,
    document_facts,
    fill,
    index_of,
    open_library,
    rank_query,
    scored_document,
)
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import make_scored

from shoal.errors import DiskFullError
from shoal.index import files, upkeep
from shoal.index.building import segment_bytes
from shoal.index.files import COMPLETE, SUFFIX, UNFINISHED, IndexFiles
from shoal.index.format import MAX_CHUNKS
from shoal.index.index import Index
from shoal.index.segment import Segment
from shoal.index.upkeep import read_documents, rebuild_index, update_index
from shoal.models.documents import DocFormat
from shoal.models.queries import QueryReef
from shoal.models.search import SearchMode
from shoal.search import library_index, query_analysis
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.ranking import Ranked
from shoal.storage import document_writer
from shoal.storage.database import Database, Snapshot
from shoal.storage.document_writer import chunk_ids
from shoal.storage.index_records import open_records
from shoal.storage.index_tables import SegmentRow
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp
from shoal.words.terms import TERMS

FLAT = (0.0, 0.0, 0.0, 0.0)
REEFS = [QueryReef(1, "reef 1", 2.0), QueryReef(4, "reef 4", 1.0)]
QUERY = "rain storm king"
PLAIN = (
    [({1: 2.0}, 1.0, FLAT, "rain storm"), ({4: 1.0}, 1.0, FLAT, "lava")],
    set[str](),
    1.0,
    DocFormat.markdown,
    "king",
)


class CrashError(Exception):
    """Ends the work at some line."""


def rankings(snapshot: Snapshot, library: LibraryIndex) -> list[list[Ranked]]:
    return [rank_query(snapshot, library, QUERY, REEFS, mode=mode).first(1000, None) for mode in SearchMode]


def fresh_rankings(snapshot: Snapshot) -> list[list[Ranked]]:
    """The rankings of an index that is built from nothing but the stored documents."""
    ids = [row[0] for row in snapshot.tuples("SELECT id FROM documents ORDER BY id")]
    return rankings(
        snapshot, LibraryIndex(Index([(Segment(segment_bytes(read_documents(snapshot, ids), TERMS)), [])]))
    )


def assert_found(database: Database, n_documents: int) -> None:
    """Check that a process that searches now finds every document, ranked as by a fresh index."""
    cache = IndexCache(database)
    cache.prepare()
    with database.snapshot() as snapshot:
        library = cache.of(snapshot)
        assert rankings(snapshot, library) == fresh_rankings(snapshot)
        assert library.index.totals.n_documents == n_documents


def counts(database: Database) -> tuple[int, int, int]:
    """Documents in segments, documents that are to be indexed, and files of segments."""
    with open_records(database).newest(database) as view:
        n_indexed = sum(row.n_documents for row in view.segments())
        return n_indexed, view.count_open(), len(segment_files(database))


def segment_files(database: Database) -> list[Path]:
    folder = IndexFiles(database).folder
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX) if folder.exists() else []


def replace(database: Database, document_id: int, number: int, facts: tuple[Any, ...]) -> None:
    """Replace a document; its first chunk keeps its id, and comes after a new one if there are several."""
    scored = scored_document(number, facts)
    with database.write() as transaction:
        first, *_ = chunk_ids(transaction, document_id)
        kept: list[int | None] = [None] * len(scored.chunks)
        kept[-1] = first
        document_writer.replace_document(transaction, document_id, scored, kept, now=timestamp())


def rescore(database: Database, document_id: int, version: int, reef: int) -> None:
    """Give every chunk of a document a new profile."""
    with database.write() as transaction:
        rows = document_writer.chunk_texts(transaction, document_id)
        scored = make_scored([text for _, text in rows], [{reef: 1.0 + i} for i in range(len(rows))])
        due = [(row[0], chunk, True) for row, chunk in zip(rows, scored.chunks, strict=True)]
        scored = dataclasses.replace(scored, vocabulary_version=version)
        document_writer.rescore_chunks(transaction, document_id, scored, due)


numbers = st.integers(0, 20)
steps = st.lists(
    st.one_of(
        document_facts.map(lambda facts: ("add", facts)),
        st.tuples(numbers, document_facts).map(lambda facts: ("replace", facts)),
        st.tuples(numbers, st.integers(0, 5)).map(lambda facts: ("rescore", facts)),
        numbers.map(lambda i: ("delete", i)),
        st.just(("index", None)),
        st.just(("search", None)),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def small_levels() -> Any:
    """Merge after every second segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "MERGED_TOGETHER", 2)
        patch.setattr(upkeep, "SMALLEST_LEVEL", 4)
        yield


@pytest.mark.usefixtures("small_levels")
@MANY
@given(steps=steps)
def test_index_follows_every_change_and_snapshots_see_their_own_state(steps: list[tuple[str, Any]]) -> None:
    stored: list[int] = []
    with open_library([]) as database, contextlib.ExitStack() as opened:
        cache = IndexCache(database)
        older: list[tuple[Snapshot, list[list[Ranked]]]] = []
        for number, (action, detail) in enumerate(steps):
            if action == "add":
                with database.write() as transaction:
                    scored = scored_document(number, detail)
                    stored.append(document_writer.insert_document(transaction, scored, now=timestamp()))
            elif action == "index":
                assert update_index(database)
            elif stored and action == "replace":
                replace(database, stored[detail[0] % len(stored)], number, detail[1])
            elif stored and action == "rescore":
                rescore(database, stored[detail[0] % len(stored)], number + 1, detail[1])
            elif stored and action == "delete":
                with database.write() as transaction:
                    document_writer.delete_document(transaction, stored.pop(detail % len(stored)))
            elif action == "search":
                cache.prepare()
                with database.snapshot() as snapshot:
                    assert rankings(snapshot, cache.of(snapshot)) == fresh_rankings(snapshot)
            snapshot = opened.enter_context(database.snapshot())
            older.append((snapshot, fresh_rankings(snapshot)))
        for snapshot, expected in older[::-2] + older[::2]:
            assert rankings(snapshot, cache.of(snapshot)) == expected
        opened.close()
        assert_found(database, len(stored))
        rebuild_index(database)
        assert_found(database, len(stored))
        assert counts(database)[:2] == (len(stored), 0)


def test_an_older_snapshot_does_not_see_what_a_newer_search_indexed_in_memory(database: Database) -> None:
    fill(database, [PLAIN])
    cache = IndexCache(database)
    with database.snapshot() as before:
        expected = fresh_rankings(before)
        replace(database, 1, 1, PLAIN)
        with database.snapshot() as after:
            newest = rankings(after, cache.of(after))
        assert rankings(before, cache.of(before)) == expected
        assert newest != expected
    fill(database, [PLAIN], first=2)
    with database.snapshot() as after:
        assert rankings(after, cache.of(after)) == fresh_rankings(after)


def test_a_replaced_document_has_its_chunks_in_the_order_of_its_text(database: Database) -> None:
    fill(database, [PLAIN])
    replace(database, 1, 1, PLAIN)
    with database.snapshot() as snapshot:
        (document,) = read_documents(snapshot, [1])
        assert document.chunk_ids.tolist() == list(chunk_ids(snapshot, 1)) == [3, 1]


def test_segments_are_merged_and_files_of_merged_segments_removed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MERGED_TOGETHER", 3)
    for i in range(3):
        fill(database, [PLAIN], first=i)
        update_index(database)
    assert counts(database)[:2] == (3, 0)
    assert_found(database, 3)


def test_few_segments_are_left_once_no_documents_follow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MERGED_TOGETHER", 8)
    for i in range(4):
        fill(database, [PLAIN], first=i)
        update_index(database)
    assert len(segments(database)) == 4
    update_index(database, lambda: False)
    assert len(segments(database)) == 4
    update_index(database, lambda: True)
    assert [row.n_documents for row in segments(database)] == [4]
    assert_found(database, 4)


def test_a_near_number_is_written_as_in_the_first_passage_in_any_order_of_segments(
    database: Database,
) -> None:
    with database.write() as transaction:
        for text in ("It takes 1,000 volts.", "It takes 1000 volts."):
            document_writer.insert_document(transaction, make_scored([text]), now=timestamp())
    with database.snapshot() as snapshot:
        parts = [
            (Segment(segment_bytes(read_documents(snapshot, [document_id]), TERMS)), [])
            for document_id in (1, 2)
        ]
        written = [
            query_analysis._near(snapshot, LibraryIndex(Index(order)), "10000", None)
            for order in (parts, parts[::-1])
        ]
    assert written == [["1,000"], ["1,000"]]


def segments(database: Database) -> list[SegmentRow]:
    with open_records(database).newest(database) as view:
        return view.segments()


@given(
    sizes=st.one_of(
        st.lists(st.integers(1, 40_000), max_size=40),
        st.lists(st.just(1), max_size=3_000),
        st.lists(st.sampled_from([1, 2, 3, 500, 5_000]), max_size=300),
    )
)
def test_a_chunk_is_written_again_only_into_a_segment_of_half_as_many_chunks_more(sizes: list[int]) -> None:
    kept: list[Namespace] = []
    for size in sizes:
        kept.append(Namespace(n_live=size, n_writes=1))
        while chosen := upkeep._choose_small(kept):  # type: ignore[arg-type]
            n_live = sum(each.n_live for each in chosen)
            assert n_live <= MAX_CHUNKS
            assert all(n_live >= 1.5 * each.n_live for each in chosen)
            n_writes = 1 + max(each.n_writes for each in chosen)
            assert n_writes <= 1 + math.log(MAX_CHUNKS, 1.5)
            kept = sorted(kept, key=lambda each: each.n_live)[len(chosen) :]
            kept.append(Namespace(n_live=n_live, n_writes=n_writes))
    in_order = sorted(each.n_live for each in kept)
    # Those that could be one segment grow by half of all that are smaller.
    for number in range(1, len(in_order)):
        if sum(in_order[: number + 1]) <= MAX_CHUNKS:
            assert sum(in_order[:number]) < in_order[number] / 2
    assert sum(in_order) == sum(sizes)


def test_a_segment_of_mostly_outdated_chunks_is_written_anew(database: Database) -> None:
    fill(database, [PLAIN] * 3)
    update_index(database)
    with database.write() as transaction:
        document_writer.delete_document(transaction, 2)
    update_index(database)
    assert counts(database)[:2] == (2, 0)
    with open_records(database).newest(database) as view:
        assert not len(view.changes().document_ids), "no segment needs the note of the deletion"
    with database.write() as transaction:
        for document_id in (1, 3):
            document_writer.delete_document(transaction, document_id)
    update_index(database)
    with open_records(database).newest(database) as view:
        assert view.segments() == []
    assert_found(database, 0)


@pytest.mark.parametrize(
    ("function", "n_indexed"),
    [("_add", 0), ("_forget_changes", 2), ("_merge", 2)],
    ids=["before the row", "after the row", "before the merge"],
)
def test_after_a_crash_every_document_is_found_and_indexed_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, function: str, n_indexed: int
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise CrashError

    fill(database, [PLAIN] * 2)
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, function, crash)
        with pytest.raises(CrashError):
            update_index(database)
    assert counts(database) == (n_indexed, 2 - n_indexed, 1)
    assert_found(database, 2)
    monkeypatch.setattr(files, "KEPT_SECONDS", -1.0)
    assert update_index(database)
    assert counts(database) == (2, 0, 1), "a file without a row is removed"
    assert_found(database, 2)


def test_a_crash_while_merging_leaves_the_merged_segments(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MERGED_TOGETHER", 2)
    fill(database, [PLAIN])
    update_index(database)
    fill(database, [PLAIN], first=1)
    add, n_added = upkeep._add, 0

    def crash_at_the_second(*arguments: Any) -> None:
        nonlocal n_added
        n_added += 1
        if n_added == 2:
            raise CrashError
        add(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "_add", crash_at_the_second)
        with pytest.raises(CrashError):
            update_index(database)
    assert counts(database) == (2, 0, 3)
    assert_found(database, 2)
    monkeypatch.setattr(files, "KEPT_SECONDS", -1.0)
    update_index(database)
    assert counts(database) == (2, 0, 1)
    assert_found(database, 2)


def test_files_of_merged_segments_stay_for_readers_of_an_older_state(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MERGED_TOGETHER", 2)
    reader = open_database(database.url, database.index_folder.parents[1])
    fill(database, [PLAIN])
    update_index(database)
    with reader.snapshot() as snapshot, open_records(reader).view(snapshot) as view:
        [before] = view.segments()
        fill(database, [PLAIN], first=1)
        update_index(database)
        assert counts(database) == (2, 0, 3)
        assert IndexCache(reader).of(snapshot).index.totals.n_documents == 1
        assert before.file_name in {path.name for path in segment_files(database)}
        monkeypatch.setattr(files, "KEPT_SECONDS", -1.0)
        update_index(database)
        assert counts(database) == (2, 0, 1), "no read takes as long"
        monkeypatch.undo()
    update_index(database)
    assert counts(database) == (2, 0, 1)
    assert_found(database, 2)
    reader.close()


def test_unfinished_files_are_removed_later(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(database, [PLAIN])
    update_index(database)
    folder = IndexFiles(database).folder
    unfinished = folder / f"0{files.UNFINISHED}"
    unfinished.write_bytes(b"half")
    (folder / "note.txt").touch()
    update_index(database)
    assert unfinished.exists(), "another process may be writing it"
    monkeypatch.setattr(files, "KEPT_SECONDS", -1.0)
    update_index(database)
    assert not unfinished.exists()
    assert (folder / "note.txt").exists(), "not a file of the index"


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [remove, cut, empty])
@pytest.mark.parametrize("by_search", [True, False])
def test_a_damaged_segment_is_built_anew(database: Database, damage: Any, by_search: bool) -> None:
    fill(database, [PLAIN] * 2)
    update_index(database)
    (path,) = segment_files(database)
    damage(path)
    if by_search:
        IndexCache(database).prepare()
    else:
        update_index(database)
    assert counts(database)[:2] == (2, 0)
    assert_found(database, 2)


def test_a_full_disk_leaves_documents_noted_and_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fill(database, [PLAIN] * 2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", is_full)
        with pytest.raises(DiskFullError, match="no space left for the index; free some"):
            update_index(database)
        left = [path.suffix for path in IndexFiles(database).folder.iterdir()]
        assert not {*left} & {*COMPLETE, UNFINISHED}
        assert counts(database) == (0, 2, 0)
        assert_found(database, 2)
    assert update_index(database)
    assert counts(database) == (2, 0, 1)


def test_the_index_is_not_begun_without_the_space_for_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, [PLAIN] * 2)
    monkeypatch.setattr("shutil.disk_usage", lambda _: Namespace(free=0))
    with pytest.raises(DiskFullError, match="needs 0 MB of free disk space, and there are 0 MB; free some"):
        update_index(database)
    assert counts(database) == (0, 2, 0)
    assert_found(database, 2)


def test_a_search_writes_a_segment_if_too_much_is_missing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_index, "MAX_CHUNKS_IN_MEMORY", 3)
    fill(database, [PLAIN])
    assert_found(database, 1)
    # Records of a machine begin with a comparison of all documents, which indexes them.
    assert counts(database) == (0, 1, 0) if database.has_index_records else (1, 0, 1)
    fill(database, [PLAIN] * 2, first=1)
    assert_found(database, 3)
    assert counts(database)[:2] == (3, 0)


def test_documents_too_many_for_memory_are_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_index, "MAX_CHUNKS_IN_MEMORY", 2)
    fill(database, [PLAIN] * 5)
    with database.snapshot() as snapshot:
        library = index_of(database, snapshot)
        assert (library.n_missing, library.n_chunks) == (3, 4)


def test_threads_at_once_index_each_document_once(database: Database) -> None:
    fill(database, [PLAIN] * 20)
    start = threading.Barrier(4)
    done: list[bool] = []

    def work() -> None:
        start.wait()
        done.append(update_index(database))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert any(done)
    assert counts(database) == (20, 0, 1)
    assert_found(database, 20)


def test_processes_at_once_index_each_document_once(database: Database) -> None:
    fill(database, [PLAIN] * 20)
    code = (
        "import sys; from shoal.index.upkeep import update_index; "
        "from shoal.storage.opening import open_database; sys.stdin.readline(); "
        "from pathlib import Path; database = open_database(sys.argv[1], Path(sys.argv[2])); "
        "update_index(database); database.close()"
    )
    command = [sys.executable, "-c", code, database.url, str(database.index_folder.parents[1])]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait(120) for process in processes] == [0, 0]
    assert counts(database) == (20, 0, 1)
    assert_found(database, 20)
