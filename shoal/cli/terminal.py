"""Safe terminal output: cleaned text and the consoles that print it.

Documents, file names and service responses are untrusted text. They may contain ANSI escapes that move the
cursor or rename the window, characters that change the reading direction, or Rich markup. `plain` removes
escapes and control characters; the consoles never interpret markup.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_ESCAPES = re.compile(
    r"""\x1b\[[0-?]*[ -/]*[@-~]        # CSI: colours, cursor
      | \x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?  # OSC, DCS, SOS, PM, APC up to their end
      | \x1b[ -/]*[0-~]                # two-character escapes
    """,
    re.VERBOSE,
)
# C0 and C1 controls except tab and newline, DEL, direction marks, lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

MAX_WIDTH = 120
"""Longer lines are hard to read, also on a wider terminal."""
PIPED_WIDTH = 100
"""Width without a terminal: enough for the tables, and the same on every machine."""


def plain(text: str) -> str:
    """Remove escape sequences and control characters from `text`, except newlines and tabs."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str) -> str:
    """`plain` text with every run of white space replaced by one space."""
    return " ".join(plain(text).split())


def display_path(path: str) -> str:
    """A source path in one line, relative if it is below the working directory."""
    working_directory = f"{Path.cwd()}/"
    is_below = path.startswith(working_directory) and not path.endswith("/")
    return one_line(path.removeprefix(working_directory) if is_below else path)


class ClosedPipeError(Exception):
    """The reader of the output has closed the pipe, as `head` does."""


def quantity(number: int, noun: str) -> str:
    """`1 passage`, `1,200 passages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
