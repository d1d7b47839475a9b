"""What a library of any size takes, from what libraries of three sizes took: `python -m benchmarks.capacity`.

    python -m benchmarks.capacity [--text-tb 1.0] [--p95-ms 250] [--cores 64] [--memory-gb 256]
        [--searches 10]

Reads the measured numbers from the table of `docs/scale.md`, fits one line to each cost, and prints what the
lines say for another size, in machines with `--cores` and `--memory-gb`. First it prints how well each line
predicts the middle and the largest size from the two others. All beyond the largest size is extrapolated.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SCALE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
ROWS = {
    "chunks": "chunks",
    "text": "text, MB",
    "processor": "processor seconds per MB, two passes, all processes",
    "bytes": "database and index, times the text",
    "search": "… processor ms of the API for a search",
    "private": "API memory, private, after the searches, MB",
    "mapped": "… and mapped files, which processes share, MB",
}
P95_ROW = "hybrid, p50 / p95 ms"

INDEX_SHARE = 0.8 / 3.4
"""Part of the bytes that is index: 0.8 of 3.4 times the text (docs/scale.md, what the bytes hold)."""
WRITER_SHARE = 0.13
"""Part of the workers' time in write transactions, which run one at a time (docs/scale.md)."""
INDEX_TIME_SHARE = 0.12
"""Part of the workers' time for the index. On several machines each API spends it (docs/scale.md)."""
COPY_MB_A_SECOND = 200.0
"""Assumed, not measured: what a base backup or a restore reads and writes over a network."""


@dataclass(frozen=True, slots=True)
class Line:
    """A cost `a + b · x`, where x is the number of chunks in millions, or the logarithm of the text in MB."""

    a: float
    b: float
    is_logarithmic: bool

    def at(self, size: float) -> float:
        return self.a + self.b * (math.log(size) if self.is_logarithmic else size)


def measured(page: str) -> dict[str, list[float]]:
    """Return the numbers of the table, by the keys of ROWS and `p95`. Raises ValueError without a row."""
    found = {}
    for key, title in {**ROWS, "p95": P95_ROW}.items():
        row = re.search(rf"^\| {re.escape(title)} \|(.*)\|$", page, re.MULTILINE)
        if row is None:
            raise ValueError(f"docs/scale.md has no row {title!r}")
        cells = [cell.split("/")[-1].replace(",", "").strip() for cell in row[1].split("|")]
        found[key] = [float(cell) for cell in cells]
    return found


def fit(sizes: Sequence[float], costs: Sequence[float], *, is_logarithmic: bool) -> Line:
    """Return the line of least squares through costs at sizes."""
    xs = [math.log(size) if is_logarithmic else size for size in sizes]
    mean_x, mean_y = sum(xs) / len(xs), sum(costs) / len(costs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, costs, strict=True))
    slope /= sum((x - mean_x) ** 2 for x in xs)
    return Line(mean_y - slope * mean_x, slope, is_logarithmic)


@dataclass(frozen=True, slots=True)
class Cost:
    """A measured cost: its row, how it grows (by the logarithm of the text or by the chunks), its unit."""

    key: str
    title: str
    is_logarithmic: bool


COSTS = (
    Cost("processor", "ingestion, processor s/MB", True),
    Cost("bytes", "disk, times the text", True),
    Cost("search", "search, processor ms", False),
    Cost("p95", "search, p95 ms", False),
    Cost("private", "private memory, MB", False),
    Cost("mapped", "mapped index, MB", False),
)


def lines(rows: dict[str, list[float]], without: int | None = None) -> dict[str, Line]:
    """Return the line of each cost, fitted to all measured sizes or to those but one."""
    kept = [i for i in range(len(rows["chunks"])) if i != without]
    found = {}
    for cost in COSTS:
        sizes = rows["text"] if cost.is_logarithmic else [n / 1e6 for n in rows["chunks"]]
        found[cost.key] = fit(
            [sizes[i] for i in kept], [rows[cost.key][i] for i in kept], is_logarithmic=cost.is_logarithmic
        )
    return found


def check(rows: dict[str, list[float]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return for each cost (predicted, measured) at the middle and the largest size, from the other two."""
    checks = []
    for cost in COSTS:
        pairs = []
        for i in (1, 2):
            size = rows["text"][i] if cost.is_logarithmic else rows["chunks"][i] / 1e6
            pairs.append((lines(rows, without=i)[cost.key].at(size), rows[cost.key][i]))
        checks.append((cost.title, pairs))
    return checks


@dataclass(frozen=True, slots=True)
class Demand:
    """text_mb: the library. p95_ms: a search, at most. cores, memory_gb: a machine. searches: a second."""

    text_mb: float
    p95_ms: float
    cores: int
    memory_gb: float
    searches: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What `shards` equal parts take together, unless the field says otherwise.

    shard_seconds: writing one part with one writer. search_ms, search_processor_ms: of one part.
    index_gb, private_gb: memory of one API for each part. copy_hours: of the database of one part.
    """

    shards: int
    chunks_millions: float
    core_hours: float
    writer_hours: float
    database_tb: float
    index_gb: float
    private_gb: float
    index_core_hours: float
    search_p95_ms: float
    search_processor_s: float
    memory_machines: int
    search_machines: int
    copy_hours: float


def plan(rows: dict[str, list[float]], demand: Demand, shards: int) -> Plan:
    """Return what the demand takes in equal parts."""
    line = lines(rows)
    chunks = demand.text_mb * rows["chunks"][-1] / rows["text"][-1] / 1e6
    part_mb, part_chunks = demand.text_mb / shards, chunks / shards
    processor = line["processor"].at(part_mb)
    times_text = line["bytes"].at(part_mb)
    index_mb = line["mapped"].at(part_chunks)
    private_mb = line["private"].at(part_chunks)
    search_s = shards * line["search"].at(part_chunks) / 1000
    memory_gb = shards * (index_mb + private_mb) / 1000
    return Plan(
        shards=shards,
        chunks_millions=chunks,
        core_hours=demand.text_mb * processor / 3600,
        writer_hours=part_mb * processor * WRITER_SHARE / 3600,
        database_tb=demand.text_mb * times_text * (1 - INDEX_SHARE) / 1e6,
        index_gb=shards * index_mb / 1000,
        private_gb=shards * private_mb / 1000,
        index_core_hours=demand.text_mb * processor * INDEX_TIME_SHARE / 3600,
        search_p95_ms=line["p95"].at(part_chunks),
        search_processor_s=search_s,
        memory_machines=math.ceil(memory_gb / demand.memory_gb),
        search_machines=math.ceil(search_s * demand.searches / demand.cores),
        copy_hours=part_mb * times_text * (1 - INDEX_SHARE) / COPY_MB_A_SECOND / 3600,
    )


def largest_part(rows: dict[str, list[float]], p95_ms: float) -> float:
    """Return the chunks, in millions, that one index searches within a time."""
    line = lines(rows)["p95"]
    return (p95_ms - line.a) / line.b


def shards_for(rows: dict[str, list[float]], demand: Demand) -> int:
    """Return the fewest parts that are searched within the time."""
    chunks = demand.text_mb * rows["chunks"][-1] / rows["text"][-1] / 1e6
    return max(1, math.ceil(chunks / largest_part(rows, demand.p95_ms)))


PLAN_ROWS: tuple[tuple[str, Callable[[Plan], str]], ...] = (
    ("chunks, millions", lambda p: f"{p.chunks_millions:,.0f}"),
    ("ingestion, core hours", lambda p: f"{p.core_hours:,.0f}"),
    ("ingestion, hours if the writer of a part is always busy", lambda p: f"{p.writer_hours:,.1f}"),
    ("databases, TB", lambda p: f"{p.database_tb:.2f}"),
    ("index, one copy, GB of memory and disk", lambda p: f"{p.index_gb:,.0f}"),
    ("… and private memory of the APIs, GB", lambda p: f"{p.private_gb:,.0f}"),
    ("… core hours to build one copy", lambda p: f"{p.index_core_hours:,.0f}"),
    ("search of a part, p95 ms", lambda p: f"{p.search_p95_ms:,.0f}"),
    ("search of everything, processor seconds", lambda p: f"{p.search_processor_s:,.1f}"),
    ("machines for the memory of one copy", lambda p: f"{p.memory_machines:,}"),
    ("machines for the searches", lambda p: f"{p.search_machines:,}"),
    ("base backup or restore of a part, hours", lambda p: f"{p.copy_hours:,.2f}"),
)


def report(rows: dict[str, list[float]], demand: Demand) -> str:
    """Return both tables in Markdown."""
    text = ["| predicted from the two other sizes | 310,000 chunks | 1,000,000 chunks |", "|---|---:|---:|"]
    for title, pairs in check(rows):
        cells = [f"{p:,.2f} ({100 * (p / m - 1):+.0f} %)" for p, m in pairs]
        text.append(f"| {title} | {' | '.join(cells)} |")
    counts = sorted({1, 16, shards_for(rows, demand)})
    plans = [plan(rows, demand, n) for n in counts]
    heads = " | ".join(f"{n} part{'s' * (n > 1)}" for n in counts)
    text += ["", f"| {demand.text_mb / 1e6:g} TB of text in … | {heads} |", f"|---|{'---:|' * len(counts)}"]
    text += [f"| {title} | {' | '.join(show(p) for p in plans)} |" for title, show in PLAN_ROWS]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text-tb", type=float, default=1.0)
    parser.add_argument("--p95-ms", type=float, default=250.0, help="slowest search of one part")
    parser.add_argument("--cores", type=int, default=64, help="of a machine")
    parser.add_argument("--memory-gb", type=float, default=256.0, help="of a machine")
    parser.add_argument("--searches", type=float, default=10.0, help="a second")
    options = parser.parse_args()
    rows = measured(SCALE.read_text(encoding="utf-8"))
    demand = Demand(options.text_tb * 1e6, options.p95_ms, options.cores, options.memory_gb, options.searches)
    print(report(rows, demand))
    largest = largest_part(rows, demand.p95_ms)
    print(f"\nOne index answers within {demand.p95_ms:g} ms up to {largest:.1f} million chunks.")


if __name__ == "__main__":
    main()
