import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import raw_and_z, read
from small_model import ARCHIPELAGO_OF, COMPOUNDS, ISLAND_OF, WORDS

from lagoon import LagoonError, ReefScorer
from lagoon.model import Model

PIECES = [*WORDS, *" ".join(COMPOUNDS).split(), "attacks", "children", "leaves", "banks", "heart's"]
PIECES += ["empties", "empti", "empti's", "empti'd"]
PIECES += ["the", "of", "it's", "2", "1999", "blorg", "zzyzx", ",", ".", "-", "(", "Heart", "DAY"]
TEXTS = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from([" ", " ", " ", "-", ", "])), max_size=25
).map(lambda pairs: "".join(piece + gap for piece, gap in pairs))


@given(TEXTS)
def test_scores_follow_the_definition(small: ReefScorer, small_model: Model, text: str) -> None:
    expected = read(text)
    raw, z = raw_and_z(expected.tf, small_model)
    result = small.score(text, top_k=6)
    assert {small_model.words[word] for word in result.matched_word_ids} == set(expected.tf)
    assert result.unknown_words == expected.unknown
    assert (result.n_words, result.matched_words) == (expected.n_words, expected.matched)
    assert result.coverage == pytest.approx(expected.matched / max(expected.n_words, 1), abs=1e-6)
    assert result.z_scores == pytest.approx(z, abs=2e-6)
    for reef in result.top_reefs:
        assert reef.raw_bm25 == pytest.approx(raw[reef.reef_id], abs=2e-6)
        assert reef.z_score == result.z_scores[reef.reef_id]
        assert reef.n_contributing_words == sum(
            reef.reef_id in (WORDS | COMPOUNDS)[word] for word in expected.tf
        )
    first, second = sorted(z, reverse=True)[:2]
    assert result.confidence == pytest.approx(first - second, abs=3e-6)


@given(TEXTS)
def test_top_reefs_are_the_strongest_above_zero(small: ReefScorer, text: str) -> None:
    result = small.score(text, top_k=3)
    z = result.z_scores
    best = sorted((reef for reef in range(6) if z[reef] > 0), key=lambda reef: (-z[reef], reef))[:3]
    assert [reef.reef_id for reef in result.top_reefs] == best


@given(TEXTS)
def test_islands_and_archipelagos_aggregate_their_reefs(small: ReefScorer, text: str) -> None:
    result = small.score(text)
    z = result.z_scores.tolist()
    islands = [[z[reef] for reef in range(6) if ISLAND_OF[reef] == island] for island in range(3)]
    stouffer = [sum(values) / math.sqrt(len(values)) for values in islands]
    for island in result.top_islands:
        assert island.aggregate_z == pytest.approx(stouffer[island.island_id], abs=2e-6)
        assert island.aggregate_z > 0
        assert island.n_contributing_reefs == sum(value > 0 for value in islands[island.island_id])
    for archipelago, score in enumerate(result.arch_scores):
        values = [z[reef] for reef in range(6) if ARCHIPELAGO_OF[ISLAND_OF[reef]] == archipelago]
        assert score == pytest.approx(sum(values) / math.sqrt(len(values)), abs=2e-6)


@given(st.lists(TEXTS, max_size=6))
def test_a_batch_scores_each_text_like_the_text_alone(small: ReefScorer, texts: list[str]) -> None:
    batch = small.score_batch(texts)
    assert len(batch) == len(texts)
    for text, result in zip(texts, batch, strict=True):
        alone = small.score(text)
        assert np.array_equal(result.z_scores, alone.z_scores)
        assert result.top_reefs == alone.top_reefs
        assert result.top_islands == alone.top_islands
        assert result.unknown_words == alone.unknown_words
        assert (result.matched_words, result.n_words) == (alone.matched_words, alone.n_words)


@given(TEXTS)
def test_the_order_of_sentences_does_not_change_a_score(small: ReefScorer, text: str) -> None:
    parts = text.split(",")
    assert np.array_equal(small.score_raw(",".join(parts)), small.score_raw(",".join(reversed(parts))))


@given(TEXTS)
def test_explained_contributions_sum_up_to_the_score(
    small: ReefScorer, small_model: Model, text: str
) -> None:
    matches = small.explain_words(text)
    raw, _ = raw_and_z(read(text).tf, small_model)
    sums = [0.0] * 6
    for match in matches:
        assert text[match.start : match.end] == match.token
        for reef, contribution in match.reefs:
            sums[reef] += contribution
    assert sums == pytest.approx(raw, abs=1e-9)
    unknown = [match.token.lower() for match in matches if match.status == "unknown"]
    assert list(dict.fromkeys(unknown)) == read(text).unknown


def test_compounds_do_not_cross_punctuation_or_paragraphs(small: ReefScorer) -> None:
    compound = small.lookup_word("heart attack")
    assert compound is not None
    for text in ("heart attack", "Heart Attacks", "heart-attack", "heart\nattack", "heart_attack's"):
        assert compound.word_id in small.score(text).matched_word_ids, text
    for text in ("heart, attack", "heart. Attack", "heart\n\nattack", "heart\n- attack", "heart (attack)"):
        assert compound.word_id not in small.score(text).matched_word_ids, text


def test_a_text_without_known_words_has_no_profile(small: ReefScorer) -> None:
    for text in ("", "   ", "the of and", "1999 2", "blorg"):
        result = small.score(text)
        assert not result.z_scores.any()
        assert result.top_reefs == []
        assert result.top_islands == []
        assert result.confidence == 0.0
        assert result.coverage == 0.0
        assert result.matched_word_ids == frozenset()
    assert small.score("blorg, Blorg and zzyzx").unknown_words == ["blorg", "zzyzx"]


def test_invalid_arguments_are_rejected(small: ReefScorer) -> None:
    with pytest.raises(LagoonError):
        small.score("heart", top_k=-1)
    with pytest.raises(TypeError):
        small.score_batch("heart")
    assert len(small.score("heart love", top_k=10**6).top_reefs) <= 6


@given(st.text())
def test_any_text_can_be_scored(small: ReefScorer, text: str) -> None:
    result = small.score(text)
    assert np.isfinite(result.z_scores).all()
    assert 0.0 <= result.coverage <= 1.0
