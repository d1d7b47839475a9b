"""The files that `upload` sends: what was named, the texts of folders, and what was passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.session import Session
from shoal.cli.terminal import one_line
from shoal.formats.folder_listing import list_folder, no_texts_line, reason_of

if TYPE_CHECKING:
    from shoal.client import UploadFile


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is sent. `unreadable`: how many files and folders cannot be read; `passed_over`: how many files in folders
    are no texts by their names, by extension, the most frequent first."""

    files: tuple[UploadFile, ...]
    unreadable: int
    passed_over: Mapping[str, int]


def choose(session: Session, paths: list[Path]) -> Chosen:
    """The files to send; what cannot be read, and a folder without texts, is told at once."""
    from shoal.client import UploadFile

    files: list[UploadFile] = []
    passed_over: Counter[str] = Counter()
    unreadable = 0

    def unread(path: Path, reason: str) -> None:
        nonlocal unreadable
        session.warn(f"failed: {one_line(str(path))}: {reason}")
        unreadable += 1

    def texts_of(folder: Path) -> Iterator[Path]:
        listing = list_folder(folder)
        for one in listing.unreadable:
            unread(one.path, one.reason)
        if not listing.texts and not listing.unreadable:
            # Without what is passed over, which is told once of all folders.
            session.warn(f"warning: {no_texts_line(folder, {})}")
        passed_over.update(listing.passed_over)
        yield from listing.texts

    for path in paths:
        folder = path if path.is_dir() else None
        for file in texts_of(path) if folder else (path,):
            try:
                files.append(UploadFile.of(file, folder=folder))
            except OSError as error:
                unread(file, reason_of(error))
    return Chosen(tuple(files), unreadable, dict(passed_over.most_common()))
