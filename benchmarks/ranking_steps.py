"""Processor time of each step of a ranking, without results, HTTP and filters.

    python -m benchmarks.ranking_steps FOLDER [--queries N] [--tantivy]

FOLDER is a library that `benchmarks.scale --keep` leaves. Prints milliseconds for a query by words, and by
words and twenty reefs, in one thread. Each query is ranked once, so none is known from before. `--tantivy`
ranks the same passages and words with the package of that name. Numbers of one run can be compared; other
load slows all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.scale_corpus import Query, read_queries
from shoal import Engine
from shoal.index import kernels, scoring
from shoal.index.scoring import find_overlaps
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.ordering import BestFirst, Order
from shoal.search.query_language import parse_query
from shoal.search.signals import find_matches, weighted_terms

BEST, WARM_UP = 10, 5
MOST_WORDS = 64
REEFS = dict.fromkeys(range(0, 200, 10), 2.0)
"""z-scores of the reefs of every query: as many as feedback leaves."""
WEIGHTS = 0.5, 0.4, 0.1


@contextmanager
def open_library(folder: Path) -> Iterator[LibraryIndex]:
    """Give the index of the library of a folder, with compiled kernels."""
    kernels.use_compiled()
    with Engine(db_path=folder / "bench.db") as engine:
        cache = IndexCache(engine.database)
        cache.prepare()
        with engine.database.snapshot() as snapshot:
            library = cache.of(snapshot)
        yield library


class Steps:
    """Milliseconds of processor time by step."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.ms[name] += 1000 * (time.thread_time() - began)

    def rank(self, library: LibraryIndex, query: Query, *, with_reefs: bool) -> None:
        parsed = parse_query(query.text, max_words=MOST_WORDS)
        with self.step("words"):
            matches = find_matches(library, parsed.terms)
        with self.step("pairs of words"):
            terms = weighted_terms(library, parsed, matches)
        with self.step("impacts"):
            by_words = scoring.score_terms(library.index, terms)
        keys, is_found = by_words, by_words > 0
        if with_reefs:
            with self.step("overlaps"):
                by_reefs, n_shared = find_overlaps(library.index, REEFS)
            with self.step("blend"):
                keys, is_found = np.empty(len(library)), np.empty(len(library), dtype=np.bool_)
                raw = by_words, by_reefs, np.zeros(len(library), dtype=np.uint16)
                best = float(by_words.max(initial=1)), float(by_reefs.max(initial=1)), 1.0
                kernels.active().blend(keys, is_found, raw, n_shared, best, WEIGHTS)
        with self.step("best ten"):
            Order(library.index, keys, is_found).first(BEST, BestFirst(3))


def show(name: str, steps: Steps, n: int) -> None:
    parts = ", ".join(f"{step} {ms / n:.2f}" for step, ms in steps.ms.items())
    print(f"{name}: {sum(steps.ms.values()) / n:.2f} ms ({parts})")


def measure_tantivy(database: Path, queries: Sequence[Query]) -> Steps:
    from benchmarks.scale_tantivy import TantivyIndex

    steps = Steps()
    with tempfile.TemporaryDirectory() as scratch:
        index = TantivyIndex(database, Path(scratch))
        for query in queries:
            with steps.step("search"):
                index.search(query)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--tantivy", action="store_true")
    options = parser.parse_args()
    drawn = [query for query in read_queries(options.folder / "queries.json") if not query.filters]
    first, queries = drawn[:WARM_UP], drawn[WARM_UP : WARM_UP + options.queries]
    with open_library(options.folder) as library:
        print(f"{library.n_chunks:,} passages in {len(library.index.parts)} segments")
        for name, with_reefs in (("words", False), ("words and 20 reefs", True)):
            for query in first:
                Steps().rank(library, query, with_reefs=with_reefs)
            library.index.cached.clear()
            steps = Steps()
            for query in queries:
                steps.rank(library, query, with_reefs=with_reefs)
            show(name, steps, len(queries))
    if options.tantivy:
        show("tantivy", measure_tantivy(options.folder / "bench.db", queries), len(queries))


if __name__ == "__main__":
    main()
