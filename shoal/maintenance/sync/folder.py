"""The texts of a folder: where they are and what they say. The listing alone decides what is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shoal.errors import DocumentError, NotFoundError, UnreadableFileError
from shoal.formats.decoding import clean
from shoal.formats.drafts import draft_from_file
from shoal.formats.folder_listing import list_folder
from shoal.models import DocFormat, DocumentDraft
from shoal.settings import Settings


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file with the SHA-256 (hex) of its text. `name` is its absolute path as a source path is stored, `folder` the
    folder that was listed."""

    path: Path
    name: str
    content_hash: str
    size: int
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A file or folder that could not be read, and why. What is stored of it stays. `is_refused`: it was read, but holds
    no text that could be stored, and will not before it changes."""

    name: str
    reason: str
    is_folder: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """What is in a folder, in the order of the names.

    `links`: names of symbolic links, which are not followed. `empty`: folders with nothing in them, such as those where
    a disk is missing. `passed_over`: how many files are no texts by their names, by extension, and how many links.
    """

    root: str
    files: tuple[TextFile, ...]
    failed: tuple[Failed, ...]
    links: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)

    @property
    def unseen(self) -> frozenset[str]:
        """Names that may lead to files which were not read, themselves or as folders."""
        return frozenset([*(one.name for one in self.failed), *self.links])


def folder_above(name: str, folders: Collection[str]) -> str | None:
    """The one of some names that is a path or stands above it, the nearest; None where none does."""
    while name:
        if name in folders:
            return name
        name = name.rpartition("/")[0]
    return "/" if "/" in folders else None


def root_of(folder: Path) -> str:
    """A folder's absolute path as a source path is stored. Raises NotFoundError where there is none."""
    # Not resolved: a link to a folder may lead elsewhere tomorrow, and its documents are those of the link.
    root = os.path.abspath(folder)  # noqa: PTH100
    if not os.path.isdir(root):  # noqa: PTH112
        raise NotFoundError(f"there is no folder {folder}")
    return clean(root)


def look(folder: Path, settings: Settings, watch: Callable[[int], None] = lambda _: None) -> Folder:
    """Read the texts that the listing of a folder names, and nothing else.

    Calls `watch` with the bytes of each file. Raises NotFoundError where there is no such folder.
    """
    root = root_of(folder)
    place = Path(os.path.abspath(folder))  # noqa: PTH100
    listing = list_folder(place)
    files: dict[str, TextFile] = {}
    failed = [Failed(clean(str(one.path)), one.reason, is_folder=True) for one in listing.unreadable]
    for path in listing.texts:
        name = clean(str(path))
        if name in files:
            failed.append(
                Failed(name, "another file has the same name but for characters that are not stored")
            )
            continue
        try:
            draft = read(path, place, settings)
        except (DocumentError, NotFoundError) as error:
            failed.append(Failed(name, str(error), is_refused=is_refusal(error)))
            continue
        watch(draft.n_bytes)
        files[name] = TextFile(path, name, draft.content_hash, draft.n_bytes, place)
    return Folder(
        root=root,
        files=tuple(sorted(files.values(), key=lambda file: file.name)),
        failed=tuple(failed),
        links=tuple(clean(str(path)) for path in listing.links),
        empty=tuple(clean(str(path)) for path in listing.empty),
        passed_over=listing.passed_over,
    )


def is_refusal(error: Exception) -> bool:
    """Whether a file was read but holds no text that could be stored."""
    return isinstance(error, DocumentError) and not isinstance(error, UnreadableFileError)


def read(
    path: Path,
    folder: Path | None,
    settings: Settings,
    tags: tuple[str, ...] = (),
    format: DocFormat | None = None,  # noqa: A002 - the name that drafts have for it
) -> DocumentDraft:
    """A file of a folder as it is now, under its absolute path. Raises DocumentError, NotFoundError."""
    return draft_from_file(
        path, folder=folder, settings=settings, tags=tags, format=format, source_path=str(path)
    )
