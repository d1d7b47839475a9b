"""Query plans and costs of the core statements of a search.

    python benchmarks/search_plans.py DATABASE [--query TEXT] [--runs N]

Prints one JSON object: for each statement its plan (EXPLAIN QUERY PLAN), the number of rows and the median
    processor
time of N runs in milliseconds, which other load hardly affects; the same for the postings in memory that
replace statements, for reading new postings, and for the best thousand matches as rows instead of all matches
as two texts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal import Engine
from shoal.models import SearchFilters
from shoal.search import field_boost, lexical_ranking, postings, reef_ranking, results
from shoal.search.filters import compile_filters
from shoal.search.query_analysis import analyze_query
from shoal.search.request import make_request
from shoal.storage.database import Snapshot, listed

QUERY = "how do bees and other insects find their way home"
BEST_THOUSAND = """
    SELECT rowid, rank FROM chunk_fts
    WHERE chunk_fts MATCH :expression AND rank MATCH :weights ORDER BY rank LIMIT 1000
"""
NEW_CHUNKS = 1_000


def measure(work: Callable[[], Any], runs: int) -> float:
    """Median processor time in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        work()
        times.append((time.process_time() - started) * 1e3)
    return round(statistics.median(times), 2)


def measure_statement(
    snapshot: Snapshot, statement: str, parameters: Mapping[str, Any], runs: int
) -> dict[str, Any]:
    plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    rows = snapshot.rows(statement, parameters)
    packed = len(rows) == 1 and isinstance(rows[0][0], str)
    return {
        "plan": plan,
        "rows": rows[0][0].count(",") + 1 if packed else len(rows),
        "ms": measure(lambda: snapshot.rows(statement, parameters), runs),
    }


def measure_reading(snapshot: Snapshot, complete: postings.Postings, runs: int) -> float:
    """Cost of a search that reads the largest allowed number of new chunks itself."""
    newest = complete.chunk_ids[-NEW_CHUNKS:]
    last_id = int(newest[0]) - 1
    blocks = tuple(postings._without(block, block.chunk_ids > last_id) for block in complete.blocks)
    n = complete.state.n_chunks - len(newest)
    before = postings.Postings(blocks, postings.State(n, last_id, complete.state.revision))
    return measure(lambda: postings._refreshed(snapshot, before, complete.state), runs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--query", default=QUERY)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with Engine(db_path=options.database) as engine, engine.database.snapshot() as snapshot:
        kept = postings.PostingsCache()
        kept.load(snapshot)
        complete = kept.of(snapshot)
        assert complete is not None, "a loaded cache has postings"
        request = make_request(options.query, settings=engine.settings)
        query = analyze_query(snapshot, engine.scorer, engine.settings, request)
        terms = query.parsed.terms
        by_words = {
            "expression": lexical_ranking.any_of(terms),
            "weights": (
                f"bm25({lexical_ranking.TITLE_WEIGHT}, {lexical_ranking.HEADINGS_WEIGHT}, "
                f"{lexical_ranking.TEXT_WEIGHT})"
            ),
        }
        best = lexical_ranking.match_scores(snapshot, terms).chunk_ids[:10].tolist()
        ids, listed_ids = listed("id", best)
        cited = {**listed_ids, "data_checksum": engine.scorer.data_checksum}
        tagged = compile_filters(SearchFilters(tags=("book",)), engine.scorer, label_threshold=0.5)
        statements: dict[str, tuple[str, Mapping[str, Any]]] = {
            "every match by words": (lexical_ranking.MATCHES, by_words),
            "the best thousand of them, as rows": (BEST_THOUSAND, by_words),
            "words in title and headings": (
                field_boost.PLACED,
                {"expression": lexical_ranking.expression(terms[0], field_boost.PLACES)},
            ),
            "a filter": (f"SELECT group_concat(id) FROM ({tagged.eligible})", tagged.parameters),
            "ten citations": (results.CITE.format(ids=ids), cited),
            "their profiles": (results.PROFILES.format(ids=ids), cited),
        }
        report: dict[str, Any] = {"chunks": complete.state.n_chunks, "query": options.query}
        report["statements"] = {
            name: measure_statement(snapshot, statement, parameters, options.runs)
            for name, (statement, parameters) in statements.items()
        }
        report["overlaps from all profiles, ms"] = measure(
            lambda: reef_ranking.overlaps(snapshot, query.reefs), options.runs
        )
        report["overlaps from memory, ms"] = measure(
            lambda: postings.overlaps(complete, query.reefs), options.runs
        )
        report["reading the postings of 1,000 new chunks, ms"] = measure_reading(
            snapshot, complete, options.runs
        )
        report["postings in memory, MB"] = round(complete.n_bytes / 1e6, 1)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
