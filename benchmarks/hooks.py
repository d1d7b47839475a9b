"""Time of hooks as whole processes, with and without a service.

usage: python -m benchmarks.hooks [--notes 1000] [--runs 40]

A note is two sentences of the sample corpus. Each hook is a new process with its input on stdin, as from an
agent, in the folder of this project. Prints the median and the 95th percentile of wall time, and the median
of processor time, with the targets: 60 ms with a running service, 600 ms without. The interpreter alone comes
first: no hook in Python can be faster.

Exits 1 if a hook that should show a note shows none, or if a 95th percentile misses its target.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.notes import SENTENCE, TAGS
from shoal import Engine

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "shoal" / "sample_corpus"
# As the installed command, which imports `shoal.cli` and calls `main`.
HOOK = [sys.executable, "-P", "-c", "from shoal.cli import main; main()", "hook"]
WITH_SERVICE_MS, ALONE_MS = 60.0, 600.0
EVENTS = ("session-start", "prompt", "tool-use", "stop")
PROMPT = "Why does the lava of a volcano cool to basalt, and how do bees find the flowers?"
WAIT_SECONDS = 120.0


def items(seed: int) -> Iterator[dict[str, Any]]:
    """Notes as arguments of `OwnerNotes.add`, without end."""
    generator = random.Random(seed)
    texts = [path.read_text() for path in sorted(SAMPLE.iterdir()) if path.suffix in (".md", ".txt")]
    sentences = [" ".join(sentence.split()) for text in texts for sentence in SENTENCE.findall(text)]
    while True:
        yield {"text": " ".join(generator.sample(sentences, 2)), "tags": generator.sample(TAGS, 2)}


class Times(NamedTuple):
    """Of some processes, in milliseconds: wall times and processor times."""

    wall: list[float]
    cpu: list[float]

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.wall, n=20)[-1]


def measure(command: Sequence[str], inputs: Sequence[bytes], *, shows: bool) -> Times:
    times = Times([], [])
    for data in inputs:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, input=data, capture_output=True, check=True, cwd=ROOT)
        times.wall.append(1000 * (time.perf_counter() - began))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.cpu.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        if shows and b"additionalContext" not in done.stdout:
            raise SystemExit(f"no note was shown: {done.stdout!r} {done.stderr!r}")
    return times


def inputs(event: str, runs: int, first: int) -> list[bytes]:
    """Inputs of as many sessions, so that each may be shown notes."""
    return [
        json.dumps(
            {
                "session_id": f"session-{first + number}",
                "cwd": str(ROOT),
                "transcript_path": "/nowhere/transcript.jsonl",
                "prompt": PROMPT,
                "tool_name": "Bash",
                "tool_input": {"command": "grep -rn 'lava of a volcano cools' docs/basalt.md"},
            }
        ).encode()
        for number in range(runs)
    ]


@contextlib.contextmanager
def running_service(database: Path) -> Iterator[None]:
    command = [sys.executable, "-P", "-m", "shoal.cli", "--db", str(database), "up", "--port", "0"]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address, deadline = database.with_name(f"{database.name}.service"), time.monotonic() + WAIT_SECONDS
        while not (address.exists() and address.stat().st_size):
            if service.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the service does not start")
            time.sleep(0.05)
        yield
    finally:
        service.terminate()
        service.wait()


def show(name: str, times: Times, target: float | None) -> None:
    aim = "" if target is None else f"   target: p95 <= {target:.0f} ms"
    print(
        f"{name:<32} p50 {statistics.median(times.wall):6.1f} ms  p95 {times.p95:6.1f} ms  "
        f"processor {statistics.median(times.cpu):6.1f} ms{aim}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--notes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        del os.environ[name]
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "notes.db"
        with Engine(database) as engine:
            notes = engine.notes.of("default")
            notes.add_many(itertools.islice(items(seed=1), options.notes))
            notes.pin(notes.add("Commit messages of this project are in the imperative.").note.id)
            print(f"{notes.status().n_active:,} notes, {options.runs} processes each", flush=True)
        show(
            "the interpreter alone",
            measure([sys.executable, "-c", ""], [b""] * options.runs, shows=False),
            None,
        )
        first = 0
        for place, target in (("a service", WITH_SERVICE_MS), ("the database", ALONE_MS)):
            with running_service(database) if target == WITH_SERVICE_MS else contextlib.nullcontext():
                for event in EVENTS:
                    command = [*HOOK, event, f"--db={database}"]
                    shows = event != "stop"
                    measure(command, inputs(event, 2, first), shows=shows)  # loads the index, and files
                    times = measure(command, inputs(event, options.runs, first + 2), shows=shows)
                    first += options.runs + 2
                    show(f"{event}, from {place}", times, target)
                    missed |= times.p95 > target
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
