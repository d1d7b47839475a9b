"""Time of the console's pages of notes with many notes of one owner.

usage: python -m benchmarks.note_pages [--notes 1000 10000 100000] [--requests 60]

Requests of the list, of the list with a filter and of a search, in this process and without a network, in a
library that holds the notes of one owner. "counted" counts the notes by category for each request, as the
pages did before the numbers were stored. Both take turns, so that the load of the machine is the same. Also
prints the time of adding the notes, with the triggers that store the numbers and without.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import logging
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog

from shoal import Engine
from shoal.models.notes import CategoryCount
from shoal.notes.note_records import checked_note, store_notes
from shoal.notes.note_rows import NoteRows
from shoal.settings import Settings
from shoal_api import create_app

SAMPLES = Path(__file__).parents[1] / "shoal" / "sample_corpus"
SENTENCE = re.compile(r"[^.!?#]{20,200}[.!?]")
CATEGORIES = [f"area{area}/part{part}" for area in range(40) for part in range(25)]
TAGS = [f"tag{number}" for number in range(60)]
QUERIES = ("why do plants need insects", "price of labour", "ash of a volcano", "votes of a council")
STORED_TOGETHER = 500
ADDS = 200

BY_SETS = """
    SELECT paths, COUNT(*) FROM (
        SELECT group_concat(c.path, char(10)) AS paths
        FROM notes n CROSS JOIN note_categories c ON c.note_id = n.id
        WHERE n.owner = :owner AND n.deprecated_at IS NULL GROUP BY n.id)
    GROUP BY paths
"""


def counted(rows: NoteRows, limit: int | None = None) -> Sequence[CategoryCount]:
    """Count the notes of an owner by category, without the stored numbers."""
    own, below = Counter[str](), Counter[str]()
    for joined, n in rows._snapshot.tuples(BY_SETS, {"owner": rows.owner}):
        paths = [path.split("/") for path in joined.split("\n")]
        own.update(dict.fromkeys(map("/".join, paths), n))
        above = {"/".join(path[:end]) for path in paths for end in range(1, len(path) + 1)}
        below.update(dict.fromkeys(above, n))
    return [CategoryCount(path, own[path], n) for path, n in sorted(below.items())][:limit]


def items(seed: int) -> Iterator[dict[str, Any]]:
    """Notes of two sentences of the sample articles, without end."""
    generator = random.Random(seed)
    sentences = [
        " ".join(sentence.split())
        for path in sorted(SAMPLES.glob("*.md"))
        for sentence in SENTENCE.findall(path.read_text(encoding="utf-8"))
    ]
    for number in itertools.count(1):
        yield {
            "text": f"{' '.join(generator.sample(sentences, 2))} ({seed}.{number})",
            "tags": generator.sample(TAGS, generator.randint(0, 3)),
            "categories": generator.sample(CATEGORIES, generator.randint(0, 2)),
        }


def fill(engine: Engine, n_notes: int) -> None:
    """Store notes as an import does, until there are `n_notes`."""
    source = items(1)
    missing = n_notes - engine.notes.of("default").status().n_active
    for first in range(0, missing, STORED_TOGETHER):
        batch = itertools.islice(source, min(STORED_TOGETHER, missing - first))
        notes = [checked_note(engine.settings, {**item, "owner": "default"}) for item in batch]
        store_notes(engine.database, engine.scorer, engine.settings, notes)


def measure(n_notes: int, n_requests: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = dataclasses.replace(Settings(), database_url=f"sqlite:///{folder}/shoal.db", rate_limit=0)
        with Engine(settings=settings) as engine:
            fill(engine, n_notes)
            client = create_app(settings, engine=engine).test_client()
            stored = NoteRows.categories
            for name, address in (
                ("list", "/notes"),
                ("list of a category", "/notes?category=area3"),
                ("search", "/notes?q="),
            ):
                seconds: dict[str, list[float]] = {"counted": [], "stored": []}
                for number in range(n_requests + 2):
                    query = QUERIES[number % len(QUERIES)] if address.endswith("=") else ""
                    for way, categories in (("counted", counted), ("stored", stored)):
                        NoteRows.categories = categories  # type: ignore[method-assign]
                        took = seconds_of(lambda path=address + query: client.get(path))
                        if number > 1:  # the first requests build the index
                            seconds[way].append(took)
                NoteRows.categories = stored  # type: ignore[method-assign]
                report(f"{n_notes:>7,} notes, {name}", seconds["counted"], seconds["stored"])
            measure_adds(engine, n_notes)


def measure_adds(engine: Engine, n_notes: int) -> None:
    """Time `add` with and without categories: the triggers work for categories alone."""
    notes, seconds = engine.notes.of("default"), {True: list[float](), False: list[float]()}
    for item in itertools.islice(items(2), ADDS):
        for has_categories in (True, False):
            categories = CATEGORIES[:2] if has_categories else ()
            text = f"{item['text']} {has_categories}"
            seconds[has_categories].append(
                seconds_of(lambda text=text, categories=categories: notes.add(text, categories=categories))
            )
    report(f"{n_notes:>7,} notes, add", seconds[True], seconds[False], ("two categories", "none"))


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def report(
    name: str, first: Sequence[float], second: Sequence[float], names: tuple[str, str] = ("counted", "stored")
) -> None:
    """Print the 95th percentiles of both, in milliseconds, and their ratio."""
    p95 = [1000 * statistics.quantiles(each, n=20)[-1] for each in (first, second)]
    p50 = [1000 * statistics.median(each) for each in (first, second)]
    print(
        f"{name:<36} {names[0]}: p50 {p50[0]:6.1f} p95 {p95[0]:6.1f} ms   "
        f"{names[1]}: p50 {p50[1]:6.1f} p95 {p95[1]:6.1f} ms   {p95[0] / p95[1]:5.1f} times",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--requests", type=int, default=60)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for n_notes in arguments.notes:
        measure(n_notes, arguments.requests)


if __name__ == "__main__":
    main()
