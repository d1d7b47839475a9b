"""Lists and reads the text files of a folder. Only listed files are read."""

from __future__ import annotations

import dataclasses
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from shoal.conversion.converted import CONVERTER_VERSION
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
from shoal.models.documents import DocFormat, DocumentDraft
from shoal.models.files import FileDraft
from shoal.models.token_range import ANY_TOKENS
from shoal.settings import Settings
from shoal.storage.file_stamps import Stamp, StampedFile
from shoal.support.sha256 import sha256_of
from shoal.version import __version__

SETTLED_NS = 2_000_000_000
"""Age of a file's times, in nanoseconds, from which an equal stamp means equal content. A younger file may
change again within the same tick of its clock, which is 2 s long on FAT."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file and its hash, as `hash_of` defines it. `name`: its absolute path in the form of a source path.

    `folder`: the folder that was listed. `stamp`: that of the file when it was read, if it was settled.
    """

    path: Path
    name: str
    content_hash: str
    size: int
    folder: Path | None = None
    stamp: Stamp | None = None


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
    known: Mapping[str, StampedFile] = MappingProxyType({}),
) -> Folder:
    """Read the files that the listing of a folder names, and nothing else; not those that `known` has with
    their present stamp, by name.

    Calls `watch` with the bytes of each file. Raises NotFoundError if the folder does not exist.
    """
    root = root_of(folder)
    settled_at = time.time_ns() - SETTLED_NS
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
        stamp = _stamp_of(path)
        before = known.get(name)
        if stamp is not None and before is not None and before.stamp == stamp:
            watch(stamp.size)
            files[name] = TextFile(path, name, before.file_hash, stamp.size, absolute, stamp)
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
        if stamp is not None and max(stamp.mtime_ns, stamp.ctime_ns) > settled_at:
            stamp = None
        files[name] = TextFile(path, name, hash_of(draft), draft.n_bytes, absolute, stamp)
    return Folder(
        root=root,
        files=tuple(sorted(files.values(), key=lambda file: file.name)),
        failed=tuple(failed),
        skipped=tuple(sorted(skipped, key=lambda entry: entry.path)),
        empty=tuple(clean(str(path)) for path in listing.empty),
        selection=selection,
    )


def _stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a regular file. A change after this call gives the file another one."""
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - in half the time
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def basis_of_hashes(settings: Settings) -> str:
    """Return what the hash of a file depends on besides its bytes."""
    return (
        f"{__version__} {CONVERTER_VERSION} {settings.min_charset_confidence} {settings.max_document_bytes} "
        f"{settings.max_file_bytes}"
    )


def hash_of(draft: DocumentDraft | FileDraft) -> str:
    """Return the SHA-256 (hex) that shows a change of a file: of its text, or of a file to convert."""
    if isinstance(draft, FileDraft):
        return draft.file_hash
    return draft.content_hash if draft.chunk_tokens == ANY_TOKENS else sha256_of(draft.content)


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
