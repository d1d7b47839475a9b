"""Safe terminal output: cleaned text and the consoles that print it.

Documents, file names and service responses are untrusted text. They may contain ANSI escapes that move the
cursor or rename the window, characters that change the reading direction, or Rich markup. `plain` removes
escapes and control characters; the consoles never interpret markup.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

MAX_WIDTH = 120
"""Longer lines are hard to read, also on a wider terminal."""
PIPED_WIDTH = 100
"""Width without a terminal: enough for the tables, and the same on every machine."""


def display_path(path: str) -> str:
    """A source path in one line, relative if it is below the working directory."""
    working_directory = f"{Path.cwd()}/"
    is_below = path.startswith(working_directory) and not path.endswith("/")
    return one_line(path.removeprefix(working_directory) if is_below else path)


class ClosedPipeError(Exception):
    """The reader of the output has closed the pipe, as `head` does."""


def quantity(number: int, noun: str, plural: str | None = None) -> str:
    """`1 passage`, `1,200 passages`; `plural` is for a noun whose plural is not made with `s`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def data_size(n_bytes: float) -> str:
    """`900 B`, `56.0 kB`, `1,234.5 MB`; 1 MB is a million bytes."""
    if n_bytes < 1e3:
        return f"{n_bytes:.0f} B"
    return f"{n_bytes / 1e3:.1f} kB" if n_bytes < 1e6 else f"{n_bytes / 1e6:,.1f} MB"


def may_ask() -> bool:
    """Whether a person at a terminal sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def console(stream: IO[str]) -> Console:
    """A Rich console on `stream` that prints every text literally."""
    from rich.console import Console

    class Literal(Console):
        def on_broken_pipe(self) -> None:
            raise ClosedPipeError

    literal = Literal(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not literal.is_terminal and "COLUMNS" not in os.environ:
        literal.width = PIPED_WIDTH
    literal.width = min(literal.width, MAX_WIDTH)
    return literal


def prepare_streams() -> None:
    """Print characters that the encoding of stdout and stderr lacks as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Redirect stdout to the null device, so that the final flush does not fail on a closed pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
