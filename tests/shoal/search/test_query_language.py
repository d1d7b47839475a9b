"""The query language: every text can be parsed, and none is an error."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from examples import examples
from fake_scorer import FakeScorer
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.index.matching import Matches
from shoal.models.search import SearchMode
from shoal.search import filters, query_analysis
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import Highlighter, find_highlights, make_highlighter
from shoal.search.query_language import (
    MAX_PHRASE_WORDS,
    MAX_PHRASES,
    MAX_WORDS_WITH_OPERATORS,
    ParsedQuery,
    Term,
    parse_query,
)
from shoal.search.signals import find_matches
from shoal.settings import Settings
from shoal.words.analysis import stems_of, tokens_of, words_of
from shoal.words.terms import TERMS

WITHOUT_VECTORS = [mode for mode in SearchMode if mode is not SearchMode.dense]


def named(number: int) -> str:
    """A word of letters for each number."""
    return "wa" + "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "x"


def parse(query: str) -> ParsedQuery:
    return parse_query(query, max_words=64)


# Characters that the definition of a word depends on, and arbitrary ones; not those that the normal form
# splits, such as ⒈.
marked_texts = st.text(
    st.sampled_from("aZé1 .'’ʼ_-\n\u0301\u0327\u00ad\u200dकिहीं\u094dதொทีข្រがшש\u05b8\ufe0f日")
    | st.characters(categories=["L", "Mn", "Mc", "Nd", "P", "Z"]),
    max_size=40,
)


@given(marked_texts)
def test_words_of_queries_and_highlights_are_those_of_the_index(text: str) -> None:
    words = [word.form for word in words_of(text) if word.advances]
    if words:
        assert stems_of(tokens_of(text)) == tuple(TERMS.of_forms(in_capitals(text, words)))


@given(marked_texts)
def test_every_word_of_a_text_is_highlighted(text: str) -> None:
    for word in words_of(text):
        (spans,) = find_highlights([text], Highlighter(frozenset({word.form}), ()))
        assert any(start <= word.start and word.end <= end for start, end in spans)


def in_capitals(text: str, forms: list[str]) -> list[str]:
    """The forms of the words that advance; a name in capitals as written."""
    words = words_of(text)
    names = {word.start: word.form for word in words if not word.advances and word.form.isupper()}
    places = [word.start for word in words if word.advances]
    return [
        names.get(place, form) if len(form) == len(names.get(place, "")) else form
        for place, form in zip(places, forms, strict=True)
    ]


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
        ("to be or not to be", ["to be or not to be", "to", "be", "or", "not"], [], []),
        ('"to be or not to be"', ["to be or not to be"], ["to be or not to be"], []),
        ("it's don't i.e. rain", ["rain"], [], []),
        ("well-known a - b --flag -", ["well", "known", "b", "flag", "--flag"], [], []),
        (
            "B-17 3.14 U.S. 192.168.0.1",
            ["B-17", "17", "3.14", "14", "U.S", "192", "192.168.0.1", "168"],
            [],
            [],
        ),
        ("Darwin's Darwin’s darwins", ["Darwin"], [], []),
        ("cat cats CAT", ["cat"], [], []),
        ("cafe Café cafe\u0301", ["cafe"], [], []),
        ('5"x3" foo"bar', ["5", "x3", "foo", "bar"], [], []),
        ('"unbalanced quote', ["unbalanced", "quote"], [], []),
        ('("in brackets") [title:sea]', ["in brackets", "title", "sea"], ["in brackets"], []),
        ('"" "!!" -"" -! ""', [], [], []),
        ("NEAR(a b) AND x* ^y {z}: OR NOT col:val", ["NEAR", "b", "x", "y", "z", "col", "val"], [], []),
        ("xx\0yy\0", ["xx", "yy"], [], []),
        ("日本語 नमक", ["日本", "本語", "नमक"], [], []),
        ("tar -xzf x -40 rm -rf", ["tar", "xzf", "-xzf", "x", "40", "-40", "rm", "rf", "-rf"], [], []),
        ("what does sort -unique do", ["sort", "unique"], [], []),
        ("grade D vitamin C", ["grade", "D", "vitamin", "C"], [], []),
        ("C++ or C# and .NET at AT&T", ["C++", "C#", "NET", ".NET", "AT&T"], [], []),
        ("WHO says who", ["WHO", "says"], [], []),
        (
            "„zwei Worte“ «trois mots» 「北京」",
            ["zwei Worte", "trois mots", "北京 京"],
            ["zwei Worte", "trois mots", "北京 京"],
            [],
        ),
        ('हिंदी -किताब "की कहानी"', ["की कहानी", "हिंदी"], ["की कहानी"], ["किताब"]),
    ],
)
def test_query_is_parsed_as_intended(
    query: str, ranking: list[str], required: list[str], excluded: list[str]
) -> None:
    parsed = parse(query)
    assert shown(parsed.required) == required
    assert shown(parsed.excluded) == excluded
    assert shown(parsed.terms) == ranking


def test_about_keeps_the_positions_of_the_query() -> None:
    query = 'selection -lamarck title:origin "of species" -"use and disuse"'
    about = parse(query).about
    assert about.split() == ["selection", "origin", '"of', 'species"']
    assert all(kept in (" ", typed) for kept, typed in zip(about, query, strict=True))


def test_long_text_has_no_operators() -> None:
    words = " ".join(named(i) for i in range(MAX_WORDS_WITH_OPERATORS))
    short = parse(f'{words} "natural selection" -lamarck')
    assert (shown(short.required), shown(short.excluded)) == (["natural selection"], ["lamarck"])
    long = parse(f'{words} plain "natural selection" -lamarck')
    assert (long.required, long.excluded, long.is_text) == ((), (), True)
    assert shown(long.terms)[-4:] == ["plain", "natural", "selection", "lamarck"]


def test_number_of_terms_is_limited_to_the_first() -> None:
    parsed = parse_query(" ".join(named(i) for i in range(30)), max_words=10)
    assert (len(parsed.terms), parsed.n_ignored) == (10, 20)


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(
    max_words=st.integers(1, 100),
    pieces=st.lists(
        st.tuples(st.sampled_from(["", '"', "-", '-"', "title:", 'title:"', "1-"]), st.integers(1, 80)),
        max_size=30,
    ),
)
def test_number_of_words_searched_for_is_limited(max_words: int, pieces: list[tuple[str, int]]) -> None:
    texts = [
        operator
        + ("-" if operator == "1-" else " ").join(named(n) + named(i) for i in range(length))
        + '"' * operator.endswith('"')
        for n, (operator, length) in enumerate(pieces)
    ]
    parsed = parse_query(" ".join(texts), max_words=max_words)
    for terms in (parsed.terms, parsed.excluded):
        assert sum(len(term.tokens) for term in terms) <= max_words
        assert all(len(term.tokens) <= MAX_PHRASE_WORDS for term in terms)
    for terms in (parsed.required, parsed.excluded):
        assert sum(len(term.tokens) > 1 for term in terms) <= MAX_PHRASES
    assert parsed.terms[: len(parsed.required)] == parsed.required


LONG_PHRASE = " ".join(named(i) for i in range(200))


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        (f'"{LONG_PHRASE}"', "only the first 32 words of a phrase are searched for"),
        (f'rain -"{LONG_PHRASE}"', "only the first 32 words of a phrase are searched for"),
        (
            " ".join(f'"{named(i)} cold"' for i in range(9)),
            "only the first 16 different words, 8 phrases among them, of the query are searched for",
        ),
        (
            "rain " + " ".join(f'-"{named(i)} cold"' for i in range(9)),
            "only the first 16 different words, 8 phrases among them, that the query excludes are left out",
        ),
        (
            "rain " + " ".join(f"-{named(i)}" for i in range(70)),
            "only the first 64 different words that the query excludes are left out",
        ),
        (
            " ".join(f"title:{named(i)}" for i in range(70)),
            "only the first 64 different words of the query are searched for",
        ),
    ],
)
def test_words_beyond_a_limit_are_ignored_with_a_warning(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, query: str, warning: str
) -> None:
    n_words = 0

    def counted(library: LibraryIndex, terms: Sequence[Term]) -> dict[Term, Matches]:
        nonlocal n_words
        n_words = max(n_words, sum(len(term.tokens) for term in terms))
        return find_matches(library, terms)

    for module in (query_analysis, filters):
        monkeypatch.setattr(module, "find_matches", counted)
    reply, _ = engine.search_and_explain(query, include_scores=True)
    engine.explain(query, chunk_id=1)
    assert warning in reply.warnings
    assert 0 < n_words <= 64


@pytest.mark.parametrize(
    ("query", "highlighted"),
    [
        ("rains", ["Rain", "rain", "RAINS"]),
        ('"heavy rain"', ["heavy, rain"]),
        ('wind "heavy rain"', ["heavy, rain", "wind"]),
        ('"heavy rain" rain', ["Rain", "heavy, rain", "RAINS"]),
        ("B-17", ["B-17"]),
        ("cafe", ["Cafés"]),
        ("-wind", []),
        ("the and", ["the", "and", "and"]),
    ],
)
def test_phrases_are_highlighted_as_one_span(query: str, highlighted: list[str]) -> None:
    text = "Rain: the heavy, rain and wind. RAINS, a B-17 and Cafés"
    (spans,) = find_highlights([text], make_highlighter(parse(query), SearchMode.hybrid))
    assert [text[start:end] for start, end in spans] == highlighted


@pytest.mark.parametrize(
    ("query", "highlighted"),
    [
        ("experiments", ["Experiment", "experimented", "experimenting"]),
        ("experience", ["experience", "experiences"]),
        ("sky", ["skies"]),
        ("stop", ["stopped"]),
        ("carry", ["carried"]),
        ("die", ["dying"]),
        ("organ", []),
        ('"organ experiment"', []),
        ('"organization of experiences"', ["organization of experience"]),
    ],
)
def test_words_that_share_only_the_stem_are_not_highlighted(query: str, highlighted: list[str]) -> None:
    text = (
        "Experiment, experimented, experimenting; the organization of experience. Experimental "
        "experiences stopped, carried by dying skies."
    )
    (spans,) = find_highlights([text], make_highlighter(parse(query), SearchMode.hybrid))
    assert [text[start:end] for start, end in spans] == highlighted


CONTENT = """# Weather

Rain and storm in the café. Wind AND rain NEAR the sea.

# Lava

A volcano throws lava.
"""

SPECIAL = """ " ' * ^ ( ) { } : - + NEAR AND OR NOT title: headings: rain “ ” \\ ; -- % _
    chunk_fts rowid $ ?1 :weights """
special = st.sampled_from([*SPECIAL.split(), " ", "\0", "\u0301", "ǅ"])
query_texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.lists(special, min_size=1, max_size=12).map("".join),
    st.lists(special, min_size=1, max_size=12).map(" ".join),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    url = f"sqlite:///{Path(tmp_path_factory.mktemp('language')) / 'shoal.db'}"
    with Engine(settings=Settings(database_url=url, learning=False), scorer=FakeScorer()) as opened:
        opened.ingest(title="A café in the rain", content=CONTENT, format="markdown", tags=["wet"])
        opened.ingest(title="Courts", content="A judge and a jury. The court weighs evidence.")
        yield opened


@hypothesis_settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(query=query_texts.filter(str.strip), mode=st.sampled_from(WITHOUT_VECTORS))
def test_any_text_is_a_valid_query(engine: Engine, query: str, mode: SearchMode) -> None:
    reply = engine.search(query, mode=mode, include_scores=True)
    for result in reply.results:
        assert all(0 <= start < end <= len(result.text) for start, end in result.highlights)
        assert all(span[1] <= following[0] for span, following in itertools.pairwise(result.highlights))
    if reply.results:
        engine.explain(query, mode=mode, chunk_id=reply.results[0].chunk_id)
    else:
        assert reply.weights


PIECES = [
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
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("mode", WITHOUT_VECTORS)
def test_longest_query_of_one_repeated_piece_is_valid(engine: Engine, piece: str, mode: SearchMode) -> None:
    query = (piece * 4096)[:4095] + "z"
    engine.search(query, mode=mode)


@pytest.mark.parametrize("piece", PIECES)
def test_longest_query_of_numbered_pieces_is_valid(engine: Engine, piece: str) -> None:
    engine.search(" ".join(f"{piece}{i}" for i in range(1000))[:4096], mode=SearchMode.hybrid)


@pytest.mark.parametrize("mode", WITHOUT_VECTORS)
def test_excluded_words_exclude_chunks_in_every_mode(engine: Engine, mode: SearchMode) -> None:
    def first_words(query: str) -> set[str]:
        return {result.text.split()[0] for result in engine.search(query, mode=mode).results}

    assert first_words("rain lava volcano") == {"Rain", "A"}
    assert first_words("rain lava volcano -storms") == {"A"}
    assert first_words('rain lava volcano -"wind and rain"') == {"A"}
    assert first_words("rain lava volcano -title:cafe") == set()
    target = engine.explain("rain lava -storm", document_id=1, chunk_id=1, mode=mode).target
    assert target is not None
    assert [kept_out.reason for kept_out in target.kept_out] == ["excluded"]


@pytest.mark.parametrize("mode", [SearchMode.hybrid, SearchMode.lexical])
def test_phrases_and_title_terms_are_required_in_lexical_and_hybrid_mode(
    engine: Engine, mode: SearchMode
) -> None:
    def first_words(query: str) -> list[str]:
        return [result.text.split()[0] for result in engine.search(query, mode=mode).results]

    assert first_words('lava "wind and rain"') == ["Rain"]
    assert first_words('lava "rain and wind"') == []
    assert first_words("rain judge title:courts") == ["A"]
    target = engine.explain('lava "rain and wind"', chunk_id=2, mode=mode).target
    assert target is not None
    assert [kept_out.reason for kept_out in target.kept_out] == ["phrase"]


def test_query_without_search_terms_gets_a_warning(engine: Engine) -> None:
    for query, warning in (
        ("-rain", "only says what to leave out"),
        ('"" ((', "has no words"),
    ):
        for mode in WITHOUT_VECTORS:
            reply = engine.search(query, mode=mode)
            assert reply.results == []
            assert warning in reply.warnings[0]
    many_words = " ".join(named(i) for i in range(100))
    assert any("first 64 different words" in warning for warning in engine.search(many_words).warnings)
    text = f'{" ".join(named(i) for i in range(20))} "rain"'
    assert any("long text" in warning for warning in engine.search(text).warnings)


@pytest.mark.parametrize("fusion", ["blend", "rrf"])
@pytest.mark.parametrize("mode", WITHOUT_VECTORS)
def test_weighted_scores_of_the_signals_add_up_to_the_score(
    engine: Engine, mode: SearchMode, fusion: str
) -> None:
    reply = engine.search(
        "rain storms cafe lava wet", mode=mode, fusion=fusion, include_scores=True, max_per_document=0
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
            other_signals = (
                reply.weights["lexical"] * (scores.lexical or 0)
                + reply.weights["field_boost"] * scores.field_boost
            )
            assert shares == pytest.approx(reply.weights["reef"] * (scores.reef or 0))
            assert shares + other_signals == pytest.approx(result.match_score)
        assert len(result.shared_reefs) == result.n_shared_reefs


def test_words_in_title_headings_and_tags_get_a_field_boost(engine: Engine) -> None:
    def field_boost(query: str) -> list[float]:
        return [result.scores.field_boost for result in engine.search(query, max_per_document=0).results]

    assert field_boost("volcano cafes")[0] == 0.5, "the title, in another inflection"
    assert sorted(field_boost("storm weather wets")) == [0.0, pytest.approx(1 / 3)], "one heading"
    assert sorted(field_boost("storm Wet")) == [0.5, 0.5], "the tag of the document, in another case"


HINDI = """# किताबें

हिंदी की किताब मेज़ पर है।

# दिन

कल का दिन अच्छा था।
"""


@pytest.mark.parametrize(
    ("query", "highlighted"),
    [("की", ["की"]), ("का", ["का"]), ('"हिंदी की किताब"', ["हिंदी की किताब"]), ("कताब", []), ("क", [])],
)
def test_vowel_signs_distinguish_words(tmp_path: Path, query: str, highlighted: list[str]) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    with Engine(settings=Settings(database_url=url, learning=False), scorer=FakeScorer()) as engine:
        engine.ingest(content=HINDI, format="markdown")
        results = engine.search(query, mode=SearchMode.lexical).results
    spans = [result.text[start:end] for result in results for start, end in result.highlights]
    assert spans == highlighted
