"""What a document was handed in with comes back with its passages, and says which of them may be results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from made_libraries import MANY, SCORER, a_library
from scored_documents import make_scored

from shoal.engine import Engine
from shoal.models import SearchFilters
from shoal.search.filters import compile_filters
from shoal.search.request import make_filters
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Snapshot
from shoal.support.clock import timestamp

RAIN = "Rain and storm. Wind and rain. Snow in the cold season, and heat."

# Few keys and values, some of which read alike as JSON and are not: the type tells, and the level.
keys = st.sampled_from(["a", "b", '"', "\\", 'a":1,"b', "ä\u2028", ""]) | st.text(max_size=3)
scalars = st.sampled_from(
    [0, 1, 1.0, -0.5, 0.1, True, False, None, "", "1", "true", "null", '"a":1', "ä", "\x01"]
) | st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for i, metadata in enumerate(({"lang": "de", "year": 2026}, {"lang": "en", "year": "2026"}, None)):
            opened.ingest(
                title=f"Rain {i}",
                content=f"{RAIN} Number {i}.",
                metadata=metadata,
                source_path=f"notes/{i}.txt",
            )
        yield opened


def equal(stored: Any, wanted: Any) -> bool:
    """As JSON has it: numbers are of one type, truth values of another."""
    numbers = [isinstance(one, int | float) and not isinstance(one, bool) for one in (stored, wanted)]
    return stored == wanted and (all(numbers) or type(stored) is type(wanted))


def let_through(snapshot: Snapshot, wanted: dict[str, Any]) -> set[int]:
    compiled_filters = compile_filters(make_filters({"metadata": wanted}, Settings()), SCORER)
    if not compiled_filters:
        return {row[0] for row in snapshot.rows("SELECT id FROM chunks")}
    return {row[0] for row in snapshot.rows(compiled_filters.eligible, compiled_filters.parameters)}


@MANY
@given(
    stored=st.lists(st.dictionaries(keys, values, max_size=4), min_size=1, max_size=4),
    drawn=st.data(),
)
def test_metadata_are_equal_as_json_has_it_at_their_top_level(
    stored: list[dict[str, Any]], drawn: st.DataObject
) -> None:
    there = [
        (key, value)
        for metadata in stored
        for key, value in metadata.items()
        if not isinstance(value, list | dict)
    ]
    pairs = st.tuples(keys, scalars) | (st.sampled_from(there) if there else st.nothing())
    wanted = dict(drawn.draw(st.lists(pairs, max_size=2)))
    with a_library([]) as database:
        with database.write() as connection:
            for i, metadata in enumerate(stored):
                scored = make_scored([f"text {i}"], metadata=metadata)
                document_writer.insert_document(connection, scored, now=timestamp())
        with database.snapshot() as snapshot:
            expected = {
                i
                for i, metadata in enumerate(stored, start=1)
                if all(key in metadata and equal(metadata[key], value) for key, value in wanted.items())
            }
            assert let_through(snapshot, wanted) == expected


def test_metadata_are_looked_for_beside_one_another() -> None:
    """By the index of those who have any: no document is read."""
    compiled_filters = compile_filters(SearchFilters(metadata={"lang": "de", "year": 1}), SCORER)
    with a_library([]) as database, database.snapshot() as snapshot:
        plan = snapshot.rows(f"EXPLAIN QUERY PLAN {compiled_filters.eligible}", compiled_filters.parameters)
        lines = [row["detail"] for row in plan if row["detail"].split()[:2] == ["SCAN", "d"]]
        assert lines == ["SCAN d USING COVERING INDEX idx_documents_metadata"] * 2
        by_path = compile_filters(SearchFilters(source_path=("a", "b")), SCORER)
        plan = snapshot.rows(f"EXPLAIN QUERY PLAN {by_path.eligible}", by_path.parameters)
        assert any("idx_documents_source_path" in row["detail"] for row in plan)


def test_results_bring_the_metadata_of_their_documents(engine: Engine) -> None:
    found = {result.document_title: result.metadata for result in engine.search("rain and storm").results}
    assert found == {
        "Rain 0": {"lang": "de", "year": 2026},
        "Rain 1": {"lang": "en", "year": "2026"},
        "Rain 2": {},
    }


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({"metadata": {"lang": "de"}}, ["Rain 0"]),
        ({"metadata": {"year": 2026}}, ["Rain 0"]),
        ({"metadata": {"year": "2026"}}, ["Rain 1"]),
        ({"metadata": {"lang": "de", "year": "2026"}}, []),
        ({"metadata": {}}, ["Rain 0", "Rain 1", "Rain 2"]),
        ({"source_path": "notes/1.txt"}, ["Rain 1"]),
        ({"source_path": ["notes/1.txt", "notes/2.txt", "x"]}, ["Rain 1", "Rain 2"]),
        ({"source_path": "notes/1"}, []),
        ({"source_path": []}, []),
        ({"source_path": "notes/0.txt", "metadata": {"lang": "de"}}, ["Rain 0"]),
    ],
)
def test_only_documents_that_meet_the_filter_have_results(
    engine: Engine, filters: dict[str, Any], titles: list[str]
) -> None:
    for mode in ("hybrid", "lexical", "reef"):
        reply = engine.search("rain and storm", mode=mode, filters=filters, max_per_document=1)
        assert sorted(result.document_title for result in reply.results) == titles


def test_an_explanation_names_the_key_that_kept_a_document_out(engine: Engine) -> None:
    filters = {"metadata": {"lang": "en", "year": 2026}, "source_path": ["elsewhere"]}
    target = engine.explain("rain", document_id=1, filters=filters).target
    assert target is not None
    assert [one.message for one in target.kept_out] == [
        "it does not meet the filter source_path",
        "it does not meet the filter metadata.lang",
    ]
    assert target.would_rank is not None
