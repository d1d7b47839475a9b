"""Fuzzer for all code that reads input: runs for a options time and reports its findings.

    python tests/hostile/fuzz.py --seconds 3600 --seed 1 [--target markdown ...] [--out FOLDER]

The targets (`fuzz_targets.py`) take turns. Inputs are the saved ones (`fuzz_seeds.py`), generated ones, and
mutations of inputs that showed new behaviour or were slow. They run in a separate process, which is killed if
an input hangs. Findings are undocumented exceptions and responses, violated invariants, inputs that take more
processor time or memory than their size allows, and memory that grows over the run. The exit code is 1 if
there are findings.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_archives import tarred, zipped
from fuzz_findings import Finding, Findings, minimised
from fuzz_process import HARD_LIMIT_S, MIB, Result, Subject, deadline
from fuzz_requests import address, document, lines, note, pieces_of_form, query, search, upload
from fuzz_seeds import seeds
from fuzz_texts import mutate, size, text

Generator = Callable[[random.Random, int], bytes]

LARGEST = 1 << 20
PROGRESS_S = 30.0
MOST_KEPT = 150
KEPT_FOR_TIME = 20
MUTATED_SHARE = 0.4
NOTEWORTHY = 0.1
"""An input is kept for mutation if it takes at least this share of its deadline."""
WARM_UP = 0.25
"""Share of the life of a process after which its memory should no longer grow."""
GROWTH_BYTES = 150 * MIB
GROWTH_SAMPLES = 400
SLOWEST = 12
CONFIRMED = 1.5
"""Multiple of its deadline after which a slow input is stopped: a longer run gives no new information."""
LONGEST_PAUSE = 128
"""Most rounds for which a target is skipped after its process was killed."""


def encoded(rng: random.Random, largest: int) -> bytes:
    """Generate text in a random encoding, with replacements."""
    encoding = rng.choice(
        [
            "utf-8",
            "utf-16",
            "utf-16-le",
            "utf-32",
            "cp1252",
            "latin-1",
            "cp1251",
            "shift_jis",
            "gb18030",
            "koi8-r",
            "utf-7",
            "cp437",
            "big5",
        ]
    )
    return text(rng, largest).encode(encoding, "replace")


def typed(rng: random.Random, _largest: int) -> bytes:
    return query(rng).encode("utf-8", "surrogatepass")


def plain(rng: random.Random, largest: int) -> bytes:
    return text(rng, largest).encode("utf-8", "surrogatepass")


GENERATORS: dict[str, Generator] = {
    "markdown": plain,
    "plaintext": plain,
    "encodings": encoded,
    "zip": zipped,
    "tar": tarred,
    "multipart": pieces_of_form,
    "query": typed,
    "ingest": plain,
    "documents": document,
    "lines": lines,
    "upload": upload,
    "search": search,
    "notes": note,
    "addresses": lambda _rng, _largest: b"",  # made with the routes of the service, see Source
}


class Source:
    """The inputs of a target: first the saved ones, then generated and mutated ones."""

    def __init__(self, target: str, seed: int, largest: int, *, saved: bool, by_time: bool) -> None:
        self._rng = random.Random(f"{seed}/{target}")
        self._generate = GENERATORS[target]
        self._is_address = target == "addresses"
        self._saved = seeds(target)[::-1] if saved else []
        self._largest = largest
        self._by_time = by_time
        self._kept: list[bytes] = []
        self._slow: list[tuple[float, bytes]] = []
        self._kinds: set[str] = set()

    def next(self, routes: Sequence[tuple[str, Sequence[str]]]) -> bytes:
        if self._saved:
            return self._saved.pop()
        rng = self._rng
        largest = size(rng, 64, self._largest)
        if self._kept and rng.random() < MUTATED_SHARE:
            parents = [data for _, data in self._slow] if self._slow and rng.random() < 0.4 else self._kept
            return mutate(rng, rng.choice(parents), rng.choice(self._kept), self._largest)
        return address(rng, routes) if self._is_address else self._generate(rng, largest)

    def learn(self, data: bytes, result: Result) -> None:
        """Keep an input that showed new behaviour or was slow."""
        if len(data) <= self._largest and result.kind not in self._kinds and not result.failure:
            self._kinds.add(result.kind)
            self._kept.append(data)
            if len(self._kept) > MOST_KEPT:
                del self._kept[self._rng.randrange(MOST_KEPT)]
        share = result.seconds / deadline(len(data))
        if self._by_time and NOTEWORTHY < share < 1:
            self._slow = sorted([*self._slow, (share, data)], reverse=True)[:KEPT_FOR_TIME]


@dataclass
class Report:
    """Statistics and findings of a run."""

    findings: Findings
    runs: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    """Number of inputs of each target for which the process was killed."""
    slowest: list[tuple[float, float, int, str]] = field(default_factory=list)
    """Share of the deadline, seconds, bytes and target."""
    memory: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Memory of each process, by its number, after each input."""
    transient: int = 0
    """Inputs that exceeded a limit once, but not when they were repeated."""
    interrupted: int = 0
    """Searches that returned 503 because they took too long."""

    def note(self, target: str, data: bytes, result: Result, process: int) -> None:
        self.runs[target] += 1
        self.kills[target] += result.kind == "killed"
        self.interrupted += result.kind.startswith("503")
        if result.memory:
            self.memory[process].append(result.memory)
        entry = (result.seconds / deadline(len(data)), result.seconds, len(data), target)
        self.slowest = sorted([*self.slowest, entry], reverse=True)[:SLOWEST]

    def growth(self) -> tuple[int, float, int, int]:
        """Measure the memory of the longest-lived process after its warm-up.

        Returns its growth, its growth per 1,000 inputs, and its memory at the start and at the end; the
        growth is 0 if it did not live long.
        """
        longest = max(self.memory.values(), key=len, default=[])
        steady = longest[int(WARM_UP * len(longest)) :]
        if len(steady) < GROWTH_SAMPLES:
            return 0, 0.0, steady[0] if steady else 0, steady[-1] if steady else 0
        quarter = len(steady) // 4
        grown = statistics.median(steady[-quarter:]) - statistics.median(steady[:quarter])
        slope = statistics.linear_regression(range(len(steady)), steady).slope
        return int(grown), 1000 * slope, steady[0], steady[-1]

    def progress(self) -> str:
        resident = next((each[-1] for each in reversed(self.memory.values())), 0)
        return f"{self.runs.total():,} inputs, {len(self.findings.known)} findings, {resident / MIB:.0f} MiB"

    def lines(self) -> list[str]:
        """The report for people."""
        grown, slope, first, last = self.growth()
        report = [f"{self.runs.total():,} inputs: {', '.join(f'{k} {n:,}' for k, n in self.runs.items())}"]
        report += [
            f"  {100 * share:5.1f} % of its deadline: {target}, {n_bytes:,} bytes, {seconds:.2f} s"
            for share, seconds, n_bytes, target in self.slowest
        ]
        report.append(
            f"memory after warm-up {first / MIB:.0f} MiB, at the end {last / MIB:.0f} MiB; "
            f"growth {grown / MIB:.1f} MiB, {slope / MIB:.2f} MiB per 1,000 inputs"
        )
        report.append(
            f"over a limit only once: {self.transient}; searches interrupted with 503: {self.interrupted}"
        )
        report.append(f"{len(self.findings.known)} findings")
        report += [
            f"  {target}: {key} ({finding.count} times, {len(finding.small):,} bytes, "
            f"{finding.result.seconds:.1f} s)"
            for (target, key), finding in self.findings.known.items()
        ]
        return report


def fuzz(
    targets: Sequence[str],
    *,
    seed: int,
    out: Path,
    seconds: float = math.inf,
    rounds: float = math.inf,
    largest: int = LARGEST,
    saved: bool = True,
    brief: bool = False,
    say: Callable[[str], object] = lambda _line: None,
) -> Report:
    """Run inputs of the targets in turn, for a number of seconds or rounds.

    With `rounds`, the inputs depend only on the seed. `brief` stops slow inputs early and does not minimise
    failing ones.
    """
    report = Report(Findings(out))
    by_time = rounds == math.inf
    sources = {name: Source(name, seed, largest, saved=saved, by_time=by_time) for name in targets}
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(Path(folder))
        try:
            subject.start()
            began = progress = time.monotonic()
            for name in turns(targets, report, rounds):
                data = sources[name].next(subject.routes)
                result = attempt(subject, report, name, data, brief=brief)
                report.note(name, data, result, subject.starts)
                sources[name].learn(data, result)
                now = time.monotonic()
                if now - progress > PROGRESS_S:
                    progress = now
                    say(f"{now - began:6.0f} s: {report.progress()}, {subject.starts} starts")
                if now - began > seconds:
                    break
        finally:
            subject.stop()
    grown, slope, _, _ = report.growth()
    if grown > GROWTH_BYTES:
        detail = f"{grown / MIB:.0f} MiB, {slope / MIB:.2f} MiB per 1,000 inputs"
        report.findings.add(Finding("all", Result(failure="memory grows", detail=detail), b"", b""))
    return report


def turns(targets: Sequence[str], report: Report, rounds: float) -> Iterator[str]:
    """Generate the targets in turn, for a number of rounds.

    A target whose process was killed is skipped for some rounds: a restart takes longer than a hundred
    inputs.
    """
    resumes = dict.fromkeys(targets, 0)
    kills = dict.fromkeys(targets, 0)
    for n in itertools.takewhile(lambda n: n < rounds, itertools.count()):
        for name in targets:
            if n >= resumes[name]:
                yield name
                if report.kills[name] > kills[name]:
                    kills[name] = report.kills[name]
                    resumes[name] = n + min(LONGEST_PAUSE, 2 ** kills[name])


def attempt(subject: Subject, report: Report, target: str, data: bytes, *, brief: bool) -> Result:
    """Run an input; if it fails in a new way, minimise and record it."""
    findings = report.findings
    hard_limit = CONFIRMED * deadline(len(data)) if brief or findings.hangs(target) else HARD_LIMIT_S
    result = subject.run(target, data, hard_limit)
    if not result.failure or findings.is_known(target, result):
        return result

    def fails(shorter: bytes) -> bool:
        again = subject.run(target, shorter, CONFIRMED * deadline(len(shorter)))
        return again.failure == result.failure and (again.failure == "slow" or again.place == result.place)

    if fails(data):
        small = data if brief else minimised(data, fails)
    elif result.failure in ("slow", "memory"):
        # The machine was busy, or a module was loaded for the first time.
        report.transient += 1
        return result
    else:
        small = data
    findings.add(Finding(target, result, data, small))
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--target", choices=GENERATORS, action="append", help="run only this target; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder of the findings")
    parser.add_argument("--largest", type=int, default=LARGEST, help="approximate limit of an input, bytes")
    parser.add_argument("--no-saved", action="store_true", help="skip the saved inputs")
    options = parser.parse_args(arguments)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    report = fuzz(
        options.target or list(GENERATORS),
        seed=options.seed,
        out=options.out,
        seconds=options.seconds,
        largest=options.largest,
        saved=not options.no_saved,
        say=say,
    )
    for line in report.lines():
        say(line)
    if report.findings.known:
        say(f"inputs and traces are in {options.out}")
    return 1 if report.findings.known else 0


if __name__ == "__main__":
    sys.exit(main())
