"""Trees of conditions on generated libraries, against an evaluation document by document in plain Python."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from filter_model import BIG, NAMES, NOW, documents, meets, met_chunks, rows_of, store, trees
from generated_libraries import MANY, open_library
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import make_scored
from waiting import until

from shoal.errors import ReadTimeoutError
from shoal.filters import columns, evaluation
from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import make_filter
from shoal.filters.tree import Field, Node, Op, text_of
from shoal.models.documents import DocFormat
from shoal.search.library_index import IndexCache
from shoal.storage import document_writer
from shoal.storage.database import Snapshot


@MANY
@given(stored=st.lists(documents, min_size=1, max_size=5), node=trees())
def test_tree_is_met_where_plain_python_says_so(stored: list[tuple[Any, ...]], node: Node) -> None:
    with open_library([]) as database:
        store(database, stored)
        expected = [row["chunk_id"] for row in rows_of(database) if meets(node, row)]
        assert met_chunks(database, IndexCache(database), node) == expected


@MANY
@given(node=trees())
def test_text_of_a_tree_is_parsed_to_the_same_tree(node: Node) -> None:
    parsed = make_filter(text_of(node))
    assert parsed is not None
    assert text_of(parsed) == text_of(node)
    assert repr(parsed) == repr(make_filter(text_of(parsed)))


changes = st.lists(
    st.tuples(st.sampled_from(["tags", "metadata", "delete", "add", "look"]), st.integers(0, 4), documents),
    min_size=1,
    max_size=6,
)


@MANY
@given(
    stored=st.lists(documents, min_size=2, max_size=4),
    changed=changes,
    nodes=st.lists(trees(), min_size=2, max_size=3),
)
def test_columns_follow_the_changes_of_a_library(
    stored: list[tuple[Any, ...]], changed: list[tuple[str, int, Any]], nodes: list[Node]
) -> None:
    with open_library([]) as database:
        store(database, stored)
        cache = IndexCache(database)
        for number, (change, target, facts) in enumerate(changed):
            for node in nodes:
                expected = [row["chunk_id"] for row in rows_of(database) if meets(node, row)]
                assert met_chunks(database, cache, node) == expected
            with database.write() as transaction:
                now = f"2026-02-{number + 1:02d}T00:00:00.000Z"
                if change == "tags":
                    document_writer.set_tags(transaction, target + 1, sorted(facts[1]), now=now)
                elif change == "metadata" and document_writer.identity(transaction, target + 1):
                    draft = make_scored(["x"], metadata=facts[0], tags=tuple(facts[1]), source_path=facts[3])
                    document_writer.update_head(transaction, target + 1, draft.draft, now=now)
                elif change == "delete":
                    document_writer.delete_document(transaction, target + 1)
            if change == "add":
                with database.write() as transaction:
                    scored = make_scored(
                        [f"new {number}"], metadata=facts[0], tags=tuple(facts[1]), title=facts[2]
                    )
                    document_writer.insert_document(transaction, scored, now=NOW)
        for node in nodes:
            expected = [row["chunk_id"] for row in rows_of(database) if meets(node, row)]
            assert met_chunks(database, cache, node) == expected


def test_search_sees_the_fields_of_its_own_snapshot() -> None:
    """A search that began before a change, and reads a field after a later search has."""
    tagged, late = (
        make_filter("tags = sea"),
        make_filter("section = Weather AND confidence >= 0 AND NOT a = 1"),
    )
    assert tagged is not None
    assert late is not None

    def met(cache: IndexCache, snapshot: Snapshot, node: Node) -> list[int]:
        library = cache.of(snapshot)
        state = FilterState(snapshot, library.index, library.fields, NAMES)
        places = np.flatnonzero(state.met(node) & library.index.live())
        return sorted(library.index.document_ids(places).tolist())

    with open_library([]) as database:
        with database.write() as transaction:
            for i in range(3):
                scored = make_scored([f"text {i}"], tags=("sea",), metadata={"a": i})
                document_writer.insert_document(transaction, scored, now=NOW)
        cache = IndexCache(database)
        with database.snapshot() as before:
            assert met(cache, before, tagged) == [1, 2, 3]
            with database.write() as transaction:
                document_writer.set_tags(transaction, 1, (), now=NOW)
                document_writer.delete_document(transaction, 3)
            with database.write() as transaction:
                scored = make_scored(["text 4"], tags=("sea",), metadata={"a": 1})
                document_writer.insert_document(transaction, scored, now=NOW)
            with database.snapshot() as after:
                assert met(cache, after, tagged) == [2, 4]
                assert met(cache, after, late) == [1]
            assert met(cache, before, tagged) == [1, 2, 3]
            assert met(cache, before, late) == [1, 3]
        with database.snapshot() as after:
            assert met(cache, after, late) == [1]


def test_memory_of_columns_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_COLUMN_BYTES", 1)
    monkeypatch.setattr(evaluation, "MAX_MASK_BYTES", 1)
    with open_library([]) as database:
        store(database, [({"a": i, "b": str(i)}, [], "t", None, DocFormat.markdown, [1.0]) for i in range(5)])
        cache = IndexCache(database)
        for number in range(3):
            for node in (make_filter(f"a = {number}"), make_filter(f"b = '{number}'")):
                assert node is not None
                assert met_chunks(database, cache, node) == [number + 1]
                with database.snapshot() as snapshot:
                    assert len(cache.fields.documents.of(snapshot).columns) == 1


@given(
    st.lists(st.text("abcß \0\1", max_size=40), unique=True, max_size=8),
    st.integers(0, 60),
    st.integers(1, 30),
)
def test_texts_with_a_part_are_found(stored: list[str], begin: int, length: int) -> None:
    texts = columns.Texts()
    for text in stored:
        texts.code(text)
    needle = "".join(stored).upper()[begin : begin + length] or "absent"
    folded = [text.casefold().replace("\0", "\2") for text in stored]
    wanted = needle.casefold().replace("\0", "\2")
    for op, find in ((Op.contains, str.__contains__), (Op.prefix, str.startswith), (Op.suffix, str.endswith)):
        met = {code for code, text in enumerate(folded) if find(text, wanted)}
        assert set(texts.codes_with(needle, op).tolist()) == met


def test_library_without_documents_meets_nothing() -> None:
    with open_library([]) as database:
        for expression in ("a = 1", "NOT a = 1", "page EXISTS"):
            node = make_filter(expression)
            assert node is not None
            assert met_chunks(database, IndexCache(database), node) == []


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        (f"n = {BIG}", [1]),
        (f"n = {BIG + 1}", [2]),
        (f"n IN [{BIG + 1}, 5]", [2]),
        (f"n > {BIG}", [2, 3]),
        (f"n <= {BIG}", [1]),
        (f"n < {BIG + 1}", [1]),
        ("n > 1e300", [3]),
        ("n = 'x'", [4]),
        ("NOT n > 0", [4, 5, 6]),
        ("n EXISTS", [1, 2, 3, 4, 5]),
        ("d = 2026-01", []),
        ("d >= 2026-01", [1, 2, 3, 4]),
        ("d > 2026-01", [4]),
        ("d <= 2026-01", [1, 2, 3, 6]),
        ("d < 2026-01", [6]),
        ("d <= 2026-01-31", [1, 2, 3, 6]),
        ("d > 2026-01-31", [4]),
        ("d >= 2026-01-31T12:00:00Z", [2, 3, 4]),
        ("d > 2026-01-31T12:00:00Z", [3, 4]),
    ],
)
def test_numbers_compare_exactly_and_dates_as_spans(expression: str, met: list[int]) -> None:
    stored: list[dict[str, Any]] = [
        {"n": BIG, "d": "2026-01-31"},
        {"n": BIG + 1, "d": "2026-01-31T13:00:00+01:00"},
        {"n": 10**400, "d": "2026-01-31 23:59:59"},
        {"n": "x", "d": "2026-02-01"},
        {"n": [], "d": "soon"},
        {"d": "2025-12-31"},
    ]
    node = make_filter(expression)
    assert node is not None
    with open_library([]) as database:
        with database.write() as transaction:
            for i, metadata in enumerate(stored):
                document_writer.insert_document(
                    transaction, make_scored([f"text {i}"], metadata=metadata), now=NOW
                )
        assert met_chunks(database, IndexCache(database), node) == met


def test_column_that_was_read_slowly_is_followed_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    full: list[Field] = []
    read = evaluation.read_values

    def counted(snapshot: Snapshot, field: Field, ids: Any, among: Any) -> Any:
        if among is None:
            full.append(field)
        return read(snapshot, field, ids, among)

    monkeypatch.setattr(evaluation, "read_values", counted)
    node = make_filter("a = 1")
    assert node is not None
    tables = evaluation.DocumentTables()
    with open_library([]) as database:
        store(database, [({"a": 1}, [], "t", None, DocFormat.markdown, [1.0]) for _ in range(3)])
        with database.snapshot() as before:
            older = tables.of(before)
            with database.write() as transaction:
                draft = make_scored(["x"], metadata={"a": 2}).draft
                document_writer.update_head(transaction, 2, draft, now=NOW)
                document_writer.insert_document(transaction, make_scored(["y"], metadata={"a": 1}), now=NOW)
            with database.snapshot() as after:
                newer = tables.of(after)
                assert older.met(before, node).tolist() == [True, True, True]  # type: ignore[arg-type]
                assert newer.met(after, node).tolist() == [True, False, True, True]  # type: ignore[arg-type]
                assert older.met(before, node).tolist() == [True, True, True]  # type: ignore[arg-type]
    assert len(full) == 1


def test_column_that_takes_longer_than_a_search_may_is_read_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = make_filter("a = 1")
    assert node is not None
    read = evaluation.read_values

    def slow(snapshot: Snapshot, field: Field, ids: Any, among: Any) -> Any:
        is_limited = threading.current_thread() is threading.main_thread()
        for value in read(snapshot, field, ids, among):
            if is_limited:
                raise ReadTimeoutError(1)
            yield value

    monkeypatch.setattr(evaluation, "read_values", slow)
    with open_library([]) as database:
        store(database, [({"a": 1}, [], "t", None, DocFormat.markdown, [1.0])])
        cache = IndexCache(database)
        with pytest.raises(ReadTimeoutError):
            met_chunks(database, cache, node)
        until(lambda: not cache.fields.documents._reading_late.locked())
        assert met_chunks(database, cache, node) == [1]
