"""The files of a folder: texts by their names, and what is passed over, so that nobody has to guess what came in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.parse.formats import FORMAT_OF_SUFFIX

SUFFIXES = tuple(FORMAT_OF_SUFFIX)
"""What a file's name ends with to be taken for a text where only its folder was named."""

WITHOUT_SUFFIX = "without extension"
LINKED_FOLDER = "linked folder"
"""What is passed over for another reason than its extension, as it is counted. A link may lead back up, and round and
round, so links to folders are not followed."""

KINDS_NAMED = 6
"""Kinds of files named in a line; a folder of logs may hold hundreds."""


@dataclass(frozen=True, slots=True)
class UnreadableFolder:
    """A folder that could not be listed, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder but for names that begin with a dot. `texts` and `others` in the order of their paths;
    `others` are files with other extensions, `links` are links to folders."""

    texts: tuple[Path, ...]
    others: tuple[Path, ...]
    links: tuple[Path, ...]
    unreadable: tuple[UnreadableFolder, ...]

    @property
    def passed_over(self) -> dict[str, int]:
        """How many files are no texts by their names, by extension; the most frequent first."""
        return count_by_suffix(self.others, n_links=len(self.links))


def list_folder(folder: Path, *, recursive: bool = True) -> Listing:
    """The files below a folder, or right in it. A folder inside that cannot be listed does not stop the rest."""
    texts: list[Path] = []
    others: list[Path] = []
    links: list[Path] = []
    unreadable: list[UnreadableFolder] = []

    def note(error: OSError) -> None:
        unreadable.append(UnreadableFolder(Path(error.filename), reason_of(error)))

    for where, folders, names in os.walk(folder, onerror=note):
        visible = [name for name in folders if not name.startswith(".")] if recursive else []
        links += [Path(where, name) for name in visible if Path(where, name).is_symlink()]
        folders[:] = visible
        for name in names:
            if not name.startswith("."):
                path = Path(where, name)
                (texts if path.suffix.lower() in FORMAT_OF_SUFFIX else others).append(path)
    return Listing(tuple(sorted(texts)), tuple(sorted(others)), tuple(sorted(links)), tuple(unreadable))


def count_by_suffix(files: tuple[Path, ...], *, n_links: int = 0) -> dict[str, int]:
    """How many files there are of every extension, the most frequent first."""
    counts = Counter(path.suffix.lower() or WITHOUT_SUFFIX for path in files)
    if n_links:
        counts[LINKED_FOLDER] = n_links
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


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
