"""Ranking of whole documents by the word -> reef table alone: nDCG@10 on retrieval test collections.

usage: python benchmarks/lagoon_table.py COLLECTION_DIR... [--data DIR] [--against DIR] [--keep 38]

A collection is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and
qrels/test.tsv (query-id, corpus-id, score). A document (title and text) is one text; its profile is the
`keep` largest positive z-scores of the scorer divided by their norm; a query's profile is not normalized.
There are no sections, no
learning and no lexical signal: the number compares tables, not retrieval. `--against` compares with another
    table,
query by query, with bootstrap intervals of the differences. Without arguments, the collections under
$SHOAL_TEST_CORPORA/collections are used.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.bm25 import BM25_SCALE, WEIGHT_SCALE
from lagoon.build.counting import count_texts
from lagoon.model import Model, load_model
from lagoon.vocabulary import BaseVocabulary

Doubles = npt.NDArray[np.float64]


def z_scores(model: Model, counts: sparse.csr_matrix) -> Doubles:
    """z of every text and reef as defined in `lagoon.scoring`, with repetition weights 1 + ln(tf)."""
    mass = counts.astype(np.float64)
    mass.data = 1.0 + np.log(mass.data)
    data = model.row_bm25 / BM25_SCALE * np.repeat(model.weights / WEIGHT_SCALE, np.diff(model.row_starts))
    rows = (data, model.row_reefs.astype(np.int32), model.row_starts.astype(np.int64))
    raw = (mass @ sparse.csr_matrix(rows, (model.n_words, model.n_reefs))).toarray()
    m1 = np.asarray(mass.sum(axis=1))
    m2 = np.asarray(mass.multiply(mass).sum(axis=1))
    mean, variance = model.background
    rate, exponent = model.dispersion
    m1, m2 = m1.reshape(-1, 1), m2.reshape(-1, 1)
    variance_factor = np.maximum(m2, 1e-12) * (1.0 + rate * np.maximum(m1 - 1.0, 0.0) ** exponent)
    z = (raw - m1 * mean) / np.sqrt(variance_factor * variance)
    z[m2.ravel() == 0] = 0.0
    return np.asarray(z)


def strongest(z: Doubles, keep: int) -> Doubles:
    """Set all but the `keep` largest positive entries of each row to 0."""
    positive = np.maximum(z, 0.0)
    if keep >= z.shape[1]:
        return positive
    bound = np.partition(positive, -keep, axis=1)[:, -keep, None]
    return np.where(positive >= bound, positive, 0.0)


def ndcg_at_10(ranking: list[str], relevant: dict[str, int]) -> float:
    """Gain 2^rel - 1, discount log2(rank + 1)."""
    gain = sum((2 ** relevant.get(doc, 0) - 1) / math.log2(i + 2) for i, doc in enumerate(ranking[:10]))
    ideal = sum(
        (2**g - 1) / math.log2(i + 2) for i, g in enumerate(sorted(relevant.values(), reverse=True)[:10])
    )
    return gain / ideal if ideal else 0.0


def bootstrap(differences: Sequence[Doubles], resamples: int = 10_000) -> tuple[float, float]:
    """95 % bootstrap interval of the mean over collections of the mean difference; resamples queries of
    each."""
    rng = np.random.default_rng(0)
    means = [each[rng.integers(len(each), size=(resamples, len(each)))].mean(axis=1) for each in differences]
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return float(low), float(high)


def evaluate(model: Model, folder: Path, keep: int) -> tuple[dict[str, object], Doubles]:
    """Rank every document for every judged query; returns the summary and nDCG@10 of each query."""
    vocabulary = BaseVocabulary(model)
    documents = _read_lines(folder / "corpus.jsonl")
    judged: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        query, document, score = line.split("\t")
        if score.lstrip("-").isdigit() and int(score) > 0:
            judged[query][document] = int(score)
    queries = [query for query in _read_lines(folder / "queries.jsonl") if query["_id"] in judged]
    texts = [f"{document.get('title') or ''}\n\n{document['text'] or ''}" for document in documents]
    profiles = strongest(z_scores(model, count_texts(vocabulary, texts)), keep)
    norms = np.linalg.norm(profiles, axis=1, keepdims=True)
    profiles = np.divide(profiles, norms, out=np.zeros_like(profiles), where=norms > 0)
    query_profiles = strongest(
        z_scores(model, count_texts(vocabulary, [query["text"] for query in queries])), keep
    )
    order = np.argsort(-(query_profiles @ profiles.T), axis=1, kind="stable")[:, :10]
    scores = [
        ndcg_at_10([documents[d]["_id"] for d in row], judged[query["_id"]])
        for row, query in zip(order.tolist(), queries, strict=True)
    ]
    summary = {
        "collection": folder.name,
        "documents": len(documents),
        "queries": len(queries),
        "ndcg@10": round(statistics.mean(scores), 4),
    }
    return summary, np.array(scores)


def _read_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Print one JSON object for each collection, and the mean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "lagoon" / "data")
    parser.add_argument("--against", type=Path, help="data to compare with")
    parser.add_argument("--keep", type=int, default=38, help="reefs kept of a text")
    options = parser.parse_args()
    folders = options.collections
    if not folders and "SHOAL_TEST_CORPORA" in os.environ:
        folders = sorted((Path(os.environ["SHOAL_TEST_CORPORA"]) / "collections").iterdir())
    if not folders:
        parser.error("name a collection folder, or set SHOAL_TEST_CORPORA")
    model = load_model(options.data)
    results = [evaluate(model, folder, options.keep) for folder in folders]
    for summary, _ in results:
        print(json.dumps(summary))
    mean = statistics.mean(float(scores.mean()) for _, scores in results)
    print(
        json.dumps({"data": model.version, "checksum": model.checksum[:12], "mean ndcg@10": round(mean, 4)})
    )
    if options.against:
        _compare(load_model(options.against), folders, [scores for _, scores in results], options.keep)


def _compare(other: Model, folders: list[Path], scores: list[Doubles], keep: int) -> None:
    """Print the differences to another table, and their 95 % intervals."""
    differences = [
        ours - evaluate(other, folder, keep)[1] for folder, ours in zip(folders, scores, strict=True)
    ]
    names = [folder.name for folder in folders]
    for name, sample in [
        *zip(names, ([values] for values in differences), strict=True),
        ("mean", differences),
    ]:
        low, high = bootstrap(sample)
        difference = statistics.mean(float(values.mean()) for values in sample)
        print(
            json.dumps(
                {
                    "against": other.checksum[:12],
                    "collection": name,
                    "difference": round(difference, 4),
                    "95 % interval": [round(low, 4), round(high, 4)],
                }
            )
        )


if __name__ == "__main__":
    main()
