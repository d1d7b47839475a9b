"""Metadata and source paths: returned with results, and used as filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_scorer import FakeScorer
from generated_libraries import MANY, SCORER, index_of, open_library
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import make_scored

from shoal.engine import Engine
from shoal.search.filters import compile_filters
from shoal.search.request import make_filters
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp

RAIN = "Rain and storm. Wind and rain. Snow in the cold season, and heat."

# Few keys and values; some look alike in JSON but differ in type or level.
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


def equal(stored: Any, required: Any) -> bool:
    """Equality as in JSON: numbers are one type, booleans another. A list has each of its elements."""
    if isinstance(stored, list):
        return any(not isinstance(element, list) and equal(element, required) for element in stored)
    are_numbers = [
        isinstance(value, int | float) and not isinstance(value, bool) for value in (stored, required)
    ]
    return stored == required and (all(are_numbers) or type(stored) is type(required))


def eligible_chunks(database: Database, snapshot: Snapshot, metadata: dict[str, Any]) -> set[int]:
    compiled_filters = compile_filters(
        make_filters({"metadata": metadata}, Settings()), SCORER, label_threshold=0.5
    )
    library = index_of(database, snapshot)
    return set(library.index.chunk_ids(np.flatnonzero(compiled_filters.met_by(snapshot, library))).tolist())


@MANY
@given(
    stored=st.lists(st.dictionaries(keys, values, max_size=4), min_size=1, max_size=4),
    drawn=st.data(),
)
def test_metadata_filter_compares_top_level_values_like_json(
    stored: list[dict[str, Any]], drawn: st.DataObject
) -> None:
    stored_pairs = [
        (key, value)
        for metadata in stored
        for key, value in metadata.items()
        if not isinstance(value, list | dict)
    ]
    stored_pairs += [
        (key, element)
        for metadata in stored
        for key, value in metadata.items()
        if isinstance(value, list)
        for element in value
        if not isinstance(element, list | dict)
    ]
    pairs = st.tuples(keys, scalars) | (st.sampled_from(stored_pairs) if stored_pairs else st.nothing())
    required = dict(drawn.draw(st.lists(pairs, max_size=2)))
    with open_library([]) as database:
        with database.write() as transaction:
            for i, metadata in enumerate(stored):
                scored = make_scored([f"text {i}"], metadata=metadata)
                document_writer.insert_document(transaction, scored, now=timestamp())
        with database.snapshot() as snapshot:
            expected = {
                i
                for i, metadata in enumerate(stored, start=1)
                if all(key in metadata and equal(metadata[key], value) for key, value in required.items())
            }
            assert eligible_chunks(database, snapshot, required) == expected


def test_results_have_the_metadata_of_their_documents(engine: Engine) -> None:
    metadata = {result.document_title: result.metadata for result in engine.search("rain and storm").results}
    assert metadata == {
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
def test_results_are_from_documents_that_meet_the_filter(
    engine: Engine, filters: dict[str, Any], titles: list[str]
) -> None:
    for mode in ("hybrid", "lexical", "reef"):
        reply = engine.search("rain and storm", mode=mode, filters=filters, max_per_document=1)
        assert sorted(result.document_title for result in reply.results) == titles


def test_explanation_names_the_metadata_key_that_kept_a_document_out(engine: Engine) -> None:
    filters = {"metadata": {"lang": "en", "year": 2026}, "source_path": ["elsewhere"]}
    target = engine.explain("rain", document_id=1, filters=filters).target
    assert target is not None
    assert [kept_out.message for kept_out in target.kept_out] == [
        "it does not meet the filter source_path",
        "it does not meet the filter metadata.lang",
    ]
    assert target.would_rank is not None
