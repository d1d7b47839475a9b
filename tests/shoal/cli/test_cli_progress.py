"""Progress in a file or pipe: a line now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shoal.cli import progress
from shoal.jobs.in_process import LocalProgress


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


def test_a_bar_with_names_writes_a_line_for_each_tenth_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    file = io.StringIO()
    with progress.bar(
        Console(file=file), "ingest", bytes_total=400, items_total=40, with_names=True
    ) as shown:
        for n in range(1, 41):
            shown.follow(LocalProgress(10 * n, 400, n, 40, f"notes/{n}.md"))
    lines = file.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "ingest: 4/40, 40 of 400 bytes, notes/4.md"
    assert lines[-1] == "ingest: 40/40, 400 of 400 bytes, notes/40.md"


def test_a_bar_with_names_shows_the_file_that_ended_last() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    with progress.bar(terminal, "ingest", bytes_total=10, items_total=1, with_names=True) as shown:
        shown.follow(LocalProgress(10, 10, 1, 1, "notes/\x1b[31mlast.md"))
    assert "last.md" in terminal.file.getvalue()
    assert "\x1b[31mlast" not in terminal.file.getvalue()
