"""Progress bars on stderr. If stderr is not a terminal, a line now and then takes their place."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.support.plain_text import one_line, plain

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.jobs.in_process import LocalProgress


SECONDS_BETWEEN_LINES = 30.0
"""Between two lines in a file or pipe."""
LATEST_CHARACTERS = 30
"""Of the name of the file that ended last, beside a bar."""


LONG_WORK = ("shoal.storage.migrate", "shoal.index.upkeep")
"""Loggers of work that a command may have to do first: a migration, and the first index of a library."""


class _LongWorkHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now >= self._next or sys.stderr.isatty() or record.levelno > logging.INFO:
            self._next = now + SECONDS_BETWEEN_LINES
            sys.stderr.write(f"{plain(record.getMessage())}\n")


@contextmanager
def long_work_shown() -> Iterator[None]:
    """Print what the library logs about LONG_WORK to stderr."""
    handler = _LongWorkHandler()
    loggers = [logging.getLogger(name) for name in LONG_WORK]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


class Bar:
    """A progress bar that counts bytes and items of one task."""

    def __init__(
        self, console: Console, title: str, *, bytes_total: int, items_total: int, with_names: bool
    ) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[items]}", markup=False),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[latest]}", markup=False, style="dim"),
            console=console,
            disable=not console.is_terminal,
            transient=False,
        )
        self._console = console
        self._last_line = time.monotonic()
        self._items = 0
        self._items_total = items_total
        self._task = self._progress.add_task(
            one_line(title), total=bytes_total or None, items=self._item_count(), latest=""
        )
        self._with_names = with_names
        self._tenths = 0

    def advance(self, n_bytes: int, n_items: int = 0) -> None:
        """Add `n_bytes` and `n_items` to the counts."""
        self._items += n_items
        self._progress.update(self._task, advance=n_bytes, items=self._item_count())
        self._print_line()

    def move_to(
        self, n_bytes: int, n_items: int, *, bytes_total: int, items_total: int, latest: str | None = None
    ) -> None:
        """Set the counts, the totals, and the name of the file that ended last."""
        self._items, self._items_total = n_items, items_total
        name = one_line(latest) if latest and self._with_names else ""
        self._progress.update(
            self._task,
            completed=n_bytes,
            total=bytes_total or None,
            items=self._item_count(),
            latest=Path(name).name[:LATEST_CHARACTERS],
        )
        self._print_line(name)

    def follow(self, progress: LocalProgress) -> None:
        """Set the counts from the progress of a job in this process."""
        self.move_to(
            progress.bytes_done,
            progress.items_done,
            bytes_total=progress.bytes_total,
            items_total=progress.items_total,
            latest=progress.latest,
        )

    def title(self, text: str) -> None:
        self._progress.update(self._task, description=one_line(text))

    def _print_line(self, name: str = "") -> None:
        """Print the counts to a file or pipe, unless the last line is recent. A bar with names also prints a
        line for each tenth of the items."""
        tenths = 10 * self._items // self._items_total if self._with_names and self._items_total else 0
        is_recent = time.monotonic() - self._last_line < SECONDS_BETWEEN_LINES
        if self._console.is_terminal or (is_recent and tenths <= self._tenths):
            return
        self._last_line, self._tenths = time.monotonic(), tenths
        task = self._progress.tasks[0]
        total = f" of {task.total:,.0f}" if task.total else ""
        counts = [self._item_count(), f"{task.completed:,.0f}{total} bytes", name]
        line = f"{task.description}: {', '.join(count for count in counts if count)}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _item_count(self) -> str:
        return f"{self._items:,}/{self._items_total:,}" if self._items_total else ""

    @contextmanager
    def shown(self) -> Iterator[Bar]:
        with self._progress:
            yield self


@contextmanager
def bar(
    console: Console, title: str, *, bytes_total: int, items_total: int = 0, with_names: bool = False
) -> Iterator[Bar]:
    """Draw a bar during the block. Without `items_total` it shows only bytes. `with_names`: it names the file
    that ended last, and a file or pipe gets a line for each tenth of the items."""
    progress_bar = Bar(
        console, title, bytes_total=bytes_total, items_total=items_total, with_names=with_names
    )
    with progress_bar.shown():
        yield progress_bar
