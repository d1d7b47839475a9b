"""What a search says of words that the library lacks, and how much of a query each passage holds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from fake_scorer import REEF_WORDS, FakeScorer
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.models import SearchMode, SearchResult
from shoal.search import term_statistics
from shoal.search.query_language import parse_query
from shoal.settings import Settings

STANDING = ("Rain falls on Wickham.", "Rain and storm.", "A judge and a jury.", "Lava of 1987.")
"""`wickham` is unknown to the scorer; `crater` and `flower`, which it knows, stand nowhere, nor does `good`."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("missing") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{path}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for i, content in enumerate(STANDING):
            opened.ingest(title=f"Text {i}", content=content)
        yield opened


def first_warning(engine: Engine, query: str, mode: str = "hybrid") -> str:
    return next(iter(engine.search(query, mode=mode).warnings), "")


def test_words_that_stand_nowhere_are_told_before_all_else(engine: Engine) -> None:
    reply = engine.search("rain crater qwertz wickham good")
    assert reply.results
    assert reply.query_info.missing_terms == ("crater", "qwertz", "good")
    assert reply.warnings[:2] == (
        "in no passage of this library: crater, qwertz, good",
        "not known to the topic model, so found by spelling alone: wickham",
    )


def test_a_query_without_any_word_of_the_library_says_so(engine: Engine) -> None:
    by_reefs = engine.search("flower crater")
    assert by_reefs.results
    assert by_reefs.warnings[0] == (
        "no passage of this library holds a word of the query (flower, crater); what is found shares reefs with it"
    )
    for query, mode in (("qwertz blorb", "hybrid"), ("flower crater", "lexical")):
        nothing = engine.search(query, mode=mode)
        assert not nothing.results
        words = query.replace(" ", ", ")
        assert nothing.warnings == (
            f"no passage of this library holds a word of the query ({words}), so nothing can be found",
        )


def test_what_is_demanded_and_stands_nowhere_is_named(engine: Engine) -> None:
    for query, demanded in (
        ('rain "judge and storm"', '"judge and storm"'),
        ("rain title:qwertz", "title:qwertz"),
    ):
        reply = engine.search(query)
        assert not reply.results
        assert reply.warnings[0] == (
            f"no passage of this library holds what the query demands ({demanded}), so nothing can be found"
        )


def test_a_known_word_that_is_missing_among_others_is_no_reason_to_worry(engine: Engine) -> None:
    reply = engine.search("rain storm judge jury lava crater")
    assert reply.query_info.missing_terms == ("crater",)
    assert not any("no passage" in warning for warning in reply.warnings)
    # One that nobody knows has no effect at all; where spelling alone counts, no missing one has; half a query is much.
    assert (
        first_warning(engine, "rain storm judge jury lava qwertz") == "in no passage of this library: qwertz"
    )
    assert first_warning(engine, "rain storm judge jury lava crater", "lexical").endswith("library: crater")
    assert first_warning(engine, "rain crater") == "in no passage of this library: crater"


@pytest.mark.parametrize("mode", SearchMode)
def test_numbers_and_inflected_words_are_looked_up_as_words_are(engine: Engine, mode: str) -> None:
    info = engine.search("rains storming 1987 1988 RAINED judges", mode=mode).query_info
    assert info.missing_terms == ("1988",)


def test_in_an_empty_library_every_word_is_missing_and_none_is_worth_a_word(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as empty:
        reply = empty.search("rain crater")
    assert reply.query_info.missing_terms == ("rain", "crater")
    assert not any("no passage" in warning for warning in reply.warnings)


def test_the_more_and_rarer_words_a_passage_holds_the_more_of_the_query_it_holds(engine: Engine) -> None:
    held = {one.text: one.term_coverage for one in engine.search("rain storm wickham", top_k=100).results}
    # Rain stands in two passages of four, the others in one.
    common, rare = math.log1p(2.5 / 2.5), math.log1p(3.5 / 1.5)
    whole = common + 2 * rare
    assert held["Rain falls on Wickham."] == pytest.approx((common + rare) / whole, abs=1e-6)
    assert held["Rain and storm."] == pytest.approx((common + rare) / whole, abs=1e-6)
    assert engine.search("storm and rain").results[0].term_coverage == 1.0
    reefs_alone = engine.search("crater").results[0]
    assert (reefs_alone.text, reefs_alone.term_coverage) == ("Lava of 1987.", 0.0)


def test_a_query_of_common_words_says_nothing_of_what_is_held(engine: Engine) -> None:
    target = engine.explain("the and of", document_id=1).target
    assert target is not None
    assert target.term_coverage is None


WORDS = " ".join(REEF_WORDS.values()).split()


@given(words=st.lists(st.sampled_from([*WORDS, "wickham", "1987", "qwertz"]), min_size=1, max_size=8))
@given_settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_is_held_are_the_matched_terms_by_their_weights(engine: Engine, words: list[str]) -> None:
    query = " ".join(words)
    terms = parse_query(query, max_words=64).terms
    with engine.database.snapshot() as snapshot:
        weights = term_statistics.find_term_statistics(snapshot, terms).weights
    by_text = {term.text: weight for term, weight in weights.items()}
    assert math.fsum(by_text.values()) == pytest.approx(1.0)

    def expected(result: SearchResult) -> float:
        return math.fsum(by_text[one.term] for one in result.matched_terms or ())

    results = engine.search(query, include_scores=True, top_k=100).results
    assert [one.term_coverage for one in results] == pytest.approx(
        [expected(one) for one in results], abs=1e-5
    )


@pytest.mark.parametrize("looked_up", [0, 100])
def test_what_is_held_is_the_same_by_whichever_way_it_is_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, looked_up: int
) -> None:
    def held() -> list[float | None]:
        return [one.term_coverage for one in engine.search("rain storm wickham lava", top_k=100).results]

    expected = held()
    monkeypatch.setattr(term_statistics, "READS_PER_LOOKUP", looked_up)
    assert held() == expected
    assert len(expected) == len(STANDING) - 1


def test_filters_change_nothing_in_what_is_missing_or_held(engine: Engine) -> None:
    query, only = "rain storm crater", {"document_ids": [2]}
    whole, part = engine.search(query), engine.search(query, filters=only)
    assert part.query_info == whole.query_info
    (result,) = part.results
    assert result in whole.results
