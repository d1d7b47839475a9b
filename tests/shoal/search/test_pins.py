"""Pins of a library: what may be stored, and what a search does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError, PinConflictError, PinError, QueryError
from shoal.library import pins as table
from shoal.maintenance.evaluation import Configuration, JudgedQuery
from shoal.models.search import Pins, SearchResult
from shoal.saved_searches.arguments import request_of, stored_arguments
from shoal.settings import Settings

TEXTS = {
    "Tides": "The sea rises twice a day. The tide follows the moon.",
    "Moon": "The moon goes round the earth, and the tide goes round with it.",
    "Harbour": "Ships wait in the harbour for the tide.",
    "Visitors": "The lighthouse is open from ten to four.",
    "Bread": "Flour and water make bread.",
}


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest_many(
            {"title": title, "content": content, "tags": [title[0].lower()]}
            for title, content in TEXTS.items()
        )
        yield engine


def number(engine: Engine, title: str) -> int:
    (found,) = engine.documents.find(title, title)
    return found.id


def found(engine: Engine, query: str = "tide", **arguments: Any) -> list[SearchResult]:
    return list(engine.search(query, **{"mode": "lexical", **arguments}).results)


def titles(engine: Engine, query: str = "tide", **arguments: Any) -> list[str]:
    return [result.document_title for result in found(engine, query, **arguments)]


def test_pinned_results_come_first_and_scores_stay(engine: Engine) -> None:
    before = {result.document_title: result for result in found(engine)}
    pin = engine.pins.add("Tide", [number(engine, "Visitors"), number(engine, "Harbour")])
    results = found(engine)
    assert [each.document_title for each in results][:2] == ["Visitors", "Harbour"]
    assert [each.pinned for each in results] == [True, True, False, False]
    assert {each.document_title for each in results[1:]} == set(before)
    for each in results[1:]:
        assert each.match_score == before[each.document_title].match_score
    assert results[0].match_score == 0.0
    (used,) = engine.search("tide").query_info.pins
    assert (used.pin_id, used.query, used.match, used.n_pinned) == (pin.id, "Tide", "exact", 2)
    assert titles(engine, pins="off") == list(before)
    assert engine.search("tide", pins="off").query_info.pins == ()


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
def test_every_mode_puts_them_first(engine: Engine, mode: str) -> None:
    engine.pins.add("tide", [number(engine, "Bread")])
    assert titles(engine, mode=mode)[0] == "Bread"


def test_exact_pins_are_for_the_words_alone_and_others_for_searches_with_them(engine: Engine) -> None:
    engine.pins.add("the Tide!", [number(engine, "Bread")])
    for query in ("THE tide", '"the tide"', "the tide -ships"):
        expected = "Bread" not in titles(engine, query)
        assert expected == query.startswith('"'), query
    assert "Bread" not in titles(engine, "tide")
    assert "Bread" not in titles(engine, "the tide today")
    engine.pins.add("tide today", [number(engine, "Visitors")], match="contains")
    assert titles(engine, "what is the tide today in the harbour")[0] == "Visitors"
    assert "Visitors" not in titles(engine, "tide in the harbour today")


def test_exact_pins_come_before_those_with_most_words_and_the_first_one_counts(engine: Engine) -> None:
    by_title = {title: number(engine, title) for title in TEXTS}
    engine.pins.add("tide", [by_title["Moon"]], hidden=[by_title["Bread"]], match="contains")
    engine.pins.add("sea tide", [by_title["Bread"]], match="contains")
    engine.pins.add("sea tide", [by_title["Visitors"]], hidden=[by_title["Moon"]])
    results = found(engine, "sea tide")
    assert [each.document_title for each in results if each.pinned] == ["Visitors", "Bread"]
    assert "Moon" not in [each.document_title for each in results]


def test_typing_errors_find_the_pin_of_the_word(engine: Engine) -> None:
    engine.pins.add("harbour", [number(engine, "Bread")])
    assert titles(engine, "harbuor")[0] == "Bread"
    assert titles(engine, "harbuor", typos="off") == []


def test_hidden_results_are_left_out_everywhere(engine: Engine) -> None:
    moon = number(engine, "Moon")
    pin = engine.pins.add("tide", hidden=[moon])
    assert "Moon" not in titles(engine)
    (facet,) = engine.search("tide", facets=["tags"], mode="lexical").facets or ()
    assert {value.value for value in facet.values} == {"t", "h"}
    explanation = engine.explain("tide", document_id=moon)
    assert explanation.target is not None
    assert [why.reason for why in explanation.target.kept_out] == ["hidden"]
    assert str(pin.id) in explanation.target.kept_out[0].message


def test_filters_phrases_and_exclusions_keep_pinned_results_out(engine: Engine) -> None:
    engine.pins.add("tide", [number(engine, "Visitors")], match="contains")
    assert "Visitors" not in titles(engine, tags=["h"])
    assert titles(engine, tags=["v"]) == ["Visitors"]
    assert "Visitors" not in titles(engine, '"the tide"')
    assert "Visitors" not in titles(engine, "tide -lighthouse")
    target = engine.explain("tide", document_id=number(engine, "Visitors"), tags=["h"]).target
    assert target is not None
    assert [why.reason for why in target.kept_out] == ["filter"]
    assert target.pinned_by is None


def test_an_explanation_names_the_pin(engine: Engine) -> None:
    pin = engine.pins.add("tide", [number(engine, "Visitors")])
    target = engine.explain("tide", document_id=number(engine, "Visitors"), min_relevance=0.9).target
    assert target is not None
    assert (target.rank, target.score, target.pinned_by, target.kept_out) == (1, 0.0, pin.id, ())


def test_pages_continue_after_pinned_results(engine: Engine) -> None:
    engine.pins.add("tide", [number(engine, "Bread"), number(engine, "Visitors"), number(engine, "Harbour")])
    whole = titles(engine)
    assert [titles(engine, top_k=1, offset=n) for n in range(len(whole))] == [[title] for title in whole]
    by_cursor, cursor = list[str](), None
    while True:
        page = engine.search("tide", mode="lexical", top_k=2, cursor=cursor)
        by_cursor += [result.document_title for result in page.results]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert by_cursor == whole


def test_sorted_grouped_and_folded_results(engine: Engine) -> None:
    engine.pins.add("tide", [number(engine, "Visitors")])
    assert titles(engine, sort="title") == ["Visitors", "Harbour", "Moon", "Tides"]
    grouped = engine.search("tide", group_by="document").documents or ()
    assert grouped[0].document_title == "Visitors"
    assert [document.pinned for document in grouped].count(True) == 1
    assert titles(engine, fold_similar=True)[0] == "Visitors"
    first = found(engine, min_relevance=0.99)[0]
    assert first.document_title == "Visitors"
    assert first.relevance < 0.99


def test_a_retrieval_has_no_pinned_result_below_its_threshold(engine: Engine) -> None:
    engine.pins.add("tide", [number(engine, "Visitors")])
    assert engine.retrieve("tide").results[0].metadata["title"] == "Visitors"
    retrieved = engine.retrieve("tide", threshold=0.3)
    assert retrieved.results
    assert all(each.similarity >= 0.3 for each in retrieved.results)
    assert retrieved.total_results == len(retrieved.results)
    assert "Visitors" not in retrieved.results_summary


def test_a_pinned_passage_and_the_best_passage_of_a_document(engine: Engine, settings: Settings) -> None:
    content = "# One\n\nShips and sails.\n\n# Two\n\nA tide of birds.\n\n# Three\n\nRopes and knots.\n"
    stored = engine.ingest(title="Long", content=content, format="markdown")
    chunks = engine.documents.chunks(stored.id).chunks
    assert len(chunks) == 3
    engine.pins.add("tide", [{"chunk_id": chunks[2].id}, stored.id])
    results = found(engine, max_per_document=2)
    assert [result.chunk_id for result in results if result.pinned] == [chunks[2].id, chunks[1].id]
    assert [result.document_id for result in results].count(stored.id) == 2
    target = engine.explain("tide", document_id=stored.id).target
    assert target is not None
    assert (target.chunk_id, target.rank) == (chunks[2].id, 1)


def test_batches_apply_pins_and_saved_searches_and_evaluations_do_not(engine: Engine) -> None:
    engine.pins.add("tide", [number(engine, "Bread")])
    batch = engine.search_many(["tide", {"query": "tide", "pins": "off"}])
    first = [answer.response.results[0].pinned for answer in batch.answers if answer.response]
    assert first == [True, False]
    fused = engine.search_many(["tide", "moon"], fused=True).fused or ()
    assert any(each.result.pinned and each.found_by[0].rank == 1 for each in fused)
    assert request_of({"query": "tide"}, engine.settings, top_k=1).pins is Pins.off
    with pytest.raises(QueryError, match="cannot be saved"):
        stored_arguments({"query": "tide", "pins": "on"}, engine.settings)
    judged = [JudgedQuery(1, "tide", {"Bread": 1.0})]
    configuration = Configuration("words", {"mode": "lexical"})
    (judgement,) = engine.maintenance.evaluate(judged, [configuration]).configurations
    assert judgement.ndcg == 0.0


def test_deleted_documents_leave_the_pin_and_gone_passages_become_the_document(engine: Engine) -> None:
    bread = number(engine, "Bread")
    visitors = number(engine, "Visitors")
    passage = {"chunk_id": engine.documents.chunks(visitors).chunks[0].id}
    pin = engine.pins.add("tide", [bread, passage])
    hides = engine.pins.add("lighthouse", hidden=[passage])
    assert titles(engine, "lighthouse") == []
    engine.documents.replace(visitors, content="The lighthouse is closed.\n")
    assert engine.pins.get(hides.id).hidden[0].is_gone
    assert titles(engine, "lighthouse") == ["Visitors"]
    stored = engine.pins.get(pin.id)
    assert [(each.document_id, each.is_gone) for each in stored.pinned] == (
        [(bread, False), (visitors, True)]
    )
    assert titles(engine)[:2] == ["Bread", "Visitors"]
    engine.documents.delete(bread)
    assert titles(engine)[0] == "Visitors"
    assert [each.document_id for each in engine.pins.get(pin.id).pinned] == [visitors]
    engine.documents.delete(visitors)
    assert engine.pins.get(pin.id).pinned == ()
    assert titles(engine)[0] != "Visitors"


def test_pins_are_listed_replaced_and_deleted(engine: Engine) -> None:
    moon, bread = number(engine, "Moon"), number(engine, "Bread")
    first = engine.pins.add("tide", [moon])
    engine.pins.add("high_water", [bread], hidden=[moon], match="contains")
    assert engine.pins.list().total == 2
    assert [pin.query for pin in engine.pins.list(q="h_w").pins] == ["high_water"]
    changed = engine.pins.replace(first.id, "sea", hidden=[moon])
    assert (changed.id, changed.query, changed.pinned) == (first.id, "sea", ())
    assert "Moon" in titles(engine)
    with pytest.raises(PinConflictError, match=f"pin {first.id}"):
        engine.pins.add("SEA", [moon])
    engine.pins.add("sea", [moon], match="contains")
    engine.pins.delete(first.id)
    for change in (
        lambda: engine.pins.get(first.id),
        lambda: engine.pins.delete(first.id),
        lambda: engine.pins.replace(first.id, "sea", [moon]),
    ):
        with pytest.raises(NotFoundError):
            change()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": "?!"}, "query"),
        ({"query": "word " * 17}, "query"),
        ({"query": "w" * 201}, "query"),
        ({"query": "a\x00b"}, "query"),
        ({"match": "prefix"}, "match"),
        ({"pinned": []}, "pinned"),
        ({"pinned": "1"}, "pinned"),
        ({"pinned": [1, 1]}, "pinned"),
        ({"pinned": list(range(1, 12))}, "pinned"),
        ({"pinned": [99]}, "pinned.0"),
        ({"pinned": [{"chunk_id": 99}]}, "pinned.0"),
        ({"pinned": [{"chunk_id": 1, "document_id": 2}]}, "pinned.0"),
        ({"pinned": [{"id": 1}]}, "pinned.0"),
        ({"pinned": [{"document_id": True}]}, "pinned.0.document_id"),
        ({"pinned": [{"document_id": 2**70}]}, "pinned.0.document_id"),
        ({"hidden": [1]}, "hidden"),
    ],
)
def test_invalid_pins_name_the_field(engine: Engine, arguments: Mapping[str, Any], field: str) -> None:
    with pytest.raises(PinError) as raised:
        engine.pins.add(**{"query": "tide", "pinned": [1], **arguments})
    assert raised.value.field == field
    assert engine.pins.list().total == 0


def test_the_library_has_a_limit(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_PINS", 1)
    engine.pins.add("tide", [1])
    with pytest.raises(PinConflictError, match="the limit"):
        engine.pins.add("sea", [1])


def test_without_a_pin_for_the_query_nothing_changes(engine: Engine) -> None:
    before = [(result.chunk_id, result.match_score) for result in found(engine, "tide", mode="hybrid")]
    engine.pins.add("bread", [number(engine, "Moon")])
    assert before == [(each.chunk_id, each.match_score) for each in found(engine, "tide", mode="hybrid")]
