"""Runs the fuzzer: a few fixed inputs for every target, and five minutes of new inputs in the long run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fuzz import GENERATORS, fuzz
from fuzz_findings import expression, minimised
from fuzz_process import Subject

ROUNDS = 6
LARGEST = 16 * 1024
LONG_S = 300


def test_no_target_fails_on_generated_input(tmp_path: Path) -> None:
    report = fuzz(list(GENERATORS), seed=1, out=tmp_path, rounds=ROUNDS, largest=LARGEST, brief=True)
    assert not report.findings.known, "\n".join(report.lines())
    assert report.runs == dict.fromkeys(GENERATORS, ROUNDS)


@pytest.mark.timeout(4 * LONG_S)
@pytest.mark.skipif(not os.environ.get("SHOAL_TEST_LONG"), reason="takes five minutes: SHOAL_TEST_LONG=1")
def test_no_target_fails_on_new_input(tmp_path: Path) -> None:
    report = fuzz(list(GENERATORS), seed=int(time.time()), out=tmp_path, seconds=LONG_S)
    assert not report.findings.known, "\n".join(report.lines())


def test_failures_are_distinguished_and_the_next_input_runs(tmp_path: Path) -> None:
    subject = Subject(tmp_path, "fuzz_faulty:open_targets")
    try:
        assert subject.run("waits", b"", wall_limit=0.5).failure == "waits"
        spin_result = subject.run("spins", b"", hard_limit=0.5)
        assert (spin_result.kind, spin_result.failure) == ("killed", "slow")
        assert subject.run("dies", b"").failure.startswith("died")
        assert subject.run("fails", b"").failure == "ZeroDivisionError"
        assert subject.run("fills", b"").failure == "memory"
        assert subject.run("promises", b"").failure == "it holds"
        next_result = subject.run("is well", b"")
        assert (next_result.kind, next_result.failure) == ("well", "")
    finally:
        subject.stop()


def test_a_failing_input_is_minimised() -> None:
    data = bytes(range(200)) * 20 + b"needle" + bytes(range(200)) * 20
    assert minimised(data, lambda part: b"needle" in part).strip(bytes([0])) != data
    assert len(minimised(data, lambda part: b"needle" in part)) < len(data) / 10


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"ab" * 40 + b"c", b"x" + b"\n" * 500, b'"\\' * 9, bytes(range(256))]
)
def test_an_expression_evaluates_to_its_bytes(data: bytes) -> None:
    assert eval(expression(data)) == data
