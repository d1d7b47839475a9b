"""Relevance: a calibrated probability that does not depend on the mode, the weights or the other results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.declared.search import LIKELY
from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.models.search import SearchResult
from shoal.search.audit import search_arguments
from shoal.search.query_language import parse_query
from shoal.search.relevance import (
    RATIOS,
    REEFS_ALONE,
    TERMS_ALONE,
    TERMS_AND_REEFS,
    Evidence,
    describe,
    relevance,
)
from shoal.settings import Settings

SAMPLES = Path(shoal.__file__).parent / "sample_corpus"
ON_TOPIC = "why do bees visit flowers"
OFF_TOPIC = "configure the kubernetes ingress controller"
NOTHING = "nothing here seems to answer this"
SOME = Evidence(0.5, 0.3, 0.6)
NO_EVIDENCE = Evidence(None, None, None)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("relevance") / "shoal.db"
    with Engine(db_path=path) as engine:
        for file in sorted(SAMPLES.glob("*.md")):
            engine.ingest_file(file)
        yield engine


def by_chunk(results: list[SearchResult]) -> dict[int, float]:
    return {result.chunk_id: result.relevance for result in results}


@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.parametrize(
    "evidence", [SOME, SOME._replace(reef_similarity=None), Evidence(None, None, 0.6)], ids=str
)
def test_each_piece_of_evidence_raises_relevance(name: str, evidence: Evidence) -> None:
    if getattr(evidence, name) is None:
        return
    values = [relevance(evidence._replace(**{name: value / 10})) for value in range(11)]
    assert all(less < more for less, more in itertools.pairwise(values))


def test_relevance_is_a_probability_with_a_wide_range() -> None:
    assert relevance(NO_EVIDENCE) == 0.0
    assert 0.0 < relevance(Evidence(0.0, 0.0, 0.0)) < 0.02
    assert 0.98 < relevance(Evidence(1.0, 1.0, 1.0)) < 1.0


def test_parts_add_up_to_the_log_odds() -> None:
    missing = parse_query("sourdough", max_words=5).terms
    parts = describe(SOME, missing)
    assert [part.name for part in parts] == ["start", *RATIOS]
    odds = math.exp(math.fsum(part.contribution for part in parts))
    assert relevance(SOME) == pytest.approx(odds / (1 + odds), abs=1e-5)
    assert parts[0].contribution == TERMS_AND_REEFS.start
    assert "50%" in parts[1].description
    assert "sourdough" in parts[1].description
    assert describe(NO_EVIDENCE, ()) == ()


@pytest.mark.parametrize(
    ("evidence", "start", "names"),
    [
        (Evidence(0.5, 0.3, None), TERMS_ALONE.start, ["start", "term_coverage", "adjacent_terms"]),
        (Evidence(None, None, 0.5), REEFS_ALONE.start, ["start", "reef_similarity"]),
    ],
)
def test_query_without_terms_or_reefs_is_judged_by_the_other_evidence(
    evidence: Evidence, start: float, names: list[str]
) -> None:
    parts = describe(evidence, ())
    assert ([part.name for part in parts], parts[0].contribution) == (names, start)


def test_missing_terms_lower_relevance(library: Engine) -> None:
    plain = library.search("flowering plants and bees").results[0]
    for missing in ("sourdough", "sourdough kubernetes"):
        again = by_chunk(list(library.search(f"flowering plants and bees {missing}", top_k=50).results))
        assert again[plain.chunk_id] < plain.relevance
    assert set(library.search("flowering sourdough kubernetes").query_info.missing_terms) == {
        "sourdough",
        "kubernetes",
    }


def test_terms_that_stand_apart_are_less_relevant(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")
    with Engine(settings=settings) as engine:
        filler = "and then there was one more of them in the end"
        engine.ingest(title="Near", content="The tide pool lies below the rock.")
        engine.ingest(title="Far", content=f"The tide, {filler}, {filler}, left a pool below the rock.")
        found = {
            result.document_title: result for result in engine.search("tide pool", mode="lexical").results
        }
        assert found["Near"].term_coverage == found["Far"].term_coverage == 1.0
        parts = {
            title: {
                part.name: part.value
                for part in engine.explain("tide pool", chunk_id=found[title].chunk_id).target.relevance_parts  # type: ignore[union-attr]
            }
            for title in found
        }
    assert (parts["Near"]["adjacent_terms"], parts["Far"]["adjacent_terms"]) == (1.0, 0.0)


def test_relevance_is_the_same_in_every_mode_and_with_any_weights(library: Engine) -> None:
    hybrid = by_chunk(list(library.search(ON_TOPIC, top_k=100, max_per_document=0).results))
    for arguments in (
        {"mode": "lexical"},
        {"mode": "reef"},
        {"weights": {"lexical": 0.1, "reef": 0.9}},
        {"fusion": "rrf"},
        {"include_scores": True},
    ):
        other = by_chunk(list(library.search(ON_TOPIC, **{"top_k": 20, **arguments}).results))  # type: ignore[arg-type]
        shared = other.keys() & hybrid.keys()
        assert shared
        assert {chunk: other[chunk] for chunk in shared} == {chunk: hybrid[chunk] for chunk in shared}


def test_explanation_has_the_relevance_of_the_result(library: Engine) -> None:
    result = library.search(ON_TOPIC).results[0]
    target = library.explain(ON_TOPIC, chunk_id=result.chunk_id).target
    assert target is not None
    assert target.relevance == result.relevance
    parts = {part.name: part.value for part in target.relevance_parts}
    assert parts["term_coverage"] == result.term_coverage


def test_explanation_says_that_a_result_is_below_min_relevance(library: Engine) -> None:
    result = library.search(ON_TOPIC).results[0]
    reasons = []
    for limit in (result.relevance, 1.0):
        target = library.explain(ON_TOPIC, chunk_id=result.chunk_id, min_relevance=limit).target
        assert target is not None
        assert target.rank == 1
        reasons.append([reason.reason for reason in target.kept_out])
    assert reasons == [[], ["min_relevance"]]


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
def test_off_topic_query_gets_a_warning_that_names_its_missing_terms(library: Engine, mode: str) -> None:
    reply = library.search(OFF_TOPIC, mode=mode)
    assert reply.results
    assert max(result.relevance for result in reply.results) < LIKELY
    assert reply.warnings[-1].startswith(NOTHING)
    assert any("kubernetes" in warning for warning in reply.warnings)
    assert sum("passage of this library" in warning for warning in reply.warnings) == 1


def test_warning_depends_on_relevance_and_not_on_the_page(library: Engine) -> None:
    assert not any(NOTHING in warning for warning in library.search(ON_TOPIC).warnings)
    later = library.search(ON_TOPIC, offset=40, max_per_document=3)
    assert later.results
    assert max(result.relevance for result in later.results) < LIKELY
    assert not any(NOTHING in warning for warning in later.warnings)


def test_min_relevance_removes_results_from_a_page_and_keeps_their_order(library: Engine) -> None:
    ranked = [library.search(ON_TOPIC, top_k=10, offset=offset).results for offset in (0, 10)]
    limit = sorted(result.relevance for page in ranked for result in page)[10]
    for offset, page in zip((0, 10), ranked, strict=True):
        kept = library.search(ON_TOPIC, top_k=10, offset=offset, min_relevance=limit).results
        assert list(kept) == [result for result in page if result.relevance >= limit]
    assert any(result.relevance == limit for page in ranked for result in page)
    assert library.search(ON_TOPIC, min_relevance=1.0).results == []


def test_nothing_left_by_min_relevance_still_gets_the_warning(library: Engine) -> None:
    reply = library.search(OFF_TOPIC, min_relevance=0.9)
    assert (reply.results, reply.warnings[-1].startswith(NOTHING)) == ([], True)


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", True, float("nan")])
def test_min_relevance_must_be_a_probability(library: Engine, value: object) -> None:
    with pytest.raises(QueryError) as raised:
        library.search(ON_TOPIC, min_relevance=value)  # type: ignore[arg-type]
    assert raised.value.field == "min_relevance"


def test_audit_line_repeats_a_search_with_min_relevance() -> None:
    entry = {
        "query": "tide", "mode": "hybrid", "fusion": "blend", "preset": "balanced", "top_k": 3, "offset": 0,
        "max_per_document": 3, "min_relevance": 0.4, "weights_asked": None, "filters": {},
    }  # fmt: skip
    assert search_arguments(entry)["min_relevance"] == 0.4
