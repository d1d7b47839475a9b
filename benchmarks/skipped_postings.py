"""Postings that block maxima would let a ranking skip, with the score of the last result known beforehand.

    python -m benchmarks.skipped_postings FOLDER [--queries N]

FOLDER is a library that `benchmarks.scale --keep` leaves. A block of neighbouring passages has the largest
score of each term; a ranking reads it only if their sum reaches the score of the last result (block-max WAND
and MaxScore). A real ranking learns that score on its way, so it reads more. Prints the share of the postings
that are read, for one, three and ten results, by the size of a block; `lists` reads whole lists instead, but
not those of terms that are too weak together. With reefs, it is the blend of `benchmarks.ranking_steps`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.ranking_steps import MOST_WORDS, REEFS, WEIGHTS, open_library
from benchmarks.scale_corpus import Query, read_queries
from shoal.index.index import Index
from shoal.index.scoring import WeightedTerm, find_overlaps, score_terms
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import parse_query
from shoal.search.signals import find_matches, weighted_terms

RESULTS = (1, 3, 10)
BLOCKS = (8, 32, 64, 128, 512)
LISTS = "lists"

Scores = NDArray[np.float64]


class Source:
    """A term or reef: its part of the score of each place, and the places of its postings."""

    def __init__(self, parts: Scores, places: NDArray[np.int64]) -> None:
        self.parts, self.places = parts, places


def words(index: Index, terms: Sequence[WeightedTerm]) -> list[Source]:
    """The terms with their parts. What a term adds to passages around it that lack it is left out."""
    alone = [score_terms(index, [term]) for term in terms]
    found = []
    for term, parts in zip(terms, alone, strict=True):
        places = np.flatnonzero(term.matches.mask())
        found.append(Source(parts.astype(np.float64), places))
    return found


def reefs(index: Index) -> list[Source]:
    found = []
    for reef_id, z_score in REEFS.items():
        parts = find_overlaps(index, {reef_id: z_score}).overlaps
        found.append(Source(parts.astype(np.float64), np.flatnonzero(parts)))
    return found


def count_read(sources: Sequence[Source], n_results: int) -> Counter[int | str]:
    """Postings that are read, by the size of a block and for whole lists."""
    total = np.sum([source.parts for source in sources], axis=0)
    # A sum in another order differs in its last digits.
    least = np.partition(total, -n_results)[-n_results] * (1 - 1e-9)
    read: Counter[int | str] = Counter()
    best = [float(source.parts.max(initial=0.0)) for source in sources]
    order = np.argsort(best)
    sums = np.cumsum(np.array(best)[order])
    read[LISTS] = sum(len(sources[which].places) for which in order[sums >= least].tolist())
    for size in BLOCKS:
        starts = np.arange(0, len(total), size)
        bounds = np.sum([np.maximum.reduceat(source.parts, starts) for source in sources], axis=0)
        is_read = bounds >= least
        read[size] = sum(int(np.count_nonzero(is_read[source.places // size])) for source in sources)
    return read


def show(name: str, read: Counter[int | str], n_postings: int, n_queries: int) -> None:
    shares = ", ".join(f"{size} {read[size] / n_postings:.1%}" for size in (LISTS, *BLOCKS))
    print(f"{name}: {n_postings / n_queries:,.0f} postings a query, read: {shares}")


def measure(library: LibraryIndex, queries: Sequence[Query]) -> None:
    """Print the shares of the postings that are read."""
    index = library.index
    of_reefs = reefs(index)
    best_reef = max(float(np.sum([source.parts for source in of_reefs], axis=0).max(initial=0.0)), 1.0)
    for source in of_reefs:
        source.parts *= WEIGHTS[1] / best_reef
    read: dict[tuple[str, int], Counter[int | str]] = {}
    n_postings: Counter[str] = Counter()
    n_queries = 0
    for query in queries:
        parsed = parse_query(query.text, max_words=MOST_WORDS)
        terms = weighted_terms(library, parsed, find_matches(library, parsed.terms))
        if not terms:
            continue
        n_queries += 1
        of_words = words(index, terms)
        best_word = max(float(score_terms(index, terms).max(initial=0)), 1.0)
        for source in of_words:
            source.parts *= WEIGHTS[0] / best_word
        for name, sources in (("words", of_words), ("words and reefs", [*of_words, *of_reefs])):
            n_postings[name] += sum(len(source.places) for source in sources)
            for n_results in RESULTS:
                read.setdefault((name, n_results), Counter()).update(count_read(sources, n_results))
    print(f"{library.n_chunks:,} passages in {len(index.parts)} segments, {n_queries} queries")
    for (name, n_results), counts in read.items():
        show(f"{name}, best {n_results}", counts, n_postings[name], n_queries)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    options = parser.parse_args()
    queries = [query for query in read_queries(options.folder / "queries.json") if not query.filters]
    with open_library(options.folder) as library:
        measure(library, queries[: options.queries])


if __name__ == "__main__":
    main()
