"""Memory of ingesting one document, by its size; it decides the memory of a worker process.

    python benchmarks/document_memory.py FOLDER [--megabytes 1 4 16 32] [--limit-mb N]

Documents are concatenated from the texts of FOLDER (.md, .markdown, .txt), repeated as needed. A separate
process with an empty library ingests each. Prints a line of JSON for one line of text, then one for each
size: peak resident memory (MB), the bytes that the document added to it for each of its own bytes, and
    processor seconds. A megabyte is 1,048,576
bytes, as in `SHOAL_MAX_DOCUMENT_BYTES`. `--limit-mb` limits the process as `SHOAL_WORKER_MEMORY_BYTES` limits
a worker, and the output says whether the document fits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from shoal import Engine

MIB = 1024 * 1024
SUFFIXES = {".md", ".markdown", ".txt"}
RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Unit of `ru_maxrss` in bytes; macOS has another."""


def text_of(folder: Path, n_bytes: int) -> str:
    """Text of a given number of bytes from the folder's texts."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
    data = bytearray()
    for path in itertools.cycle(paths):
        data += path.read_bytes()
        if len(data) >= n_bytes:
            return data[:n_bytes].decode("utf-8", errors="ignore")
    raise SystemExit(f"there is no text in {folder}")


def measured(text: str, limit: int) -> tuple[float, float, bool]:
    """Peak resident memory in bytes and processor seconds of this process, and whether the document fits."""
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    fits = True
    with tempfile.TemporaryDirectory() as scratch, Engine(db_path=Path(scratch) / "shoal.db") as engine:
        try:
            engine.ingest(title="A long text", content=text, format="markdown")
        except MemoryError:
            fits = False
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT, time.process_time(), fits


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--limit-mb", type=int, default=0)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    idle = 0.0
    for size in (0, *options.megabytes):
        text = text_of(options.folder, size * MIB) if size else "The Moon pulls at the sea."
        with context.Pool(1, maxtasksperchild=1) as pool:
            peak, seconds, fits = pool.apply(measured, (text, options.limit_mb * MIB))
        idle = idle or peak
        print(
            json.dumps(
                {
                    "document_mb": size,
                    "peak_mb": round(peak / MIB),
                    "per_byte": round((peak - idle) / (size * MIB)) if size else None,
                    "processor_s": round(seconds, 1),
                    "fits": fits,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
