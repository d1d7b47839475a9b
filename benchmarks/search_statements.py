"""SQL statements of searches, and what they cost, on several stores.

    python -m benchmarks.search_statements URL... [--searches 200] [--delay-ms 0] [--list]

Each URL is a library as in SHOAL_DATABASE_URL, with the same documents. The program sends requests to the
real application in this process: several kinds of searches, and the search page of the console. It prints a
line of JSON for each kind and store: messages to the database, their milliseconds, and the median and 95th
percentile of the requests in milliseconds. All stores answer a query one after the other, so that other load
meets all of them alike; `ratio` compares the median with that of the first URL. A message may hold several
statements, and costs a round trip to a server. `--delay-ms` adds a pause to each message to a server, as a
network does. `--list` also prints the messages of the last request of each kind.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import structlog
from flask.testing import FlaskClient

from benchmarks.search_latency import draw_from
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

WARM_UP = 20
SHOWN_CHARS = 150
MACHINE_FILE = "index.db"
"""The records of the index of a machine, which are no part of a library on a server."""


@dataclass
class Recorder:
    """Messages to databases: text and seconds of each. `delay`: seconds added to each message to a server."""

    delay: float = 0.0
    messages: list[tuple[str, float]] = field(default_factory=list)

    def timed(self, text: str, run: Callable[[], Any], delay: float = 0.0) -> Any:
        started = time.perf_counter()
        if delay:
            time.sleep(delay)
        try:
            return run()
        finally:
            self.messages.append((" ".join(text.split()), time.perf_counter() - started))


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Record the messages of all connections that are opened in the block."""
    import psycopg

    class RecordedCursor(sqlite3.Cursor):
        def execute(self, statement: str, *parameters: Any) -> Any:
            run = super().execute
            return recorder.timed(statement, lambda: run(statement, *parameters))

    class RecordedConnection(sqlite3.Connection):
        def cursor(self, factory: Any = RecordedCursor) -> Any:
            return super().cursor(factory)

        def execute(self, statement: str, *parameters: Any) -> Any:
            return self.cursor().execute(statement, *parameters)

    connect, execute = sqlite3.connect, psycopg.Cursor.execute

    def connect_recorded(path: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        if Path(str(path)).name == MACHINE_FILE:
            return connect(path, *arguments, **options)
        return connect(path, *arguments, factory=RecordedConnection, **options)

    @functools.wraps(execute)
    def execute_recorded(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        return recorder.timed(text, lambda: execute(self, query, *arguments, **options), recorder.delay)

    sqlite3.connect = connect_recorded  # type: ignore[assignment]
    psycopg.Cursor.execute = execute_recorded  # type: ignore[method-assign]
    try:
        yield
    finally:
        sqlite3.connect = connect  # type: ignore[assignment]
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def requests() -> dict[str, Callable[[str], tuple[str, str, Any]]]:
    """Method, path and JSON of a request for a query, by kind of search."""

    def post(**options: Any) -> Callable[[str], tuple[str, str, Any]]:
        return lambda query: ("POST", "/api/v1/search", {"query": query, **options})

    return {
        "search": post(),
        "search with scores": post(include_scores=True),
        "search with a filter": post(filter='format = "markdown"'),
        "grouped search": post(group_by="document"),
        "search with facets": post(facets=["format", "tags"]),
        "page of the console": lambda query: ("GET", f"/?{urlencode({'q': query})}", None),
    }


def client_of(url: str, folder: Path) -> tuple[Engine, FlaskClient]:
    """The engine and a client of the application of a library, ready for searches."""
    settings = Settings(database_url=url, data_dir=str(folder))
    engine = Engine(settings=settings)
    client = create_app(settings, engine=engine).test_client()
    engine.start()
    return engine, client


def send(client: FlaskClient, method: str, path: str, body: Any) -> float:
    """Milliseconds of a request."""
    started = time.perf_counter()
    response = client.open(path, method=method, json=body)
    assert response.status_code == 200, response.get_data(as_text=True)
    return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    recorder = Recorder(options.delay_ms / 1000)
    with contextlib.ExitStack() as stack:
        stack.enter_context(recording(recorder))
        clients: dict[str, FlaskClient] = {}
        for number, url in enumerate(options.urls):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            engine, clients[f"{number} {url.partition(':')[0]}"] = client_of(url, folder)
            stack.enter_context(engine)
            if number == 0:
                with engine.database.snapshot(limited=False) as snapshot:
                    queries = draw_from(snapshot, options.searches + WARM_UP, seed=1)
        for kind, request in requests().items():
            taken: dict[str, list[float]] = {store: [] for store in clients}
            counts: dict[str, list[int]] = {store: [] for store in clients}
            in_database: dict[str, list[float]] = {store: [] for store in clients}
            last: dict[str, list[tuple[str, float]]] = {}
            for number, query in enumerate(queries):
                for store, client in clients.items():
                    recorder.messages = last[store] = []
                    ms = send(client, *request(query))
                    if number >= WARM_UP:
                        taken[store].append(ms)
                        counts[store].append(len(last[store]))
                        in_database[store].append(1000 * sum(seconds for _, seconds in last[store]))
            medians = {store: statistics.median(each) for store, each in taken.items()}
            for store, each in taken.items():
                line = {
                    "kind": kind,
                    "store": store,
                    "messages": statistics.median(counts[store]),
                    "most": max(counts[store]),
                    "in_database_ms": round(statistics.median(in_database[store]), 2),
                    "p50_ms": round(medians[store], 2),
                    "p95_ms": round(statistics.quantiles(each, n=20)[-1], 2),
                    "ratio": round(medians[store] / next(iter(medians.values())), 2),
                }
                print(json.dumps(line), flush=True)
                for text, seconds in last[store] if options.list else ():
                    print(f"    {1000 * seconds:6.2f} ms  {text[:SHOWN_CHARS]}", flush=True)


if __name__ == "__main__":
    main()
