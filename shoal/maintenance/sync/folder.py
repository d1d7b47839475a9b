"""Lists and reads the text files of a folder. Only listed files are read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from shoal.conversion.drafts import draft_of_file
from shoal.conversion.folder_listing import EVERYTHING, Selection, Skipped, SkipReason, list_folder
from shoal.errors import (
    DocumentError,
    DocumentTooLargeError,
    NotFoundError,
    RefusedKindError,
    UnreadableFileError,
)
from shoal.formats.decoding import clean
from shoal.models import DocFormat, DocumentDraft, FileDraft
from shoal.settings import Settings


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file and its hash, as `hash_of` defines it. `name`: its absolute path in the form of a source path.
    `folder`: the folder that was listed."""

    path: Path
    name: str
    content_hash: str
    size: int
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A file or folder that could not be read, with the reason. Its documents stay. `is_refused`: the file
    was read, but has no text that can be stored until it changes."""

    name: str
    reason: str
    is_folder: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """The content of a folder, sorted by name.

    `skipped`: files, links and folders that were not read. `empty`: empty folders, such as mount points
    without their disk.
    """

    root: str
    files: tuple[TextFile, ...]
    failed: tuple[Failed, ...]
    skipped: tuple[Skipped, ...] = ()
    empty: tuple[str, ...] = ()
    selection: Selection = EVERYTHING

    @property
    def unseen(self) -> frozenset[str]:
        """Names of files and folders whose content is unknown: failed and skipped ones."""
        return frozenset(
            [*(failure.name for failure in self.failed), *(entry.path for entry in self.skipped)]
        )


def folder_above(name: str, folders: Collection[str]) -> str | None:
    """The nearest of `folders` that contains `name` or is `name` itself; None if there is none."""
    while name:
        if name in folders:
            return name
        name = name.rpartition("/")[0]
    return "/" if "/" in folders else None


def root_of(folder: Path) -> str:
    """The absolute path of a folder in the form of a source path.

    Raises NotFoundError if it does not exist.
    """
    # Not resolved: documents belong to the path of a link, even if its target changes later.
    root = os.path.abspath(folder)  # noqa: PTH100
    if not os.path.isdir(root):  # noqa: PTH112
        raise NotFoundError(f"there is no folder {folder}")
    return clean(root)


def read_folder(
    folder: Path,
    settings: Settings,
    watch: Callable[[int], None] = lambda _: None,
    selection: Selection = EVERYTHING,
) -> Folder:
    """Read the files that the listing of a folder names, and nothing else.

    Calls `watch` with the bytes of each file. Raises NotFoundError if the folder does not exist.
    """
    root = root_of(folder)
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100
    listing = list_folder(absolute, selection)
    files: dict[str, TextFile] = {}
    failed = [
        Failed(clean(str(unreadable.path)), unreadable.reason, is_folder=True)
        for unreadable in listing.unreadable
    ]
    skipped = [dataclasses.replace(entry, path=clean(entry.path)) for entry in listing.skipped]
    for path in listing.texts:
        name = clean(str(path))
        if name in files:
            failed.append(
                Failed(name, "another file has the same name except for characters that are not stored")
            )
            continue
        try:
            draft = read(path, absolute, settings)
        except RefusedKindError as error:
            skipped.append(Skipped.by_content(name, error))
            continue
        except DocumentTooLargeError as error:
            skipped.append(Skipped.because(SkipReason.too_large, name, str(error)))
            continue
        except (DocumentError, NotFoundError) as error:
            failed.append(Failed(name, str(error), is_refused=is_refusal(error)))
            continue
        watch(draft.n_bytes)
        files[name] = TextFile(path, name, hash_of(draft), draft.n_bytes, absolute)
    return Folder(
        root=root,
        files=tuple(sorted(files.values(), key=lambda file: file.name)),
        failed=tuple(failed),
        skipped=tuple(sorted(skipped, key=lambda entry: entry.path)),
        empty=tuple(clean(str(path)) for path in listing.empty),
        selection=selection,
    )


def hash_of(draft: DocumentDraft | FileDraft) -> str:
    """Return the SHA-256 (hex) that shows a change of a file: of its text, or of a file to convert."""
    return draft.file_hash if isinstance(draft, FileDraft) else draft.content_hash


def is_refusal(error: Exception) -> bool:
    """Whether the error means that a file was read but has no text that can be stored."""
    return isinstance(error, DocumentError) and not isinstance(error, UnreadableFileError)


def read(
    path: Path,
    folder: Path | None,
    settings: Settings,
    tags: tuple[str, ...] = (),
    format: DocFormat | None = None,  # noqa: A002 - the name in drafts
) -> DocumentDraft | FileDraft:
    """Read a file of a folder; its source path is absolute. Raises DocumentError, NotFoundError."""
    return draft_of_file(
        path, folder=folder, settings=settings, tags=tags, format=format, source_path=str(path)
    )
