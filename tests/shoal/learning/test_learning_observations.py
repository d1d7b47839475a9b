from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from learning_texts import text

from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning import EvidenceRow, Kind, discover
from shoal.learning.observations import CONTEXT_SCALE, CONTEXT_UNIT, PROFILE_SCALE, strongest
from shoal.settings import Settings

Observe = Callable[[str], list[EvidenceRow]]
Analyze = Callable[[str], AnalyzedDocument]


def by_word(rows: list[EvidenceRow]) -> dict[str, EvidenceRow]:
    return {row.word: row for row in rows}


def unit(z: np.ndarray) -> np.ndarray:
    above = np.maximum(z, 0)
    norm = np.linalg.norm(above)
    return np.asarray(above / norm if norm else above)


def test_rows_are_ordered_and_unique(observe: Observe) -> None:
    rows = observe(text(1, "sea", ["zorblax", "quimble", "zorblax", "zorblax's"]))
    keys = [(row.kind, row.word) for row in rows]
    assert keys == sorted(set(keys))
    assert keys[0] == (Kind.totals, "")


def test_occurrences_documents_and_chunks_are_counted(observe: Observe) -> None:
    rows = by_word(observe(text(1, "sea", ["zorblax", "quimble", "zorblax", "zorblax's"])))
    assert rows["zorblax"][2:5] == (3, 3, 1)
    assert rows["quimble"].n_occurrences == 1
    assert 1 <= rows["zorblax"].n_chunks <= 3
    assert rows[""].n_documents == 1
    assert rows[""].n_chunks >= 1


def test_occurrences_in_lower_case_are_counted(observe: Observe) -> None:
    rows = by_word(
        observe(
            "The ship of Zorblax met a zorblax at sea. Zorblax's crew saw Frob Tandle, and Frob Tandle left. A Frob "
            "tandle came, and a Frob tandle went."
        )
    )
    assert (rows["zorblax"].n_occurrences, rows["zorblax"].n_lower) == (3, 1)
    elided = by_word(
        observe("The ship of d'Orblax met that of d’Orblax. The ship met d'umbrin and l'umbrin.")
    )
    assert (elided["d'orblax"].n_occurrences, elided["d'orblax"].n_lower) == (2, 0)
    assert elided["d'umbrin"].n_lower == 1
    row = by_word(observe("The ship of Čorblax met that of Čorblax, and a čorblax."))["corblax"]
    assert (row.n_occurrences, row.n_lower) == (3, 1)
    assert (rows["frob tandle"].n_occurrences, rows["frob tandle"].n_lower) == (4, 2)
    assert rows[""].n_lower == 0


def test_chunks_are_counted_once_for_all_forms_of_a_word(analyzed: Analyze) -> None:
    topics = ("sea", "money", "plant", "sea", "money")
    draft = analyzed(
        "\n\n".join(
            text(seed, topic, ["zorblax", "zorblax's"] * (seed % 2), n_sentences=12)
            for seed, topic in enumerate(topics)
        )
    )
    row = by_word(discover(draft, Settings()))["zorblax"]
    chunks_with_word = [
        segment
        for segment in draft.analysis.segments
        if any("zorblax" in word for word in segment.topic.unknown_words)
    ]
    assert row.n_occurrences == 4
    assert row.n_chunks == len(chunks_with_word)


def test_occurrences_in_a_long_document_are_not_counted_as_short(observe: Observe) -> None:
    rows = by_word(observe(text(1, "sea", ["zorblax"] * 2, n_sentences=120)))
    assert rows["zorblax"][2:4] == (2, 0)
    assert rows[""].n_short == 0


def test_a_context_blends_sentence_and_chunk(analyzed: Analyze) -> None:
    """The definition of the specification, computed from lagoon's public results."""
    settings = dataclasses.replace(Settings(), reefs_per_observation=207)
    draft = analyzed(text(3, "sea", ["zorblax"], n_sentences=5) + "\n\n" + text(4, "money", ["quimble"]))
    rows = by_word(discover(draft, settings))
    for word in ("zorblax", "quimble"):
        for segment in draft.analysis.segments:
            for result in segment.sentence_results:
                if word in result.unknown_words:
                    sentence, chunk = unit(result.z_scores), unit(segment.topic.z_scores)
                    share = 0.7 if result.confidence >= settings.context_confidence else 0.3
                    expected = share * sentence + (1 - share) * chunk
                    actual = np.zeros(len(expected))
                    actual[list(rows[word].reefs)] = rows[word].sums
                    assert np.abs(actual / CONTEXT_UNIT - expected).max() < 0.03


def test_the_totals_sum_the_contexts_of_all_words(analyzed: Analyze) -> None:
    draft = analyzed(text(3, "sea", ["zorblax"], n_sentences=40))
    totals = discover(draft, Settings())[0]
    expected = np.zeros(207)
    n_words = 0
    for segment in draft.analysis.segments:
        for result in segment.sentence_results:
            share = 0.7 if result.confidence >= 1.0 else 0.3
            blended = share * unit(result.z_scores) + (1 - share) * unit(segment.topic.z_scores)
            expected += result.n_words * blended
            n_words += result.n_words
    actual = np.zeros(207)
    actual[list(totals.reefs)] = totals.sums
    assert totals.n_occurrences == n_words
    assert np.abs(actual - expected).max() < 1 + 0.02 * expected.max()


def test_a_frequent_word_does_not_inherit_the_subjects_of_its_document(
    analyzed: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(Settings(), reefs_per_observation=207)
    words = ["zorblax"] * 40 + ["quimble"] * 9
    draft = analyzed(text(1, "sea", words, n_sentences=90) + "\n\n" + text(2, "money", [], n_sentences=30))
    rows = by_word(discover(draft, settings))
    monkeypatch.setattr("shoal.learning.observations.TYPICAL_OCCURRENCES", 1e18)
    alone = by_word(discover(draft, settings))
    totals, context, rest = np.zeros(207), np.zeros(207), np.zeros(207)
    totals[list(rows[""].reefs)] = rows[""].sums
    context[list(alone["zorblax"].reefs)] = alone["zorblax"].sums
    rest[list(rows["zorblax"].reefs)] = rows["zorblax"].sums
    subjects = np.maximum(totals - totals.mean(), 0) / rows[""].n_occurrences * CONTEXT_UNIT
    # A word with 40 occurrences is compared with the document for 40 / (40 + 120), a rare word is not.
    assert np.abs(np.maximum(context - 40 / 4 * subjects, 0) - rest).max() < 2
    assert rest.sum() < 0.9 * context.sum()
    assert rows["quimble"] == alone["quimble"]


def test_only_the_strongest_reefs_of_a_context_are_kept(analyzed: Analyze) -> None:
    draft = analyzed(text(3, "sea", ["zorblax", "zorblax"]))
    every = by_word(discover(draft, dataclasses.replace(Settings(), reefs_per_observation=207)))["zorblax"]
    limited = by_word(discover(draft, dataclasses.replace(Settings(), reefs_per_observation=8)))["zorblax"]
    ranked = sorted(zip(every.sums, every.reefs, strict=True), key=lambda pair: (-pair[0], pair[1]))
    assert (
        sorted(zip(limited.sums, limited.reefs, strict=True), key=lambda pair: (-pair[0], pair[1]))
        == ranked[:8]
    )


def test_ties_go_to_the_lower_reef() -> None:
    sums = np.array([[3.0, 5.0, 3.0, 3.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]])
    assert strongest(sums, 2).tolist() == [
        [True, True, False, False, False],
        [False, False, False, True, False],
    ]


@pytest.mark.parametrize("content", ["?!", "the and of", "12 34 56", "Ship."])
def test_a_text_without_candidates_has_totals_only(observe: Observe, content: str) -> None:
    rows = observe(content)
    assert [row.kind for row in rows] == [Kind.totals]


def test_words_in_a_text_without_known_words_have_an_empty_context(observe: Observe) -> None:
    row = by_word(observe("Zorblax quimble frobnicle."))["zorblax"]
    assert row.reefs == ()
    assert row.n_occurrences == 1


def test_discovery_is_deterministic(analyzed: Analyze, scorer: ReefScorer) -> None:
    content = text(9, "plant", ["zorblax", "quimble", "quimble"], n_sentences=30)
    assert discover(analyzed(content), Settings()) == discover(analyzed(content), Settings())


def test_context_scales_are_divisible() -> None:
    assert CONTEXT_SCALE % CONTEXT_UNIT == 0
    assert CONTEXT_SCALE % PROFILE_SCALE == 0


@pytest.mark.parametrize("repeated", ["zorblax ", "x.y.~", "zorblax, quimble, "])
def test_repeated_occurrences_in_a_sentence_take_no_extra_memory(analyzed: Analyze, repeated: str) -> None:
    """A context is a row of reefs; 1.7 kB for each occurrence would be hundreds of times the text."""
    draft = analyzed("The sea is deep. " + repeated * (200_000 // len(repeated)))
    tracemalloc.start()
    rows = by_word(discover(draft, Settings()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(row.n_occurrences for word, row in rows.items() if word) > 10_000
    assert peak < 100 * 200_000
