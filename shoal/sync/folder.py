"""The texts of a folder: where they are and what they say."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shoal.errors import DocumentError, NotFoundError
from shoal.models import DocumentDraft
from shoal.parse.decode import clean
from shoal.parse.draft import FORMAT_OF_SUFFIX, draft_from_file
from shoal.settings import Settings


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file with the SHA-256 (hex) of its text. `name` is its absolute path as a source path is stored."""

    path: Path
    name: str
    content_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A file or folder that could not be read, and why. What is stored of it stays."""

    name: str
    reason: str
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """What is in a folder, in the order of the names."""

    root: str
    files: tuple[TextFile, ...]
    failed: tuple[Failed, ...]

    def is_unknown(self, name: str) -> bool:
        """Whether there may be a file of this name that could not be read."""
        return any(
            name == one.name or (one.is_folder and name.startswith(f"{one.name.rstrip('/')}/"))
            for one in self.failed
        )


def look(folder: Path, settings: Settings, watch: Callable[[int], None] = lambda _: None) -> Folder:
    """Read the texts below a folder; names that begin with a dot are passed over, links to folders are not followed.

    `watch` is told the bytes of each file. Raises NotFoundError where there is no such folder.
    """
    # Not resolved: a link to a folder may lead elsewhere tomorrow, and its documents are those of the link.
    root = Path(os.path.abspath(folder))  # noqa: PTH100
    if not root.is_dir():
        raise NotFoundError(f"there is no folder {folder}")
    failed: list[Failed] = []

    def unreadable(error: OSError) -> None:
        failed.append(Failed(clean(str(error.filename)), _reason(error), is_folder=True))

    files: dict[str, TextFile] = {}
    for where, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            if name.startswith(".") or path.suffix.lower() not in FORMAT_OF_SUFFIX:
                continue
            stored_name = clean(str(path))
            try:
                draft = read(path, settings)
            except (DocumentError, NotFoundError) as error:
                failed.append(Failed(stored_name, str(error)))
                continue
            watch(draft.n_bytes)
            if stored_name in files:
                failed.append(
                    Failed(stored_name, "another file has the same name but for control characters")
                )
            else:
                files[stored_name] = TextFile(path, stored_name, draft.content_hash, draft.n_bytes)
    return Folder(clean(str(root)), tuple(sorted(files.values(), key=lambda file: file.name)), tuple(failed))


def read(path: Path, settings: Settings, tags: tuple[str, ...] = ()) -> DocumentDraft:
    """A file as it is now, under its absolute path. Raises DocumentError, NotFoundError."""
    return draft_from_file(path, settings=settings, tags=tags, source_path=str(path))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
