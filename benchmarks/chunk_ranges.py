"""What chunks within a range of tokens cost.

    python -m benchmarks.chunk_ranges COLLECTION... [--books FOLDER] [--chunk-tokens 300-800]

Ingests each test collection with the default and with a range, searches its queries, and prints nDCG@10 of
the documents with both, the mean of the differences with its standard error, the chunks, and how many of them
are within the range. A text with fewer tokens than the range is cut by default, so its chunks are counted
apart. `--books`: a folder of texts (`.txt`, `.md`), of which only the share of chunks is printed.

Exits 1 if the mean nDCG@10 of the collections is lower by more than .005, or fewer than 90 % of the chunks of
texts that are long enough are within the range.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.judged_library import read_collection
from shoal import Engine
from shoal.models.files import ANY_TOKENS, TokenRange
from shoal.settings import Settings
from shoal.support.token_estimate import count_tokens

DEPTH = 10
LEAST_WITHIN = 0.9
MOST_DIFFERENCE = 0.005
TEXTS_OF = """
    SELECT d.id, c.text FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY d.id, c.chunk_index
"""


class Shares(NamedTuple):
    """Chunks of texts that are long enough for a range, how many of them are within it, and other chunks."""

    n_long: int
    n_within: int
    n_short: int

    @property
    def within(self) -> float:
        return self.n_within / max(self.n_long, 1)

    def __str__(self) -> str:
        return f"{self.within:.1%} of {self.n_long:,} chunks within, {self.n_short:,} chunks of shorter texts"


def opened(folder: str, chunk_tokens: str) -> Engine:
    """Open a new library."""
    return Engine(settings=Settings(database_url=f"sqlite:///{folder}/shoal.db", chunk_tokens=chunk_tokens))


def shares_of(engine: Engine, tokens: TokenRange) -> Shares:
    """Count the chunks of a library."""
    sizes: dict[int, list[int]] = {}
    with engine.database.snapshot() as snapshot:
        for document_id, text in snapshot.tuples(TEXTS_OF):
            sizes.setdefault(document_id, []).append(count_tokens(text))
    long = [each for each in sizes.values() if sum(each) >= tokens.low]
    n_within = sum(tokens.low <= size <= tokens.high for each in long for size in each)
    n_long = sum(map(len, long))
    return Shares(n_long, n_within, sum(map(len, sizes.values())) - n_long)


def ndcg(ranking: Sequence[str], relevant: Mapping[str, int]) -> float:
    """nDCG@10 with the gain 2^grade - 1."""
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    gains = np.array([2.0 ** relevant.get(each, 0) - 1 for each in ranking[:DEPTH]])
    ideal = np.array(sorted((2.0**grade - 1 for grade in relevant.values()), reverse=True)[:DEPTH])
    best = float(ideal @ discounts[: len(ideal)])
    return float(gains @ discounts[: len(gains)]) / best if best else 0.0


def judge(
    engine: Engine,
    documents: Iterable[Mapping[str, Any]],
    texts: Sequence[str],
    judged: Sequence[Mapping[str, int]],
    **options: Any,
) -> Iterator[float]:
    """Yield nDCG@10 of the documents that a search with `options` finds for each query."""
    same: dict[str, list[str]] = {}
    for document in documents:
        same.setdefault(document["content"], []).append(document["source_path"])
    ids_of = {path: paths for paths in same.values() for path in paths}
    for text, relevant in zip(texts, judged, strict=True):
        reply = engine.search(text, top_k=100, max_per_document=1, **options)
        yield ndcg(
            [path for each in reply.results for path in ids_of.get(each.source_path or "", ())], relevant
        )


def difference(before: Sequence[float], after: Sequence[float]) -> str:
    """The mean difference of paired values with its standard error."""
    differences = np.array(after) - np.array(before)
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{differences.mean():+.4f} ± {error:.4f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument("--books", type=Path)
    parser.add_argument("--chunk-tokens", default="300-800")
    arguments = parser.parse_args()
    tokens = TokenRange.of(arguments.chunk_tokens)
    if tokens is None:
        parser.error("name a range such as 300-800")
    shares: list[Shares] = []
    means: list[tuple[float, float]] = []
    for folder in arguments.collections:
        documents, texts, judged = read_collection(folder)
        scores: list[list[float]] = []
        for choice in (ANY_TOKENS, str(tokens)):
            with (
                tempfile.TemporaryDirectory() as scratch,
                opened(scratch, choice) as engine,
            ):
                engine.ingest_many(documents)
                scores.append(list(judge(engine, documents, texts, judged)))
                counted = shares_of(engine, tokens)
                print(f"{folder.name}, {choice}: nDCG@10 {np.mean(scores[-1]):.4f}; {counted}", flush=True)
        shares.append(counted)
        means.append((float(np.mean(scores[0])), float(np.mean(scores[1]))))
        print(f"{folder.name}: {difference(*scores)} over {len(texts)} queries", flush=True)
    if arguments.books is not None:
        files = sorted(path for path in arguments.books.rglob("*") if path.suffix in (".txt", ".md"))
        with (
            tempfile.TemporaryDirectory() as scratch,
            opened(scratch, str(tokens)) as engine,
        ):
            for path in files:
                engine.ingest_file(path)
            shares.append(shares_of(engine, tokens))
            print(f"{arguments.books.name}: {shares[-1]}")
    is_off = False
    if means:
        before, after = np.mean(means, axis=0)
        print(f"mean of the collections: {before:.4f}, {after:.4f}, {after - before:+.4f}")
        is_off = bool(after < before - MOST_DIFFERENCE)
    return int(is_off or any(each.within < LEAST_WITHIN for each in shares if each.n_long))


if __name__ == "__main__":
    sys.exit(main())
