"""Time of facets: of a library, and what they add to a search.

    python -m benchmarks.facets [--chunks 31000,100000,310000] [--runs N]

Builds libraries of N passages in documents of ten, with two tags, six metadata keys, reefs and headings.
Prints one JSON object. For each size: `library` has, for each facet, `first`, which reads its column,
`values`, the number of different values, and the 50th and 95th percentile of `--runs` requests, in
milliseconds of processor time, which other work on the machine changes little. `search` has the same of
searches for a word of half of all passages, without facets and with five, in turns, and what the facets add;
`filtered` has a filter on the field of one of the five, so that its counts need a second evaluation.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.filters import fill, sizes
from benchmarks.metadata_filter import CHUNKS as FIRST_CHUNK_OF_EACH
from benchmarks.metadata_filter import SECTIONS as SECTION_OF_EACH
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.storage import index_tables
from shoal.storage.opening import open_database

PER_DOCUMENT = 10
N_REEFS = 200
MORE_TAGS = "INSERT OR IGNORE INTO document_tags SELECT id, 'half ' || (id % 2) FROM documents"
SECTIONS = "UPDATE sections SET path = '[\"Part ' || (id % 1000) || '\"]'"
FIRST_CHUNKS = "UPDATE chunks SET top_reef_id = id % 200, top_reef_probability = 0.9"
CHUNKS = """
    INSERT INTO chunks (document_id, section_id, chunk_index, start_char, end_char, start_line, end_line,
                        sentence_count, confidence, coverage, matched_words, arch_score_0, arch_score_1,
                        arch_score_2, arch_score_3, norm, vocabulary_version, data_checksum, text,
                        top_reef_id, top_reef_probability, profile)
    SELECT c.document_id, c.section_id, n.value, 0, 9, 1, 1, 1, ABS(RANDOM()) % 500 / 100.0,
           1.0, 1, ABS(RANDOM()) % 9, ABS(RANDOM()) % 9, 1, 0, 1.0, 0, '',
           'passage ' || CASE n.value % 2 WHEN 0 THEN 'tide' ELSE 'wind' END || ' word' || (c.id % 97),
           ABS(RANDOM()) % :reefs, 0.9, x''
    FROM chunks c, json_each('[1, 2, 3, 4, 5, 6, 7, 8, 9]') n
"""
FACETS = (
    "tags", "format", "file_type", "folder", "language", "year", "author", "url", "rank:1000", "created:day",
    "reef", "island", "section", "confidence:0.5",
)  # fmt: skip
FIVE = ["tags", "format", "year", "reef", "created:month"]
"""As many as the console shows."""


def build(path: Path, n_chunks: int) -> None:
    """Store a library of about `n_chunks` passages, without the engine, which would take hours."""
    with Engine(settings=Settings(database_url=f"sqlite:///{path}")) as engine:
        checksum = engine.scorer.data_checksum
    database = open_database(f"sqlite:///{path}")
    fill(database, n_chunks // PER_DOCUMENT)
    with database.write() as transaction:
        transaction.execute(MORE_TAGS)
        transaction.execute(SECTION_OF_EACH)
        transaction.execute(FIRST_CHUNK_OF_EACH)
        transaction.execute(SECTIONS)
        transaction.execute(FIRST_CHUNKS)
        transaction.execute(CHUNKS, {"reefs": N_REEFS})
        transaction.execute("UPDATE chunks SET data_checksum = :checksum", {"checksum": checksum})
        transaction.execute("UPDATE documents SET n_chunks = 10")
        index_tables.start_again(transaction)
    database.close()


def milliseconds(run: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    started = time.thread_time()
    run()
    return 1000 * (time.thread_time() - started)


def percentiles(times: Any) -> dict[str, float]:
    """Return the 50th and 95th percentile of milliseconds."""
    return {f"p{n}": round(float(np.percentile(times, n)), 1) for n in (50, 95)}


def of_library(engine: Engine, runs: int) -> dict[str, Any]:
    """Measure each facet of the library."""
    measures = {}
    for facet in FACETS:
        count = functools.partial(engine.facets, [facet])
        first = round(milliseconds(count), 1)
        times = percentiles([milliseconds(count) for _ in range(runs)])
        measures[facet] = {"values": count().facets[0].n_values, "first": first, **times}
    return measures


def of_searches(engine: Engine, runs: int, expression: str | None) -> dict[str, Any]:
    """Measure searches without and with facets, in turns."""
    plain, counted = (
        functools.partial(engine.search, "tide", filter=expression, facets=facets) for facets in (None, FIVE)
    )
    plain(), counted()
    pairs = np.array([(milliseconds(plain), milliseconds(counted)) for _ in range(runs)])
    return {
        "without": percentiles(pairs[:, 0]),
        "with": percentiles(pairs[:, 1]),
        "added": percentiles(pairs[:, 1] - pairs[:, 0]),
        "ratio": round(float(np.median(pairs[:, 1]) / np.median(pairs[:, 0])), 2),
    }


def of_size(n_chunks: int, runs: int) -> dict[str, Any]:
    """Measure a new library."""
    with tempfile.TemporaryDirectory(prefix="shoal-facets-") as folder:
        path = Path(folder) / "shoal.db"
        build(path, n_chunks)
        with Engine(settings=Settings(database_url=f"sqlite:///{path}")) as engine:
            engine.start()
            everything = engine.facets(["tags"])
            if everything.n_chunks != n_chunks:
                raise SystemExit(f"the library has {everything.n_chunks:,} passages instead of {n_chunks:,}")
            return {
                "documents": everything.n_documents,
                "passages": everything.n_chunks,
                "library": of_library(engine, runs),
                "search": of_searches(engine, runs, None),
                "filtered": of_searches(engine, runs, 'year >= 2000 AND tags = "half 1"'),
            }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", default="31000,100000,310000")
    parser.add_argument("--runs", type=int, default=50)
    options = parser.parse_args()
    print(json.dumps({str(n): of_size(n, options.runs) for n in sizes(options.chunks)}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
