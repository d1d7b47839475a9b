"""Speed of notes; `benchmarks/note_isolation.py` shows that owners do not see each other's.

usage: python -m benchmarks.notes FOLDER [--notes 100000] [--owners 10000] [--per-owner 50] [--processes 2]
    [--keep DATABASE]

FOLDER has texts as for benchmarks/scale.py; a note is two sentences of them. Prints, for one owner with
`--notes` notes: the time of a first search, the 95th percentile of searches with an environment, and that
of `add` while another process adds notes without a pause. For `--owners` owners: the 95th percentile of
recalls with an index in memory and without. The notes of these owners are stored as an import stores them,
by `--processes` processes. The times of recalls are those of the processor, so that other programs of the
machine do not count. Each line has the target behind the number.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import multiprocessing.synchronize
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.scale_corpus import originals, shuffled_rounds
from shoal import Engine
from shoal.notes.note_records import ImportedNote, checked_note, store_notes

SEARCHES = 400
ADDS = 300
STORED_TOGETHER = 500
"""Notes of one transaction of the owners' notes."""
TAGS = [f"tag{number}" for number in range(60)]
CATEGORIES = [f"area{area}/part{part}" for area in range(8) for part in range(6)]
SENTENCE = re.compile(r"[^.!?]{20,200}[.!?]")
WORD = re.compile(r"[^\W\d_]{3,}")


def texts(folder: Path) -> Iterator[str]:
    """Two sentences each, without end."""
    for text in itertools.chain(originals(folder), shuffled_rounds(folder, seed=1)):
        sentences = SENTENCE.findall(" ".join(text.content.split()))
        for first, second in zip(sentences[::2], sentences[1::2], strict=False):
            yield f"{first.strip()} {second.strip()}"


def items(folder: Path, seed: int) -> Iterator[dict[str, Any]]:
    """Notes as arguments of `OwnerNotes.add`."""
    generator = random.Random(seed)
    for text in texts(folder):
        yield {
            "text": text,
            "tags": generator.sample(TAGS, generator.randint(0, 3)),
            "categories": [generator.choice(CATEGORIES)],
            "prerequisites": {"os": ["linux"]} if generator.random() < 0.1 else None,
        }


def query_of(text: str, generator: random.Random) -> str:
    words = WORD.findall(text)
    return " ".join(generator.sample(words, min(len(words), generator.randint(2, 8)))) or "rain"


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def line(name: str, seconds: Sequence[float], target: str) -> None:
    p50, p95 = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    print(f"{name:<58} p50 {1000 * p50:7.1f} ms  p95 {1000 * p95:7.1f} ms  {target}", flush=True)


def keep_adding(
    database: Path,
    folder: Path,
    is_ready: multiprocessing.synchronize.Event,
    is_over: multiprocessing.synchronize.Event,
) -> None:
    """Add notes of another owner until the end of the measurement."""
    with Engine(database) as engine:
        notes, source = engine.notes.of("bulk"), items(folder, seed=2)
        while not is_over.is_set():
            notes.add_many(itertools.islice(source, 400))
            is_ready.set()


def measure_large(database: Path, folder: Path, n_notes: int) -> None:
    generator = random.Random(3)
    with Engine(database) as engine:
        notes = engine.notes.of("large")
        source, began, before = items(folder, seed=1), time.perf_counter(), notes.status().n_active
        # Some texts are there twice, and count as one note.
        while (missing := n_notes - notes.status().n_active) > 0:
            notes.add_many(itertools.islice(source, missing))
        if before < n_notes:
            rate = (n_notes - before) / (time.perf_counter() - began)
            print(f"{n_notes - before:,} notes added: {rate:,.0f} a second", flush=True)
    sample = list(itertools.islice(texts(folder), 2_000))
    environment = {"os": "linux", "tags": TAGS[:12]}
    with Engine(database) as engine:
        notes = engine.notes.of("large")
        _ = engine.scorer
        first = seconds_of(lambda: notes.search("rain and storm"))
        print(f"{n_notes:,} notes: first search of a process {first:.2f} s")
        queries = [query_of(text, generator) for text in generator.sample(sample, SEARCHES)]
        searches = [
            seconds_of(lambda query=query: notes.search(query, environment=environment)) for query in queries
        ]
        line(f"{n_notes:,} notes: search", searches, "target: p95 <= 30 ms")
        recalls = [seconds_of(lambda query=query: notes.recall(query)) for query in queries]
        line(f"{n_notes:,} notes: recall", recalls, "")
        alone = [
            seconds_of(lambda text=text: notes.add(text)) for text in itertools.islice(fresh(folder, 4), ADDS)
        ]
        line(f"{n_notes:,} notes: add, alone", alone, "")
        context = multiprocessing.get_context("spawn")
        is_ready, is_over = context.Event(), context.Event()
        adder = context.Process(target=keep_adding, args=(database, folder, is_ready, is_over))
        adder.start()
        try:
            is_ready.wait()
            adds = [
                seconds_of(lambda text=text: notes.add(text))
                for text in itertools.islice(fresh(folder, 5), ADDS)
            ]
        finally:
            is_over.set()
            adder.join()
        line(f"{n_notes:,} notes: add, during a bulk upload", adds, "target: p95 <= 20 ms")


def fresh(folder: Path, seed: int) -> Iterator[str]:
    """Texts that are not stored yet: pairs of sentences that do not follow each other."""
    generator = random.Random(f"{seed} {time.time()}")
    sample = [SENTENCE.findall(text) for text in itertools.islice(texts(folder), 3_000)]
    pairs = [sentences for sentences in sample if len(sentences) == 2]
    while True:
        first, second = generator.sample(pairs, 2)
        yield f"{first[0].strip()} {second[1].strip()}"


def fill_owners(database: Path, folder: Path, owners: Sequence[int], per_owner: int) -> int:
    """Give each owner the notes that are missing; return how many were stored."""
    n_stored, source = 0, items(folder, seed=100 + owners[0])
    with Engine(database) as engine:
        waiting: list[ImportedNote] = []
        for number in owners:
            owner = f"owner{number}"
            missing = per_owner - engine.notes.of(owner).status().n_active
            waiting += [
                checked_note(engine.settings, {**item, "owner": owner})
                for item in itertools.islice(source, max(0, missing))
            ]
            if len(waiting) >= STORED_TOGETHER or number == owners[-1]:
                stored = store_notes(engine.database, engine.scorer, engine.settings, waiting)
                n_stored += sum(note.is_new for note in stored)
                waiting.clear()
    return n_stored


def measure_owners(database: Path, folder: Path, n_owners: int, per_owner: int, n_processes: int) -> None:
    began = time.perf_counter()
    with Engine(database) as engine:
        engine.notes.of("owner0").status()
    with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn")) as pool:
        bounds = [i * n_owners // n_processes for i in range(n_processes + 1)]
        fills = [
            pool.submit(fill_owners, database, folder, range(first, end), per_owner)
            for first, end in itertools.pairwise(bounds)
        ]
        n_added = sum(fill.result() for fill in fills)
    if n_added:
        print(f"{n_added:,} notes added: {n_added / (time.perf_counter() - began):,.0f} a second", flush=True)
    sample = list(itertools.islice(texts(folder), 5_000))
    generator = random.Random("few")
    with Engine(database) as engine:
        _ = engine.scorer
        chosen = generator.sample(range(n_owners), min(n_owners, 1_000))
        owners = [engine.notes.of(f"owner{number}") for number in chosen]
        for state in ("without", "with"):
            seconds = []
            for notes in owners:
                query = query_of(generator.choice(sample), generator)
                began = time.process_time()
                notes.recall(query, threshold=0.0)
                seconds.append(time.process_time() - began)
            name = f"{n_owners:,} owners x {per_owner}: recall {state} an index in memory"
            line(name, seconds, "target: p95 <= 8 ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notes", type=int, default=100_000)
    parser.add_argument("--owners", type=int, default=10_000)
    parser.add_argument("--per-owner", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="database that is used and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = options.keep or Path(scratch) / "shoal.db"
        if options.notes:
            measure_large(database, options.folder, options.notes)
        if options.owners:
            measure_owners(database, options.folder, options.owners, options.per_owner, options.processes)


if __name__ == "__main__":
    main()
