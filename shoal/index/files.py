"""The files of the index: a folder beside the database with a file for each segment, and one for its vectors.

A file is complete and on the disk before a row names it, and its name is never used again. A file without a
row is left over from a crash or a merge, and is removed once no reader can need it: nobody reads an older
state of the database, or such a read would take too long.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from shoal.errors import DamagedIndexError, DatabaseUnavailableError, DiskFullError
from shoal.index.segment import Segment
from shoal.index.vectors import SegmentVectors
from shoal.storage.database import Database

SUFFIX = ".segment"
VECTORS_SUFFIX = ".vectors"
COMPLETE = (SUFFIX, VECTORS_SUFFIX)
UNFINISHED = ".unfinished"
NAME = re.compile(r"[0-9a-f]{32}\.(segment|vectors)")
BYTES_PER_TEXT_BYTE = 2.2
"""Bytes of segments by byte of text while it is indexed: merged segments stay for a while."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
ADVICE = "free some, and the next search or upload continues with it"
KEPT_SECONDS = 600.0
"""How long the file of a merged segment stays: longer than any read of an older state."""


class IndexFiles:
    """The segments of a library as files."""

    def __init__(self, database: Database) -> None:
        self.folder = database.index_folder
        self._open: dict[str, Segment] = {}
        self._open_vectors: dict[str, SegmentVectors] = {}

    def write(self, write: Callable[[BinaryIO], object], suffix: str = SUFFIX) -> str:
        """Write a new file with what `write` puts into it; return its name.

        Raises DatabaseUnavailableError or DiskFullError; no part of the file is left then.
        """
        name = f"{uuid.uuid4().hex}{suffix}"
        path = self.folder / name
        unfinished = path.with_suffix(UNFINISHED)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("w+b") as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.rename(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            _sync_folder(self.folder)
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(f"there is no space left for the index; {ADVICE}") from error
            raise DatabaseUnavailableError(f"the index cannot be written: {error.strerror}") from error
        return name

    def check_space(self, text_bytes: int) -> None:
        """Raise DiskFullError if the disk has too little free space to index this much text."""
        needed = int(BYTES_PER_TEXT_BYTE * text_bytes)
        free = shutil.disk_usage(next(each for each in self.folder.parents if each.exists())).free
        if free < needed:
            raise DiskFullError(
                f"the index needs {needed / 1e6:,.0f} MB of free disk space, and there are {free / 1e6:,.0f} "
                f"MB; {ADVICE}"
            )

    def open(self, name: str, *, verify: bool = False) -> Segment:
        """Open a segment as a map of its file, which stays open. Raises DamagedIndexError."""
        if name in self._open and not verify:
            return self._open[name]
        segment = self._open[name] = Segment(self._map(name), verify=verify)
        return segment

    def open_vectors(self, name: str, n_chunks: int, *, verify: bool = False) -> SegmentVectors:
        """Open the vectors of a segment of `n_chunks` chunks like `open`. Raises DamagedIndexError."""
        if name in self._open_vectors and not verify:
            return self._open_vectors[name]
        vectors = self._open_vectors[name] = SegmentVectors(self._map(name), n_chunks, verify=verify)
        return vectors

    def _map(self, name: str) -> mmap.mmap:
        # The row may come from a foreign database, and name a file anywhere.
        if not NAME.fullmatch(str(name)):
            raise DamagedIndexError("its file has an invalid name")
        try:
            with (self.folder / name).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DamagedIndexError(f"its file {name} cannot be read") from error

    def close_others(self, names: Iterable[str]) -> None:
        """Forget the open files that are not named."""
        kept = set(names)
        self._open = {name: segment for name, segment in self._open.items() if name in kept}
        self._open_vectors = {name: each for name, each in self._open_vectors.items() if name in kept}

    def retire(self, names: Iterable[str]) -> None:
        """Note that files have lost their rows just now."""
        for name in names:
            with contextlib.suppress(OSError):
                os.utime(self.folder / name)

    def remove_others(self, names: Iterable[str], *, are_unread: Callable[[], bool]) -> None:
        """Remove the files of other segments than `names`, which are those with a row: at once if
        `are_unread`, else when they have had no row for KEPT_SECONDS."""
        kept = set(names)
        with contextlib.suppress(OSError):
            others = [path for path in self.folder.iterdir() if path.name not in kept]
            if not any(path.suffix in (*COMPLETE, UNFINISHED) for path in others):
                return
            is_unread = are_unread()
            oldest = time.time() - KEPT_SECONDS
            for path in others:
                with contextlib.suppress(OSError):
                    if (path.suffix in COMPLETE and is_unread) or (
                        path.suffix in (*COMPLETE, UNFINISHED) and path.stat().st_mtime < oldest
                    ):
                        path.unlink()

    def size(self) -> int:
        """Return the bytes of all files."""
        with contextlib.suppress(OSError):
            return sum(path.stat().st_size for path in self.folder.iterdir())
        return 0


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
