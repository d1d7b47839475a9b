"""Speed and isolation of notes.

usage: python -m benchmarks.notes FOLDER [--notes 100000] [--owners 10000] [--per-owner 50]
    [--recalls 1000000] [--processes 2] [--keep DATABASE]

FOLDER has texts as for benchmarks/scale.py; a note is two sentences of them. Prints, for one owner with
`--notes` notes: the time of a first search, the 95th percentile of searches with an environment, and that of
`add` while another process adds notes without a pause. For `--owners` owners: the 95th percentile of recalls
with an index in memory and without, and the number of notes of other owners in these, in `--recalls` recalls
of random owners with queries of one or two words, and in 1,000 recalls of hostile owners. The random recalls
run in `--processes` processes, each with its share of the owners; every one is a call of `OwnerNotes.recall`.
A process goes through its owners in groups, so that their indexes stay in memory, and alternates between the
owners of a group at random. The notes of these owners are stored as an import stores them. The times of
recalls are those of the processor, so that other programs of the machine do not count. The number of random
recalls that are done is printed as they go on. Each line has the target behind the number. Exits 1 if a
foreign note was returned.
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
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.scale_corpus import originals, shuffled_rounds
from shoal import Engine
from shoal.errors import ShoalError
from shoal.notes.note_records import ImportedNote, checked_note, store_notes

SEARCHES = 400
ADDS = 300
HOSTILE = 1_000
RECALLED_IN_TURN = 10_000
"""Random recalls after which their number is printed."""
RECALLED_TOGETHER = 50
"""Owners between whom the random recalls alternate."""
STORED_TOGETHER = 500
"""Notes of one transaction of the owners' notes."""
TAGS = [f"tag{number}" for number in range(60)]
CATEGORIES = [f"area{area}/part{part}" for area in range(8) for part in range(6)]
SENTENCE = re.compile(r"[^.!?]{20,200}[.!?]")
WORD = re.compile(r"[^\W\d_]{3,}")

HOSTILE_OWNERS = (
    "owner%", "owner_", "%", "_", "*", "owner1' OR '1'='1", 'owner1" --', "owner1; DROP TABLE notes",
    "0wner1",
    "оwner1", "ｏwner1", "Owner1", "OWNER1", " owner1", "owner1 ", "owner1\u200b", "owner1\u0301", "owner01",
    "owner1.0", "../owner1", "", " ", "a" * 201, "owner1\x00", "owner1\n", "\ud800", "owner1/owner2",
    "owner1,owner2", "NULL", "true", "1", "-1", "[1]", "{}", "owner1\\", "$owner1", "${owner1}", ":owner",
)  # fmt: skip


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


class Recalls:
    """Recalls that count the notes of other owners in their results."""

    def __init__(self, engine: Engine, seed: object, sample: Sequence[str]) -> None:
        self._engine = engine
        self._sample = sample
        self.generator = random.Random(repr(seed))
        self.n_foreign = self.n_notes = 0
        with engine.database.snapshot() as snapshot:
            self._owners = dict(snapshot.tuples("SELECT id, owner FROM notes"))

    def run(self, owner: str, *, most_words: int = 8) -> float:
        """Recall with a random query; return the processor seconds that it took."""
        words = query_of(self.generator.choice(self._sample), self.generator).split()[:most_words]
        notes = self._engine.notes.of(owner)
        began = time.process_time()
        found = notes.recall(" ".join(words), threshold=0.0)
        seconds = time.process_time() - began
        self.n_notes += len(found.results)
        self.n_foreign += sum(self._owners[item.metadata["note_id"]] != owner for item in found.results)
        return seconds


def recall_at_random(
    database: Path, sample: Sequence[str], numbers: range, n_recalls: int, turn: int
) -> tuple[list[float], int, int]:
    """Return the seconds of recalls of random owners among those with these numbers, and how many notes and
    foreign notes they found. `turn`: another one has other recalls."""
    with Engine(database) as engine:
        _ = engine.scorer
        recalls = Recalls(engine, (numbers, turn), sample)
        drawn = [recalls.generator.choice(numbers) for _ in range(n_recalls)]
        drawn.sort(key=lambda number: number // RECALLED_TOGETHER)
        seconds = [
            recalls.run(f"owner{number}", most_words=recalls.generator.randint(1, 2)) for number in drawn
        ]
        return seconds, recalls.n_notes, recalls.n_foreign


def measure_owners(
    database: Path, folder: Path, n_owners: int, per_owner: int, n_recalls: int, n_processes: int
) -> int:
    """Return the number of foreign notes."""
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
            rate = n_added / (time.perf_counter() - began)
            print(f"{n_added:,} notes added: {rate:,.0f} a second", flush=True)
        size = f"{n_owners:,} owners x {per_owner}"
        sample = list(itertools.islice(texts(folder), 5_000))
        with Engine(database) as engine:
            _ = engine.scorer
            recalls = Recalls(engine, "few", sample)
            chosen = recalls.generator.sample(range(n_owners), min(n_owners, 1_000))
            owners = [f"owner{number}" for number in chosen]
            for state in ("without", "with"):
                seconds = [recalls.run(owner) for owner in owners]
                line(f"{size}: recall {state} an index in memory", seconds, "target: p95 <= 8 ms")
            n_refused = hostile_recalls(recalls, n_owners)
            n_foreign = recalls.n_foreign
            print(
                f"foreign notes in {2 * len(owners):,} recalls and {HOSTILE:,} hostile ones "
                f"({n_refused} refused): {n_foreign}  target: 0",
                flush=True,
            )
        each, began = min(RECALLED_IN_TURN, max(1, n_recalls // n_processes)), time.perf_counter()
        jobs = [
            pool.submit(recall_at_random, database, sample, range(first, end), each, turn)
            for turn in range(n_recalls // (each * n_processes))
            for first, end in itertools.pairwise(bounds)
        ]
        done = []
        for job in as_completed(jobs):
            done.append(job.result())
            n_done, n_foreign_so_far = each * len(done), sum(foreign for _, _, foreign in done)
            print(f"{n_done:,} random recalls done, {n_foreign_so_far} foreign notes", flush=True)
        minutes = (time.perf_counter() - began) / 60
    everyone = [second for seconds, _, _ in done for second in seconds]
    line(f"{size}: {len(everyone):,} random recalls", everyone, "target: p95 <= 8 ms")
    n_found, n_random = sum(n for _, n, _ in done), sum(n for _, _, n in done)
    print(
        f"foreign notes among {n_found:,} in {len(everyone):,} random recalls, in {minutes:.1f} minutes: "
        f"{n_random}  target: 0",
        flush=True,
    )
    return n_foreign + n_random


def hostile_recalls(recalls: Recalls, n_owners: int) -> int:
    """Recall for owners whose names are attacks; return how many were refused."""
    n_refused = 0
    for i in range(HOSTILE):
        owner = HOSTILE_OWNERS[i % len(HOSTILE_OWNERS)]
        if i >= len(HOSTILE_OWNERS):
            owner = owner.replace("1", str(recalls.generator.randrange(n_owners)))
        try:
            recalls.run(owner)
        except ShoalError:
            n_refused += 1
    return n_refused


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notes", type=int, default=100_000)
    parser.add_argument("--owners", type=int, default=10_000)
    parser.add_argument("--per-owner", type=int, default=50)
    parser.add_argument("--recalls", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="database that is used and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = options.keep or Path(scratch) / "shoal.db"
        if options.notes:
            measure_large(database, options.folder, options.notes)
        if options.owners:
            n_foreign = measure_owners(
                database,
                options.folder,
                options.owners,
                options.per_owner,
                options.recalls,
                options.processes,
            )
            return int(n_foreign > 0)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
