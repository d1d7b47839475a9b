"""What people type is read as they mean it, and nothing they type is an error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.models import SearchMode
from shoal.search.highlights import find_highlights, make_highlighter
from shoal.search.query_language import (
    MAX_PHRASE_WORDS,
    MAX_PHRASES,
    MAX_WORDS_WITH_OPERATORS,
    ParsedQuery,
    Term,
    parse_query,
)
from shoal.settings import Settings


def parse(query: str) -> ParsedQuery:
    return parse_query(query, max_words=64)


def shown(terms: tuple[Term, ...]) -> list[str]:
    return [f"title:{term.text}" if term.in_title else term.text for term in terms]


@pytest.mark.parametrize(
    ("query", "ranking", "required", "excluded"),
    [
        ("natural selection", ["natural", "selection"], [], []),
        ("the origin of the species", ["origin", "species"], [], []),
        ('"the origin" species', ["the origin", "species"], ["the origin"], []),
        ("“the origin” species", ["the origin", "species"], ["the origin"], []),
        ("whale -ship", ["whale"], [], ["ship"]),
        ('whale -"white whale" -title:ship', ["whale"], [], ["white whale", "title:ship"]),
        ("title:whale sea", ["title:whale", "sea"], ["title:whale"], []),
        ('Title:"white whale"', ["title:white whale"], ["title:white whale"], []),
        ("title: whale", ["title", "whale"], [], []),
        ("subtitle:whale", ["subtitle", "whale"], [], []),
        ("-ship", [], [], ["ship"]),
        ("to be or not to be", [], [], []),
        ('"to be or not to be"', ["to be or not to be"], ["to be or not to be"], []),
        ("it's don't i.e.", [], [], []),
        ("well-known a - b --flag -", ["well", "known", "b", "flag"], [], []),
        (
            "B-17 3.14 U.S. 192.168.0.1",
            ["B 17", "17", "3 14", "14", "U S", "192 168 0 1", "192", "168"],
            [],
            [],
        ),
        ("Darwin's Darwin’s darwins", ["Darwin"], [], []),
        ("cat cats CAT", ["cat"], [], []),
        ("cafe Café cafe\u0301", ["cafe"], [], []),
        ('5"x3" foo"bar', ["5 x3", "x3", "foo", "bar"], [], []),
        ('"unbalanced quote', ["unbalanced", "quote"], [], []),
        ('("in brackets") [title:sea]', ["in brackets", "title", "sea"], ["in brackets"], []),
        ('"" "!!" -"" -! ""', [], [], []),
        ("NEAR(a b) AND x* ^y {z}: OR NOT col:val", ["NEAR", "b", "x", "y", "z", "col", "val"], [], []),
        ("xx\0yy\0", ["xx", "yy"], [], []),
        ("日本語 हिन्दी", ["日本語", "हिन्दी"], [], []),
    ],
)
def test_queries_are_read_as_they_are_meant(
    query: str, ranking: list[str], required: list[str], excluded: list[str]
) -> None:
    parsed = parse(query)
    assert shown(parsed.required) == required
    assert shown(parsed.excluded) == excluded
    assert shown(parsed.terms) == ranking


def test_what_the_query_is_about_keeps_its_places() -> None:
    query = 'selection -lamarck title:origin "of species" -"use and disuse"'
    about = parse(query).about
    assert about.split() == ["selection", "origin", '"of', 'species"']
    assert all(one in (" ", other) for one, other in zip(about, query, strict=True))


def test_in_a_long_text_nothing_is_a_sign() -> None:
    words = " ".join(f"word{i}" for i in range(MAX_WORDS_WITH_OPERATORS))
    short = parse(f'{words} "natural selection" -lamarck')
    assert (shown(short.required), shown(short.excluded)) == (["natural selection"], ["lamarck"])
    long = parse(f'{words} plain "natural selection" -lamarck')
    assert (long.required, long.excluded, long.is_text) == ((), (), True)
    assert shown(long.terms)[-4:] == ["plain", "natural", "selection", "lamarck"]


def test_of_very_many_words_the_first_are_searched_for() -> None:
    parsed = parse_query(" ".join(f"w{i}x" for i in range(30)), max_words=10)
    assert (len(parsed.terms), parsed.n_ignored) == (10, 20)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    max_words=st.integers(1, 100),
    pieces=st.lists(
        st.tuples(st.sampled_from(["", '"', "-", '-"', "title:", 'title:"', "1-"]), st.integers(1, 80)),
        max_size=30,
    ),
)
def test_the_words_that_are_searched_for_are_limited(max_words: int, pieces: list[tuple[str, int]]) -> None:
    typed = [
        sign
        + ("-" if sign == "1-" else " ").join(f"w{n}x{i}" for i in range(length))
        + '"' * sign.endswith('"')
        for n, (sign, length) in enumerate(pieces)
    ]
    parsed = parse_query(" ".join(typed), max_words=max_words)
    for terms in (parsed.terms, parsed.excluded):
        assert sum(len(term.tokens) for term in terms) <= max_words
        assert all(len(term.tokens) <= MAX_PHRASE_WORDS for term in terms)
    for terms in (parsed.required, parsed.excluded):
        assert sum(len(term.tokens) > 1 for term in terms) <= MAX_PHRASES
    assert parsed.terms[: len(parsed.required)] == parsed.required


LONG_PHRASE = " ".join(f"w{i}x" for i in range(200))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f'"{LONG_PHRASE}"', "only the first 32 words of a phrase are searched for"),
        (f'rain -"{LONG_PHRASE}"', "only the first 32 words of a phrase are searched for"),
        ("-".join("ab"[i % 2] for i in range(100)), "only the first 32 words of a phrase are searched for"),
        (
            " ".join(f'"w{i}x cold"' for i in range(9)),
            "only the first 16 different words, 8 phrases among them, of the query are searched for",
        ),
        (
            "rain " + " ".join(f'-"w{i}x cold"' for i in range(9)),
            "only the first 16 different words, 8 phrases among them, that the query excludes are left out",
        ),
        (
            "rain " + " ".join(f"-w{i}x" for i in range(70)),
            "only the first 64 different words that the query excludes are left out",
        ),
        (
            " ".join(f"title:w{i}x" for i in range(70)),
            "only the first 64 different words of the query are searched for",
        ),
    ],
)
def test_words_beyond_a_limit_are_not_searched_for_which_a_warning_says(
    engine: Engine, query: str, said: str
) -> None:
    expressions: list[str] = []
    with engine.database.snapshot():
        pass
    (connection,) = engine.database._readers
    connection.set_trace_callback(expressions.append)
    try:
        reply, _ = engine.search_and_explain(query, include_scores=True)
        engine.explain(query, chunk_id=1)
    finally:
        connection.set_trace_callback(None)
    assert said in reply.warnings
    asked = [re.findall(r"\bMATCH '([^']*)'", one) for one in expressions]
    words = [len(re.findall(r"w\d+x|\b[ab]\b", one)) for found in asked for one in found]
    assert words
    assert max(words) <= 64


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("rains", ["Rain", "rain", "RAINS"]),
        ('"heavy rain"', ["heavy, rain"]),
        ('wind "heavy rain"', ["heavy, rain", "wind"]),
        ('"heavy rain" rain', ["Rain", "heavy, rain", "RAINS"]),
        ("B-17", ["B-17"]),
        ("cafe", ["Cafés"]),
        ("-wind", []),
        ("the and", []),
    ],
)
def test_phrases_are_marked_as_one(query: str, marked: list[str]) -> None:
    text = "Rain: the heavy, rain and wind. RAINS, a B-17 and Cafés"
    (spans,) = find_highlights([text], make_highlighter(parse(query), SearchMode.hybrid))
    assert [text[start:end] for start, end in spans] == marked


CONTENT = "# Weather\n\nRain and storm in the café. Wind AND rain NEAR the sea.\n\n# Lava\n\nA volcano throws lava.\n"

SIGNS = """ " ' * ^ ( ) { } : - + NEAR AND OR NOT title: headings: rain “ ” \\ ; -- % _ chunk_fts rowid $ ?1 :weights """
signs = st.sampled_from([*SIGNS.split(), " ", "\0", "\u0301", "ǅ"])
anything = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.lists(signs, min_size=1, max_size=12).map("".join),
    st.lists(signs, min_size=1, max_size=12).map(" ".join),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    url = f"sqlite:///{Path(tmp_path_factory.mktemp('language')) / 'shoal.db'}"
    with Engine(settings=Settings(database_url=url, learning=False), scorer=FakeScorer()) as opened:
        opened.ingest(title="A café in the rain", content=CONTENT, format="markdown", tags=["wet"])
        opened.ingest(title="Courts", content="A judge and a jury. The court weighs evidence.")
        yield opened


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(query=anything.filter(str.strip), mode=st.sampled_from(SearchMode))
def test_no_text_is_an_error(engine: Engine, query: str, mode: SearchMode) -> None:
    reply = engine.search(query, mode=mode, include_scores=True)
    for result in reply.results:
        assert all(0 <= start < end <= len(result.text) for start, end in result.highlights)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(result.highlights))
    if reply.results:
        engine.explain(query, mode=mode, chunk_id=reply.results[0].chunk_id)
    else:
        assert reply.weights


@pytest.mark.parametrize(
    "piece",
    [
        '"',
        '" ',
        ' "a',
        '-"',
        "(",
        "“",
        "title:",
        '"a" ',
        "-a ",
        "a' ",
        "a.",
        "NEAR(",
        "é",
        "日",
        "a1 ",
        'x"y" ',
        "\0",
    ],
)
@pytest.mark.parametrize("mode", SearchMode)
def test_the_longest_query_of_one_kind_is_no_error(engine: Engine, piece: str, mode: SearchMode) -> None:
    query = (piece * 4096)[:4095] + "z"
    engine.search(query, mode=mode)
    many = " ".join(f"{piece}{i}" for i in range(1000))[:4096]
    engine.search(many, mode=mode)


@pytest.mark.parametrize("mode", SearchMode)
def test_excluded_words_keep_passages_out_in_every_mode(engine: Engine, mode: SearchMode) -> None:
    def found(query: str) -> set[str]:
        return {result.text.split()[0] for result in engine.search(query, mode=mode).results}

    assert found("rain lava volcano") == {"Rain", "A"}
    assert found("rain lava volcano -storms") == {"A"}
    assert found('rain lava volcano -"wind and rain"') == {"A"}
    assert found("rain lava volcano -title:cafe") == set()
    target = engine.explain("rain lava -storm", document_id=1, chunk_id=1, mode=mode).target
    assert target is not None
    assert [one.reason for one in target.kept_out] == ["excluded"]


@pytest.mark.parametrize("mode", [SearchMode.hybrid, SearchMode.lexical])
def test_phrases_and_titles_are_demanded_where_words_rank(engine: Engine, mode: SearchMode) -> None:
    def found(query: str) -> list[str]:
        return [result.text.split()[0] for result in engine.search(query, mode=mode).results]

    assert found('lava "wind and rain"') == ["Rain"]
    assert found('lava "rain and wind"') == []
    assert found("rain judge title:courts") == ["A"]
    target = engine.explain('lava "rain and wind"', chunk_id=2, mode=mode).target
    assert target is not None
    assert [one.reason for one in target.kept_out] == ["phrase"]


def test_a_query_that_asks_for_nothing_says_so(engine: Engine) -> None:
    for query, said in (("-rain", "only says what to leave out"), ("the and of", "only common words")):
        for mode in SearchMode:
            reply = engine.search(query, mode=mode)
            assert reply.results == []
            assert said in reply.warnings[0]
    many = " ".join(f"w{i}x" for i in range(100))
    assert any("first 64 different words" in said for said in engine.search(many).warnings)
    text = f'{" ".join(f"w{i}x" for i in range(20))} "rain"'
    assert any("long text" in said for said in engine.search(text).warnings)


@pytest.mark.parametrize("fusion", ["blend", "rrf"])
@pytest.mark.parametrize("mode", SearchMode)
def test_the_parts_of_a_score_add_up_to_it(engine: Engine, mode: SearchMode, fusion: str) -> None:
    reply = engine.search(
        "rain storms cafe lava wet", mode=mode, fusion=fusion, include_scores=True, max_per_document=None
    )
    assert reply.results
    assert sum(reply.weights.values()) == pytest.approx(1.0)
    for result in reply.results:
        assert result.shared_reefs is not None
        shares = sum(reef.share for reef in result.shared_reefs)
        scores = result.scores
        assert scores.final == result.match_score
        if mode is SearchMode.lexical:
            assert shares == 0
            assert scores.lexical_raw == result.match_score
        elif mode is SearchMode.reef:
            assert shares == pytest.approx(result.match_score)
            assert scores.reef_raw == result.match_score
        else:
            parts = (
                reply.weights["lexical"] * (scores.lexical or 0)
                + reply.weights["field_boost"] * scores.field_boost
            )
            assert shares == pytest.approx(reply.weights["reef"] * (scores.reef or 0))
            assert shares + parts == pytest.approx(result.match_score)
        assert len(result.shared_reefs) == result.n_shared_reefs


def test_words_in_title_and_headings_and_tags_earn_a_bonus(engine: Engine) -> None:
    def field_boost(query: str) -> list[float]:
        return [result.scores.field_boost for result in engine.search(query, max_per_document=None).results]

    assert field_boost("volcano cafes")[0] == 0.5, "the title, in another form"
    assert sorted(field_boost("storm weather wets")) == [0.0, pytest.approx(1 / 3)], "one heading"
    assert sorted(field_boost("storm Wet")) == [0.5, 0.5], "the tag of the document, in another case"
