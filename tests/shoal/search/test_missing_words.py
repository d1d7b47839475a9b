"""Warnings about words that are not in the library, and the term coverage of results."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from examples import examples
from fake_scorer import REEF_WORDS, FakeScorer
from generated_libraries import index_of
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.models.search import SearchResult
from shoal.search.query_language import parse_query
from shoal.search.signals import find_matches, find_term_statistics
from shoal.settings import Settings

TEXTS = ("Rain falls on Wickham.", "Rain and storm.", "A judge and a jury.", "Lava of 1987.")
"""The scorer does not know `wickham`. It knows `crater` and `flower`, which are in no text; nor is `good`."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("missing") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{path}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for i, content in enumerate(TEXTS):
            opened.ingest(title=f"Text {i}", content=content)
        yield opened


def first_warning(engine: Engine, query: str, mode: str = "hybrid") -> str:
    return next(iter(engine.search(query, mode=mode).warnings), "")


def test_missing_words_are_the_first_warning(engine: Engine) -> None:
    reply = engine.search("rain crater qwertz wickham good")
    assert reply.results
    assert reply.query_info.missing_terms == ("crater", "qwertz", "good")
    assert reply.warnings[:2] == (
        "in no passage of this library: crater, qwertz, good",
        "not known to the topic model, so found by spelling alone: wickham",
    )


def test_parts_of_a_missing_identifier_are_not_said_to_be_found(engine: Engine) -> None:
    warnings = engine.search("rain qx1234-77").warnings
    assert warnings[0] == "in no passage of this library: qx1234-77"
    assert not any("spelling" in warning for warning in warnings)


def test_query_without_any_word_of_the_library_gets_a_warning(engine: Engine) -> None:
    by_reefs = engine.search("flower crater")
    assert by_reefs.results
    assert by_reefs.warnings[0] == (
        "no passage of this library contains a word of the query (flower, crater); "
        "results can only share reefs with it"
    )
    for query, mode in (("qwertz blorb", "hybrid"), ("flower crater", "lexical")):
        reply = engine.search(query, mode=mode)
        assert not reply.results
        words = query.replace(" ", ", ")
        assert reply.warnings == (
            f"no passage of this library contains a word of the query ({words}), so there are no results",
        )


def test_missing_required_terms_are_named(engine: Engine) -> None:
    for query, required in (
        ('rain "judge and storm"', '"judge and storm"'),
        ("rain title:qwertz", "title:qwertz"),
    ):
        reply = engine.search(query)
        assert not reply.results
        assert reply.warnings[0] == (
            f"no passage of this library contains what the query requires ({required}), "
            "so there are no results"
        )


def test_single_missing_known_word_gets_no_warning(engine: Engine) -> None:
    reply = engine.search("rain storm judge jury lava crater")
    assert reply.query_info.missing_terms == ("crater",)
    assert not any("no passage" in warning for warning in reply.warnings)
    # But an unknown word does, as do missing words in mode lexical, and half of the query.
    assert (
        first_warning(engine, "rain storm judge jury lava qwertz") == "in no passage of this library: qwertz"
    )
    assert first_warning(engine, "rain storm judge jury lava crater", "lexical").endswith("library: crater")
    assert first_warning(engine, "rain crater") == "in no passage of this library: crater"


@pytest.mark.parametrize("mode", ["hybrid", "reef", "lexical"])
def test_numbers_and_inflected_words_are_looked_up_like_words(engine: Engine, mode: str) -> None:
    info = engine.search("rains storming 1987 1988 RAINED judges", mode=mode).query_info
    assert info.missing_terms == ("1988",)


def test_empty_library_gives_no_warning_about_missing_words(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as empty:
        reply = empty.search("rain crater")
    assert reply.query_info.missing_terms == ("rain", "crater")
    assert not any("no passage" in warning for warning in reply.warnings)


def test_term_coverage_weights_words_by_rarity(engine: Engine) -> None:
    results = engine.search("rain storm wickham", top_k=100).results
    coverage = {result.text: result.term_coverage for result in results}
    # "rain" is in two chunks of four, the others in one.
    common, rare = math.log1p(2.5 / 2.5), math.log1p(3.5 / 1.5)
    whole = common + 2 * rare
    assert coverage["Rain falls on Wickham."] == pytest.approx((common + rare) / whole, abs=1e-6)
    assert coverage["Rain and storm."] == pytest.approx((common + rare) / whole, abs=1e-6)
    assert engine.search("storm and rain").results[0].term_coverage == 1.0
    by_reefs = engine.search("crater").results[0]
    assert (by_reefs.text, by_reefs.term_coverage) == ("Lava of 1987.", 0.0)


def test_query_of_common_words_alone_searches_them(engine: Engine) -> None:
    target = engine.explain("the and of", document_id=1).target
    assert target is not None
    assert target.term_coverage is not None


WORDS = " ".join(REEF_WORDS.values()).split()


@given(words=st.lists(st.sampled_from([*WORDS, "wickham", "1987", "qwertz"]), min_size=1, max_size=8))
@given_settings(
    max_examples=examples(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_term_coverage_is_the_sum_of_the_weights_of_matched_terms(engine: Engine, words: list[str]) -> None:
    query = " ".join(words)
    terms = parse_query(query, max_words=64).terms
    with engine.database.snapshot() as snapshot:
        library = index_of(engine.database, snapshot)
        weights = find_term_statistics(library, find_matches(library, terms)).weights
    by_text = {term.text: weight for term, weight in weights.items()}
    assert math.fsum(by_text.values()) == pytest.approx(1.0)

    def expected(result: SearchResult) -> float:
        return math.fsum(by_text[match.term] for match in result.matched_terms or ())

    results = engine.search(query, include_scores=True, top_k=100).results
    assert [result.term_coverage for result in results] == pytest.approx(
        [expected(result) for result in results], abs=1e-5
    )


def test_filters_change_neither_missing_terms_nor_term_coverage(engine: Engine) -> None:
    query, filters = "rain storm crater", {"document_ids": [2]}
    unfiltered, filtered = engine.search(query), engine.search(query, filters=filters)
    assert filtered.query_info == unfiltered.query_info
    (result,) = filtered.results
    assert result in unfiltered.results
