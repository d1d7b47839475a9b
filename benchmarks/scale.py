"""Cost of a library by its size: ingestion, searches, pages, commands, memory and disk.

    python -m benchmarks.scale CORPORA [--sizes 35000,310000,1000000] [--lines ingest,search,…]
        [--keep FOLDER] [--json FILE] [--svg FILE]

CORPORA has `books/`, `more-books/` and `wikipedia-vital-1k.jsonl.gz`. A library that is larger also gets
copies whose sentences are shuffled between documents of one kind, by a seed. Each library is uploaded in
one bulk job to `shoal up --workers 2` and then measured through its HTTP API, its console and its commands.
Prints a table with a column for each library; progress goes to stderr.

`--keep` keeps the libraries, and reuses them in the next run. `--json` keeps the numbers: a later run adds
its own and prints the table of all. Without CORPORA, the table of these numbers is printed and nothing is
measured.

The lines (default: all): `start`, `search`, `tantivy` (the same chunks and queries in tantivy; skipped
unless it is installed), `filters`, `similar`, `clients` (eight at a time), `console`, `memory`, `cli`,
`upload` (searches during a bulk job), `notes` (10,000 notes of 1 KB, in a library of their own). `ingest`
builds the library and measures that; a kept library has these numbers already.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import small_notes
from benchmarks.ingest_service import running
from benchmarks.process_tree import child_running, processor_seconds
from benchmarks.scale_corpus import (
    Query,
    QuerySampler,
    limited,
    read_queries,
    shuffled_rounds,
    texts,
    write_queries,
    write_records,
)
from benchmarks.scale_measures import (
    API_MODULE,
    BUDGET_SECONDS,
    SERVED,
    WARM_UP,
    Caller,
    Measured,
    Request,
    latencies,
    measure_cli,
    search,
    size_of,
)
from benchmarks.scale_report import draw, table
from benchmarks.search_latency import percentiles
from shoal.client import Client, Job

SIZES = (35_000, 310_000, 1_000_000)
BYTES_PER_CHUNK = 715
"""Of the books and articles together."""
WORKERS = 2
UPLOAD_BYTES = 25_000_000
"""Size of the bulk job that runs during searches; at most that of the library."""
REPORT_SECONDS = 10.0
NOTES, NOTE_BYTES = 10_000, 1_000
UPLOAD_TIMEOUT_SECONDS = 600.0

LINES = ("ingest", *SERVED, "cli", "upload", "notes")


def measure_upload(
    folder: Path, corpora: Path, queries: Sequence[Query], n_bytes: int, seed: int
) -> dict[str, Any]:
    """Hybrid searches while another bulk job runs. The library grows."""
    records = folder / "records.ndjson"
    write_records(limited(shuffled_rounds(corpora, seed + 1), n_bytes), records)
    times, failed = [], 0
    with (
        running(folder, WORKERS) as service,
        Client(service.address, timeout=UPLOAD_TIMEOUT_SECONDS) as client,
        Caller(service.address) as caller,
    ):
        latencies(service.address, [search(query) for query in queries[:WARM_UP]])
        job = client.upload_records(records)
        deadline = time.perf_counter() + BUDGET_SECONDS
        for turn in itertools.count():
            milliseconds, status, _ = caller.send(search(queries[turn % len(queries)]))
            times.append(milliseconds)
            failed += status != http.client.OK
            if turn % WARM_UP == 0 and client.job(job.id).finished_at is not None:
                break
            if time.perf_counter() > deadline:
                break
    records.unlink()
    return {"hybrid_while_uploading": percentiles(times) | {"failed": failed}}


def build(folder: Path, corpora: Path, size: int, n_queries: int, seed: int) -> dict[str, Any]:
    """Build a library of about `size` chunks in an empty folder, and its queries; returns the cost."""
    records, n_bytes = folder / "records.ndjson", size * BYTES_PER_CHUNK
    sampler = QuerySampler(n_queries, n_bytes, seed)
    text_mb = write_records(sampler.passing(texts(corpora, n_bytes, seed)), records) / 1e6
    write_queries(sampler.queries(), folder / "queries.json")
    with (
        running(folder, WORKERS) as service,
        Client(service.address, timeout=UPLOAD_TIMEOUT_SECONDS) as client,
    ):
        api = child_running(service.pid, API_MODULE)
        all_before, api_before = processor_seconds(service.pid), processor_seconds(api)
        began = time.perf_counter()
        job = finished(client, client.upload_records(records))
        seconds = time.perf_counter() - began
        all_after, api_after = processor_seconds(service.pid), processor_seconds(api)
        with Caller(service.address) as caller:
            status = caller.json(Request("/api/v1/status"))
    if not job.succeeded:
        raise SystemExit(f"the job ended as {job.status}: {job.error}")
    records.unlink()
    return {
        "size": size,
        "chunks": status["n_chunks"],
        "documents": status["n_documents"],
        "text_mb": round(text_mb, 2),
        "mb_per_s": round(text_mb / seconds, 3),
        "processor_s_per_mb": round((all_after - all_before) / text_mb, 3),
        "api_processor_s_per_mb": round((api_after - api_before) / text_mb, 3),
        "stale_chunks": status["n_stale_chunks"],
        "size_ratio": round(size_of(folder.glob("bench.db*")) / 1e6 / text_mb, 3),
    }


def finished(client: Client, job: Job) -> Job:
    """Follow a job to its end and report its progress."""
    reported = time.monotonic()
    for state in client.watch_job(job):
        job = state
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            say(f"  {job.stage}: {job.progress.fraction:.0%}")
    return job


def measure(folder: Path, options: argparse.Namespace, size: int) -> Iterator[dict[str, Any]]:
    """Numbers of a library, line by line. Builds it first unless the folder has it."""
    kept = folder / "library.json"
    if not kept.exists():
        say(f"{size:,} chunks: ingest")
        # A run that was interrupted leaves a part of a library.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        numbers = build(folder, options.corpora, size, options.queries, options.seed)
        kept.write_text(json.dumps(numbers | {"load_per_core": round(load, 2)}), encoding="utf-8")
    ingested = json.loads(kept.read_text(encoding="utf-8"))
    yield ingested
    queries = read_queries(folder / "queries.json")
    served = [name for name in SERVED if name in options.lines]
    if served:
        with running(folder, WORKERS) as service:
            library = Measured(folder, service, queries, ingested["text_mb"], options.seconds)
            for name in served:
                say(f"{size:,} chunks: {name}")
                yield SERVED[name](library)
    if "cli" in options.lines:
        say(f"{size:,} chunks: cli")
        yield measure_cli(folder / "bench.db", queries[0].text, options.runs)
    if "upload" in options.lines:
        say(f"{size:,} chunks: upload")
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(shutil.copytree(folder, Path(scratch, "copy"))) if options.keep else folder
            n_bytes = min(UPLOAD_BYTES, int(ingested["text_mb"] * 1e6))
            yield measure_upload(copy, options.corpora, queries, n_bytes, options.seed)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Measure, and write the numbers to the JSON file after every line."""

    def save() -> None:
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    for size in options.sizes:
        with contextlib.ExitStack() as stack:
            parent = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for numbers in measure(parent / f"{size}-{options.seed}", options, size):
                results["sizes"].setdefault(str(size), {}).update(numbers)
                for name, reason in numbers.items():
                    if name.endswith("_skipped"):
                        say(f"  skipped: {reason}")
                save()
    if "notes" in options.lines:
        say("notes")
        results["notes"] = small_notes.measure(NOTES, NOTE_BYTES, WORKERS, None)
        save()


def names(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        if unknown := set(chosen) - set(allowed):
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))}; possible are {', '.join(allowed)}"
            )
        return chosen

    return parse


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument(
        "--sizes", type=lambda text: [int(size) for size in text.split(",")], default=list(SIZES)
    )
    parser.add_argument("--lines", type=names(LINES), default=list(LINES))
    parser.add_argument("--keep", type=Path, help="folder of the libraries")
    parser.add_argument("--json", type=Path, help="file of the numbers")
    parser.add_argument("--svg", type=Path, help="file for the growth curves")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of the load by eight clients")
    parser.add_argument("--runs", type=int, default=5, help="fresh processes of each command")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.corpora is None and options.json is None:
        parser.error("give the folder of corpora, or the numbers of an earlier run with --json")
    results: dict[str, Any] = {"sizes": {}}
    if options.json and options.json.exists():
        results |= json.loads(options.json.read_text(encoding="utf-8"))
    if options.corpora is not None:
        # Services and temporary libraries are removed then too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        run(options, results)
    sizes = sorted(results["sizes"].values(), key=lambda numbers: numbers["size"])
    print(table(sizes))
    if "notes" in results:
        rate = results["notes"]["notes_per_second"]
        print(f"\n10,000 notes of 1 KB, {WORKERS} workers: {rate} notes a second")
    if options.svg:
        options.svg.write_text(draw(sizes), encoding="utf-8")


if __name__ == "__main__":
    main()
