"""What the analysis of words and the index cost: size, ingestion, searches and suggestions.

    python -m benchmarks.words_cost CORPORA [--passages 35000 310000] [--queries 300] [--keep FOLDER]

CORPORA has `books/`, `more-books/` and `wikipedia-vital-1k.jsonl.gz`, as for `benchmarks.scale`, or some of
them; copies with shuffled sentences fill a larger library. All runs in this process, with compiled kernels.
Times are those of the processor. They still vary with other load, so run two versions in turns to compare
them. With `--keep` the libraries stay in a folder, and a further run measures only searches and suggestions.

- index: bytes per passage, and the share of its parts
- ingestion: seconds per MB of text, until all is indexed
- analysis: MB of text per second, from rows of the database to the words that a segment stores, the best of
  three runs
- segment: seconds per MB of text to write a segment of these words, likewise
- search: mean, p50 and p95 of hybrid searches for words of the texts
- suggestions: the same, for beginnings of these queries
"""

from __future__ import annotations

import argparse
import io
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.library_size import SEGMENTS, parts_of_index
from benchmarks.scale import BYTES_PER_CHUNK
from benchmarks.scale_corpus import QuerySampler, Text, texts
from shoal import DocFormat, Engine
from shoal.index.building import write_segment
from shoal.index.kernels import use_compiled
from shoal.index.upkeep import read_documents
from shoal.words.terms import TERMS

SEED = 1
WARM_UP = 20
SAMPLE_BYTES, SAMPLE_RUNS = 20_000_000, 3
"""Text that is analyzed again, at most, and how often."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--passages", type=int, nargs="+", default=[35_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="folder in which the libraries stay")
    arguments = parser.parse_args()
    use_compiled()
    for n_passages in arguments.passages:
        with tempfile.TemporaryDirectory() as scratch:
            database = (arguments.keep or Path(scratch)) / f"words-{n_passages}.db"
            database.parent.mkdir(parents=True, exist_ok=True)
            measure(database, arguments.corpora, n_passages, arguments.queries)


def measure(database: Path, corpora: Path, n_passages: int, n_queries: int) -> None:
    n_bytes = n_passages * BYTES_PER_CHUNK
    sampler = QuerySampler(n_queries + WARM_UP, n_bytes, SEED)
    documents = sampler.passing(texts(corpora, n_bytes, SEED))
    is_new = not database.exists()
    with Engine(db_path=database) as engine:
        if is_new:
            seconds = ingest(engine, documents)
        else:
            for _ in documents:
                pass
        n_chunks, text_bytes = sizes(engine)
        print(f"{n_chunks:,} passages, {text_bytes / 1e6:.1f} MB of text")
        if is_new:
            print(f"  ingestion    {seconds / text_bytes * 1e6:8.3f} processor s/MB")
        print_index(database, n_chunks)
        print_analysis(engine)
        queries = [query.text for query in sampler.queries()]
        print_times("search", engine.search, queries)
        generator = random.Random(SEED)
        print_times("suggestions", engine.suggest, [_beginning(text, generator) for text in queries])


def ingest(engine: Engine, documents: Iterable[Text]) -> float:
    """Ingest texts and return the seconds of the processor."""
    read = 0.0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal read
        started = time.process_time()
        for text in documents:
            is_markdown = text.path.endswith(".md")
            read += time.process_time() - started
            yield {
                "title": text.title,
                "content": text.content,
                "format": DocFormat.markdown if is_markdown else DocFormat.plaintext,
                "source_path": text.path,
            }
            started = time.process_time()

    started = time.process_time()
    engine.ingest_many(records())
    return time.process_time() - started - read


def sizes(engine: Engine) -> tuple[int, int]:
    """Return the passages of a library and the bytes of its texts."""
    with engine.database.snapshot() as snapshot:
        n_chunks = snapshot.value("SELECT COUNT(*) FROM chunks")
        return int(n_chunks), int(snapshot.value("SELECT SUM(n_bytes) FROM documents"))


def print_index(database: Path, n_chunks: int) -> None:
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        n_segments = len(connection.execute(SEGMENTS).fetchall())
        parts = list(parts_of_index(connection, Path(f"{database}-index")))
    total = sum(n_bytes for _, n_bytes in parts)
    print(f"  index        {total / n_chunks:8.1f} bytes per passage, {n_segments} segments")
    for name, n_bytes in sorted(parts, key=lambda part: -part[1]):
        print(f"    {n_bytes / n_chunks:8.1f} {name.partition(': ')[2]}")


def print_analysis(engine: Engine) -> None:
    ids: list[int] = []
    n_bytes = 0
    with engine.database.snapshot() as snapshot:
        for document_id, size in snapshot.tuples("SELECT id, n_bytes FROM documents ORDER BY id"):
            if ids and n_bytes + size > SAMPLE_BYTES:
                break
            ids.append(document_id)
            n_bytes += size
        reading, writing = [], []
        for _ in range(SAMPLE_RUNS):
            started = time.thread_time()
            documents = list(read_documents(snapshot, ids))
            reading.append(time.thread_time() - started)
            started = time.thread_time()
            write_segment(documents, TERMS, io.BytesIO())
            writing.append(time.thread_time() - started)
    print(f"  analysis     {n_bytes / 1e6 / min(reading):8.2f} MB per processor second")
    print(f"  segment      {min(writing) / n_bytes * 1e6:8.3f} processor s/MB")


def print_times(name: str, run: Callable[[str], object], queries: Sequence[str]) -> None:
    times = []
    for query in queries:
        started = time.thread_time()
        run(query)
        times.append(1000 * (time.thread_time() - started))
    times = times[WARM_UP:]
    median, tail = np.percentile(times, [50, 95])
    print(f"  {name:12} {np.mean(times):8.2f} processor ms, p50 {median:.2f}, p95 {tail:.2f}", flush=True)


def _beginning(text: str, generator: random.Random) -> str:
    """The first characters of a query, at least one."""
    return text[: generator.randint(1, min(len(text), 20))]


if __name__ == "__main__":
    main()
