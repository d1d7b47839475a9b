"""Pseudo-relevance feedback, in searches, in explanations and in its arithmetic."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import make_scored

from shoal import Engine
from shoal.models.queries import QueryReef
from shoal.models.search import SearchResponse
from shoal.search.query_profile import MAX_REEFS, MAX_TIED, N_FEEDBACK_CHUNKS, adapt, choose
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.support.clock import timestamp

# The scorer knows "state" as a government; in this library it is a state of matter.
LIBRARY = {
    "Glass": "Silica in a molten state is glass. Another state of glass is sand. The furnace keeps that state.",
    "Steel": "Iron and copper alloy in the furnace. Steel for a bridge and a cable.",
    "Town": "The mayor and the council hold an election. Every citizen has a vote about the tax.",
}
METALS = "metals and glass"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With learning, which feedback needs."""
    return dataclasses.replace(settings, learning=True)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for title, content in LIBRARY.items():
            opened.ingest(title=title, content=content, tags=[title.lower()])
        yield opened


@pytest.fixture
def engine_without_feedback(settings: Settings, engine: Engine) -> Iterator[Engine]:
    """On the same library, without feedback."""
    with Engine(settings=dataclasses.replace(settings, feedback_weight=0.0), scorer=FakeScorer()) as opened:
        yield opened


def test_learning_off_turns_feedback_off(settings: Settings, engine: Engine) -> None:
    without_learning = dataclasses.replace(settings, learning=False)
    with Engine(settings=without_learning, scorer=FakeScorer()) as opened:
        assert "Steel" not in titles(opened.search("state", mode="reef"))
        assert opened.explain("state").feedback == ()


def titles(reply: SearchResponse) -> list[str]:
    return [result.document_title for result in reply.results]


def test_feedback_finds_what_words_mean_in_this_library(
    engine: Engine, engine_without_feedback: Engine
) -> None:
    assert "Steel" not in titles(engine_without_feedback.search("state", mode="reef"))
    reply = engine.search("state", mode="reef", include_scores=True)
    steel = reply.results[titles(reply).index("Steel")]
    assert steel.shared_reefs is not None
    assert METALS in [reef.reef_name for reef in steel.shared_reefs]
    assert sum(reef.share for reef in steel.shared_reefs) == pytest.approx(steel.match_score)


def test_feedback_does_not_change_the_own_reefs_of_a_query(
    engine: Engine, engine_without_feedback: Engine
) -> None:
    own = {reef.reef_id: reef.z_score for reef in engine_without_feedback.explain("state").reefs}
    moved = engine.explain("state").reefs
    assert {reef.reef_id: reef.own_z for reef in moved if reef.own_z} == own
    assert titles(engine.search("state", mode="lexical")) == ["Glass"]


@pytest.mark.parametrize("mode", ["hybrid", "reef", "lexical"])
def test_response_shows_the_profile_used_for_ranking(engine: Engine, mode: str) -> None:
    reply = engine.search("state", mode=mode, include_scores=True)
    shown = {reef.reef_id: reef.z_score for reef in reply.query_info.top_reefs}
    used = {reef.reef_id: reef.query_z for result in reply.results for reef in result.shared_reefs or ()}
    assert used
    assert used == {reef_id: z for reef_id, z in shown.items() if reef_id in used}
    first, second = reply.query_info.top_reefs[:2]
    assert reply.query_info.top_reef == first.reef_name
    assert reply.query_info.confidence == pytest.approx(first.z_score - second.z_score, abs=1e-5)
    assert [chunk.document_title for chunk in reply.query_info.feedback] == (
        [] if mode == "lexical" else ["Glass"]
    )


def test_explanations_name_the_feedback_chunks(engine: Engine, engine_without_feedback: Engine) -> None:
    explanation = engine.explain("state")
    (feedback_chunk,) = explanation.feedback
    result = engine.search("state", mode="lexical").results[0]
    assert (feedback_chunk.document_title, feedback_chunk.chunk_id) == ("Glass", result.chunk_id)
    assert feedback_chunk.share == 1.0
    (metals,) = (reef for reef in explanation.reefs if reef.reef_name == METALS)
    assert metals.own_z == 0 < metals.z_score
    assert explanation.query_info.top_reefs == explanation.reefs[:10]
    assert explanation.query_info.feedback == explanation.feedback
    own = engine_without_feedback.explain("state")
    assert (own.feedback, own.reefs) == ((), own.query_info.top_reefs)
    assert all(reef.own_z == reef.z_score for reef in own.reefs)


@pytest.mark.parametrize("mode", ["hybrid", "reef"])
def test_filters_do_not_change_the_feedback(engine: Engine, mode: str) -> None:
    unfiltered = engine.explain("state", mode=mode)
    assert engine.explain("state", mode=mode, tags=["steel"]).reefs == unfiltered.reefs
    all_scores, filtered_scores = (
        {
            result.chunk_id: result.match_score
            for result in engine.search("state", mode=mode, top_k=100, tags=tags).results
        }
        for tags in (None, ["steel"])
    )
    assert filtered_scores
    assert filtered_scores.items() <= all_scores.items()


def test_excluded_chunks_are_no_feedback_chunks(engine: Engine) -> None:
    explanation = engine.explain("state -silica", mode="reef")
    assert explanation.feedback == ()
    assert METALS not in [reef.reef_name for reef in explanation.reefs]


def test_feedback_chunks_contain_the_phrases_of_the_query_in_every_mode(engine: Engine) -> None:
    engine.ingest(title="Many", content="State, state, state and state! The law of the court is the state.")
    for mode in ("hybrid", "reef"):
        feedback = engine.explain('state "molten state"', mode=mode).feedback
        assert [chunk.document_title for chunk in feedback] == ["Glass"]


def test_query_without_reefs_gets_no_feedback(engine: Engine) -> None:
    explanation = engine.explain("molten", mode="reef")
    assert (explanation.feedback, explanation.reefs) == ((), ())
    assert titles(engine.search("molten", mode="reef")) == []
    assert titles(engine.search("molten", mode="hybrid")) == ["Glass"]


def test_chunks_scored_with_other_data_are_no_feedback_chunks(engine: Engine) -> None:
    scored = make_scored(["State, state and state of things."], title="Strange", data_checksum="0" * 64)
    with engine.database.write() as transaction:
        document_writer.insert_document(transaction, scored, now=timestamp())
    assert [chunk.document_title for chunk in engine.explain("state").feedback] == ["Glass"]


def test_feedback_is_the_same_before_and_after_the_start(engine: Engine) -> None:
    def rankings() -> list[list[tuple[int, float]]]:
        return [
            [(result.chunk_id, result.match_score) for result in engine.search("state", mode=mode).results]
            for mode in ("hybrid", "reef")
        ]

    before = rankings()
    engine.start()
    assert rankings() == before


def test_deleted_documents_give_no_feedback(engine: Engine) -> None:
    (feedback_chunk,) = engine.explain("state").feedback
    engine.documents.delete(feedback_chunk.document_id)
    assert engine.explain("state").feedback == ()


scores = st.lists(st.integers(1, 10**13) | st.sampled_from([7, 10**12]), min_size=1, max_size=80)


@given(scores)
def test_feedback_chunks_are_the_best_matches_whatever_their_ids(drawn: list[int]) -> None:
    ids = np.arange(1, len(drawn) + 1)
    shares = choose(ids, np.array(drawn))
    assert sum(shares.values()) == pytest.approx(1.0)
    by_share = sorted(((drawn[i - 1], share) for i, share in shares.items()), reverse=True)
    assert [score for score, _ in by_share] == sorted(drawn, reverse=True)[: len(by_share)]
    assert [share for _, share in by_share] == sorted(shares.values(), reverse=True)
    assert len(shares) >= min(N_FEEDBACK_CHUNKS, len(drawn))
    reverse = choose(ids, np.array(drawn[::-1]))
    reversed_by_share = sorted(((drawn[::-1][i - 1], share) for i, share in reverse.items()), reverse=True)
    assert reversed_by_share == by_share


def test_equal_matches_are_all_feedback_chunks_up_to_a_limit() -> None:
    def n_chosen(n: int) -> int:
        return len(choose(np.arange(n), np.full(n, 5)))

    assert [n_chosen(n) for n in (1, 3, 10, 1000)] == [1, 3, 10, MAX_TIED]
    shares = choose(np.arange(3), np.array([100, 10, 10]))
    assert shares[0] > 0.99


profiles = st.dictionaries(st.integers(0, 99), st.floats(0.5, 20.0), min_size=1, max_size=20)


@given(profiles, profiles, st.floats(0.1, 3.0))
def test_profile_moves_by_a_share_of_its_length(
    own: dict[int, float], other: dict[int, float], share: float
) -> None:
    names = {reef_id: f"reef {reef_id}" for reef_id in own | other}
    profile = adapt([QueryReef(i, names[i], z) for i, z in own.items()], other, names, share=share)
    assert list(profile) == sorted(profile, key=lambda reef: (-reef.z_score, reef.reef_id))
    assert {reef.reef_name for reef in profile} == set(names.values())
    moved = {reef.reef_id: reef.z_score - own.get(reef.reef_id, 0.0) for reef in profile}
    assert math.hypot(*moved.values()) == pytest.approx(share * math.hypot(*own.values()), abs=1e-4)
    assert all(abs(moved[i]) < 1e-5 for i in own.keys() - other.keys())


def test_profile_keeps_its_strongest_reefs() -> None:
    own = [QueryReef(i, "own", 1.0 + i) for i in range(38)]
    profile = adapt(
        own, dict.fromkeys(range(100, 200), 1.0), dict.fromkeys(range(100, 200), "new"), share=1.0
    )
    assert len(profile) == MAX_REEFS
    assert {reef.reef_id for reef in own if reef.z_score > 14} <= {reef.reef_id for reef in profile}
