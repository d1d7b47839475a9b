"""Cost of learning during ingestion, and independence of the library from the number of processes.

    python benchmarks/two_passes.py SOURCE [--wave-bytes N] [--processes 1 2 4] [--runs N]

SOURCE is a folder of texts or a test collection (corpus.jsonl). Every run is a separate process with
`Engine.ingest_many` on an empty database. Prints one JSON object: for a run without and one with learning,
seconds, MB/s, processor seconds of the process, of its main thread (another thread stores) and by stage, and
peak resident memory; the ratios of wall and processor time with and without learning; the share of documents
whose first analysis was reused; and the SHA-256 of the canonical export for each number of processes. Runs
with one process alternate between
without and with learning, and the fastest counts: on a shared machine, processor time is more reliable than
    wall time.
Exits 1 unless all exports are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.cli.documents import find_files
from shoal.engine import Engine
from shoal.formats.decoding import decode
from shoal.jobs import in_process
from shoal.jobs.stages import score
from shoal.service.process_setup import reduce_collections
from shoal.settings import Settings
from shoal.support.byte_units import MIB


def documents(source: Path) -> Iterator[dict[str, Any]]:
    """The documents of a folder or a collection, as the arguments of `Engine.ingest`."""
    corpus = source / "corpus.jsonl"
    if corpus.exists():
        for line in corpus.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["text"].strip():
                yield {"title": record.get("title") or record["_id"], "content": record["text"]}
        return
    for file in find_files(source, recursive=False):
        content, encoding = decode(file.path.read_bytes(), max_bytes=32 * MIB, min_confidence=0.8)
        yield {"content": content, "encoding": encoding, "source_path": file.path.name}


def run(source: Path, settings: Settings, processes: int) -> dict[str, Any]:
    """Ingest all documents, in this process or in several."""
    reduce_collections()
    stages: Counter[str] = Counter()
    analyzed = Counter[str]()
    process, rescore, rescore_many = in_process.process, score.rescore, score.rescore_many

    def timed(batch: Any, *arguments: Any) -> Any:
        began = time.process_time()
        try:
            return process(batch, *arguments)
        finally:
            stages[batch.stage.value] += time.process_time() - began  # type: ignore[assignment]

    def counted(*arguments: Any, **options: Any) -> Any:
        analyzed["again"] += 1
        return rescore(*arguments, **options)

    def counted_together(documents: Any, *arguments: Any) -> Any:
        analyzed["again"] += len(documents)
        return rescore_many(documents, *arguments)

    in_process.process = timed
    score.rescore, score.rescore_many = counted, counted_together
    with Engine(settings=settings) as engine:
        engine.start()
        began, cpu, of_thread = time.perf_counter(), time.process_time(), time.thread_time()
        with engine.ingest_session() as ingest_session:
            for document in documents(source):
                ingest_session.add(document)
            results = ingest_session.finish(processes=processes)
        seconds = time.perf_counter() - began
        cpu, of_thread = time.process_time() - cpu, time.thread_time() - of_thread
        # Before the export, which takes more memory than ingestion.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status = engine.status()
        exported = hashlib.sha256()
        for line in engine.maintenance.export(canonical=True):
            exported.update(f"{line}\n".encode())
    n = sum(result.error is None and result.duplicate is None for result in results)
    return {
        "documents": n,
        "chunks": status.n_chunks,
        "megabytes": round(status.content_bytes / 1e6, 2),
        "seconds": round(seconds, 2),
        "mb_per_s": round(status.content_bytes / 1e6 / seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "cpu_seconds_of_main_thread": round(of_thread, 2),
        "cpu_seconds_by_stage": {stage: round(value, 2) for stage, value in stages.items()},
        "peak_memory_mb": round(peak / 1000),
        "words_learned": status.n_custom_words,
        "database_mb": round(status.db_bytes / 1e6),
        "analysed_once": round(1 - analyzed["again"] / max(n, 1), 3),
        "sha256": exported.hexdigest(),
    }


def in_a_process(source: Path, *, learning: bool, wave_bytes: int, processes: int = 1) -> dict[str, Any]:
    command = [sys.executable, __file__, str(source), "--wave-bytes", str(wave_bytes), "--child"]
    command += [str(int(learning)), str(processes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("--wave-bytes", type=int, default=64 * MIB)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        learning, processes = map(int, arguments.child)
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(
                database_url=f"sqlite:///{folder}/bench.db",
                learning=bool(learning),
                wave_bytes=arguments.wave_bytes,
            )
            print(json.dumps(run(arguments.source, settings, processes)))
        return 0
    of_runs = {"wave_bytes": arguments.wave_bytes}
    runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for learning in (False, True) * arguments.runs:
        runs[learning].append(in_a_process(arguments.source, learning=learning, **of_runs))
    exports = {f"1, run {n}": run["sha256"] for n, run in enumerate(runs[True], 1)}
    for n in arguments.processes:
        if n > 1:
            result = in_a_process(arguments.source, learning=True, processes=n, **of_runs)
            exports[str(n)] = result["sha256"]
    without, learned = (min(runs[learning], key=lambda run: run["seconds"]) for learning in (False, True))
    print(
        json.dumps(
            {
                "without": without,
                "with": learned,
                "times_as_long": round(learned["seconds"] / without["seconds"], 2),
                "times_as_much_cpu": round(
                    min(run["cpu_seconds"] for run in runs[True])
                    / min(run["cpu_seconds"] for run in runs[False]),
                    2,
                ),
                "sha256_by_processes": exports,
            },
            indent=2,
        )
    )
    return int(len(set(exports.values())) > 1)


if __name__ == "__main__":
    raise SystemExit(main())
