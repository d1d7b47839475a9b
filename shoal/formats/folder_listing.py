"""The files of a folder: texts by their names, and what is passed over, so that nobody has to guess what came in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.formats.file_types import FORMAT_OF_SUFFIX

SUFFIXES = tuple(FORMAT_OF_SUFFIX)
"""What a file's name ends with to be taken for a text where only its folder was named."""

WITHOUT_SUFFIX = "without extension"
LINK = "symbolic link"
"""What is passed over for another reason than its extension, as it is counted. A link may lead out of the folder, to
a file that its maker may not read but we may, or back up, and round and round: none is followed."""

KINDS_NAMED = 6
"""Kinds of files named in a line; a folder of logs may hold hundreds."""


@dataclass(frozen=True, slots=True)
class UnreadableFolder:
    """A folder that could not be listed, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder but for names that begin with a dot, in the order of the paths.

    `others` are files with other extensions, `links` symbolic links to files or folders, `empty` folders that hold
    nothing at all.
    """

    texts: tuple[Path, ...]
    others: tuple[Path, ...]
    links: tuple[Path, ...]
    unreadable: tuple[UnreadableFolder, ...]
    empty: tuple[Path, ...] = ()

    @property
    def passed_over(self) -> dict[str, int]:
        """How many files are no texts by their names, by extension, and how many links; the most frequent first."""
        counts = Counter(path.suffix.lower() or WITHOUT_SUFFIX for path in self.others)
        if self.links:
            counts[LINK] = len(self.links)
        return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def list_folder(folder: Path, *, recursive: bool = True) -> Listing:
    """The files below a folder, or right in it. A folder inside that cannot be listed does not stop the rest."""
    texts: list[Path] = []
    others: list[Path] = []
    links: list[Path] = []
    unreadable: list[UnreadableFolder] = []
    empty: list[Path] = []
    # A list and no recursion: folders may be nested deeper than the interpreter's stack.
    waiting = [folder]
    while waiting:
        where = waiting.pop()
        try:
            with os.scandir(where) as entries:
                is_empty = True
                for entry in entries:
                    is_empty = False
                    if entry.name.startswith("."):
                        continue
                    path = where / entry.name
                    if entry.is_symlink():
                        links.append(path)
                    elif not entry.is_dir(follow_symlinks=False):
                        (texts if is_text_name(entry.name) else others).append(path)
                    elif recursive:
                        waiting.append(path)
            if is_empty:
                empty.append(where)
        except OSError as error:
            unreadable.append(UnreadableFolder(where, reason_of(error)))
    return Listing(
        texts=tuple(sorted(texts)),
        others=tuple(sorted(others)),
        links=tuple(sorted(links)),
        unreadable=tuple(sorted(unreadable, key=lambda one: one.path)),
        empty=tuple(sorted(empty)),
    )


def is_text_name(name: str) -> bool:
    """Whether a file of this name is a text where only its folder was named."""
    return not name.startswith(".") and Path(name).suffix.lower() in FORMAT_OF_SUFFIX


def may_be_listed(path: str, folder: str) -> bool:
    """Whether `list_folder` may return a text of this path: below the folder, normalised, and nowhere hidden."""
    beginning = f"{folder.rstrip('/')}/"
    if not path.startswith(beginning):
        return False
    *folders, name = path.removeprefix(beginning).split("/")
    return is_text_name(name) and all(part and not part.startswith(".") for part in folders)


def passed_over_line(counts: Mapping[str, int]) -> str:
    """`7 passed over: 4 .pdf, 3 .docx`; empty where nothing was."""
    if not counts:
        return ""
    named = [f"{number:,} {kind}" for kind, number in list(counts.items())[:KINDS_NAMED]]
    others = sum(list(counts.values())[KINDS_NAMED:])
    if others:
        named.append(f"{others:,} of other kinds")
    return f"{sum(counts.values()):,} passed over: {', '.join(named)}"


def no_texts_line(folder: Path, counts: Mapping[str, int]) -> str:
    """That a folder holds nothing that would be taken in, and what it holds instead."""
    kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    line = f"there is no {kinds} file in {folder}"
    return f"{line}; {passed_over_line(counts)}" if counts else line


def reason_of(error: OSError) -> str:
    """What the system says is wrong, in lower case."""
    return (error.strerror or str(error)).lower()
