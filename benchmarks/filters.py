"""Time of filters: over all documents of a library, and as part of a search.

    python -m benchmarks.filters [--documents 10000,100000,1000000] [--runs N] [--database FILE]

Builds libraries of N documents without passages, with tags and six metadata keys, and evaluates each filter
over all documents. Prints one JSON object: for each size and filter the number of documents that meet it, and
in milliseconds of processor time `first`, which reads the column, and the 50th and 95th percentile of
`--runs` evaluations with another value each time, so that few are repetitions. `change` is the first
evaluation after a document has changed.

With `--database`, measures the searches of an existing library instead, without and with a filter in turns.
They are in milliseconds of processor time too.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.metadata_filter import DOCUMENTS
from shoal.engine import Engine
from shoal.filters.evaluation import Fields, FilterState
from shoal.filters.parsing import ReefNames, make_filter
from shoal.index.index import Index
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database
from shoal.storage.opening import open_database

SEED = 7
TOGETHER = 20_000
"""Documents of one transaction."""
NAMES = ReefNames({}, {}, 0.5)
FILTERS: dict[str, Callable[[int], str]] = {
    "equal": lambda i: f'author = "Person {i}"',
    "range": lambda i: f"year >= {1990 + i % 35} AND rank < {i * 100}",
    "in": lambda i: "author IN [" + ", ".join(f'"Person {i + j}"' for j in range(50)) + "]",
    "tag": lambda i: f'tags = "tag {i % 40}"',
    "date": lambda i: f"created >= 2026-01-{1 + i % 28:02d}",
    "exists": lambda i: f"NOT missing{i % 2} EXISTS",
    "title": lambda i: f'title CONTAINS "le {i}"',
    "title of all": lambda _: 'title CONTAINS "title"',
    "path": lambda i: f'source_path STARTS WITH "notes/{i}"',
    "tree": lambda i: (
        f'(tags = "tag {i % 40}" OR public = true) AND year >= {1990 + i % 35} '
        f'AND NOT (author = "Person {i}" OR language IN [de, fr])'
    ),
}
QUERIES = ("how do bees find their way home", "price of labour", "the cause of the war", "stars and planets")


def fill(database: Database, n: int) -> None:
    """Store `n` documents, without the engine, which would take hours."""
    drawn = random.Random(SEED)

    def row(i: int) -> tuple[Any, ...]:
        metadata = {
            "language": drawn.choice(["de", "en", "fr"]),
            "year": drawn.randint(1990, 2025),
            "author": f"Person {drawn.randint(1, 5000)}",
            "public": drawn.random() < 0.5,
            "rank": drawn.random() * 100_000,
            "url": f"https://example.org/articles/{i}",
        }
        now = f"2026-01-{1 + i % 28:02d}T{i % 24:02d}:00:{i % 60:02d}.000Z"
        title = f"Title {i} of a text about {drawn.choice(['rain', 'storms', 'wind'])}"
        return i, title, f"notes/{i}.md", f"Text {i}", f"{i:064x}", now, now, compact_json(metadata)

    for first in range(1, n + 1, TOGETHER):
        with database.write() as transaction:
            rows = [row(i) for i in range(first, min(first + TOGETHER, n + 1))]
            transaction.write_many(DOCUMENTS, rows)
    with database.write() as transaction:
        transaction.execute("INSERT INTO document_tags SELECT id, 'tag ' || (id % 40) FROM documents")


def measured(run: Callable[[int], Any], runs: int) -> dict[str, float]:
    """Percentiles of the processor time of a call, in milliseconds."""
    times = []
    for i in range(1, runs + 1):
        started = time.thread_time()
        run(i)
        times.append(1000 * (time.thread_time() - started))
    return {"p50": round(statistics.median(times), 2), "p95": round(float(np.percentile(times, 95)), 2)}


def of_documents(n: int, runs: int) -> dict[str, Any]:
    """Measure all filters over the documents of a new library."""
    with tempfile.TemporaryDirectory(prefix="shoal-filters-") as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'shoal.db'}")
        migrate.upgrade(database)
        fill(database, n)
        fields = Fields()
        measures: dict[str, Any] = {}

        def met(expression: str) -> int:
            tree = make_filter(expression)
            assert tree is not None
            with database.snapshot() as snapshot:
                state = FilterState(snapshot, Index(()), fields, NAMES)
                return int(np.count_nonzero(state.met_by_documents(tree)))

        for name, expression in FILTERS.items():
            first = measured(lambda _, made=expression: met(made(0)), 1)["p50"]
            measures[name] = {
                "documents": met(expression(1)),
                "first": first,
                **measured(lambda i, made=expression: met(made(i + 1)), runs),
            }
        with database.write() as transaction:
            transaction.execute("UPDATE documents SET metadata = '{}', updated_at = 'x' WHERE id = 1")
        measures["change"] = measured(lambda i: met(FILTERS["tree"](i)), 1)["p50"]
        table = fields.documents
        with database.snapshot() as snapshot:
            measures["mebibytes"] = round(table.of(snapshot).columns.n_bytes / 2**20)
        database.close()
    return measures


def of_searches(path: Path, runs: int) -> dict[str, Any]:
    """Measure searches without and with filters, in turns, and the ratio of their times."""
    expressions = {
        "document": "created >= 2020 AND NOT tags = nothing",
        "chunk": "confidence >= 1 AND NOT page = 3",
        "both": "(tags = wikipedia OR confidence >= 1) AND NOT (title CONTAINS xyz OR reef = 3)",
    }
    results: dict[str, Any] = {}
    with Engine(settings=Settings(database_url=f"sqlite:///{path}")) as engine:
        engine.start()
        results["chunks"] = engine.status().n_chunks

        def search(filtered: str | None) -> float:
            started = time.thread_time()
            for query in QUERIES:
                engine.search(query, filter=filtered)
            return (time.thread_time() - started) / len(QUERIES)

        for name, expression in expressions.items():
            search(None), search(expression)
            pairs = [(search(None), search(expression)) for _ in range(runs)]
            plain, filtered = (np.percentile([pair[i] for pair in pairs], [50, 95]) * 1000 for i in (0, 1))
            results[name] = {
                "without": {"p50": round(plain[0], 1), "p95": round(plain[1], 1)},
                "with": {"p50": round(filtered[0], 1), "p95": round(filtered[1], 1)},
                "ratio": round(float(filtered[0] / plain[0]), 2),
            }
    return results


def sizes(text: str) -> Iterator[int]:
    yield from map(int, text.split(","))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", default="10000,100000,1000000")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--database", type=Path)
    options = parser.parse_args()
    if options.database is not None:
        results = of_searches(options.database, options.runs)
    else:
        results = {str(n): of_documents(n, options.runs) for n in sizes(options.documents)}
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
