"""Hostile filters: what they leave in memory, what they cost the next search, and when they end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_scorer import FakeScorer
from filter_model import NAMES, met_chunks, store
from generated_libraries import open_library
from hypothesis import given
from hypothesis import strategies as st

from shoal import Engine
from shoal.errors import ReadTimeoutError
from shoal.filters import evaluation
from shoal.filters.columns import Column
from shoal.filters.evaluation import ENTRY_BYTES, DocumentTable, DocumentTables, FilterState, RecentlyUsed
from shoal.filters.parsing import make_filter
from shoal.filters.tree import Condition, Field, Node, Op, span_of
from shoal.models.documents import DocFormat
from shoal.search.library_index import IndexCache, LibraryView
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal.storage.database import Deadline, Snapshot

DOCUMENTS = [({"n": i}, [], "t", None, DocFormat.markdown, [1.0]) for i in range(3)]


def filter_of(expression: str) -> Node:
    node = make_filter(expression)
    assert node is not None
    return node


def calls_of(run: Callable[[], object]) -> int:
    """Count the calls of functions that a call makes, those of built-in functions included."""
    n = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal n
        n += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return n


class EndsAfter(Deadline):
    """A deadline that is over after some checks."""

    def __init__(self, n_checks: int) -> None:
        super().__init__(60)
        self.left = n_checks

    @property
    def is_over(self) -> bool:
        self.left -= 1
        return self.left < 0


def table_of(snapshot: Snapshot) -> DocumentTable:
    return DocumentTables().of(snapshot)


@given(
    st.integers(1, 3000),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900), st.booleans()), max_size=40),
)
def test_cache_keeps_the_most_recently_used_that_fit(
    max_bytes: int, steps: list[tuple[int, int, bool]]
) -> None:
    cache: RecentlyUsed[int, int] = RecentlyUsed(max_bytes)
    model: dict[int, int] = {}
    for key, n_bytes, is_put in steps:
        if is_put:
            cache.put(key, n_bytes, n_bytes)
            model.pop(key, None)
            model[key] = n_bytes
            while len(model) > 1 and sum(model.values()) + ENTRY_BYTES * len(model) > max_bytes:
                del model[next(iter(model))]
        else:
            assert cache.get(key) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
        assert cache.items() == list(model.items())
        assert cache.n_bytes == sum(model.values()) + ENTRY_BYTES * len(model)


def test_condition_costs_the_same_however_many_results_are_held() -> None:
    with open_library([]) as database:
        store(database, DOCUMENTS)
        with database.snapshot() as snapshot:
            table = table_of(snapshot)

            def meet(number: int) -> None:
                table.met(snapshot, Condition(Field("metadata", ("n",)), Op.lt, (number,)))

            meet(0)
            few = calls_of(lambda: meet(1)), calls_of(lambda: meet(1))
            for number in range(2, 3000):
                meet(number)
            assert len(table.masks) == 3000
            assert (calls_of(lambda: meet(3000)), calls_of(lambda: meet(3000))) == few


def test_values_of_conditions_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_MASK_BYTES", 2 << 20)
    with open_library([]) as database:
        store(database, DOCUMENTS)
        with database.snapshot() as snapshot:
            table = table_of(snapshot)
            for number in range(20):
                values = tuple(f"value {i} of request {number}" for i in range(5_000))
                table.met(snapshot, Condition(Field("metadata", ("n",)), Op.any_of, values))
            held = sum(
                sys.getsizeof(values) + sum(map(sys.getsizeof, values))
                for (_, _, values, _), _ in table.masks.items()
            )
            assert 0 < held <= table.masks.n_bytes <= 2 << 20


def test_columns_of_unknown_keys_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_COLUMNS", 10)
    with open_library([]) as database:
        store(database, DOCUMENTS)
        cache = IndexCache(database)
        for number in range(30):
            assert met_chunks(database, cache, filter_of(f"unknown{number} = 1")) == []
        assert met_chunks(database, cache, filter_of("n = 1")) == [2]
        with database.snapshot() as snapshot:
            columns = cache.fields.documents.of(snapshot).columns
            assert len(columns) == 10
            assert columns.n_bytes > 10 * ENTRY_BYTES


def test_filter_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    n_met = 0
    met = Column.met

    def counted(column: Column, condition: Condition) -> Any:
        nonlocal n_met
        n_met += 1
        return met(column, condition)

    monkeypatch.setattr(Column, "met", counted)
    with open_library([]) as database:
        store(database, DOCUMENTS)
        cache = IndexCache(database)
        with database.snapshot() as snapshot:
            library = cache.of(snapshot)
            state = FilterState(snapshot, library.index, library.fields, NAMES)
            state.met(filter_of("n < 0 AND confidence > 0"))
            n_met = 0
            snapshot.deadline = EndsAfter(5)
            tree = filter_of(" OR ".join(f"n < {i} OR confidence > 0.{i}" for i in range(1, 50)))
            with pytest.raises(ReadTimeoutError):
                state.met(tree)
    assert n_met == 5


@pytest.mark.parametrize("lock", ["columns", "tables"])
def test_wait_for_another_search_ends_at_the_deadline(lock: str) -> None:
    with open_library([]) as database:
        store(database, DOCUMENTS)
        with database.snapshot() as snapshot:
            tables = DocumentTables()
            table = tables.of(snapshot)
            snapshot.deadline = Deadline(0.01)
            with table._reading if lock == "columns" else tables._lock, pytest.raises(ReadTimeoutError):
                tables.of(snapshot).column(snapshot, Field("metadata", ("n",)))


def test_one_column_at_a_time_is_read_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, may_end = threading.Event(), threading.Event()
    fields: list[Field] = []

    def slow(snapshot: Snapshot, field: Field, *_: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            raise ReadTimeoutError(1)
        fields.append(field)
        reading.set()
        may_end.wait(60)
        return iter(())

    monkeypatch.setattr(evaluation, "read_values", slow)
    with open_library([]) as database:
        store(database, DOCUMENTS)
        tables = DocumentTables(database)
        with database.snapshot() as snapshot:
            for name in "abc":
                # Another table, because the column of the first one is being read in this one.
                with pytest.raises(ReadTimeoutError):
                    tables._read(snapshot, 1)._read(snapshot, Field("metadata", (name,)))
                assert reading.wait(60)
        may_end.set()
        with tables._reading_late:
            assert fields == [Field("metadata", ("a",))]


def test_batch_has_the_time_of_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[Deadline] = []
    read_page = Searcher.read_page

    def recorded(self: Searcher, view: LibraryView, *arguments: Any) -> Any:
        deadlines.append(view.snapshot.deadline)
        return read_page(self, view, *arguments)

    monkeypatch.setattr(Searcher, "read_page", recorded)
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        engine.ingest(content="Lava and rock.", title="Fire")
        engine.limit_reads(60)
        assert all(answer.error is None for answer in engine.search_many(["rock", "lava", "fire"]).answers)
    assert len(set(map(id, deadlines))) == 1
    assert 0 < deadlines[0].remaining() <= 60


def test_searches_of_a_batch_after_a_slow_filter_have_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = Column.met
    n_met = 0

    def counted(column: Column, condition: Condition) -> Any:
        nonlocal n_met
        n_met += 1
        return met(column, condition)

    monkeypatch.setattr(Column, "met", counted)
    monkeypatch.setattr(Deadline, "is_over", property(lambda _: n_met > 2))
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        engine.ingest(content="Lava and rock.", title="Fire", metadata={"n": 1})
        engine.limit_reads(60)
        searches = [{"query": "rock", "filter": f"n < {i + 5} AND n < {i + 100}"} for i in range(5)]
        answers = engine.search_many(searches).answers
    assert [type(answer.error) for answer in answers] == [type(None), *([ReadTimeoutError] * 4)]
    assert n_met == 3


@given(st.lists(st.sampled_from([2025, 2026, "2026-01", "2026-01-31", "2026-02-01T12:00:00Z"]), max_size=5))
def test_list_of_dates_means_any_of_their_spans(dates: list[int | str]) -> None:
    days = [begin for day in range(1, 29) for begin, _ in [span_of(f"2026-01-{day:02d}") or (0, 0)]]
    days += [begin for text in ("2025-06-01", "2026-01-31", "2026-02-01T12") if (span := span_of(text))
             for begin in span]  # fmt: skip
    column = Column.of_numbers(np.array(days, dtype=np.float64))

    def met(*values: int | str) -> list[bool]:
        is_met: list[bool] = column.met(Condition(Field("created"), Op.any_of, values)).tolist()
        return is_met

    singly = [met(date) for date in dates]
    assert met(*dates) == [any(each) for each in zip(*singly, strict=True)] if dates else not any(met())
