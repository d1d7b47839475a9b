"""How to score a document by its passages: nDCG@10 of documents on test collections.

The score of a document is that of its best passage plus a share of the others: of the second best, or of each
further one half as much as of the one before.

    .venv/bin/python -m benchmarks.document_ranking ../shared/collections/* --keep build/judged
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.judged_library import JudgedLibrary
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryView
from shoal.search.query_analysis import analyze_query
from shoal.search.request import make_request
from shoal.search.searcher import rank_for

Doubles = NDArray[np.float64]
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def blends(library: JudgedLibrary) -> Iterator[Doubles]:
    """The scores of all chunks for each query, as a search has them, f64 (c,)."""
    engine = library.engine
    with engine.database.snapshot() as snapshot:
        for text in library.texts:
            request = make_request(text, settings=engine.settings)
            view = LibraryView(snapshot, library.index, engine.scorer, engine.settings)
            analyzed = analyze_query(view, request)
            ranking = rank_for(view, analyzed, CompiledFilters(), request)
            keys = np.where(ranking.order.is_result, ranking.order.keys, 0.0)
            yield keys[library.index.index.places_of(library.chunk_ids.tolist())]


def of_documents(library: JudgedLibrary, scores: Doubles, share: float, *, only_second: bool) -> Doubles:
    """The scores of the chunks, with what its others add at the best of each document and 0 elsewhere."""
    order = np.lexsort((-scores, library.document))
    places = np.arange(len(scores)) - library.starts[library.document[order]]
    factors = share * (places == 1) if only_second else share * 0.5 ** np.maximum(places - 1.0, 0.0)
    added = np.where(places == 0, 1.0, factors) * scores[order]
    totals = np.add.reduceat(added, library.starts)
    result = np.zeros_like(scores)
    result[order[library.starts]] = totals
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="where the libraries are kept")
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    table: dict[str, list[float]] = {}
    for folder in arguments.folders:
        library = JudgedLibrary(folder, arguments.keep / f"{folder.name}.db", learning=True)
        scores = list(blends(library))
        sizes = np.diff([*library.starts.tolist(), len(library.chunk_ids)])
        print(f"{library.name}: {len(sizes)} documents, {np.mean(sizes > 1):.0%} with several passages")
        for only_second in (True, False):
            for share in SHARES:
                ranked = np.stack(
                    [of_documents(library, row, share, only_second=only_second) for row in scores]
                )
                name = f"best + {share:g} x {'second' if only_second else 'others, halving'}"
                table.setdefault(name, []).append(library.ndcg(ranked))
    for name, values in table.items():
        print(f"{name:34}", *(f"{value:.4f}" for value in values), f"mean {np.mean(values):.4f}")


if __name__ == "__main__":
    main()
