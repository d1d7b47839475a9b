"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import ShoalError


def write_file(lines: Iterable[str], path: Path) -> int:
    """Write the lines beside `path` and move them into place; the number of lines. Raises ShoalError."""
    count = 0
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
    except OSError as error:
        raise ShoalError(f"cannot write to {path.absolute().parent}: {error.strerror}") from error
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as opened:
            for line in lines:
                opened.write(line.rstrip("\n") + "\n")
                count += 1
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o666 & ~umask)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return count
