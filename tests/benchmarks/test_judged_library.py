"""The scores that the benchmark of hybrid search computes in arrays equal those of a search."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.exact_terms import kind_of
from benchmarks.hybrid import FeedbackOptions, default_blend, feedback_profiles
from benchmarks.judged_library import JudgedLibrary, at, of_best
from shoal.search.query_profile import MAX_REEFS_WITH_WORDS

TEXTS = {
    "a": ("Whales", "The whale feeds its calf with milk. Whales dive for squid in the deep sea."),
    "b": (
        "Trade winds",
        "The trade wind blows over the ocean. Ships with sails follow the wind to the harbour.",
    ),
    "c": ("Money", "Banks lend money at interest. Trade needs money, and money needs trust."),
    "d": ("Milk", "Cows give milk. Cheese and butter are made of milk on the farm."),
    "e": ("Money again", "Banks lend money at interest. Trade needs money, and money needs trust."),
    "f": ("Sea birds", "The albatross follows ships over the sea for days without a beat of its wings."),
}
QUERIES = {
    "1": "milk for a calf of the sea",
    "2": "trade",
    "3": 'winds of "trade wind"',
    "4": "zyxwv",
}
JUDGED = {"1": {"a": 2, "d": 1}, "2": {"c": 1, "b": 1, "e": 1}, "3": {"b": 1}, "4": {"a": 1}}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedLibrary]:
    folder = tmp_path_factory.mktemp("collection")
    (folder / "qrels").mkdir()
    for name, lines in (
        ("corpus", [{"_id": key, "title": title, "text": text} for key, (title, text) in TEXTS.items()]),
        ("queries", [{"_id": key, "text": text} for key, text in QUERIES.items()]),
    ):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    rows = [f"{query}\t{doc}\t{rel}" for query, docs in JUDGED.items() for doc, rel in docs.items()]
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *rows]), encoding="utf-8"
    )
    opened = JudgedLibrary(folder, folder / "library.db", learning=True)
    yield opened
    opened.engine.close()


def searched(library: JudgedLibrary, mode: str) -> np.ndarray:
    """(q, c): the scores of searches."""
    scores = np.zeros((len(library.texts), len(library.chunk_ids)))
    for row, text in zip(scores, library.texts, strict=True):
        for result in library.engine.search(text, mode=mode, top_k=100, max_per_document=0).results:
            row[np.searchsorted(library.chunk_ids, result.chunk_id)] = result.match_score
    return scores


def test_the_signals_are_those_of_searches(library: JudgedLibrary) -> None:
    assert library.lexical() == pytest.approx(searched(library, "lexical"))
    reef = library.overlap(feedback_profiles(library, FeedbackOptions()))
    # The index rounds the weight of a reef to 1 / 65,535.
    assert reef == pytest.approx(searched(library, "reef"), rel=1e-4, abs=1e-4)


def test_the_default_is_that_of_searches(library: JudgedLibrary) -> None:
    options = FeedbackOptions(max_reefs=MAX_REEFS_WITH_WORDS)
    lexical, reef = library.lexical(), library.overlap(feedback_profiles(library, options))
    blended = default_blend(library, of_best(lexical), of_best(reef))
    scores = searched(library, "hybrid")
    # Searches make the weights add up to 1, which changes no ranking.
    assert of_best(blended) == pytest.approx(of_best(scores), abs=1e-4)


def test_ndcg_counts_documents_by_their_best_chunk_and_equal_texts_each(library: JudgedLibrary) -> None:
    scores = np.zeros((len(library.texts), len(library.chunk_ids)))
    of_money = int(np.flatnonzero(library.document == 2)[0])
    scores[1, of_money] = 2.0  # c, and e, whose text is the same
    scores[1, np.flatnonzero(library.document == 0)[0]] = 1.0
    ideal = sum(1 / math.log2(place + 2) for place in range(3))
    expected = (1 + 1 / math.log2(3)) / ideal
    assert library.ndcg(scores) == pytest.approx(expected / len(library.texts))
    candidates = library.candidates([scores], depth=3)
    assert library.ndcg(at(scores, candidates), candidates) == pytest.approx(expected / len(library.texts))


@pytest.mark.parametrize(
    ("forms", "kind"),
    [
        ({"Darwin"}, "name"),
        ({"Darwin", "darwin"}, None),
        ({"1859"}, "number"),
        ({"17"}, None),
        ({"b17", "B17"}, "code"),
        ({"whale"}, None),
    ],
)
def test_rare_tokens_are_classified(forms: set[str], kind: str | None) -> None:
    assert kind_of(forms) == kind
