"""Synonyms of a library: what may be stored, and what a search does with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError, QueryError, SynonymConflictError, SynonymError
from shoal.index import kernels
from shoal.index.matching import OTHER, UNIT
from shoal.index.scoring import BM25, idf
from shoal.library import synonyms as table
from shoal.models.search import SearchResponse
from shoal.settings import Settings
from shoal.words.analysis import tokens_of

TEXTS = {
    "Street": "The car stands in the street, and the car is red.",
    "Factory": "This automobile was built by hand. Automobiles were rare.",
    "Both": "One car and one automobile and the other automobile.",
    "Water": "The World Health Organization wrote about clean water.",
    "Bread": "Who bakes the bread, and who eats it?",
    "World": "The world is round.",
    "Model": "The B-17 flew. An aeroplane of the Army Air Forces.",
}


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest_many({"title": title, "content": content} for title, content in TEXTS.items())
        yield engine


def find(engine: Engine, query: str, **arguments: Any) -> SearchResponse:
    return engine.search(query, mode="lexical", include_scores=True, **arguments)


def titles(engine: Engine, query: str, **arguments: Any) -> list[str]:
    return [result.document_title for result in find(engine, query, **arguments).results]


def scores(engine: Engine, query: str, **arguments: Any) -> list[tuple[str, float]]:
    found = engine.search(query, include_scores=True, **arguments)
    return [(result.document_title, result.match_score) for result in found.results]


def test_a_root_also_finds_its_synonyms_and_not_the_other_way(engine: Engine) -> None:
    assert titles(engine, "car") == ["Street", "Both"]
    entry = engine.vocabulary.synonyms.add(["automobile"], root="Cars")
    assert set(titles(engine, "car")) == {"Street", "Both", "Factory"}
    assert set(titles(engine, "automobile")) == {"Both", "Factory"}
    engine.vocabulary.synonyms.delete(entry.id)
    assert titles(engine, "car") == ["Street", "Both"]


def test_words_of_a_group_find_each_other(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["car", "automobile", "motor vehicle"])
    for query in ("car", "automobiles", "motor vehicle"):
        assert set(titles(engine, query)) == {"Street", "Both", "Factory"}, query


def test_synonyms_of_synonyms_are_not_searched_for(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["car"], root="vehicle")
    engine.vocabulary.synonyms.add(["automobile"], root="car")
    assert titles(engine, "vehicle") == ["Street", "Both"]


def test_phrases_titles_and_exclusions_are_exact(engine: Engine) -> None:
    synonyms = engine.vocabulary.synonyms
    synonyms.add(["automobile"], root="car")
    synonyms.add(["aeroplane"], root="17")
    for query in ('"car"', '"the car"', "title:car", "B-17"):
        assert find(engine, query).query_info.synonyms == (), query
    assert set(titles(engine, "automobile -car")) == {"Factory"}
    assert set(titles(engine, 'car "car"')) == {"Street", "Both"}


@pytest.mark.parametrize("name", ["B-17", "AT&T", "C++", "🚀", "WHO"])
def test_codes_signs_and_names_have_synonyms(engine: Engine, name: str) -> None:
    engine.vocabulary.synonyms.add(["street"], root=name)
    (used,) = find(engine, f"a {name} here").query_info.synonyms
    assert (used.typed, used.synonym, used.n_chunks > 0) == (name, "street", True)
    for other in ("B-18", "AT", "C", "C#", "who"):
        assert find(engine, f"a {other} here").query_info.synonyms == ()


def test_off_searches_for_the_words_alone(engine: Engine) -> None:
    before = scores(engine, "car street")
    engine.vocabulary.synonyms.add(["automobile"], root="car")
    assert scores(engine, "car street") != before
    assert scores(engine, "car street", synonyms="off") == before
    assert find(engine, "car", synonyms="off").query_info.synonyms == ()
    with pytest.raises(QueryError, match="on, off"):
        engine.search("car", synonyms="maybe")


def test_entries_of_other_words_change_no_score(engine: Engine) -> None:
    queries = ("car street", "the world", "B-17", '"clean water" -bread', "automobile", "health organization")
    before = [scores(engine, query, mode=mode) for query in queries for mode in ("hybrid", "lexical")]
    engine.vocabulary.synonyms.add(["lorry", "truck"])
    after = [scores(engine, query, mode=mode) for query in queries for mode in ("hybrid", "lexical")]
    assert after == before


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_group_is_one_term_with_the_document_frequency_of_the_union(
    engine: Engine, is_compiled: bool
) -> None:
    engine.vocabulary.synonyms.add(["automobile"], root="car")
    if is_compiled and not kernels.use_compiled():
        pytest.skip("numba is not installed")
    try:
        found = {result.document_title: result.match_score for result in find(engine, "car").results}
    finally:
        kernels.use_numpy()
    with engine.database.snapshot() as snapshot:
        index = engine._library.index.of(snapshot).index
    mean = index.totals.n_words / index.totals.n_chunks
    # Each document is one chunk and one block, so its block adds half of the same impact.
    for title, frequency in {"Street": 2.0, "Factory": 2 * OTHER / UNIT, "Both": 2 * OTHER / UNIT}.items():
        length = len(tokens_of(TEXTS[title]))
        tf = float(np.float32(1 / (1 - BM25.b + BM25.b * (length / mean)))) * frequency
        whole = idf(len(TEXTS), 3) * (BM25.k1 + 1) * tf / (tf + BM25.k1)
        assert math.isclose(found[title], 1.5 * whole, rel_tol=0.02), title


def test_a_response_says_what_found_a_passage(engine: Engine) -> None:
    entry = engine.vocabulary.synonyms.add(["automobile", "lorry"], root="car")
    response = find(engine, "cars")
    first, second = response.query_info.synonyms
    assert (first.typed, first.synonym, first.synonym_id, first.n_chunks) == (
        "cars",
        "automobile",
        entry.id,
        2,
    )
    assert (second.synonym, second.n_chunks) == ("lorry", 0)
    assert "searched for cars also as automobile, by the synonyms of this library" in response.warnings
    assert "lorry" not in " ".join(response.warnings)
    by_title = {result.document_title: result for result in response.results}
    factory, both = by_title["Factory"], by_title["Both"]
    assert factory.matched_terms
    assert both.matched_terms
    assert factory.matched_terms[0].synonyms == ("automobile",)
    assert factory.matched_terms[0].places == ("text",)
    assert [factory.text[start:end] for start, end in factory.highlights] == ["automobile", "Automobiles"]
    assert [both.text[start:end] for start, end in both.highlights] == ["car", "automobile", "automobile"]
    assert factory.term_coverage == 1.0
    explanation = engine.explain("cars", document_id=factory.document_id)
    assert explanation.query_info.synonyms == response.query_info.synonyms
    assert explanation.target
    assert explanation.target.matched_terms[0].synonyms == ("automobile",)


def test_a_word_found_by_a_synonym_is_not_missing(engine: Engine) -> None:
    assert find(engine, "lorry").query_info.missing_terms == ("lorry",)
    engine.vocabulary.synonyms.add(["car"], root="lorry")
    response = find(engine, "lorry")
    assert response.query_info.missing_terms == ()
    assert [result.document_title for result in response.results] == ["Street", "Both"]


def test_a_phrase_of_the_query_finds_its_synonyms(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["World Health Organization", "Weltgesundheitsorganisation"])
    assert titles(engine, "Weltgesundheitsorganisation water")[0] == "Water"
    engine.ingest(content="Die Weltgesundheitsorganisation tagt.", title="Tagung")
    found = {result.document_title: result for result in find(engine, "world health organization").results}
    tagung = found["Tagung"].matched_terms
    assert tagung
    assert [term.term for term in tagung] == ["world", "health", "organization"]
    # Only where the words are side by side, and not quoted.
    assert "Tagung" not in titles(engine, "organization of world health")
    assert "Tagung" not in titles(engine, '"world health organization"')


def test_an_acronym_of_a_common_word_is_told_by_its_capitals(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["WHO", "World Health Organization"])
    assert titles(engine, "WHO advice") == ["Water"]
    assert titles(engine, "who bakes the bread") == ["Bread"]
    assert "Water" not in titles(engine, "WHO BAKES THE BREAD")
    assert "Bread" not in titles(engine, "world health organization")


def test_the_longest_entry_counts(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["round"], root="world")
    engine.vocabulary.synonyms.add(["clean water"], root="world health")
    assert [used.synonym for used in find(engine, "world health").query_info.synonyms] == ["clean water"]
    assert [used.synonym for used in find(engine, "health world").query_info.synonyms] == ["round"]


def test_forms_of_a_search_are_limited(engine: Engine) -> None:
    for number in range(4):
        words = [
            f"w{chr(97 + number)}x{chr(97 + each % 26)}{chr(97 + each // 26)}q"
            for each in range(table.MAX_GROUP)
        ]
        engine.vocabulary.synonyms.add(words, root=f"word{chr(97 + number)}")
    used = find(engine, "worda wordb wordc wordd").query_info.synonyms
    assert len(used) == 64


@pytest.mark.parametrize(
    ("words", "root", "message"),
    [
        (["car"], None, "needs at least two"),
        ([], "car", "needs at least one"),
        (["car", "Cars"], None, "the same to a search"),
        (["cars"], "car", "the same to a search"),
        (["car", "..."], None, "no letter or digit"),
        (["car", "a b c d e f g h i"], None, "9 words; the limit is 8"),
        (["car", "x" * 101], None, "more than 100 characters"),
        (["car", "a\x00b"], None, "cannot be printed"),
        (["car", "a\u202eb"], None, "cannot be printed"),
        (["car", 7], None, "as strings"),
        ("car", None, "must be a list"),
        ([f"w{n}" for n in range(33)], None, "more than 32"),
        (["the"], "car", "only common words"),
        (["car"], "the", "only common words"),
        (["who", "World Health Organization"], None, "only in capitals"),
    ],
)
def test_invalid_entries_are_refused_with_the_reason(
    engine: Engine, words: Any, root: str | None, message: str
) -> None:
    with pytest.raises(SynonymError, match=message):
        engine.vocabulary.synonyms.add(words, root=root)
    assert engine.vocabulary.synonyms.list().total == 0


def test_contradictions_are_refused_and_name_the_other_entry(engine: Engine) -> None:
    synonyms = engine.vocabulary.synonyms
    one_way = synonyms.add(["automobile"], root="car")
    group = synonyms.add(["ship", "vessel"])
    for words, root, message in (
        (["lorry"], "cars", "entry 1; change that entry"),
        (["car"], "automobile", "one entry without a root"),
        (["car", "automobile"], None, "entry 1 has 'car' and 'automobile'"),
        (["vessel"], "ship", "entry 2 has 'ship' and 'vessel'"),
        (["ship", "vessels", "boat"], None, "together in entry 2"),
    ):
        with pytest.raises(SynonymConflictError, match=message):
            synonyms.add(words, root=root)
    assert synonyms.list().synonyms == (one_way, group)
    # An entry does not contradict itself.
    assert synonyms.replace(group.id, ["ship", "vessel", "boat"]).synonyms == ("ship", "vessel", "boat")
    with pytest.raises(NotFoundError):
        synonyms.replace(9, ["a1", "b1"])
    with pytest.raises(NotFoundError):
        synonyms.delete(9)
    with pytest.raises(NotFoundError):
        synonyms.get(9)


def test_a_search_sees_the_entries_of_its_snapshot(engine: Engine) -> None:
    entry = engine.vocabulary.synonyms.add(["automobile"], root="car")
    engine.vocabulary.synonyms.replace(entry.id, ["street"], root="bread")
    assert titles(engine, "car") == ["Street", "Both"]
    assert set(titles(engine, "bread")) == {"Bread", "Street"}


def test_entries_are_exported_and_imported_all_or_none(engine: Engine) -> None:
    synonyms = engine.vocabulary.synonyms
    synonyms.add(["automobile", "motor car"], root="car")
    synonyms.add(["ship", "vessel"])
    exported = synonyms.export()
    assert exported == [
        {"root": "car", "synonyms": ["automobile", "motor car"]},
        {"synonyms": ["ship", "vessel"]},
    ]
    assert synonyms.import_all(exported).duplicates == 2
    with pytest.raises(SynonymError, match=r"synonyms\.1\.synonyms: needs at least two"):
        synonyms.import_all([{"synonyms": ["bread", "loaf"]}, {"synonyms": ["x"]}], replace=True)
    assert synonyms.export() == exported
    done = synonyms.import_all([{"synonyms": ["bread", "loaf"]}, {"synonyms": ["loaf", "breads"]}])
    assert (done.stored, done.duplicates, done.refused) == (1, 1, ())
    done = synonyms.import_all([{"synonyms": ["loaf"], "root": "bread"}])
    assert done.stored == 0
    assert done.refused[0].startswith("entry 1: ")
    assert synonyms.import_all(exported, replace=True).stored == 2
    assert synonyms.export() == exported
    for wrong in ({"words": ["a1", "b1"]}, ["a1", "b1"], {}):
        with pytest.raises(SynonymError):
            synonyms.import_all([wrong])  # type: ignore[list-item]


def test_entries_are_listed_by_page_and_text(engine: Engine) -> None:
    synonyms = engine.vocabulary.synonyms
    for number in range(5):
        synonyms.add([f"left{number}", f"right{number}"])
    page = synonyms.list(limit=2, offset=1)
    assert ([entry.id for entry in page.synonyms], page.total) == ([2, 3], 5)
    assert [entry.id for entry in synonyms.list(q="ght3").synonyms] == [4]
    assert synonyms.list(q="%").total == 0


def test_a_word_belongs_to_few_entries(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_ENTRIES_PER_WORD", 2)
    monkeypatch.setattr(table, "MAX_SYNONYMS", 3)
    for number in range(2):
        engine.vocabulary.synonyms.add(["car", f"other{number}"])
    with pytest.raises(SynonymConflictError, match="is in 2 entries, which is the limit"):
        engine.vocabulary.synonyms.add(["car", "another"])
    engine.vocabulary.synonyms.add(["ship", "vessel"])
    with pytest.raises(SynonymConflictError, match="3 synonyms, which is the limit"):
        engine.vocabulary.synonyms.add(["sea", "ocean"])


def test_long_queries_of_words_with_synonyms_take_linear_time(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["automobile"], root="car")
    assert len(find(engine, "car " * 1000).results) == 3


def test_a_word_that_stands_nowhere_and_has_a_synonym_is_not_corrected(engine: Engine) -> None:
    assert titles(engine, "strete") == ["Street"]
    engine.vocabulary.synonyms.add(["bread"], root="strete")
    found = find(engine, "strete")
    assert [result.document_title for result in found.results] == ["Bread"]
    assert found.query_info.near_words == ()
    assert find(engine, "strete", synonyms="off").query_info.near_words[0].word == "street"
    # The synonym of another word stands nowhere, so that word is corrected.
    engine.vocabulary.synonyms.add(["zeppelin"], root="watre")
    assert titles(engine, "watre") == ["Water"]
    engine.vocabulary.synonyms.add(["water"], root="brea")
    assert set(titles(engine, "brea", prefix=True)) == {"Water", "Bread"}
