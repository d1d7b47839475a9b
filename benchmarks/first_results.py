"""First results: how many queries with an answer have one that claims to be it.

usage: python -m benchmarks.first_results COLLECTION... [--keep FOLDER] [--list]

Each collection is a library (as in `benchmarks/judged_library.py`) whose queries have an answer. Prints, for
each and for all,

    queries   with an answer
    likely    those whose first result has a relevance of .5 or more
    relevant  of these, first results that are judged relevant
    bounded   whose first result has less only because it lacks what must match
    wrongly   of these, first results that are judged relevant

`--list` also prints the bounded queries, with what the first result lacks. Exits 1 if `likely` is below
`LEAST_LIKELY` of all queries.
"""

from __future__ import annotations

import argparse
import collections
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.judged_library import JudgedLibrary, read_collection
from benchmarks.relevance import first_results
from shoal.search.query_analysis import NO_BOUNDS, Bounds
from shoal.search.relevance import relevance

LIKELY = 0.5
LEAST_LIKELY = 0.65
"""One point below the share without bounds: 401 of 607 on scifact, cranfield, medline and cacm."""


class First(NamedTuple):
    """The first result of a query.

    is_bounded  whether it is likely but for what it lacks
    """

    query: str
    relevance: float
    bounds: Bounds
    is_bounded: bool
    is_relevant: bool

    @property
    def is_likely(self) -> bool:
        return self.relevance >= LIKELY


def first_of_queries(library: JudgedLibrary, folder: Path) -> Iterator[First]:
    """Yield the first result of each query that has one."""
    documents, texts, judged = read_collection(folder)
    ids_of_text = collections.defaultdict(set)
    for document in documents:
        ids_of_text[document["content"]].add(document["source_path"])
    same = {document_id: ids for ids in ids_of_text.values() for document_id in ids}
    for text, answers in zip(texts, judged, strict=True):
        for path, evidence, _ in first_results(library, text)[:1]:
            value = relevance(evidence)
            is_bounded = value < LIKELY <= relevance(evidence._replace(bounds=NO_BOUNDS))
            yield First(text, value, evidence.bounds, is_bounded, not same[path].isdisjoint(answers))


def count(name: str, n_queries: int, firsts: list[First]) -> dict[str, object]:
    """The counts of a collection, or of all."""
    likely = [first for first in firsts if first.is_likely]
    bounded = [first for first in firsts if first.is_bounded]
    return {
        "collection": name,
        "queries": n_queries,
        "likely": len(likely),
        "relevant": sum(first.is_relevant for first in likely),
        "bounded": len(bounded),
        "wrongly": sum(first.is_relevant for first in bounded),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="+")
    parser.add_argument("--keep", type=Path, help="folder for the databases NAME.db")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    everything: list[First] = []
    n_queries = 0
    with tempfile.TemporaryDirectory() as scratch:
        for folder in arguments.collections:
            database = (arguments.keep or Path(scratch)) / f"{folder.name}.db"
            library = JudgedLibrary(folder, database, learning=True)
            library.engine.start()
            firsts = list(first_of_queries(library, folder))
            library.engine.close()
            print(json.dumps(count(folder.name, len(library.texts), firsts)), flush=True)
            for first in firsts if arguments.list else ():
                if first.is_bounded:
                    mark = "relevant" if first.is_relevant else "other"
                    lacking = ", ".join(first.bounds.lacking)
                    print(f"  {first.relevance:.2f} {mark:8} {lacking:20} | {first.query.strip()}")
            everything += firsts
            n_queries += len(library.texts)
    total = count("all", n_queries, everything)
    print(json.dumps(total))
    if len([first for first in everything if first.is_likely]) < LEAST_LIKELY * n_queries:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
