"""Names of other search engines, and the arguments that they mean here."""

from __future__ import annotations

import pytest

from shoal.search.request import SEARCH_ARGUMENTS
from shoal.support.other_names import SAME_MEANING, meant_name


@pytest.mark.parametrize(
    ("argument", "others"),
    [
        ("top_k", ["limit", "k", "size", "n_results", "num_results", "hitsPerPage", "TopK", "top-k", "topK"]),
        ("query", ["q", "query_text", "query_texts"]),
        ("filter", ["where", "filter_by", "fq"]),
        ("offset", ["from", "skip"]),
        ("min_relevance", ["score_threshold", "min_score", "threshold"]),
        ("sort", ["sort_by", "orderBy"]),
        ("document_ids", ["document_id", "doc"]),
    ],
)
def test_the_name_of_another_engine_means_the_argument_here(argument: str, others: list[str]) -> None:
    for other in others:
        assert meant_name(other, (*SEARCH_ARGUMENTS, "document_ids")) == argument, other


def test_a_name_that_a_call_has_is_preferred() -> None:
    assert meant_name("top_k", ["limit", "offset"]) == "limit"
    assert meant_name("query", ["q", "query_log"]) == "q"
    assert meant_name("where", ["name", "tags"]) is None


def test_a_misspelling_is_recognized_and_something_else_is_not() -> None:
    assert meant_name("min_relevence", SEARCH_ARGUMENTS) == "min_relevance"
    assert meant_name("zzzz", SEARCH_ARGUMENTS) is None
    assert meant_name("", SEARCH_ARGUMENTS) is None


def test_no_name_has_two_meanings() -> None:
    names = [name for names in SAME_MEANING for name in names]
    assert len(names) == len(set(names))
