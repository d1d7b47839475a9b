"""Listing of a folder: text files by their names, and the files that are skipped, for reports."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.conversion.file_kinds import KIND_OF_SUFFIX

SUFFIXES = tuple(suffix for suffix, kind in KIND_OF_SUFFIX.items() if not kind.refusal)
"""Extensions of the files that are ingested from a folder."""
_SUFFIXES = frozenset(SUFFIXES)

WITHOUT_SUFFIX = "without extension"
LINK = "symbolic link"
"""Labels in the counts of passed-over files. Links are never followed: one may lead out of the folder, to a
file that its creator may not read but this process may, or form a cycle."""

KINDS_NAMED = 6
"""Most kinds of files named in a line; a folder may contain hundreds."""


@dataclass(frozen=True, slots=True)
class UnreadableFolder:
    """A folder that could not be listed, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of a folder without names that begin with a dot, sorted by path.

    `others` are files with other extensions, `links` symbolic links to files or folders, `empty` folders
    without any entry.
    """

    texts: tuple[Path, ...]
    others: tuple[Path, ...]
    links: tuple[Path, ...]
    unreadable: tuple[UnreadableFolder, ...]
    empty: tuple[Path, ...] = ()

    @property
    def skipped_files(self) -> dict[str, int]:
        """Counts of passed-over files by extension, and of links; most frequent first."""
        counts = Counter(path.suffix.lower() or WITHOUT_SUFFIX for path in self.others)
        if self.links:
            counts[LINK] = len(self.links)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def list_folder(folder: Path, *, recursive: bool = True) -> Listing:
    """List the files below a folder, or directly in it. Subfolders that cannot be listed are reported, not
    raised."""
    texts: list[Path] = []
    others: list[Path] = []
    links: list[Path] = []
    unreadable: list[UnreadableFolder] = []
    empty: list[Path] = []
    # Iterative, because folders may be nested deeper than the interpreter's stack.
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                is_empty = True
                for entry in entries:
                    is_empty = False
                    if entry.name.startswith("."):
                        continue
                    path = current / entry.name
                    if entry.is_symlink():
                        links.append(path)
                    elif not entry.is_dir(follow_symlinks=False):
                        (texts if is_text_name(entry.name) else others).append(path)
                    elif recursive:
                        pending.append(path)
            if is_empty:
                empty.append(current)
        except OSError as error:
            unreadable.append(UnreadableFolder(current, reason_of(error)))
    return Listing(
        texts=tuple(sorted(texts)),
        others=tuple(sorted(others)),
        links=tuple(sorted(links)),
        unreadable=tuple(sorted(unreadable, key=lambda subfolder: subfolder.path)),
        empty=tuple(sorted(empty)),
    )


def is_text_name(name: str) -> bool:
    """Whether a file of this name is ingested from a folder."""
    return not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES


def is_listable(path: str, folder: str) -> bool:
    """Whether `list_folder` could return this path: a text file below the folder, normalised, not hidden."""
    prefix = f"{folder.rstrip('/')}/"
    if not path.startswith(prefix):
        return False
    *folders, name = path.removeprefix(prefix).split("/")
    return is_text_name(name) and all(part and not part.startswith(".") for part in folders)


def format_skipped(counts: Mapping[str, int]) -> str:
    """Format `7 skipped: 4 .pdf, 3 .docx`; empty without counts."""
    if not counts:
        return ""
    kinds = [f"{number:,} {kind}" for kind, number in list(counts.items())[:KINDS_NAMED]]
    n_others = sum(list(counts.values())[KINDS_NAMED:])
    if n_others:
        kinds.append(f"{n_others:,} of other kinds")
    return f"{sum(counts.values()):,} skipped: {', '.join(kinds)}"


def no_texts_line(folder: Path, counts: Mapping[str, int]) -> str:
    """Format the message that a folder contains no text files, and what it contains instead."""
    kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    line = f"there is no {kinds} file in {folder}"
    return f"{line}; {format_skipped(counts)}" if counts else line


def reason_of(error: OSError) -> str:
    """Return the operating system's message in lower case."""
    return (error.strerror or str(error)).lower()
