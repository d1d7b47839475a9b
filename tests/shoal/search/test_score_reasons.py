"""Results explain every part of their score, and the parts add up to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from examples import examples
from fake_scorer import REEF_WORDS, FakeScorer
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.models.scores import FieldBoostParts, MatchedTerm
from shoal.models.search import SearchResult
from shoal.search.matched_terms import BOOSTED_PLACES, ChunkTexts, find_matched_terms
from shoal.search.query_language import parse_query
from shoal.settings import Settings

WEATHER = """# Storms and Rain

Rain falls. A monsoon brings clouds, and the wind follows. The Île de Ré saw snow in summer.

## Courts of law

A judge and a jury heard of the storm. Natural selection was on trial, said the witness.
"""
QUERIES = (
    "rain",
    "storms of monsoons",
    '"natural selection" judge',
    "title:weather rain",
    "ile de re",
    "coast courts law snow",
    "B-17 3.14 rain",
    "the of and",
    "xyzzy",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("reasons") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{path}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        opened.ingest(title="Weather report", content=WEATHER, format="markdown", tags=["coast", "Rain"])
        for i, words in enumerate(REEF_WORDS.values()):
            opened.ingest(title=f"Words {i}", content=words.capitalize() + ".", tags=["list"])
        yield opened


def matched(engine: Engine, query: str, section: str, **search: object) -> dict[str, tuple[str, ...]]:
    response = engine.search(query, include_scores=True, max_per_document=0, **search)  # type: ignore[arg-type]
    (result,) = (result for result in response.results if section in result.section_path[-1:])
    assert result.matched_terms is not None
    return {match.term: match.places for match in result.matched_terms}


def test_result_names_its_matched_terms_and_their_places(engine: Engine) -> None:
    terms = matched(engine, "storms, rains and monsoon judge coast", "Storms and Rain")
    assert terms == {
        "storms": ("headings",),
        "rains": ("headings", "text"),
        "monsoon": ("text",),
        "coast": ("tag",),
    }
    assert matched(engine, "the île in summer", "Storms and Rain") == {"île": ("text",), "summer": ("text",)}


def test_matched_phrases_and_title_terms_are_shown_as_typed(engine: Engine) -> None:
    terms = matched(engine, '"natural selection" title:weather judge', "Courts of law")
    assert terms == {
        '"natural selection"': ("text",),
        "title:weather": ("title",),
        "judge": ("text",),
    }


def test_words_apart_do_not_match_a_phrase() -> None:
    terms = parse_query("B-17", max_words=10).terms
    apart = ChunkTexts("Planes", ["Flight"], "Group 17 had a plan B, and 17 planes.", [])
    together = ChunkTexts("Planes", ["Flight B", "17 planes"], "The B-17 flew.", [])
    of_apart, of_together = find_matched_terms(terms, {}, [apart, together])
    assert of_apart == (MatchedTerm("17", ("text",)),)
    assert of_together[0] == MatchedTerm("B-17", ("text",))


def test_terms_matched_only_by_their_stem_name_the_words(engine: Engine) -> None:
    terms = parse_query('experiments "numeral theory"', max_words=10).terms
    other = ChunkTexts("Experience", [], "The numerals of theories from experience.", [])
    both = ChunkTexts("Experience", [], "An experiment.", ["experiments"])
    phrase = ChunkTexts("", [], "Numerals, theories; numerous: theory.", [])
    of_other, of_both, of_phrase = find_matched_terms(terms, {}, [other, both, phrase])
    assert of_other == (MatchedTerm("experiments", ("title", "text"), "Experience"),)
    assert of_both == (MatchedTerm("experiments", ("title", "text")),)
    assert of_phrase == (MatchedTerm('"numeral theory"', ("text",)),)
    (only,) = find_matched_terms(terms, {}, [ChunkTexts("", [], "Numerous theory.", [])])
    assert only == (MatchedTerm('"numeral theory"', ("text",), "Numerous theory"),)


def test_tag_matches_in_another_case(engine: Engine) -> None:
    assert matched(engine, "rain", "Courts of law") == {"rain": ("headings", "tag")}


@pytest.mark.parametrize("query", QUERIES)
def test_field_boost_is_the_share_of_terms_in_title_headings_or_tags(engine: Engine, query: str) -> None:
    terms = parse_query(query, max_words=engine.settings.max_query_terms).terms
    for result in engine.search(query, include_scores=True, max_per_document=0, top_k=100).results:
        matches = result.matched_terms or ()
        boosted = [match for match in matches if BOOSTED_PLACES.intersection(match.places)]
        assert result.scores.field_boost == pytest.approx(len(boosted) / len(terms) if terms else 0.0)
        # The lexical signal matches a chunk exactly if it contains a term.
        in_index = [match for match in matches if set(match.places) != {"tag"}]
        assert bool(in_index) == ("lexical" in result.provenance)


def test_field_boost_has_a_part_for_each_field(engine: Engine) -> None:
    def found(query: str, **search: object) -> SearchResult:
        response = engine.search(query, max_per_document=0, **search)  # type: ignore[arg-type]
        (result,) = (result for result in response.results if "Storms and Rain" in result.section_path[-1:])
        return result

    def parts(query: str, **search: object) -> FieldBoostParts | None:
        return found(query, **search).scores.field_boost_parts

    query = "weather storm coast monsoon"
    assert parts(query, include_scores=True) == FieldBoostParts(0.25, 0.25, 0.25)
    assert parts("rain", include_scores=True) == FieldBoostParts(0.0, 1.0, 0.0), (
        "a heading and a tag count once"
    )
    assert parts(query, include_scores=True, mode="lexical") == FieldBoostParts(0.0, 0.0, 0.0)
    assert parts(query) is None
    target = engine.explain(query, chunk_id=found(query).chunk_id).target
    assert target is not None
    assert target.scores.field_boost_parts == parts(query, include_scores=True)


WORDS = " ".join(REEF_WORDS.values()).split()


@given(
    words=st.lists(
        st.sampled_from([*WORDS, "report", "words", "list", "coast", "the", "xyzzy"]), min_size=1, max_size=6
    ),
    weights=st.none()
    | st.fixed_dictionaries({name: st.floats(0.1, 1) for name in ("lexical", "reef", "field_boost")}),
    fusion=st.sampled_from(["blend", "rrf"]),
)
@given_settings(
    max_examples=examples(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_weighted_scores_and_reef_shares_add_up_to_the_score(
    engine: Engine, words: list[str], weights: dict[str, float] | None, fusion: str
) -> None:
    reply = engine.search(" ".join(words), include_scores=True, weights=weights, fusion=fusion)
    for result in reply.results:
        shares = sum(reef.share for reef in result.shared_reefs or ())
        lexical = reply.weights["lexical"] * (result.scores.lexical or 0.0)
        field_boost = reply.weights["field_boost"] * result.scores.field_boost
        assert shares + lexical + field_boost == pytest.approx(result.match_score, abs=1e-9)
        assert sum(result.scores.field_boost_parts or ()) == pytest.approx(result.scores.field_boost)
        assert shares == pytest.approx(reply.weights["reef"] * (result.scores.reef or 0.0), abs=1e-9)


def test_matched_terms_are_left_out_by_default(engine: Engine) -> None:
    assert all(result.matched_terms is None for result in engine.search("rain").results)
    assert engine.search("rain", include_scores=True, mode="reef").results[0].matched_terms == (
        MatchedTerm("rain", ("headings", "text", "tag")),
    )
