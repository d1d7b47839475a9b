"""Typing errors and beginnings of words in queries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal import Engine
from shoal.errors import QueryError
from shoal.index.index import Index
from shoal.index.matching import _compared, forms_starting_with, near_forms
from shoal.models.queries import NearWord
from shoal.models.search import SearchResponse
from shoal.search.synonyms import MAX_COMPLETIONS, MAX_CORRECTED, REPLACED_WEIGHT

TEXTS = {
    "Bees": "The reproduction of bees happens in the hive. Honey is stored, and a happy queen uses wax.",
    "Tides": "The tide rises. Studies of tides and stopped clocks explain the making of harbours.",
    "Codes": "The parser reads B-17 and NATO reports; parsers are written in Python.",
    "Storm": "A storm, another storm. Naïve café owners wrote of the storm in Zürich.",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("near") / "shoal.db"
    with Engine(db_path=path, learning=False, scorer=FakeScorer()) as opened:
        for title, content in TEXTS.items():
            opened.ingest(title=title, content=content)
        yield opened


def replaced(response: SearchResponse) -> dict[str, str]:
    return {near.typed: near.word for near in response.query_info.near_words if near.replaces}


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("reprodction", "reproduction"),  # in the stem
        ("reproductoin", "reproduction"),  # in the ending
        ("rperoductoin", "reproduction"),  # in both
        ("eproduction", "reproduction"),  # without its first letter
        ("xeprodction", "reproduction"),  # another first letter, and an edit
        ("stom", "storm"),
        ("tsorm", "storm"),
        ("happpy", "happy"),
        ("studiies", "studies"),
        ("stpoped", "stopped"),
        ("maknig", "making"),
        ("Cafw", "cafe"),
    ],
)
def test_word_with_typing_errors_is_searched_for_as_the_nearest_word(
    engine: Engine, typed: str, word: str
) -> None:
    response = engine.search(typed, mode="lexical")
    assert replaced(response) == {typed: word}
    assert response.warnings[0] == f"searched for {typed}, which stands nowhere, as {word}"
    as_meant = engine.search(word, mode="lexical")
    assert [result.chunk_id for result in response.results] == [
        result.chunk_id for result in as_meant.results
    ]
    assert response.results[0].match_score == pytest.approx(as_meant.results[0].match_score * REPLACED_WEIGHT)
    assert response.results[0].highlights == as_meant.results[0].highlights
    assert response.query_info.missing_terms == ()


@pytest.mark.parametrize("apostrophe", "'’")
def test_typing_errors_in_a_possessive_are_corrected(engine: Engine, apostrophe: str) -> None:
    response = engine.search(f"the reprodction{apostrophe}s clocks", mode="lexical")
    assert replaced(response) == {"reprodction": "reproduction"}
    assert {result.document_title for result in response.results} == {"Bees", "Tides"}


def test_off_searches_for_words_as_typed(engine: Engine) -> None:
    response = engine.search("reproductoin", typos="off", mode="lexical")
    assert not response.results
    assert not response.query_info.near_words
    assert response.query_info.missing_terms == ("reproductoin",)
    with pytest.raises(QueryError, match="auto, off"):
        engine.search("bees", typos="perhaps")


@pytest.mark.parametrize(
    "query",
    [
        '"reproductoin"',
        '"bees reproductoin"',
        "title:reproductoin",
        "bees -reproductoin",
        "REPRODUCTOIN",
        "reproDuctoin",
        "reproductoin2",
        "B-18 parser",
        "parser_x",
        "parse.reads",
        "hiv",  # fewer than four letters
        "zzzzqqqq",  # unlike every word
        "volcano",  # known, though it stands nowhere
        "parsers storm NATO",
    ],
)
def test_phrases_codes_exclusions_known_words_and_words_that_occur_are_not_changed(
    engine: Engine, query: str
) -> None:
    on, off = (engine.search(query, typos=typos, include_scores=True) for typos in ("auto", "off"))
    assert not on.query_info.near_words
    assert (on.results, on.warnings, on.query_info) == (off.results, off.warnings, off.query_info)


def test_word_that_is_also_typed_correctly_is_not_counted_twice(engine: Engine) -> None:
    both, one = engine.search("storm stomr tide", mode="lexical"), engine.search("storm tide", mode="lexical")
    assert replaced(both) == {"stomr": "storm"}
    assert [result.match_score for result in both.results] == [result.match_score for result in one.results]


def test_profile_of_the_query_is_that_of_the_word_it_was_taken_for(engine: Engine) -> None:
    with_error = engine.search("tde explain harbours")
    assert not replaced(with_error)  # three letters
    with_error = engine.search("volcanos erupt in harborus")
    meant = engine.search("volcanos erupt in harbours")
    assert replaced(with_error) == {"harborus": "harbours"}
    assert with_error.query_info.top_reefs == meant.query_info.top_reefs


def test_explanation_says_what_the_near_word_adds(engine: Engine) -> None:
    response = engine.search("stom tide", mode="lexical")
    best = next(result for result in response.results if result.document_title == "Storm")
    explanation = engine.explain("stom tide", mode="lexical", chunk_id=best.chunk_id)
    assert [(word.text, word.searched_as) for word in explanation.words] == [
        ("stom", "storm"),
        ("tide", None),
    ]
    assert explanation.target is not None
    (part,) = explanation.target.near_words
    assert (part.typed, part.word) == ("stom", "storm")
    assert part.lexical_raw == pytest.approx(best.match_score)


def test_few_words_of_a_query_are_corrected(engine: Engine) -> None:
    errors = "reproductoin happpy stom studiies harborus parserz hoeny stpoped maknig rpeorts"
    assert len(replaced(engine.search(errors))) == MAX_CORRECTED


def test_last_word_may_be_the_beginning_of_a_word(engine: Engine) -> None:
    assert not engine.search("reproducti", typos="off", mode="lexical").results
    response = engine.search("reproducti", prefix=True, mode="lexical")
    assert response.query_info.near_words[0] == NearWord(
        "reproducti", "reproduction", "prefix", 0, 0.75, 1, replaces=True
    )
    assert response.results[0].document_title == "Bees"
    # A word that occurs keeps its weight; those that begin with it add to the score.
    beside = engine.search("par", prefix=True, mode="lexical", typos="off")
    assert {near.word for near in beside.query_info.near_words} <= {"parser", "parsers"}


@pytest.mark.parametrize("query", ["pars ", "pars.", '"pars"', "-pars", "title:pars", "pars storm"])
def test_only_an_unfinished_last_word_is_completed(engine: Engine, query: str) -> None:
    near_words = engine.search(query, prefix=True, typos="off").query_info.near_words
    assert not [near for near in near_words if near.typed == "pars"]


def test_completions_are_few_and_the_most_frequent(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "many.db", learning=False, scorer=FakeScorer()) as opened:
        for number in range(30):
            opened.ingest(title=f"T{number}", content=f"prefix{chr(97 + number % 26)}x text. prefixzz again.")
        near = opened.search("pref", prefix=True).query_info.near_words
    assert len(near) == MAX_COMPLETIONS
    assert near[0].word == "prefixzz"


def test_query_without_errors_is_the_same_to_the_last_digit_with_and_without(engine: Engine) -> None:
    generator = random.Random(5)
    words = " ".join(TEXTS.values()).replace(".", "").split()
    for _ in range(30):
        query = " ".join(generator.sample(words, 4))
        on, off = (engine.search(query, typos=typos, include_scores=True) for typos in ("auto", "off"))
        assert (on.results, on.warnings, on.query_info) == (off.results, off.warnings, off.query_info)


def edits_one_by_one(a: str, b: str) -> int:
    """Optimal string alignment, as in a textbook."""
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, replaced)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


SHORT = st.text(alphabet="abcé", max_size=8)


@given(texts=st.lists(SHORT, min_size=1, max_size=8), word=SHORT.filter(bool))
def test_edits_of_many_texts_are_those_of_each(texts: list[str], word: str) -> None:
    assert _compared(texts, word).tolist() == [edits_one_by_one(text, word) for text in texts]


@given(word=st.text(max_size=80))
def test_no_word_is_near_in_an_empty_index(word: str) -> None:
    assert near_forms(Index([]), word, 5) == []
    assert forms_starting_with(Index([]), word, 5) == []
