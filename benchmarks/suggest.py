"""Time of suggestions at three sizes of a library.

usage: python -m benchmarks.suggest [FOLDER] [--documents 1000,10000,50000] [--seed 1]

Documents with titles, headings and short texts are made of the words of the texts in FOLDER (default: the
sample corpus) by a seed. Queries are beginnings of titles, headings and words, of one letter and more.
Prints for each size the passages, the terms of the index, the seconds that sorting takes once, p50 and p95,
and p95 of the time of the processor, which other programs on the machine do not change.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal import DocFormat, Engine
from shoal.index.kernels import use_compiled
from shoal.words.analysis import tokens_of

SAMPLE = Path(__file__).parent.parent / "shoal" / "sample_corpus"
N_QUERIES = 400
MAX_CORPUS_CHARS = 20_000_000


def words_of(folder: Path) -> list[str]:
    """Return the words of the texts of a folder, in order."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.*"))]
    return tokens_of("\n".join(texts)[:MAX_CORPUS_CHARS])


def documents(words: Sequence[str], n: int, generator: random.Random) -> Iterator[dict[str, Any]]:
    """Yield documents with a title and three headings."""

    def run(length: int) -> str:
        start = generator.randrange(len(words) - length)
        return " ".join(words[start : start + length])

    for number in range(n):
        # New words, as a large library has.
        rare = "".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=9))
        sections = [f"# {run(3)}\n\n{run(30)}.\n" for _ in range(3)]
        yield {
            "title": f"{run(4)} {number}",
            "content": "\n".join([*sections, rare]),
            "format": DocFormat.markdown,
            "source_path": f"{number}.md",
        }


def measure(words: Sequence[str], n: int, seed: int) -> dict[str, Any]:
    """Return the times of suggestions in a library of n documents."""
    generator = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(db_path=Path(folder) / "s.db", learning=False) as engine,
    ):
        engine.ingest_many(documents(words, n, generator))
        # As a service does for a large library.
        use_compiled()
        engine.search("warm")
        started = time.perf_counter()
        engine.suggest("warm")
        sorting = time.perf_counter() - started
        times, cpu_times = [], []
        for _ in range(N_QUERIES):
            start = generator.randrange(len(words) - 3)
            text = " ".join(words[start : start + generator.randint(1, 3)])
            beginning = text[: generator.randint(1, len(text))]
            started, cpu_started = time.perf_counter(), time.thread_time()
            engine.suggest(beginning)
            times.append(1000 * (time.perf_counter() - started))
            cpu_times.append(1000 * (time.thread_time() - cpu_started))
        with engine.database.snapshot() as snapshot:
            library = engine._library.index.of(snapshot)
            n_terms = sum(len(part.segment.text.terms) for part in library.index.parts)
            return {
                "documents": n,
                "passages": library.n_chunks,
                "terms": n_terms,
                "sorting s": round(sorting, 2),
                "p50 ms": round(float(np.percentile(times, 50)), 2),
                "p95 ms": round(float(np.percentile(times, 95)), 2),
                "p95 ms of the processor": round(float(np.percentile(cpu_times, 95)), 2),
            }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--documents", default="1000,10000,50000")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    words = words_of(options.folder)
    for n in map(int, options.documents.split(",")):
        print(json.dumps(measure(words, n, options.seed)), flush=True)


if __name__ == "__main__":
    main()
