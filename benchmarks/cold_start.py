"""Time of `shoal search` in a fresh process, and the share of imports.

    python benchmarks/cold_start.py DATABASE [--query TEXT] [--runs N]

Prints one JSON object: median and best wall time of N runs, their best processor time (a busy machine
    increases the
other two), the best import time of N further runs under `-X importtime` (the sum over modules, slightly
increased by the option itself), and the slowest imports. Exits 1 if the best run takes over one second or its
imports over half a second.

The first run is not counted: after it, files are in the page cache and modules are compiled.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

MAX_WALL_S = 1.0
MAX_IMPORT_S = 0.5
LISTED = 12


class Imported(NamedTuple):
    """One line of `-X importtime`: seconds without and with the imports of the module itself."""

    module: str
    depth: int
    own: float
    total: float


def command(database: Path, query: str, *options: str) -> list[str]:
    return [sys.executable, *options, "-m", "shoal.cli", "--db", str(database), "search", query]


class Run(NamedTuple):
    """Run one search: wall seconds, processor seconds, and its stderr."""

    wall: float
    cpu: float
    stderr: str


def run(arguments: list[str]) -> Run:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"the search failed: {done.stderr.strip().splitlines()[-1:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, done.stderr)


def imports(stderr: str) -> list[Imported]:
    imported_modules = []
    for line in stderr.splitlines():
        if line.startswith("import time:") and "self" not in line:
            own, total, name = line.removeprefix("import time:").split("|")
            depth = (len(name) - len(name.lstrip()) - 1) // 2
            imported_modules.append(Imported(name.strip(), depth, int(own) / 1e6, int(total) / 1e6))
    return imported_modules


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("--query", default="how insects help plants to reproduce")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    if not options.database.is_file():
        parser.error(f"there is no database {options.database}")
    run(command(options.database, options.query))
    runs = [run(command(options.database, options.query)) for _ in range(options.runs)]
    measured = [
        imports(run(command(options.database, options.query, "-X", "importtime")).stderr)
        for _ in range(options.runs)
    ]
    best = min(measured, key=lambda modules: sum(module.own for module in modules))
    import_s = sum(module.own for module in best)
    costliest = sorted(best, key=lambda module: -module.total)[:LISTED]
    report = {
        "database_mb": round(options.database.stat().st_size / 1e6, 1),
        "runs": options.runs,
        "wall_median_s": round(statistics.median(run.wall for run in runs), 3),
        "wall_best_s": round(min(run.wall for run in runs), 3),
        "cpu_best_s": round(min(run.cpu for run in runs), 3),
        "import_best_s": round(import_s, 3),
        "costliest_imports_s": {module.module: round(module.total, 3) for module in costliest},
    }
    print(json.dumps(report, indent=2))
    return int(report["wall_best_s"] > MAX_WALL_S or import_s > MAX_IMPORT_S)


if __name__ == "__main__":
    sys.exit(main())
