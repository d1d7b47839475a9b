"""Selection of the files that `upload` sends: named files and the texts of named folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.session import Session
from shoal.conversion.folder_listing import (
    EVERYTHING,
    Selection,
    Skipped,
    SkipReason,
    list_folder,
    no_texts_line,
    reason_of,
)
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.client import UploadFile


@dataclass(frozen=True, slots=True)
class UploadSelection:
    """The files to send.

    `unreadable` is the number of files and folders that cannot be read. `skipped` are the skipped files of
    folders.
    """

    files: tuple[UploadFile, ...]
    unreadable: int
    skipped: tuple[Skipped, ...]


def select_files(session: Session, paths: list[Path], selection: Selection = EVERYTHING) -> UploadSelection:
    """Select the files to send; `selection` is for those of folders.

    Prints a line for each unreadable path and each folder without files to read.
    """
    from shoal.client import UploadFile

    files: list[UploadFile] = []
    skipped: list[Skipped] = []
    unreadable = 0

    def report_unreadable(path: Path, reason: str) -> None:
        nonlocal unreadable
        session.warn(f"failed: {one_line(str(path))}: {reason}")
        unreadable += 1

    def texts_of(folder: Path) -> Iterator[Path]:
        listing = list_folder(folder, selection)
        for entry in listing.unreadable:
            report_unreadable(entry.path, entry.reason)
        if not listing.texts and not listing.unreadable:
            # Without the skipped files: the caller prints them once for all folders.
            session.warn(f"warning: {no_texts_line(folder, ())}")
        skipped.extend(listing.skipped)
        yield from listing.texts

    for path in paths:
        folder = path if path.is_dir() else None
        for file in texts_of(path) if folder else (path,):
            try:
                upload = UploadFile.of(file, folder=folder)
            except OSError as error:
                report_unreadable(file, reason_of(error))
                continue
            if folder and not upload.size:
                skipped.append(Skipped.because(SkipReason.empty, str(file)))
            else:
                files.append(upload)
    return UploadSelection(tuple(files), unreadable, tuple(skipped))
