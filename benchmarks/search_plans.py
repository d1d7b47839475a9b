"""Costs of the steps of a search, and query plans of its core statements.

    python benchmarks/search_plans.py DATABASE [--query TEXT] [--runs N]

Prints one JSON object: for each step in the index the median processor time of N runs in milliseconds, which
other load hardly affects; for each statement also its plan (EXPLAIN QUERY PLAN) and the number of rows.
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
from shoal.declared.filters import SearchFilters
from shoal.search import results, signals
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.library_index import IndexCache, LibraryView
from shoal.search.query_analysis import analyze_query
from shoal.search.request import make_request
from shoal.search.searcher import rank_for
from shoal.storage.database import Database, Snapshot, listed

QUERY = "how do bees and other insects find their way home"


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


def open_index(database: Database) -> None:
    with database.snapshot() as snapshot:
        IndexCache(database).of(snapshot)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--query", default=QUERY)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with Engine(db_path=options.database) as engine:
        cache = IndexCache(engine.database)
        cache.prepare()
        with engine.database.snapshot() as snapshot:
            library = cache.of(snapshot)
            request = make_request(options.query, settings=engine.settings)
            view = LibraryView(snapshot, library, engine.scorer, engine.settings)
            query = analyze_query(view, request)
            parsed = query.parsed
            matches = signals.find_matches(library, parsed.terms)
            scores = signals.score_chunks(library, parsed, matches)
            best = library.index.chunk_ids(scores.argsort()[:-11:-1]).tolist()
            ids, cited = listed("id", best)
            ranking = rank_for(view, query, CompiledFilters(), request)
            ranked = ranking.first(request.top_k, request.limit_per_document)
            tagged = compile_filters(SearchFilters(tags=("book",)), engine.scorer, label_threshold=0.5)
            steps: dict[str, Callable[[], object]] = {
                "opening the index": lambda: open_index(engine.database),
                "finding the words": lambda: signals.find_matches(library, parsed.terms),
                "scoring every match by words": lambda: signals.score_chunks(library, parsed, matches),
                "analyzing the query, with feedback": lambda: analyze_query(view, request),
                "a filter": lambda: tagged.met_by(snapshot, library),
                "every overlap of reefs": lambda: signals.overlaps(library, query.reefs),
                "words in title, headings and tags": lambda: signals.field_counts(snapshot, library, matches),
                "ten results": lambda: results.build_results(view, ranked, query, request),
            }
            statements: dict[str, tuple[str, Mapping[str, Any]]] = {
                "ten citations, with profiles": (results.CITE.format(ids=ids), cited),
            }
            report = {
                "chunks": library.n_chunks,
                "segments": len(library.index.parts),
                "index, MB": round(cache.size() / 1e6, 1),
                "query": options.query,
                "matches by words": int((scores > 0).sum()),
                "ms": {name: measure(step, options.runs) for name, step in steps.items()},
                "statements": {
                    name: measure_statement(snapshot, statement, parameters, options.runs)
                    for name, (statement, parameters) in statements.items()
                },
            }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
