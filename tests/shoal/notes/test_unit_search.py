"""Passages and notes in one order, scored by the same formulas."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.errors import NoteError, QueryError
from shoal.models.notes import NoteHit
from shoal.models.scores import FieldBoostParts
from shoal.models.search import SearchResult
from shoal.notes import unit_search
from shoal.settings import Settings

DOCUMENTS = {
    "Volcanoes": "Lava of a volcano cools to basalt. Ash falls on the crater and the lava.",
    "Courts": "The judge and the jury weigh the evidence of a crime before the verdict of the court.",
    "Weather": "Rain and storm of the monsoon season fall on the coast in summer.",
}
NOTES = {
    "Hot rocks": "Never stand below a volcano when the lava moves and the ash falls.",
    "Juries": "A jury needs time. Ask the judge before the verdict.",
    "Metals": "Copper and steel melt in the furnace, and lava melts them too.",
}


def fill(engine: Engine, *, as_notes: bool) -> None:
    for title, content in DOCUMENTS.items():
        engine.ingest(title=title, content=content)
    for title, text in NOTES.items():
        if as_notes:
            engine.notes.of("me").add(text, title=title)
        else:
            engine.ingest(title=title, content=text)


def key(result: SearchResult | NoteHit) -> str:
    return result.note.title if isinstance(result, NoteHit) else str(result.document_title)


@pytest.mark.parametrize(
    "query", ["lava", "lava of the volcano", '"the verdict"', "judge -evidence", "title:rocks ash"]
)
def test_note_is_scored_like_a_document_of_one_passage(
    engine: Engine, tmp_path: Path, migrated_file: Path, query: str
) -> None:
    fill(engine, as_notes=True)
    found = engine.search_units(query, owner="me", mode="lexical", top_k=20).results
    shutil.copyfile(migrated_file, tmp_path / "documents.db")
    with Engine(tmp_path / "documents.db", scorer=FakeScorer(), learning=False) as of_documents:
        fill(of_documents, as_notes=False)
        expected = of_documents.search(query, mode="lexical", top_k=20).results
    scores = {key(result): (result.match_score, result.relevance, result.term_coverage) for result in found}
    assert scores == {
        str(result.document_title): (result.match_score, result.relevance, result.term_coverage)
        for result in expected
    }
    assert [result.match_score for result in found] == sorted(scores_of(found), reverse=True)
    assert any(isinstance(result, NoteHit) for result in found)


def scores_of(results: Any) -> list[float]:
    return [result.match_score for result in results]


def test_both_kinds_come_in_one_order_with_reasons(engine: Engine) -> None:
    fill(engine, as_notes=True)
    response = engine.search_units("lava of a volcano", owner="me", include_scores=True)
    assert {type(result) for result in response.results} == {SearchResult, NoteHit}
    assert scores_of(response.results) == sorted(scores_of(response.results), reverse=True)
    assert max(result.scores.lexical or 0 for result in response.results) == 1
    for result in response.results:
        weights = response.weights
        scores = result.scores
        total = weights["lexical"] * (scores.lexical or 0) + weights["reef"] * (scores.reef or 0)
        assert scores.final == pytest.approx(total + weights["field_boost"] * scores.field_boost)
        assert result.shared_reefs is not None
        assert sum(reef.share for reef in result.shared_reefs) == pytest.approx(
            weights["reef"] * (scores.reef or 0), abs=1e-6
        )
    hit = next(result for result in response.results if isinstance(result, NoteHit))
    assert hit.note.title == "Hot rocks"
    assert hit.matched_words == ("lava", "volcano")
    assert "lava" in [hit.note.text[start:end] for start, end in hit.highlights]
    assert hit.shared_reefs is not None
    assert hit.shared_reefs[0].reef_name == "volcanoes and rocks"


def test_choice_of_kinds_changes_no_score(engine: Engine) -> None:
    fill(engine, as_notes=True)
    both = {key(result): result for result in engine.search_units("lava", owner="me").results}
    only_notes = engine.search_units("lava", owner="me", units=["note"]).results
    only_chunks = engine.search_units("lava", owner="me", units=["chunk"]).results
    assert {key(result) for result in (*only_notes, *only_chunks)} == set(both)
    for result in (*only_notes, *only_chunks):
        assert result.match_score == both[key(result)].match_score


def test_notes_of_another_owner_neither_appear_nor_count(engine: Engine) -> None:
    fill(engine, as_notes=True)
    before = engine.search_units("lava", owner="me").results
    for number in range(5):
        engine.notes.of("you").add(f"Lava and a volcano {number}.")
    assert engine.search_units("lava", owner="me").results == before
    stranger = engine.search_units("lava", owner="nobody").results
    assert scores_of(stranger) == scores_of(engine.search("lava").results)
    assert all(isinstance(result, SearchResult) for result in stranger)


def test_changes_of_notes_are_seen_at_once(engine: Engine) -> None:
    fill(engine, as_notes=True)
    notes = engine.notes.of("me")
    note = notes.list().notes[0]

    def is_found(query: str) -> bool:
        results = engine.search_units(query, owner="me", mode="lexical").results
        return note.title in map(key, results)

    assert is_found("lava")
    notes.update(note.id, text="The monsoon brings rain.")
    assert (is_found("lava"), is_found("monsoon")) == (False, True)
    notes.deprecate(note.id)
    assert not is_found("monsoon")


def test_large_blocks_become_several_segments(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(engine, as_notes=True)
    expected = scores_of(engine.search_units("lava", owner="me").results)
    monkeypatch.setattr(unit_search, "MAX_CHUNKS", 2)
    unit_search._SEGMENTS.clear()
    assert scores_of(engine.search_units("lava", owner="me").results) == expected


def test_filters_of_documents_leave_out_notes_but_tags_hold_for_both(engine: Engine) -> None:
    engine.ingest(title="Volcanoes", content=DOCUMENTS["Volcanoes"], tags=["hot"])
    engine.notes.of("me").add(NOTES["Hot rocks"], title="Hot rocks", tags=["hot", "new"])
    engine.notes.of("me").add(NOTES["Metals"], title="Metals")

    def titles(**filters: Any) -> set[str]:
        return {key(result) for result in engine.search_units("lava", owner="me", filters=filters).results}

    assert titles() == {"Volcanoes", "Hot rocks", "Metals"}
    assert titles(tags=["hot"]) == {"Volcanoes", "Hot rocks"}
    assert titles(tags=["new", "hot"]) == {"Hot rocks"}
    assert titles(tags=["new", "hot"], tags_match="any") == {"Volcanoes", "Hot rocks"}
    assert titles(document_ids=[1]) == {"Volcanoes"}
    assert titles(min_confidence=0.0) == {"Volcanoes"}


def test_library_without_passages_is_searched(engine: Engine) -> None:
    engine.notes.of("me").add(NOTES["Metals"], title="Metals")
    assert list(map(key, engine.search_units("copper", owner="me").results)) == ["Metals"]
    assert engine.search_units("copper", owner="nobody").results == ()


def test_feedback_comes_from_passages(settings: Settings, migrated_file: Path) -> None:
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer(), learning=True) as engine:
        fill(engine, as_notes=True)
        found = engine.search_units("lava of the volcano", owner="me")
        alone = engine.search("lava of the volcano")
    assert found.query_info.feedback
    assert found.query_info.feedback == alone.query_info.feedback
    assert {type(result) for result in found.results} == {SearchResult, NoteHit}


@pytest.mark.parametrize("mode", ["hybrid", "reef", "lexical"])
@pytest.mark.parametrize("fusion", ["blend", "rrf"])
def test_every_mode_finds_both_kinds(engine: Engine, mode: str, fusion: str) -> None:
    fill(engine, as_notes=True)
    found = engine.search_units("lava and ash", owner="me", mode=mode, fusion=fusion, include_scores=True)
    assert {type(result) for result in found.results} == {SearchResult, NoteHit}


def test_audit_names_notes_and_kinds(settings: Settings, migrated_file: Path, tmp_path: Path) -> None:
    put_empty_library(migrated_file, settings)
    audited = dataclasses.replace(settings, audit="full", audit_file=str(tmp_path / "audit.jsonl"))
    with Engine(settings=audited, scorer=FakeScorer()) as engine:
        fill(engine, as_notes=True)
        engine.search_units("volcano", owner="me", mode="lexical")
    [entry] = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert (entry["units"], entry["notes"]) == (["chunk", "note"], [1])
    assert [result["document_id"] for result in entry["results"]] == [1]


@pytest.mark.parametrize("units", [[], ["page"], "note", None, 5, [[]]])
def test_bad_units_are_refused(engine: Engine, units: Any) -> None:
    with pytest.raises(QueryError) as refused:
        engine.search_units("lava", owner="me", units=units)
    assert refused.value.field == "units"
    with pytest.raises(NoteError):
        engine.search_units("lava", owner="")


def test_domain_and_tags_of_a_note_are_found_and_boost_it(engine: Engine) -> None:
    notes = engine.notes.of("me")
    notes.add("Led a crew across the ocean.", kind="atom", domain="seafaring", tags=["night-watch"])
    notes.add("Led a crew across the desert.", kind="atom")
    for query in ("seafaring", "watch"):
        (found,) = engine.search_units(query, owner="me", units=["note"], mode="lexical").results
        assert isinstance(found, NoteHit)
        assert found.note.domain == "seafaring"
    boosts = field_boosts(engine, "crew seafaring watch")
    assert boosts == {"seafaring": pytest.approx(2 / 3), "": 0}


def test_a_pin_that_counts_everywhere_is_the_whole_field_boost_of_a_note(engine: Engine) -> None:
    notes = engine.notes.of("me")
    ids = {
        domain: notes.add(f"Led a crew in {domain}.", kind="atom", domain=domain).note.id
        for domain in ("oceans", "deserts", "mountains")
    }
    assert field_boosts(engine, "crew leader") == dict.fromkeys(ids, 0)
    notes.pin(ids["deserts"])
    notes.pin(ids["mountains"], tags=["alps"])
    assert field_boosts(engine, "crew leader") == {"oceans": 0, "deserts": 1, "mountains": 0}
    first, *_ = engine.search_units("crew leader", owner="me", units=["note"]).results
    assert isinstance(first, NoteHit)
    assert first.note.id == ids["deserts"]
    notes.unpin(ids["deserts"])
    assert field_boosts(engine, "crew leader") == dict.fromkeys(ids, 0)
    assert engine.search_units("volcano", owner="me", units=["note"]).results == ()


def test_field_boost_of_a_note_is_taken_apart(engine: Engine) -> None:
    notes = engine.notes.of("me")
    note = notes.add(
        "Led a crew across the ocean.", title="Captain", kind="atom", domain="seafaring", tags=["night-watch"]
    ).note

    def parts() -> FieldBoostParts | None:
        query = "captain seafaring watch crew"
        (found,) = engine.search_units(query, owner="me", units=["note"], include_scores=True).results
        assert sum(found.scores.field_boost_parts or ()) == pytest.approx(found.scores.field_boost)
        return found.scores.field_boost_parts

    assert parts() == FieldBoostParts(0.25, 0.0, 0.25, 0.25, 0.0)
    notes.pin(note.id)
    assert parts() == FieldBoostParts(0.25, 0.0, 0.25, 0.25, 0.25)
    (found,) = engine.search_units("crew", owner="me", units=["note"]).results
    assert found.scores.field_boost_parts is None


def field_boosts(engine: Engine, query: str) -> dict[str, float]:
    results = engine.search_units(query, owner="me", units=["note"], include_scores=True).results
    return {r.note.domain: r.scores.field_boost for r in results if isinstance(r, NoteHit)}
