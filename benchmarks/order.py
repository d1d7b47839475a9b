"""What sort, decay, boosts, grouping and folding cost.

    python -m benchmarks.order [--chunks 1000000] [--runs N] [--database FILE]

Without `--database`: the steps that look at every place of an index, on that many chunks of a tenth as many
documents, and in memory alone: milliseconds of processor time, median. `plain` selects the first ten results
by score alone.

With `--database`: whole searches of an existing library, each beside the same search without the argument, in
turns: milliseconds of processor time, and the ratio of their medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shoal.engine import Engine
from shoal.filters.columns import Column
from shoal.index.index import Index
from shoal.index.kernels import use_compiled
from shoal.search.folding import find_folders
from shoal.search.order_arguments import make_boosts, make_decay, make_sort
from shoal.search.ordering import AddedScores, Order, Ranks, decayed_parts
from shoal.settings import Settings

QUERIES = ("how do bees find their way home", "price of labour", "the cause of the disease", "cells of mice")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "sort by date": {"sort": "-date"},
    "sort by title": {"sort": "title"},
    "decay": {"decay": "date:30:0.2"},
    "boost": {"boosts": ["0.2:created >= 2020"]},
    "16 boosts": {"boosts": [f"0.01:id > {number}" for number in range(16)]},
    "group by document": {"group_by": "document", "max_per_document": 3},
    "fold similar": {"fold_similar": True},
    "all": {
        "sort": "-date",
        "decay": "date:30:0.2",
        "boosts": ["0.2:created >= 2020"],
        "group_by": "document",
        "fold_similar": True,
    },
}
SECOND = 1_000_000
"""Microseconds."""


class _Places(Index):
    """Chunks whose ids are their places, ten for each document."""

    def __init__(self) -> None:
        super().__init__(())

    def chunk_ids(self, places: Any) -> Any:
        return places + 1

    def document_ids(self, places: Any) -> Any:
        return places // 10


def median_ms(run: Callable[[], Any], runs: int) -> float:
    """The median processor time of a call, in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.thread_time()
        run()
        times.append(1000 * (time.thread_time() - started))
    return round(statistics.median(times), 2)


def of_steps(n: int, runs: int) -> dict[str, Any]:
    """Measure the steps over all places."""
    use_compiled()
    drawn = np.random.default_rng(7)
    keys, is_result = drawn.random(n), drawn.random(n) < 0.5
    document_of = np.arange(n) // 10
    dates = Column.of_numbers(drawn.integers(0, 50 * 365 * 86_400, n // 10 + 1) * float(SECOND))
    years = Column.of_numbers(np.floor(dates.numbers / (365 * 86_400 * SECOND)))
    (key,) = make_sort("-date")
    decay = make_decay("date:30:0.2")
    assert decay is not None
    ranks = {"date": Ranks(dates), "year": Ranks(years)}
    index = _Places()

    def first(*names: str) -> Any:
        levels = tuple(ranks[name].levels(is_descending=key.is_descending)[document_of] for name in names)
        return Order(index, keys, is_result, levels).first(10, 3)

    boosts = make_boosts([f"0.1:id > {number}" for number in range(16)])
    masks = tuple(drawn.random(n) < 0.1 for _ in boosts)

    def add(decayed: bool, n_boosts: int) -> None:
        parts = decayed_parts(dates, decay)[document_of] if decayed else None
        AddedScores(parts, boosts[:n_boosts], masks[:n_boosts]).add_to(keys.copy(), is_result)

    texts = [" ".join(f"w{number}" for number in drawn.integers(0, 5_000, 300)) for _ in range(200)]
    same = [" ".join(["word"] * 290 + [f"w{number}"] * 10) for number in range(200)]
    return {
        "plain": median_ms(first, runs),
        "sort by date": median_ms(lambda: first("date"), runs),
        "sort by year and date": median_ms(lambda: first("year", "date"), runs),
        "order of a column, once": median_ms(lambda: Ranks(dates), max(runs // 10, 1)),
        "decay": median_ms(lambda: add(True, 0), runs),
        "16 boosts": median_ms(lambda: add(False, 16), runs),
        "fold 200 texts": median_ms(lambda: find_folders(texts), runs),
        "fold 200 texts that share most words": median_ms(lambda: find_folders(same), runs),
    }


def of_searches(path: Path, runs: int) -> dict[str, Any]:
    """Measure whole searches, without and with each argument in turns."""
    results: dict[str, Any] = {}
    with Engine(settings=Settings(database_url=f"sqlite:///{path}")) as engine:
        results["chunks"] = engine.status().n_chunks

        def search(arguments: dict[str, Any]) -> float:
            started = time.thread_time()
            for query in QUERIES:
                engine.search(query, **arguments)
            return 1000 * (time.thread_time() - started) / len(QUERIES)

        for name, arguments in ARGUMENTS.items():
            first = search(arguments)
            search({})
            pairs = [(search({}), search(arguments)) for _ in range(runs)]
            plain, other = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            measured = {"first": first, "plain": plain, "ms": other, "ratio": other / plain}
            results[name] = {part: round(value, 2) for part, value in measured.items()}
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--database", type=Path)
    options = parser.parse_args()
    if options.database is None:
        measures = of_steps(options.chunks, options.runs)
    else:
        measures = of_searches(options.database, options.runs)
    print(json.dumps(measures, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
