"""Every argument of a search is checked, and the error names it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import SearchFilters
from shoal.declared.arguments import MAX_IDS
from shoal.errors import QueryError
from shoal.models.documents import DocFormat
from shoal.models.search import TagsMatch
from shoal.search.filters import compile_filters
from shoal.search.request import make_request
from shoal.settings import Settings

SETTINGS = Settings()
NAN = float("nan")


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("query", {"query": ""}),
        ("query", {"query": " \n\t"}),
        ("query", {"query": "x" * 4097}),
        ("query", {"query": b"bytes"}),
        ("query", {"query": None}),
        ("query", {"query": "half \ud83d a character"}),
        ("top_k", {"top_k": 0}),
        ("top_k", {"top_k": -1}),
        ("top_k", {"top_k": 101}),
        ("top_k", {"top_k": 10**30}),
        ("top_k", {"top_k": "10"}),
        ("top_k", {"top_k": 10.0}),
        ("top_k", {"top_k": True}),
        ("top_k", {"top_k": None}),
        ("mode", {"mode": "fuzzy"}),
        ("mode", {"mode": 3}),
        ("max_per_document", {"max_per_document": -1}),
        ("max_per_document", {"max_per_document": 1.5}),
        ("include_scores", {"include_scores": 1}),
        ("offset", {"offset": -1}),
        ("offset", {"offset": 10**9}),
        ("context", {"context": 11}),
        ("context", {"context": "1"}),
        ("preset", {"preset": "sharp"}),
        ("fusion", {"fusion": None}),
        ("weights", {"weights": [1, 2]}),
        ("weights.color", {"weights": {"color": 1}}),
        ("weights.reef", {"weights": {"reef": -0.5}}),
        ("weights.reef", {"weights": {"reef": NAN}}),
        ("weights.reef", {"weights": {"reef": 1e300}}),
        ("weights", {"weights": {}}),
        ("weights", {"weights": {"lexical": 0, "reef": 0.0}}),
        ("tags", {"tags": "biology"}),
        ("tags", {"tags": [1]}),
        ("tags", {"tags": [""]}),
        ("tags", {"tags": ["x" * 65]}),
        ("tags", {"tags": ["\udc80"]}),
        ("tags", {"tags": [str(i) for i in range(65)]}),
        ("tags", {"tags": ["a"], "filters": {"tags": ["b"]}}),
        ("min_confidence", {"min_confidence": "high"}),
        ("min_confidence", {"min_confidence": 1, "filters": {"min_confidence": 2}}),
        ("filters", {"filters": ["tags"]}),
        ("filters.tag", {"filters": {"tag": ["a"]}}),
        ("filters.tags", {"filters": {"tags": {"a": 1}}}),
        ("filters.tags_match", {"filters": {"tags_match": "some"}}),
        ("filters.min_confidence", {"filters": {"min_confidence": NAN}}),
        ("filters.min_confidence", {"filters": {"min_confidence": 10**400}}),
        ("filters.min_coverage", {"filters": {"min_coverage": 1.5}}),
        ("filters.reef_ids", {"filters": {"reef_ids": 3}}),
        ("filters.reef_ids", {"filters": {"reef_ids": [-1]}}),
        ("filters.island_ids", {"filters": {"island_ids": ["3"]}}),
        ("filters.archipelago", {"filters": {"archipelago": 4}}),
        ("filters.document_ids", {"filters": {"document_ids": [0]}}),
        ("filters.document_ids", {"filters": {"document_ids": [2**63]}}),
        ("filters.document_ids", {"filters": {"document_ids": range(1, MAX_IDS + 2)}}),
        ("filters.format", {"filters": {"format": "pdf"}}),
        ("filters.created_after", {"filters": {"created_after": "yesterday"}}),
        ("filters.created_after", {"filters": {"created_after": 20260131}}),
        ("filters.created_before", {"filters": {"created_before": "0001-01-01T00:00:00+14:00"}}),
        ("filters.archipelago", {"filters": SearchFilters(archipelago=9)}),
        ("filters.min_confidence", {"filters": {"min_confidence": -1}}),
        ("min_confidence", {"min_confidence": -0.5}),
        ("filters.source_path", {"filters": {"source_path": 3}}),
        ("filters.source_path", {"filters": {"source_path": [""]}}),
        ("filters.source_path", {"filters": {"source_path": ["x" * 5000]}}),
        ("filters.source_path", {"filters": {"source_path": ["\udc80"]}}),
        ("filters.name_contains", {"filters": {"name_contains": 3}}),
        ("filters.name_contains", {"filters": {"name_contains": "x" * 5000}}),
        ("filters.name_contains", {"filters": {"name_contains": "\udc80"}}),
        ("filters.file_type", {"filters": {"file_type": 3}}),
        ("filters.file_type", {"filters": {"file_type": "word document"}}),
        ("filters.file_type", {"filters": {"file_type": "' OR 1"}}),
        ("filters.metadata", {"filters": {"metadata": "lang=de"}}),
        ("filters.metadata", {"filters": {"metadata": {1: "a"}}}),
        ("filters.metadata", {"filters": {"metadata": {"\udc80": "a"}}}),
        ("filters.metadata", {"filters": {"metadata": dict.fromkeys("abcdefghijklmnopq", 1)}}),
        ("filters.metadata", {"filters": {"metadata": {"x" * 70_000: 1}}}),
        ("filters.metadata.lang", {"filters": {"metadata": {"lang": ["de", "en"]}}}),
        ("filters.metadata.lang", {"filters": {"metadata": {"lang": {"eq": "de"}}}}),
        ("filters.metadata.lang", {"filters": {"metadata": {"lang": "x" * 70_000}}}),
        ("filters.metadata.lang", {"filters": {"metadata": {"lang": "\udc80"}}}),
        ("filters.metadata.year", {"filters": {"metadata": {"year": 10**4300}}}),
        ("filters.metadata.year", {"filters": {"metadata": {"year": NAN}}}),
    ],
)
def test_invalid_argument_is_named(field: str, arguments: dict[str, Any]) -> None:
    query = arguments.pop("query", "rain")
    with pytest.raises(QueryError) as error:
        make_request(query, settings=SETTINGS, **arguments)
    assert error.value.field == field
    assert str(error.value)


@given(
    arguments=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            (
                "top_k",
                "mode",
                "tags",
                "min_confidence",
                "filters",
                "max_per_document",
                "include_scores",
                "offset",
                "context",
                "preset",
                "weights",
                "fusion",
            ),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(["tags", "reef_ids", "format", "metadata", "source_path", "x"]),
                        inner,
                        max_size=3,
                    )
                ),
                max_leaves=6,
            ),
        ),
    )
)
def test_any_json_is_accepted_or_raises_query_error(arguments: dict[str, Any]) -> None:
    try:
        make_request("rain", settings=SETTINGS, **arguments)
    except QueryError as error:
        assert error.field.split(".")[0] in arguments  # noqa: PT017 - both outcomes are valid


def test_filters_are_converted_to_their_final_types() -> None:
    request = make_request(
        "rain",
        settings=SETTINGS,
        tags=[" wet  days ", "wet days", "b"],
        filters={
            "tags_match": "any",
            "reef_ids": [3, 1, 3],
            "document_ids": [],
            "format": "markdown",
            "min_coverage": 1,
            "created_after": "2026-01-31",
            "created_before": datetime(2026, 2, 1, 12, tzinfo=UTC),
            "archipelago": None,
            "source_path": "a.md",
            "metadata": {"lang": "de", "year": 2026, "draft": False, "by": None},
        },
    )
    assert request.filters == SearchFilters(
        tags=("wet days", "b"),
        tags_match=TagsMatch.any,
        reef_ids=(3, 1),
        document_ids=(),
        format=DocFormat.markdown,
        min_coverage=1.0,
        created_after="2026-01-31T00:00:00.000Z",
        created_before="2026-02-01T12:00:00.000Z",
        source_path=("a.md",),
        metadata={"lang": "de", "year": 2026, "draft": False, "by": None},
    )


def test_empty_metadata_filter_is_no_condition() -> None:
    assert make_request("rain", settings=SETTINGS, filters={"metadata": {}}).filters == SearchFilters()


def test_times_are_converted_to_utc() -> None:
    filters = {"created_after": "2026-01-31T01:30:00.5+02:00"}
    request = make_request("rain", settings=SETTINGS, filters=filters)
    assert request.filters.created_after == "2026-01-30T23:30:00.500Z"


def test_misspelt_filter_gets_a_suggestion() -> None:
    with pytest.raises(QueryError, match="did you mean min_confidence"):
        make_request("rain", settings=SETTINGS, filters={"min_confidense": 1})


@pytest.mark.parametrize(
    ("field", "filters"),
    [("filters.reef_ids", {"reef_ids": [1, 99]}), ("filters.island_ids", {"island_ids": [7]})],
)
def test_reefs_and_islands_must_exist(field: str, filters: dict[str, list[int]]) -> None:
    scorer = SimpleNamespace(
        reefs=[SimpleNamespace(id=i, island_id=0) for i in range(5)], islands=[SimpleNamespace(id=0)]
    )
    with pytest.raises(QueryError) as error:
        compile_filters(
            make_request("rain", settings=SETTINGS, filters=filters).filters, scorer, label_threshold=0.5
        )
    assert error.value.field == field
