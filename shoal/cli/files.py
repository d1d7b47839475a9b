"""Atomic writing of output files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import ShoalError
from shoal.support.regular_files import is_regular_file


def write_file(lines: Iterable[str], path: Path) -> int:
    """Write lines to a temporary file, move it to `path` and return the line count. Raises ShoalError."""
    count = 0
    if (path.is_symlink() or path.exists()) and not is_regular_file(path):
        # Moving a file onto a device would replace the device for every program on the machine.
        raise ShoalError(
            f"{path} is no regular file, but a link, a pipe or a device; leave it out to write to stdout"
        )
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
    except OSError as error:
        raise ShoalError(f"cannot write to {path.absolute().parent}: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line.rstrip("\n") + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count
