"""Speed and isolation of notes.

usage: python -m benchmarks.notes FOLDER [--notes 100000] [--owners 10000] [--per-owner 50] [--recalls 100000]
    [--keep DATABASE]

FOLDER has texts as for benchmarks/scale.py; a note is two sentences of them. Prints, for one owner with
`--notes` notes: the time of a first search, the 95th percentile of searches with an environment, and that of
`add` while another process adds notes without a pause. For `--owners` owners: the 95th percentile of recalls
with an index in memory and without, and the number of notes of other owners in all of these and in 1,000
recalls of hostile owners. Each line has the target behind the number. Exits 1 if a foreign note was returned.
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
from pathlib import Path
from typing import Any

from benchmarks.scale_corpus import originals, shuffled_rounds
from shoal import Engine
from shoal.errors import ShoalError

SEARCHES = 400
ADDS = 300
HOSTILE = 1_000
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
    """Add notes of another owner until told to stop."""
    with Engine(database) as engine:
        notes, source = engine.notes.of("bulk"), items(folder, seed=2)
        while not is_over.is_set():
            notes.add_many(itertools.islice(source, 400))
            is_ready.set()


def measure_large(database: Path, folder: Path, n_notes: int) -> None:
    generator = random.Random(3)
    with Engine(database) as engine:
        notes = engine.notes.of("large")
        missing = n_notes - notes.status()["n_active"]
        if missing > 0:
            seconds = seconds_of(lambda: notes.add_many(itertools.islice(items(folder, seed=1), missing)))
            print(f"{missing:,} notes added: {missing / seconds:,.0f} a second", flush=True)
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


def measure_owners(database: Path, folder: Path, n_owners: int, per_owner: int, n_recalls: int) -> int:
    generator = random.Random(4)
    source = items(folder, seed=6)
    with Engine(database) as engine:
        n_added, began = 0, time.perf_counter()
        for number in range(n_owners):
            notes = engine.notes.of(f"owner{number}")
            if notes.status()["n_active"] < per_owner:
                notes.add_many(itertools.islice(source, per_owner))
                n_added += per_owner
        if n_added:
            print(
                f"{n_added:,} notes added: {n_added / (time.perf_counter() - began):,.0f} a second",
                flush=True,
            )
    sample = list(itertools.islice(texts(folder), 5_000))
    n_foreign = 0
    with Engine(database) as engine:
        _ = engine.scorer

        def recall(owner: str) -> float:
            nonlocal n_foreign
            query = query_of(generator.choice(sample), generator)
            notes = engine.notes.of(owner)
            began = time.perf_counter()
            found = notes.recall(query, threshold=0.0)
            seconds = time.perf_counter() - began
            ids = [item.metadata["note_id"] for item in found.results]
            with engine.database.snapshot() as snapshot:
                for note_id in ids:
                    n_foreign += (
                        snapshot.value("SELECT owner FROM notes WHERE id = :id", {"id": note_id}) != owner
                    )
            return seconds

        owners = [f"owner{number}" for number in generator.sample(range(n_owners), min(n_owners, 1_000))]
        size = f"{n_owners:,} owners x {per_owner}"
        line(
            f"{size}: recall without an index in memory",
            [recall(owner) for owner in owners],
            "target: p95 <= 30 ms",
        )
        line(
            f"{size}: recall with an index in memory",
            [recall(owner) for owner in owners],
            "target: p95 <= 30 ms",
        )
        everyone = [recall(f"owner{generator.randrange(n_owners)}") for _ in range(n_recalls)]
        line(f"{size}: {n_recalls:,} random recalls", everyone, "target: p95 <= 30 ms")
        print(f"foreign notes in {n_recalls + 2 * len(owners):,} recalls: {n_foreign}  target: 0")
        n_refused, before = 0, n_foreign
        for i in range(HOSTILE):
            base = HOSTILE_OWNERS[i % len(HOSTILE_OWNERS)]
            owner = (
                base.replace("1", str(generator.randrange(n_owners))) if i >= len(HOSTILE_OWNERS) else base
            )
            try:
                recall(owner)
            except ShoalError:
                n_refused += 1
        print(
            f"foreign notes in {HOSTILE:,} hostile recalls ({n_refused} refused): "
            f"{n_foreign - before}  target: 0"
        )
    return n_foreign


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notes", type=int, default=100_000)
    parser.add_argument("--owners", type=int, default=10_000)
    parser.add_argument("--per-owner", type=int, default=50)
    parser.add_argument("--recalls", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="database that is used and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = options.keep or Path(scratch) / "shoal.db"
        if options.notes:
            measure_large(database, options.folder, options.notes)
        if options.owners:
            return int(
                measure_owners(database, options.folder, options.owners, options.per_owner, options.recalls)
                > 0
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
