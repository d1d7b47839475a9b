"""The index alone: build, merge, size and search of synthetic libraries, by numpy and compiled kernels.

    python -m benchmarks.index_speed [--chunks 35000 310000 1000000] [--queries 200] [--tantivy]

Words are drawn by Zipf's law, 120 in a chunk, and each chunk has 38 of 207 reefs. A query has 8 words that
are not among the 100 most frequent, and 60 reefs. With `--tantivy`, and the
package of that name, it indexes the same chunks and ranks the same words. Times are those of the processor,
so that other load counts little.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index.building import NEXT, IndexedDocument, Profiles, Words, segment_bytes
from shoal.index.index import Index
from shoal.index.matching import IndexTerm, find
from shoal.index.merging import merge_segments
from shoal.index.scoring import Bm25, WeightedTerm, find_overlaps, score_terms
from shoal.index.segment import Segment
from shoal.search.ordering import best_places
from shoal.words.terms import Terms

WORDS_PER_CHUNK = 120
CHUNKS_PER_DOCUMENT = 50
CHUNKS_PER_SEGMENT = 62_500
BYTES_PER_WORD = 5.8
"""Bytes of English text per word, with spaces and punctuation."""
N_REEFS, REEFS_PER_CHUNK, REEFS_PER_QUERY, WORDS_PER_QUERY = 207, 38, 60, 8
N_STOP_WORDS = 100
N_RESULTS = 100

Query = tuple[list[str], dict[int, float]]


def words_of_forms(forms: Sequence[str], ids: NDArray[Any], starts: NDArray[Any]) -> Words:
    """Return words that each have a position of their own, none with a capital letter."""
    advances = np.full(len(ids), NEXT, dtype=np.uint8)
    return Words(forms, ids, advances, starts, np.zeros(len(ids), dtype=np.bool_))


class Library:
    """Synthetic documents."""

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        letters = np.array(list("etaoinshrdlcumwfgypbvk"))
        words = {"".join(rng.choice(letters, 2 + int(rng.exponential(6)))) for _ in range(180_000)}
        self.vocabulary = sorted(words, key=lambda word: (len(word) + rng.exponential(5), word))
        weights = 1 / (np.arange(len(self.vocabulary)) + 2.7) ** 1.07
        self.cumulative = np.cumsum(weights) / weights.sum()
        self.reef_weights = rng.gamma(2.0, size=N_REEFS)

    def documents(self, n_chunks: int) -> Iterator[IndexedDocument]:
        for start in range(0, n_chunks, CHUNKS_PER_DOCUMENT):
            rng = np.random.default_rng([self.seed, start])
            n = min(CHUNKS_PER_DOCUMENT, n_chunks - start)
            lengths = np.maximum(rng.normal(WORDS_PER_CHUNK, 50, n), 5).astype(np.int64)
            words = np.searchsorted(self.cumulative, rng.random(int(lengths.sum())))
            distinct, ids = np.unique(words, return_inverse=True)
            order = np.argsort(-(rng.random((n, N_REEFS)) ** (1 / self.reef_weights)), axis=1)
            reef_ids = order[:, :REEFS_PER_CHUNK].ravel()
            yield IndexedDocument(
                document_id=start // CHUNKS_PER_DOCUMENT + 1,
                chunk_ids=np.arange(start, start + n) + 1,
                words=words_of_forms(
                    [self.vocabulary[i] for i in distinct], ids, np.append(0, np.cumsum(lengths))
                ),
                title=self._unit(words[:5]),
                sections=np.arange(n) // 10,
                headings={key: self._unit(words[key : key + 3]) for key in range(5)},
                profiles=Profiles(
                    np.arange(n + 1) * REEFS_PER_CHUNK, reef_ids, rng.integers(256, 4096, len(reef_ids))
                ),
                confidence=rng.random(n),
            )

    def _unit(self, numbers: NDArray[Any]) -> Words:
        forms = [self.vocabulary[number] for number in dict.fromkeys(numbers.tolist())]
        ids = [forms.index(self.vocabulary[number]) for number in numbers]
        return words_of_forms(forms, np.array(ids), np.array([0, len(ids)]))

    def queries(self, n: int) -> list[Query]:
        rng = np.random.default_rng(self.seed + 1)
        queries = []
        for _ in range(n):
            low = self.cumulative[N_STOP_WORDS]
            words = np.searchsorted(self.cumulative, low + (1 - low) * rng.random(WORDS_PER_QUERY))
            reefs = rng.choice(
                N_REEFS, REEFS_PER_QUERY, replace=False, p=self.reef_weights / self.reef_weights.sum()
            )
            queries.append(
                (
                    [self.vocabulary[i] for i in words],
                    {int(reef): 10 * rng.random() for reef in reefs},
                )
            )
        return queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[35_000, 310_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--tantivy", action="store_true")
    arguments = parser.parse_args()
    for n_chunks in arguments.chunks:
        measure(n_chunks, arguments.queries, with_tantivy=arguments.tantivy)


def measure(n_chunks: int, n_queries: int, *, with_tantivy: bool) -> None:
    # Segments beyond the first are copies of it: the time depends on the number of postings.
    per_segment = min(n_chunks, CHUNKS_PER_SEGMENT)
    n_segments = round(n_chunks / per_segment)
    library = Library()
    terms = Terms(list)  # the words are invented, so they have no stems
    documents = list(library.documents(per_segment))
    text_megabytes = sum(len(document.words.ids) for document in documents) * BYTES_PER_WORD / 1e6
    segment_bytes(documents[:100], terms)
    started = time.process_time()
    data = segment_bytes(documents, terms)
    build_seconds = time.process_time() - started
    quarters = [(Segment(segment_bytes(documents[i::4], terms)), ()) for i in range(4)]
    started = time.process_time()
    merge_segments(quarters, io.BytesIO())
    merge_seconds = time.process_time() - started
    print(f"{n_chunks:,} chunks, {text_megabytes * n_segments:.0f} MB of text in {n_segments} segments")
    print(f"  build {build_seconds / text_megabytes:.4f} processor s/MB")
    print(f"  merge {merge_seconds / text_megabytes:.4f} processor s/MB, of four segments")
    print(f"  size  {len(data) / 1e6 / text_megabytes:.2f} times the text")
    index = Index([(Segment(bytearray(data)), ()) for _ in range(n_segments)])
    queries = library.queries(n_queries)
    kernels.use_numpy()
    print_times("numpy", lambda query: search(index, *query), queries)
    if kernels.use_compiled():
        print_times("compiled", lambda query: search(index, *query), queries)
        print_times("  words only", lambda query: search(index, query[0], {}), queries)
        print_times("  reefs only", lambda query: search(index, [], query[1]), queries)
    if with_tantivy:
        measure_tantivy(library, documents, n_segments, queries)


def search(index: Index, words: Sequence[str], reefs: dict[int, float]) -> np.ndarray:
    """Rank as a hybrid search does: both signals divided by their best, and the best chunks."""
    matches = find(index, [IndexTerm((word,)) for word in words])
    lexical = score_terms(index, [WeightedTerm(match) for match in matches], Bm25())
    by_reefs = find_overlaps(index, reefs)
    score = lexical * (0.6 / (int(lexical.max()) or 1))
    score += by_reefs.overlaps * (0.4 / (int(by_reefs.overlaps.max()) or 1))
    best = best_places(score, N_RESULTS)
    return index.chunk_ids(best[np.argsort(-score[best])[:N_RESULTS]])


def print_times(name: str, run: Callable, queries: Sequence) -> None:
    for query in queries[:5]:
        run(query)
    times = []
    for query in queries:
        started = time.thread_time()
        run(query)
        times.append(1000 * (time.thread_time() - started))
    median, tail = np.percentile(times, [50, 95])
    print(f"  {name:16} p50 {median:7.1f} ms  p95 {tail:7.1f} ms", flush=True)


def measure_tantivy(
    library: Library, documents: Sequence[IndexedDocument], n_copies: int, queries: Sequence[Query]
) -> None:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    index = tantivy.Index(builder.build())
    writer = index.writer(200_000_000, 1)
    for document in documents:
        words = [document.words.forms[i] for i in document.words.ids.tolist()]
        for start, end in pairwise(document.words.starts.tolist()):
            text = " ".join(words[start:end])
            for _ in range(n_copies):
                writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    print_times(
        "tantivy, words",
        lambda query: searcher.search(index.parse_query(" ".join(query[0]), ["text"]), N_RESULTS),
        queries,
    )


if __name__ == "__main__":
    main()
