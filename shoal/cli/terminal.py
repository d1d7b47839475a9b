"""What may reach a terminal: text made harmless, and the two consoles it goes to.

Documents, file names and a server's answers are strangers' text. They may hold ANSI escapes that move the cursor
or retitle the window, characters that turn the reading direction, or Rich's markup. `plain` removes the former;
the consoles here never interpret markup.
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
      | \x1b[ -/]*[0-~]                # the two-character ones
    """,
    re.VERBOSE,
)
# C0 and C1 controls but for tab and newline, DEL, marks that turn the direction, lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

MAX_WIDTH = 120
"""Lines longer than this are hard to read, however wide the terminal is."""
PIPED_WIDTH = 100
"""Width where there is no terminal: enough for the tables, and the same on every machine."""


def plain(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str) -> str:
    """`text` as `plain` leaves it, with every run of white space as one space."""
    return " ".join(plain(text).split())


def shown_path(path: str) -> str:
    """A source path in one line; below the working directory as it would be typed."""
    here = f"{Path.cwd()}/"
    is_here = path.startswith(here) and not path.endswith("/")
    return one_line(path.removeprefix(here) if is_here else path)


class ClosedPipeError(Exception):
    """Whoever read our output has gone, as `head` does. Nobody is left to tell."""


def counted(number: int, noun: str) -> str:
    """`1 passage`, `1,200 passages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def console(stream: IO[str]) -> Console:
    """A Rich console on `stream` that takes every text literally."""
    from rich.console import Console

    class Literal(Console):
        def on_broken_pipe(self) -> None:
            raise ClosedPipeError

    made = Literal(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPED_WIDTH
    made.width = min(made.width, MAX_WIDTH)
    return made


def prepare_streams() -> None:
    """Make sure that no character can break the output: what the encoding lacks is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Let the interpreter's last flush go nowhere, instead of complaining about the closed pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
