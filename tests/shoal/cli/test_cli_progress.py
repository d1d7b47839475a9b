"""Progress in a file or pipe: a line now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shoal.cli import progress


def written(monkeypatch: pytest.MonkeyPatch, seconds: float) -> str:
    """What a bar writes to a file for three steps, each `seconds` after the one before."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    file = io.StringIO()
    with progress.bar(Console(file=file), "rescore", bytes_total=3000, items_total=3) as shown:
        for _ in range(3):
            now += seconds
            shown.advance(1000, 1)
    return file.getvalue()


def test_a_file_gets_a_line_for_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = written(monkeypatch, progress.SECONDS_BETWEEN_LINES).splitlines()
    assert lines == [f"rescore: {n}/3, {n},000 of 3,000 bytes" for n in (1, 2, 3)]
    half = written(monkeypatch, progress.SECONDS_BETWEEN_LINES / 2).splitlines()
    assert half == ["rescore: 2/3, 2,000 of 3,000 bytes"]


def test_a_short_task_writes_nothing_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, 1.0) == ""
