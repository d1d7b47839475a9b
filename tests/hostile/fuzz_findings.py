"""Findings of the fuzzer: recorded at once, one per location in the code, with a minimised input."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_process import Result

MINIMISING_S = 60.0
MINIMISING_RUNS = 60
LONGEST_EXPRESSION = 1500
LONGEST_SEARCHED = 300_000
"""Largest input, in bytes, that is searched for repetitions."""
LONGEST_PERIOD = 80


@dataclass
class Finding:
    """A failure at one location of the product. `data` is the first failing input, `small` its minimised
    form."""

    target: str
    result: Result
    data: bytes
    small: bytes
    count: int = 1


@dataclass
class Findings:
    """All findings of a run, by target, failure and location."""

    folder: Path
    known: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def is_known(self, target: str, result: Result) -> bool:
        finding = self.known.get((target, result.key))
        if finding is not None:
            finding.count += 1
        return finding is not None

    def hangs(self, target: str) -> bool:
        """Whether the process was killed for an earlier input of this target."""
        return any(
            finding.result.kind == "killed" for (name, _), finding in self.known.items() if name == target
        )

    def add(self, finding: Finding) -> None:
        self.known[finding.target, finding.result.key] = finding
        number = len(self.known)
        name = (
            f"{number:03}-{finding.target}-{re.sub(r'[^a-z0-9]+', '-', finding.result.failure.lower())[:40]}"
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.bin").write_bytes(finding.data)
        (self.folder / f"{name}.small.bin").write_bytes(finding.small)
        with (self.folder / "findings.md").open("a", encoding="utf-8") as file:
            file.write(described(finding, name))


def described(finding: Finding, name: str) -> str:
    """Format a finding as a section of Markdown."""
    result = finding.result
    small = expression(finding.small)
    return (
        f"## {finding.target}: {result.key}\n\n"
        f"{len(finding.small):,} bytes ({len(finding.data):,} as generated), {result.seconds:.2f} s of "
        f"processor time, {result.peak / (1 << 20):,.0f} MiB more at the peak; `{name}.small.bin`\n\n"
        f"```python\n{small}\n```\n\n```text\n{result.detail.strip()}\n```\n\n"
    )


def minimised(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Remove parts of the input while it still `fails`: halves, then quarters, and so on, within a time
    limit."""
    ends = time.monotonic() + MINIMISING_S
    runs = 0
    step = max(1, len(data) // 2)
    while True:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + step :]
            runs += 1
            if runs > MINIMISING_RUNS or time.monotonic() > ends:
                return data
            if shorter and fails(shorter):
                data = shorter
            else:
                at += step
        if step == 1:
            return data
        step = max(1, step // 2)


def expression(data: bytes) -> str:
    """Format the bytes as a Python expression, with repetitions as products."""
    if len(data) > LONGEST_SEARCHED:
        return f"# {len(data):,} bytes: {data[:100]!r} … {data[-100:]!r}"
    terms: list[str] = []
    literal = bytearray()
    at = 0
    while at < len(data):
        period, count = _repetition(data, at)
        if period * count >= 16 and count >= 4:
            if literal:
                terms.append(repr(bytes(literal)))
                literal.clear()
            terms.append(f"{data[at : at + period]!r} * {count}")
            at += period * count
        else:
            literal.append(data[at])
            at += 1
    if literal:
        terms.append(repr(bytes(literal)))
    text = " + ".join(terms) or "b''"
    return text if len(text) <= LONGEST_EXPRESSION else f"# {text[:LONGEST_EXPRESSION]} …"


def _repetition(data: bytes, at: int) -> tuple[int, int]:
    """Find the period and count of the longest repetition that begins at a byte."""
    best = (1, 1)
    for period in range(1, LONGEST_PERIOD):
        part = data[at : at + period]
        # Most periods are ruled out by this one comparison.
        if data[at + period : at + 2 * period] != part or len(part) < period:
            continue
        count = 2
        while data.startswith(part, at + period * count):
            count += 1
        if period * count > best[0] * best[1]:
            best = (period, count)
    return best
