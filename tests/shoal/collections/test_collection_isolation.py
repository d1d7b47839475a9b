"""Nothing of one collection is seen through another: learned words, searches, saved searches, the query log."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from teaching_texts import about

from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.settings import Settings

TEXT = "The eruption of the zorblat was seen from the shore."


@pytest.fixture
def both(settings: Settings) -> Iterator[tuple[Engine, Engine]]:
    """A collection that has learned a word, and one that has not, in a service that learns and logs queries."""
    learning = dataclasses.replace(
        settings, learning=True, query_log="queries", webhook_hosts="example.org", open_collections=4
    )
    import lagoon

    with (
        Engine(settings=learning, scorer=lagoon.load()) as main,
        Collections(learning, main=main) as collections,
    ):
        for name in ("taught", "empty"):
            collections.create(name)
        with collections.engine("taught") as taught, collections.engine("empty") as empty:
            taught.ingest_many({"title": f"Text {i}", "content": about("fire", "zorblat")} for i in range(3))
            empty.ingest(title="Another", content=TEXT)
            yield taught, empty


def test_learned_words_stay_where_they_were_learned(both: tuple[Engine, Engine]) -> None:
    taught, empty = both
    assert [word.word for word in taught.vocabulary.list().words] == ["zorblat"]
    assert empty.vocabulary.list().total == 0
    assert taught.explain("zorblat").words[0].status == "learned"
    assert empty.explain("zorblat").words[0].status != "learned"
    # The words of a search are looked up again, in whichever order the collections are asked.
    for _ in range(2):
        assert taught.search("zorblat", mode="reef").query_info.top_reefs
        assert not empty.search("zorblat", mode="reef").query_info.top_reefs


def test_queries_and_saved_searches_stay(both: tuple[Engine, Engine]) -> None:
    taught, empty = both
    taught.saved_searches.create("Fire", {"query": "lava"}, url="https://example.org/hook")
    assert taught.saved_searches.list().total == 1
    assert empty.saved_searches.list().total == 0
    taught.search("secret words")
    taught.queries.close()
    assert taught.queries.list().total == 1
    assert empty.queries.list().total == 0


def test_notes_stay(both: tuple[Engine, Engine]) -> None:
    taught, empty = both
    taught.notes.of("ann").add("The zorblat is hot.")
    assert taught.notes.of("ann").list().total == 1
    assert empty.notes.of("ann").list().total == 0
