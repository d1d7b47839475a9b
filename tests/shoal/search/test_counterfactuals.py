"""Counterfactuals are what the search says after the change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.models.explanations import Counterfactual, Counterfactuals, WordChange
from shoal.search.counterfactuals import (
    MOST_ADDED,
    MOST_OF_PASSAGE,
    MOST_OF_QUERY,
    with_text,
)
from shoal.search.request import make_request
from shoal.settings import Settings

SECTIONS = {
    "Bees": "A bee carries pollen from flower to flower, and bees make honey in a hive.",
    "Storms": "Storm and rain come with wind. The bee waits in its hive for the rain to end.",
    "Courts": "The judge read the law. A jury heard the witness, and the court weighed pollen as evidence.",
    "Lava": "Lava rose in the volcano. Ash fell like rain on the flower fields.",
    "Kings": "The king had a crown of metal and glass, and a court of his own.",
}
QUERY = "bee pollen in the rain"


def document(texts: Mapping[str, str], repeats: int = 1) -> str:
    return "\n".join(f"# {name} {n}\n\n{text}\n" for n in range(repeats) for name, text in texts.items())


def engine_of(settings: Settings, *contents: str) -> Engine:
    engine = Engine(settings=settings, scorer=FakeScorer())
    for number, content in enumerate(contents):
        engine.ingest(title=f"Document {number}", content=content, format="markdown")
    return engine


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With learning, which feedback needs."""
    return dataclasses.replace(settings, learning=True)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    contents = [f"# {name}\n\n{text}\n" for name, text in SECTIONS.items()]
    with engine_of(settings, *contents) as opened:
        yield opened


def counterfactuals(engine: Engine, query: str, **arguments: object) -> Counterfactuals:
    found = engine.explain(query, **arguments).counterfactuals  # type: ignore[arg-type]
    assert found is not None
    return found


def of(found: Counterfactuals, change: WordChange) -> list[Counterfactual]:
    return [each for each in found.changes if each.change is change]


def ranks(engine: Engine, query: str, **arguments: object) -> dict[int, int]:
    results = engine.search(query, top_k=50, **arguments).results  # type: ignore[arg-type]
    return {result.chunk_id: rank for rank, result in enumerate(results, start=1)}


def test_word_less_in_the_query_is_the_search_without_it(engine: Engine) -> None:
    without = {"bee": "pollen in the rain", "pollen": "bee in the rain", "rain": "bee pollen in the"}
    for chunk_id, rank in ranks(engine, QUERY).items():
        found = counterfactuals(engine, QUERY, chunk_id=chunk_id)
        assert (found.chunk_id, found.rank) == (chunk_id, rank)
        changes = {each.word: each for each in of(found, WordChange.query_without)}
        for word, query in without.items():
            then = ranks(engine, query)
            first = next(iter(then))
            is_same = then.get(chunk_id) == rank and first == next(iter(ranks(engine, QUERY)))
            assert (word in changes) == (not is_same)
            if word in changes:
                assert (changes[word].rank, changes[word].first_chunk_id) == (then.get(chunk_id), first)


def scores(engine: Engine, changed: tuple[int, str] | None = None) -> dict[int, float]:
    """The score of every chunk, with another text of one."""
    searcher = engine._library.searcher
    prepared = searcher.prepare(make_request(QUERY, settings=engine.settings))
    with searcher.open([prepared]) as present:
        view, totals = present, present.library.index.totals
        if changed is not None:
            view = view._replace(library=with_text(view, *changed))
        ranking = searcher.rank(view, prepared).ranking
        index, live = ranking.library.index, ranking.library.index.live()
        assert changed is None or index.totals._replace(n_words=totals.n_words) == totals
        assert not ranking.order.is_result[~live].any()
        return dict(
            zip(index.chunk_ids(np.flatnonzero(live)).tolist(), ranking.order.keys[live], strict=True)
        )


def test_word_less_in_a_passage_is_the_library_with_that_text(settings: Settings, tmp_path: Path) -> None:
    contents = [document(SECTIONS, repeats=3), document(dict(reversed(SECTIONS.items())))]
    with engine_of(settings, *contents) as engine:
        tried = set()
        for chunk_id in list(ranks(engine, QUERY))[:6]:
            chunk = engine.documents.chunk(chunk_id)
            number, text = chunk.document.id - 1, chunk.chunk.text
            for change in of(counterfactuals(engine, QUERY, chunk_id=chunk_id), WordChange.passage_without):
                forms = {change.word, change.word.capitalize(), f"{change.word}s"}
                left = " ".join(word for word in text.split(" ") if word.strip(".,") not in forms)
                lines = contents[number].split("\n")
                lines[lines.index(f"# {chunk.chunk.section_path[-1]}") + 2] = left
                folder = tmp_path / f"{chunk_id}-{change.word}"
                folder.mkdir()
                url = f"sqlite:///{folder / 'shoal.db'}"
                other = dataclasses.replace(settings, database_url=url)
                changed = [*contents[:number], "\n".join(lines), *contents[number + 1 :]]
                with engine_of(other, *changed) as then:
                    assert scores(engine, (chunk_id, left)) == scores(then)
                    assert ranks(then, QUERY).get(chunk_id) == change.rank, change.message
                    assert next(iter(ranks(then, QUERY)), None) == change.first_chunk_id
                tried.add(change.word)
        assert len(tried) > 2


def test_same_text_gives_the_same_scores(settings: Settings) -> None:
    with engine_of(settings, document(SECTIONS, repeats=4), document(SECTIONS)) as engine:
        text = engine.documents.chunk(11).chunk.text
        assert scores(engine, (11, text)) == scores(engine)


def test_missing_passage_is_brought_onto_the_page(engine: Engine) -> None:
    in_order = list(ranks(engine, QUERY))
    missing = in_order[-1]
    found = counterfactuals(engine, QUERY, chunk_id=missing, top_k=3)
    (added,) = of(found, WordChange.query_with)
    assert found.changes[0] == added
    assert ranks(engine, f"{QUERY} {added.word}")[missing] == added.rank == 3
    assert added.word.lower() not in QUERY
    assert not of(counterfactuals(engine, QUERY, chunk_id=in_order[0], top_k=1), WordChange.query_with)


def test_no_word_brings_back_what_a_filter_keeps_out(engine: Engine) -> None:
    found = counterfactuals(engine, QUERY, document_id=2, filters={"document_ids": [1]})
    assert found.rank is None
    assert not found.changes or all(each.rank is None for each in found.changes)
    assert found.n_searches <= MOST_OF_QUERY


def test_required_word_is_what_keeps_a_passage_out(engine: Engine) -> None:
    chunk_id = engine.search("lava").results[0].chunk_id
    found = counterfactuals(engine, '"judge" lava', chunk_id=chunk_id)
    assert found.rank is None
    assert [(each.word, each.rank) for each in of(found, WordChange.query_without)] == [("judge", 1)]


@pytest.mark.parametrize(
    ("query", "word", "without"),
    [
        ("title:bees rain", "bees", " rain"),
        ('title:"bees" rain', "bees", " rain"),
        ('"bee pollen" (rain)', "rain", '"bee pollen" ()'),
        ("rain -volcano ash", "ash", "rain -volcano "),
        ("bee-keeper's rain", "bee-keeper's", " rain"),
        ("rain, bees and bee", "bees", "rain,  and "),
    ],
)
def test_word_goes_with_its_signs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, query: str, word: str, without: str
) -> None:
    from shoal.search import counterfactuals as module

    seen = {}
    original = module.queries_without

    def kept(*arguments: object) -> Iterator[tuple[str, str]]:
        for found, other in original(*arguments):  # type: ignore[arg-type]
            seen[found] = other
            yield found, other

    monkeypatch.setattr(module, "queries_without", kept)
    engine.explain(query, chunk_id=1)
    assert seen[word] == without
    assert "volcano" not in seen


def test_searches_are_bounded(settings: Settings) -> None:
    words = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(200)]
    with engine_of(settings, " ".join(words) + ".", *([" ".join(words[:30]) + "."] * 1)) as engine:
        found = counterfactuals(engine, " ".join(words[:60]), chunk_id=1, top_k=1)
        halvings = MOST_ADDED.bit_length() + 1
        assert MOST_OF_QUERY <= found.n_searches <= MOST_OF_QUERY + MOST_OF_PASSAGE + halvings


def test_first_result_is_explained_without_a_target(engine: Engine) -> None:
    found = counterfactuals(engine, QUERY)
    assert (found.chunk_id, found.rank) == (next(iter(ranks(engine, QUERY))), 1)
    assert all(each.message.startswith(f"without “{each.word}” in ") for each in found.changes)


@pytest.mark.parametrize("query", ["", "zzyzx"])
def test_nothing_is_said_without_results(engine: Engine, query: str) -> None:
    assert not query or engine.explain(query).counterfactuals is None
