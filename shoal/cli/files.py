"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import ShoalError
from shoal.support.regular_files import is_plain_file


def write_file(lines: Iterable[str], path: Path) -> int:
    """Write the lines beside `path` and move them into place; the number of lines. Raises ShoalError."""
    count = 0
    if (path.is_symlink() or path.exists()) and not is_plain_file(path):
        # A device would become a file for every program of the machine.
        raise ShoalError(
            f"{path} is no regular file, but a link, a pipe or a device; leave it out to write to stdout"
        )
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
            opened.flush()
            os.fsync(opened.fileno())
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o666 & ~umask)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return count
