"""Gain from moving a query towards the contexts of its words in the library (benchmarks.word_contexts).

usage: python -m benchmarks.query_feedback [COLLECTION...] [--share 1.0,2.0] [--sample 30] [--common 0.05]
    [--reefs 38]

For each retrieval collection, prints nDCG@10 of whole documents, by reefs alone and blended with SQLite's
BM25 (both min-max normalised over the 200 best), for: the base vocabulary, learned words, learned words with
word contexts, word contexts without learned words; and for the table of known words adapted by the same
statistics for queries and documents, which would have to be repeated for every document as the library grows.
Options take several values, separated by commas.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

import lagoon
from benchmarks.lagoon_table import ndcg_at_10, strongest
from benchmarks.vocabulary_learning import Collection, Corpus, observe, read_corpus
from benchmarks.word_contexts import ContextOptions, WordContext, adapt, max_informative_chunks, sample
from lagoon.bm25 import BM25_SCALE, WEIGHT_SCALE
from lagoon.build.counting import count_texts
from lagoon.model import Model, load_model
from lagoon.scorer import PACKAGED_DATA
from lagoon.tokens import is_stop_word, token_list
from lagoon.vocabulary import BaseVocabulary
from shoal.learning import Evidence, LearnedWord, learn, with_vocabulary
from shoal.settings import Settings

KEEP = 38
BLENDED = 200
REEF_WEIGHT = 0.3

Doubles = npt.NDArray[np.float64]


class FullText:
    """Whole documents in an FTS5 table of SQLite: BM25 that depends on nothing measured here."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        self._connection.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", enumerate(texts))
        self.n = len(texts)

    def holding(self, word: str, limit: int) -> list[int]:
        rows = self._connection.execute("SELECT rowid FROM t WHERE t MATCH ? LIMIT ?", (f'"{word}"', limit))
        return [row[0] for row in rows]

    def bm25(self, query: str) -> Doubles:
        words = [f'"{word}"' for word in dict.fromkeys(token_list(query)) if not is_stop_word(word)]
        scores = np.zeros(self.n)
        if words:
            result_of = self._connection.execute(
                "SELECT rowid, -rank FROM t WHERE t MATCH ?", (" OR ".join(words),)
            )
            for row, score in result_of:
                scores[row] = score
        return scores


def z_scores(texts: Sequence[str], scorer: lagoon.ReefScorer) -> Doubles:
    return np.stack([result.z_scores for result in scorer.score_batch(texts)])


def unit(z: Doubles) -> Doubles:
    kept = strongest(z, KEEP)
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    return np.divide(kept, norms, out=np.zeros_like(kept), where=norms > 0)


def adapted_queries(
    collection: Collection, queries: Doubles, profiles: Doubles, full_text: FullText, options: ContextOptions
) -> Doubles:
    average = profiles.mean(axis=0)
    rows = []
    for text, z in zip(collection.queries, queries, strict=True):
        words = []
        for word in dict.fromkeys(token_list(text)):
            holding = (
                []
                if is_stop_word(word)
                else full_text.holding(word, max_informative_chunks(full_text.n, options) + 1)
            )
            if holding:
                mean = profiles[sample(holding, options)].mean(axis=0)
                words.append(WordContext(word, len(holding), mean))
        rows.append(adapt(z, words, average, full_text.n, options).profile)
    return np.stack(rows)


def adapted_table(collection: Collection, model: Model, profiles: Doubles) -> tuple[Doubles, Doubles]:
    """(documents, queries): z-scores with the reefs of every known word moved towards its context; each
    document is one chunk with a row of `profiles`.

    New row = unit dictionary row + unit context, its 25 strongest entries, at the length of the old row.
    """
    vocabulary = BaseVocabulary(model)
    held = count_texts(vocabulary, collection.texts).astype(np.float64)
    held.data = 1.0 + np.log(held.data)
    mass = np.asarray(held.sum(axis=0)).ravel()
    used = np.flatnonzero(mass)
    average = profiles.mean(axis=0)
    feedback = held.T.tocsr()[used] @ profiles - mass[used, None] * average
    feedback = _to_unit(np.maximum(feedback / np.sqrt(average), 0.0))
    starts = model.row_starts.astype(np.int64)
    table = sparse.csr_matrix((model.row_bm25 / BM25_SCALE, model.row_reefs.astype(np.int64), starts))
    old = table[used].toarray()
    new = strongest(_to_unit(old) + feedback, 25) * np.linalg.norm(old, axis=1, keepdims=True)
    table = table.tolil()
    table[used] = new
    weighted = sparse.diags(model.weights / WEIGHT_SCALE) @ table.tocsr()

    def z(counts: sparse.csr_matrix) -> Doubles:
        """z-scores up to a factor for each text, which does not change the ranking."""
        mean, variance = model.background
        return np.asarray(((counts @ weighted).toarray() - counts.sum(axis=1) * mean) / np.sqrt(variance))

    return z(held), z(count_texts(vocabulary, collection.queries).astype(np.float64))


def _to_unit(rows: Doubles) -> Doubles:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


class Ranking:
    """nDCG@10 of a collection by overlap of profiles, alone and blended with BM25."""

    def __init__(self, collection: Collection, full_text: FullText) -> None:
        self._collection = collection
        self._bm25 = np.stack([full_text.bm25(query) for query in collection.queries])

    def ndcg(self, queries: Doubles, profiles: Doubles) -> tuple[float, float]:
        overlap = np.maximum(queries, 0.0) @ profiles.T
        blend = (1 - REEF_WEIGHT) * _normalised(self._bm25) + REEF_WEIGHT * _normalised(overlap)
        return self._mean(overlap), self._mean(blend)

    def bm25(self) -> float:
        return self._mean(self._bm25)

    def _mean(self, scores: Doubles) -> float:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        return statistics.mean(
            ndcg_at_10([self._collection.ids[index] for index in row], relevant)
            for row, relevant in zip(order.tolist(), self._collection.relevant, strict=True)
        )


def _normalised(scores: Doubles) -> Doubles:
    """Min-max normalisation over the best entries of each row."""
    best = np.sort(scores, axis=1)[:, -BLENDED:]
    low, high = best[:, :1], best[:, -1:]
    return np.clip((scores - low) / np.maximum(high - low, 1e-9), 0, 1)


def evaluate(
    corpus: Corpus,
    scorer: lagoon.ReefScorer,
    model: Model,
    settings: Settings,
    variants: Sequence[ContextOptions],
) -> dict[str, tuple[float, float]]:
    """nDCG@10 (reefs alone, blend) by variant."""
    assert corpus.collection is not None
    collection = corpus.collection
    evidence = Evidence.of(observe(corpus, scorer, settings))
    learned: Sequence[LearnedWord] = learn(evidence, set(evidence.words), scorer, settings)
    extended = with_vocabulary(scorer, enumerate(learned, scorer.next_word_id))
    full_text = FullText(collection.texts)
    ranking = Ranking(collection, full_text)
    result = {"bm25": (0.0, ranking.bm25())}
    for name, used in (("base", scorer), ("learned", extended)):
        profiles = unit(z_scores(collection.texts, used))
        queries = strongest(z_scores(collection.queries, used), KEEP)
        result[name] = ranking.ndcg(queries, profiles)
        for options in variants:
            began = time.perf_counter()
            moved = adapted_queries(collection, queries, profiles, full_text, options)
            milliseconds = 1000 * (time.perf_counter() - began) / len(queries)
            result[f"{name} + {_title(options)}"] = ranking.ndcg(moved, profiles)
            print(f"{corpus.name}: {_title(options)}: {milliseconds:.2f} ms a query")
    documents, queries = adapted_table(collection, model, unit(z_scores(collection.texts, scorer)))
    result["base, table adapted"] = ranking.ndcg(strongest(queries, KEEP), unit(documents))
    return result


def _title(options: ContextOptions) -> str:
    return (
        f"context {options.share:g}, sample {options.sample}, "
        f"common {options.max_chunk_share:g}, reefs {options.max_reefs}"
    )


def main() -> None:
    """Print nDCG@10 and gains over the base vocabulary (reefs) and BM25 (blend), by collection and on
    average."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    for name, default in (("share", "1.0"), ("sample", "30"), ("common", "0.05"), ("reefs", "60")):
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    folders = options.collections
    if not folders and "SHOAL_TEST_CORPORA" in os.environ:
        folders = sorted((Path(os.environ["SHOAL_TEST_CORPORA"]) / "collections").iterdir())
    if not folders:
        parser.error("give collection folders, or set SHOAL_TEST_CORPORA")

    def listed(name: str, kind: Callable[[str], float]) -> list[float]:
        return [kind(value) for value in getattr(options, name).split(",")]

    variants = [
        ContextOptions(share, common, int(size), int(reefs))
        for share, size, common, reefs in itertools.product(
            listed("share", float), listed("sample", int), listed("common", float), listed("reefs", int)
        )
    ]
    model, settings = load_model(PACKAGED_DATA), Settings()
    scorer = lagoon.ReefScorer(model)
    results = {}
    for folder in folders:
        corpus = read_corpus(folder, settings)
        results[corpus.name] = evaluate(corpus, scorer, model, settings, variants)
    for label in next(iter(results.values())):
        alone = [100 * (result_of[label][0] / result_of["base"][0] - 1) for result_of in results.values()]
        blend = [100 * (result_of[label][1] / result_of["bm25"][1] - 1) for result_of in results.values()]
        line = {
            "what": label,
            "reefs": [round(result_of[label][0], 4) for result_of in results.values()],
            "gain %": [round(gain, 1) for gain in alone],
            "mean": round(statistics.mean(alone), 1),
            "blend over bm25 %": [round(gain, 1) for gain in blend],
            "mean blend": round(statistics.mean(blend), 2),
        }
        print(json.dumps(line))
    print(json.dumps({"collections": list(results), "data": scorer.data_checksum[:12]}))


if __name__ == "__main__":
    main()
