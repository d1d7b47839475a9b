"""What benchmarks/scale.py measures of a finished library: requests to its service, and its commands."""

from __future__ import annotations

import concurrent.futures
import http.client
import itertools
import json
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import cold_start
from benchmarks.ingest_service import SHOAL, Running, running
from benchmarks.process_tree import child_running, mapped_mb, private_mb, processor_seconds
from benchmarks.scale_corpus import SHELVES, Query
from benchmarks.search_latency import percentiles
from shoal.client import Client

API_MODULE = "shoal_api"
SEARCH = "/api/v1/search"
CLIENTS = 8
WARM_UP = 20
FILTERED = 100
"""Queries for each kind of filter."""
SHELF = SHELVES // 2
CONFIDENCE = 1.0
PAGE_REQUESTS = 40
BUDGET_SECONDS = 120.0
"""A measurement ends after this time, even if requests remain."""


@dataclass(frozen=True, slots=True)
class Request:
    """`body`: JSON to post; None for GET."""

    path: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the measurements of a library need. `seconds`: duration of concurrent load."""

    folder: Path
    service: Running
    queries: Sequence[Query]
    text_mb: float
    seconds: float

    @property
    def api_pid(self) -> int:
        return child_running(self.service.pid, API_MODULE)


class Caller:
    """One client of a service with a connection of its own. Adds less time to a request than httpx."""

    def __init__(self, address: str) -> None:
        parts = urllib.parse.urlsplit(address)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=BUDGET_SECONDS)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, request: Request) -> tuple[float, int, bytes]:
        """Milliseconds until the response is complete, its status and its body."""
        began = time.perf_counter()
        if request.body is None:
            self._connection.request("GET", request.path)
        else:
            headers = {"Content-Type": "application/json"}
            self._connection.request("POST", request.path, json.dumps(request.body), headers)
        response = self._connection.getresponse()
        body = response.read()
        return 1000 * (time.perf_counter() - began), response.status, body

    def json(self, request: Request) -> Any:
        _, status, body = self.send(request)
        if status != http.client.OK:
            raise SystemExit(f"{request.path} returned {status}: {body[:300]!r}")
        return json.loads(body)


def search(query: Query, mode: str = "hybrid", **filters: Any) -> Request:
    return Request(SEARCH, {"query": query.text, "mode": mode, "filters": query.filters | filters})


def latencies(address: str, requests: Sequence[Request]) -> dict[str, Any]:
    """Percentiles of requests one after another. Failed responses count with their time, and in `failed`."""
    times, failed = [], 0
    deadline = time.perf_counter() + BUDGET_SECONDS
    with Caller(address) as caller:
        for request in requests:
            milliseconds, status, _ = caller.send(request)
            times.append(milliseconds)
            failed += status != http.client.OK
            if time.perf_counter() > deadline:
                break
    return percentiles(times) | {"failed": failed}


def measure_start(library: Measured) -> dict[str, Any]:
    with Caller(library.service.address) as caller:
        first_search = caller.send(search(library.queries[0]))[0]
        first_page = caller.send(Request("/"))[0]
    return {
        "ready_s": round(library.service.ready_s, 2),
        "first_search_ms": round(first_search, 1),
        "first_page_ms": round(first_page, 1),
        "memory_start_mb": round(private_mb(library.api_pid), 1),
    }


def measure_search(library: Measured) -> dict[str, Any]:
    address = library.service.address
    numbers: dict[str, Any] = {}
    for mode in ("hybrid", "reef", "lexical"):
        requests = [search(query, mode) for query in library.queries]
        latencies(address, requests[:WARM_UP])
        before = processor_seconds(library.api_pid)
        numbers[mode] = latencies(address, requests)
        milliseconds = 1000 * (processor_seconds(library.api_pid) - before)
        numbers[f"{mode}_processor_ms"] = round(milliseconds / numbers[mode]["n"], 1)
    return numbers


def measure_tantivy(library: Measured) -> dict[str, Any]:
    """The best ten of the queries without filters, in tantivy in this process and in Shoal over HTTP."""
    if find_spec("tantivy") is None:
        return {"tantivy_skipped": "tantivy is not installed"}
    from benchmarks.scale_tantivy import TantivyIndex

    queries = [query for query in library.queries if not query.filters]
    with tempfile.TemporaryDirectory() as scratch:
        index = TantivyIndex(library.folder / "bench.db", Path(scratch))
        for query in queries[:WARM_UP]:
            index.search(query)
        times = []
        for query in queries:
            began = time.perf_counter()
            index.search(query)
            times.append(1000 * (time.perf_counter() - began))
        index_bytes = size_of(Path(scratch).iterdir())
    tantivy = percentiles(times) | {"failed": 0}
    lexical = latencies(library.service.address, [search(query, "lexical") for query in queries])
    return {
        "tantivy": tantivy,
        "lexical_unfiltered": lexical,
        "lexical_to_tantivy": round(lexical["p95_ms"] / tantivy["p95_ms"], 2),
        "tantivy_size_ratio": round(index_bytes / 1e6 / library.text_mb, 3),
        "tantivy_index_s": round(index.seconds, 1),
    }


def measure_filters(library: Measured) -> dict[str, Any]:
    words = [query for query in library.queries if query.kind == "words"][:FILTERED]
    phrases = [query for query in library.queries if query.kind == "phrase"][:FILTERED]
    excluded = [
        Query("words", f"{query.text} -{other.text.split()[0]}")
        for query, other in zip(words, [*words[1:], words[0]], strict=True)
    ]
    document = largest_document(library.service.address)
    requests = {
        "filter_tag": [search(query, tags=[f"shelf-{SHELF}"]) for query in words],
        "filter_metadata": [search(query, metadata={"shelf": SHELF}) for query in words],
        "filter_document": [search(query, document_ids=[document]) for query in words],
        "filter_confidence": [search(query, min_confidence=CONFIDENCE) for query in words],
        "phrase": [search(query) for query in phrases],
        "excluded": [search(query) for query in excluded],
    }
    return {name: latencies(library.service.address, each) for name, each in requests.items()}


def measure_similar(library: Measured) -> dict[str, Any]:
    """The page of a document at a chunk, which lists similar chunks of other documents."""
    pages = []
    with Caller(library.service.address) as caller:
        for query in library.queries[:PAGE_REQUESTS]:
            best = caller.json(search(query))["results"][:1]
            pages += [Request(f"/documents/{hit['document_id']}?chunk={hit['chunk_index']}") for hit in best]
    return {"similar": latencies(library.service.address, pages)}


def measure_clients(library: Measured) -> dict[str, Any]:
    """Hybrid searches by several clients at once, to one process of the API and to two."""
    measured = _load(library, library.service.address)
    with running(library.folder, 1, SHOAL_API_PROCESSES="2") as service:
        # Both processes load their kernels before they are measured.
        _load(library, service.address)
        with_two = _load(library, service.address)
    return {**measured, **{f"{name}_2": value for name, value in with_two.items()}}


def _load(library: Measured, address: str) -> dict[str, Any]:
    """Search with several clients at once, each with a connection of its own."""
    requests = [search(query) for query in library.queries]
    deadline = time.perf_counter() + library.seconds

    def work(start: int) -> list[tuple[float, int]]:
        answers = []
        with Caller(address) as caller:
            while time.perf_counter() < deadline:
                answers.append(caller.send(requests[(start + len(answers)) % len(requests)])[:2])
        return answers

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        starts = (number * len(requests) // CLIENTS for number in range(CLIENTS))
        answers = list(itertools.chain.from_iterable(pool.map(work, starts)))
    seconds = time.perf_counter() - began
    failed = sum(status != http.client.OK for _, status in answers)
    return {
        "requests_per_s": round((len(answers) - failed) / seconds, 1),
        "clients": percentiles([milliseconds for milliseconds, _ in answers]) | {"failed": failed},
    }


def measure_console(library: Measured) -> dict[str, Any]:
    address = library.service.address
    paths = {
        "page_start": "/",
        "page_library": "/library",
        "page_reefs": "/reefs",
        "page_vocabulary": "/vocabulary",
        "page_document": f"/documents/{largest_document(address)}",
        "page_jobs": "/jobs",
        "page_status": "/api/v1/status",
        "page_metrics": "/metrics",
    }
    pages = {name: [Request(path)] * min(PAGE_REQUESTS, len(library.queries)) for name, path in paths.items()}
    pages["page_search"] = [
        Request("/?" + urllib.parse.urlencode({"q": query.text})) for query in library.queries[:PAGE_REQUESTS]
    ]
    return {name: latencies(address, requests) for name, requests in pages.items()}


def measure_memory(library: Measured) -> dict[str, Any]:
    pid = library.api_pid
    return {"memory_mb": round(private_mb(pid), 1), "mapped_mb": round(mapped_mb(pid), 1)}


SERVED: dict[str, Callable[[Measured], dict[str, Any]]] = {
    "start": measure_start,
    "search": measure_search,
    "tantivy": measure_tantivy,
    "filters": measure_filters,
    "similar": measure_similar,
    "clients": measure_clients,
    "console": measure_console,
    "memory": measure_memory,
}
"""The lines that need a running service, in the order of their measurement."""


def measure_cli(database: Path, query: str, runs: int) -> dict[str, Any]:
    """Median seconds of each command in `runs` fresh processes, without a service."""
    commands = {"search": ["search", query], "explain": ["explain", query], "status": ["status"]}
    return {
        f"cli_{name}_s": round(
            statistics.median(
                cold_start.run([*SHOAL, "--db", str(database), *arguments]).wall for _ in range(runs)
            ),
            3,
        )
        for name, arguments in commands.items()
    }


def largest_document(address: str) -> int:
    """Id of the document with the most chunks."""
    with Client(address) as client:
        return max(client.each_document(), key=lambda document: document.n_chunks).id


def size_of(paths: Iterable[Path]) -> int:
    """Bytes of files, and of the files in folders."""
    files = itertools.chain.from_iterable(path.rglob("*") if path.is_dir() else [path] for path in paths)
    return sum(file.stat().st_size for file in files if file.is_file())
