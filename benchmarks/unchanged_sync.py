"""Cost of `shoal sync` of a folder without changes, as whole processes.

    python -m benchmarks.unchanged_sync ARTICLES [--files 1000] [--runs 5]

ARTICLES: JSON lines, compressed by gzip, each with `title` and `text`. Writes one file of Markdown for each
article, of up to 5,000 characters, into a temporary folder; synchronizes it once, which stores everything,
and then several times without a change: with `--checksum`, which reads every file, and without. Prints the
real time and the time of the processor of each process, and its share of the first.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from shoal.maintenance.sync.folder import SETTLED_NS

MAX_CHARS = 5000


class Cost(NamedTuple):
    """Seconds."""

    real: float
    processor: float


def write_articles(articles: Path, folder: Path, n_files: int) -> int:
    """Write one file for each article; return their bytes."""
    n_bytes = 0
    with gzip.open(articles, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(islice(lines, n_files)):
            article = json.loads(line)
            subfolder = folder / f"{number % 20:02}"
            subfolder.mkdir(parents=True, exist_ok=True)
            text = f"# {article['title']}\n\n{article['text'][:MAX_CHARS]}\n"
            n_bytes += (subfolder / f"{number:04}.md").write_text(text, encoding="utf-8")
    return n_bytes


def run_sync(folder: Path, database: Path, options: Sequence[str] = ()) -> Cost:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "shoal.cli", "--db", str(database), "sync", str(folder), *options],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, processor)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("articles", type=Path)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, database = Path(scratch, "texts"), Path(scratch, "shoal.db")
        n_bytes = write_articles(arguments.articles, folder, arguments.files)
        time.sleep(SETTLED_NS / 1e9 + 0.5)
        first = run_sync(folder, database)
        print(f"{arguments.files:,} files, {n_bytes / 1e6:.1f} MB of text")
        print(f"{'first':<22}{first.real:8.2f} s {first.processor:8.2f} s of the processor")
        for label, options in (("unchanged, --checksum", ["--checksum"]), ("unchanged", [])):
            costs = [run_sync(folder, database, options) for _ in range(arguments.runs)]
            cost = Cost(*(median(values) for values in zip(*costs, strict=True)))
            print(
                f"{label:<22}{cost.real:8.2f} s {cost.processor:8.2f} s of the processor: "
                f"{cost.real / first.real:.1%}, {cost.processor / first.processor:.1%}"
            )


if __name__ == "__main__":
    main()
