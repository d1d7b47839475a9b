"""Suggestions while a query is typed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal import Engine
from shoal.errors import QueryError
from shoal.models.documents import DocFormat
from shoal.models.queries import MAX_QUERY_CHARS
from shoal.search.suggesting import MAX_TEXT, Completions, Entry, key_of
from shoal.settings import Settings

MARKUP = '<img src=x onerror="alert(1)"> Tide & <b>time</b>'


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("suggest") / "shoal.db"
    with Engine(db_path=path, learning=False, scorer=FakeScorer()) as opened:
        opened.ingest(title="Tide Pools of Bréton", content="Tides rise. Tidal water falls. Barnacles wait.")
        opened.ingest(
            title="The Origin of Species",
            content="# Natural Selection\n\nSelection acts.\n\n# Über Tiere\n\nText here.",
            format=DocFormat.markdown,
        )
        opened.ingest(title=MARKUP, content="Something else about barnacles and a barnacle.")
        yield opened


def texts(engine: Engine, q: str, **options: int) -> list[str]:
    return [suggestion.text for suggestion in engine.suggest(q, **options).suggestions]


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("tide p", "Tide Pools of Bréton"),
        ("TIDE", "Tide Pools of Bréton"),
        ("pools of bret", "Tide Pools of Bréton"),
        ("brét", "Tide Pools of Bréton"),
        ("origin of", "The Origin of Species"),
        ("natural sel", "Natural Selection"),
        ("uber", "Über Tiere"),
        ("barna", "barnacle"),
        ("the origin of barn", "the origin of barnacle"),
    ],
)
def test_titles_headings_and_words_are_found_by_the_beginnings_of_their_words(
    engine: Engine, typed: str, text: str
) -> None:
    assert text in texts(engine, typed)


def test_text_that_begins_as_typed_comes_first(engine: Engine) -> None:
    assert texts(engine, "tide")[0] == "Tide Pools of Bréton"
    assert MARKUP in texts(engine, "tide")


def test_markup_is_plain_text(engine: Engine) -> None:
    (suggestion,) = engine.suggest("img src").suggestions
    assert suggestion.text == MARKUP
    assert suggestion.kind == "title"


def test_what_was_typed_is_not_suggested_and_nothing_twice(engine: Engine) -> None:
    assert "Natural Selection" not in texts(engine, "natural  selection")
    for typed in ("t", "ti", "b", "s"):
        found = texts(engine, typed, limit=20)
        assert len({key_of(text) for text in found}) == len(found)


def test_stop_word_is_no_completion(engine: Engine) -> None:
    assert "the" not in texts(engine, "th")


def test_words_are_found_behind_more_frequent_stop_words(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "s.db", learning=False) as engine:
        engine.ingest(
            title="a", content="The then there these they this those through thus, thistles thrive."
        )
        engine.ingest(title="b", content="That than thee there therefore this those though. " * 3)
        found = [each.text for each in engine.suggest("th", limit=20).suggestions if each.kind == "word"]
        assert {"thistles", "thrive"} <= set(found)


def test_word_of_the_query_is_no_completion_of_its_last_word(engine: Engine) -> None:
    assert texts(engine, "tide ti") == ["tide time", "tide tidal", "tide tiere"]
    assert "tides tide" not in texts(engine, "tides ti")


def test_heading_is_suggested_without_the_label_of_a_title(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", learning=False, scorer=FakeScorer()) as engine:
        content = "# Title: Walden\n\nWater.\n\n# Titles\n\nPonds."
        engine.ingest(title="Walden", content=content, format=DocFormat.markdown)
        assert [(each.text, each.kind) for each in engine.suggest("wal").suggestions] == [("Walden", "title")]
        assert texts(engine, "tit") == ["Titles", "title"]


def test_complete_word_is_not_completed(engine: Engine) -> None:
    assert texts(engine, "tide ") == ["Tide Pools of Bréton", MARKUP]
    assert texts(engine, "barna ") == []


@pytest.mark.parametrize("typed", ["", "   ", "!?", "%", "_", '"', "\u200b"])
def test_nothing_typed_suggests_nothing(engine: Engine, typed: str) -> None:
    assert texts(engine, typed) == []


@given(typed=st.text(max_size=MAX_QUERY_CHARS))
def test_any_text_is_answered_or_refused(engine: Engine, typed: str) -> None:
    with contextlib.suppress(QueryError):
        assert len(texts(engine, typed)) <= 8


@pytest.mark.parametrize(
    ("q", "limit", "field"),
    [("x" * 201, 8, "q"), ("x", 0, "limit"), ("x", 21, "limit"), ("x", True, "limit")],
)
def test_arguments_beyond_their_limits_are_refused(engine: Engine, q: str, limit: int, field: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.suggest(q, limit=limit)
    assert caught.value.field == field


def test_suggestions_follow_changes(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", learning=False, scorer=FakeScorer()) as engine:
        assert texts(engine, "zeb") == []
        engine.ingest(title="Zebra crossings", content="Stripes.")
        assert texts(engine, "zeb") == ["Zebra crossings", "zebra"]
        engine.documents.delete(engine.documents.list().documents[0].id)
        assert texts(engine, "zeb") == []


ENTRIES = st.lists(
    st.tuples(st.text(alphabet="abé -", max_size=12), st.integers(0, 50)),
    max_size=20,
    unique_by=lambda e: e[0],
)


@given(entries=ENTRIES, typed=st.text(alphabet="abe ", min_size=1, max_size=4))
def test_sorted_keys_find_what_comparing_each_text_finds(entries: list[tuple[str, int]], typed: str) -> None:
    beginning = key_of(typed)
    if not beginning:
        return
    completions = Completions(Entry(text, "title", weight) for text, weight in entries)
    expected = {
        text
        for text, _ in entries
        if any(
            " ".join(key_of(text).split()[place:]).startswith(beginning)
            for place, word in enumerate(key_of(text).split())
            if not place or word not in ("a", "be")
        )
    }
    assert {hit.entry.text for hit in completions.find(beginning, 100)} == expected


def test_texts_that_are_too_long_are_left_out() -> None:
    assert len(Completions([Entry("a" * MAX_TEXT, "title", 1), Entry("a" * (MAX_TEXT + 1), "title", 1)])) == 1


def test_compounds_of_the_dictionary_are_suggested_if_the_library_has_them(tmp_path: Path) -> None:
    class WithCompounds(FakeScorer):
        compounds = ("tide gate", "tide pool", "tidal wave", "neap tide")

    with Engine(db_path=tmp_path / "shoal.db", learning=False, scorer=WithCompounds()) as engine:
        engine.ingest(title="One", content="A tide pool. The tide left pools. Tide and gate.")
        engine.ingest(title="Two", content="Neap tides and tide pools.")
        found = {each.text: (each.kind, each.n) for each in engine.suggest("tide").suggestions}
        assert found["tide pool"] == ("compound", 2)
        assert "tide gate" not in found
        assert [each.text for each in engine.suggest("neap t").suggestions if each.kind == "compound"] == (
            ["neap tide"]
        )


def test_frequent_queries_are_suggested_if_they_are_logged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    logging = Settings(database_url=url, learning=False, query_log="queries")
    with Engine(settings=logging, scorer=FakeScorer()) as engine:
        engine.ingest(title="One", content="The tide comes and goes.")
        often = ["Why does the tide come", "why does  the tide come"] * 2
        for query in (*often, "why me", "why me", *["why zzz"] * 3):
            engine.search(query, mode="lexical")
        assert engine.queries.recorder is not None
        engine.queries.recorder.flush()
        (query,) = [each for each in engine.suggest("why").suggestions if each.kind == "query"]
        assert (query.text.lower().split(), query.n) == (["why", "does", "the", "tide", "come"], 4)
    with Engine(db_path=tmp_path / "shoal.db", learning=False, scorer=FakeScorer()) as engine:
        assert engine.suggest("why").suggestions == ()
