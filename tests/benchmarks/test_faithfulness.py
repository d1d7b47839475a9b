"""The benchmark of faithfulness computes what it says, on a tiny library."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_encoder import FakeEncoder

from benchmarks.faithfulness import (
    KS,
    Collection,
    Curves,
    VectorRanker,
    halves,
    interval,
    measure_passage,
    measure_query,
    predict,
    rows,
    without_title,
    words_highlighted,
    words_occluded,
    words_shown,
)
from shoal.search.counterfactuals import words_of_passage

FILLERS = ("orchard", "bridge", "violin", "glacier", "senate", "harbour", "pottery", "copper", "saddle")
TEXTS = (
    "The whale dives for squid. A bridge of copper stands there, and a violin plays.",
    "A whale and its calf swim north past the orchard, the senate and the glacier.",
    *(f"A {word} is near the {other} in the valley." for word, other in itertools.pairwise(FILLERS)),
    *(f"The {word} of the town was old, and nobody came." for word in FILLERS),
)
QUERY = "whale squid"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = tmp_path_factory.mktemp("tiny")
    lines = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(TEXTS)]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": QUERY}), encoding="utf-8")
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("1\t0\t1", encoding="utf-8")
    made = Collection(folder, folder / "made", FakeEncoder())
    yield made
    made.engine.close()


def chunk_of(collection: Collection, word: str) -> int:
    return next(chunk_id for chunk_id, text in collection.passages.items() if word in text)


class CountingRanker:
    """The rank of a passage is larger the more of the important words it lacks."""

    def __init__(self, *important: str) -> None:
        self._important = important

    def rank(self, chunk_id: int, text: str | None = None) -> int:
        assert text is not None
        return int(2 ** sum(word not in text for word in self._important))


def test_title_is_part_of_the_text() -> None:
    document = {"title": "Whales", "content": "They swim.", "source_path": "7"}
    assert without_title(document) == {**document, "title": "7", "content": "Whales. They swim."}
    named = {"title": "7", "content": "They swim.", "source_path": "7"}
    assert without_title(named) == named


def test_halves_are_disjoint_and_by_seed() -> None:
    queries = list(map(str, range(11)))
    split = halves(queries, 3)
    assert sorted([*split["develop"], *split["report"]]) == sorted(queries)
    assert split == halves(queries, 3) != halves(queries, 4)


def test_curves_count_the_words_taken_away_and_added() -> None:
    text = "Copper and pottery, saddle and glacier, orchard and violin."
    shown = words_of_passage("copper pottery")
    curves = Curves()
    ranker = CountingRanker("opper", "pottery")
    other = 2, "A senate."
    measure_passage(curves, ranker, 1, text, list(shown), other, 1_000, random.Random(1))
    assert curves.shown == [2]
    assert curves.deletion[0].tolist() == [0, 1, 2, 2, 2]
    assert curves.insertion[0].tolist() == [2, 1, 0, 0, 0]
    assert curves.random_deletion[0][0] == 0
    assert curves.random_deletion[0][-1] <= 2
    lines = list(rows({"name": curves}, 1))
    assert lines[2].startswith("| name | deletion | 2.0 | 1 | 2 | 4 | 4 | 4 | ")
    assert lines[3].startswith("| name | insertion | 2.0 | 4 | 2 | 1 | 1 | 1 | ")


def test_missing_passage_has_the_last_rank() -> None:
    curves = Curves()
    ranker = CountingRanker(*(f"missing{n}" for n in range(12)))
    measure_passage(curves, ranker, 1, "copper", ["copper"], (2, "senate"), 64, random.Random(1))
    assert curves.deletion[0].tolist() == [6.0] * (1 + len(KS))


def test_index_is_ranked_with_the_changed_passage(collection: Collection) -> None:
    whale = chunk_of(collection, "squid")
    with collection.rankers(QUERY) as rankers:
        assert set(rankers) == {"shoal", "bm25", "vectors"}
        for ranker in rankers.values():
            text = collection.passages[whale]
            assert ranker.rank(whale) == ranker.rank(whale, text) == 1
            assert ranker.rank(whale, text.replace("whale", "").replace("squid", "")) > 1
            other = chunk_of(collection, "pottery")
            assert ranker.rank(other, "whale squid") == 1


def test_occlusion_finds_the_words_that_the_cosine_rests_on(collection: Collection) -> None:
    whale = chunk_of(collection, "squid")
    text = collection.passages[whale]
    with collection.rankers(QUERY) as rankers:
        ranker = rankers["vectors"]
        assert isinstance(ranker, VectorRanker)
        assert set(words_occluded(ranker, text, words_of_passage(text), 2)) == {"whale", "squid"}


def test_shown_words_are_those_of_the_result(collection: Collection) -> None:
    result = collection.engine.search(QUERY, include_scores=True).results[0]
    words = words_of_passage(result.text)
    shown = words_shown(result, words)
    assert shown[:2] == ["whale", "squid"]
    assert set(shown) <= set(words)
    assert words_highlighted(result, words) == ["whale", "squid"]


def test_reader_takes_the_result_with_more_words_of_the_query() -> None:
    more, fewer, long = ["whale", "squid"], ["whale"], ["whale", "sea"]
    assert predict([1, 2], [more, fewer], QUERY) == 1.0
    assert predict([2, 1], [more, fewer], QUERY) == 0.0
    assert predict([1, 2], [long, fewer], QUERY) == 1.0
    assert predict([1, 2], [fewer, fewer], QUERY) == 0.5
    assert predict([5, 5], [more, fewer], QUERY) == 0.5


def test_query_adds_to_every_ranking(collection: Collection) -> None:
    names = ("shoal", "shoal, by parts", "bm25", "vectors")
    curves = {name: Curves() for name in names}
    assert measure_query(collection, QUERY, curves, random.Random(2))
    for name, each in curves.items():
        assert len(each.deletion) == len(each.random_insertion) == 1
        assert each.deletion[0][1:].mean() >= each.random_deletion[0][1:].mean(), name
        assert len(each.predicted) == (name != "shoal, by parts")
    assert not measure_query(collection, "zzyzx", curves, random.Random(2))


def test_interval_holds_the_mean() -> None:
    low, high = interval(np.array([0.0, 1.0, 1.0, 2.0]), 1)
    assert low < 1.0 < high


def test_vectors_are_kept(collection: Collection) -> None:
    made = Path(collection.engine.settings.database_path).parent
    assert (made / f"{made.parent.name}.npy").exists()
