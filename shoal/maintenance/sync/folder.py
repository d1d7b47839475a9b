"""Lists and reads the text files of a folder, and plans the changes of a sync from names and hashes.

Source paths of documents are untrusted client input and are never opened. A document belongs to the folder if
the listing of the folder may return its source path, so a document of an excluded file belongs to none. A
document with a relative path belongs to it if a file has the same text and a path that ends with this
relative path.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from shoal.conversion.converted import CONVERTER_VERSION, draft_of_file
from shoal.conversion.folder_listing import (
    EVERYTHING,
    Selection,
    Skipped,
    SkipReason,
    is_listable,
    list_folder,
)
from shoal.errors import (
    DocumentError,
    DocumentTooLargeError,
    NotFoundError,
    RefusedKindError,
    UnreadableFileError,
)
from shoal.formats.decoding import clean
from shoal.models.documents import DocFormat, DocumentDraft
from shoal.models.files import ANY_TOKENS, FileDraft
from shoal.settings import Settings
from shoal.storage.database import Snapshot
from shoal.storage.source_stamps import Stamp, StampedFile
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


class FolderDocument(NamedTuple):
    """A document of the folder. `name`: the name of its file. `content_hash`: SHA-256 (hex) of its text.
    `source_path` may differ from `name` in form."""

    id: int
    name: str
    content_hash: str
    source_path: str


class Pair(NamedTuple):
    """A document and its file."""

    document: FolderDocument
    file: TextFile

    @property
    def is_renamed(self) -> bool:
        return self.document.source_path != self.file.name


class Same(NamedTuple):
    """A file whose text another document has. `document_id` is None if this sync stores that document."""

    file: TextFile
    document_id: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`kept`: documents whose text is unchanged, though the file may be renamed. `changed`: documents whose
    files have another text. `vanished`: documents whose files no longer exist."""

    kept: tuple[Pair, ...]
    changed: tuple[Pair, ...]
    new: tuple[TextFile, ...]
    same: tuple[Same, ...]
    vanished: tuple[FolderDocument, ...]


def make_plan(folder: Folder, stored: Sequence[FolderDocument], elsewhere: Mapping[str, int]) -> Plan:
    """Compare files and documents. `stored`: documents of this folder. `elsewhere`: ids of other documents by
    hash.

    Hashes are matched before names, so that renamed and swapped files keep their documents. If several
    documents belong to one file, the newest follows it.
    """
    files_with: dict[str, list[TextFile]] = defaultdict(list)
    for file in folder.files:
        files_with[file.content_hash].append(file)
    kept: list[Pair] = []
    same: list[Same] = []
    unmatched: dict[str, list[FolderDocument]] = defaultdict(list)
    vanished: list[FolderDocument] = []
    for document in sorted(stored, key=lambda document: -document.id):
        holders = files_with.pop(document.content_hash, [])
        if not holders:
            unmatched[document.name].append(document)
            continue
        file = next((file for file in holders if file.name == document.name), holders[0])
        kept.append(Pair(document, file))
        same += [Same(holder, document.id) for holder in holders if holder is not file]
    changed: list[Pair] = []
    new: list[TextFile] = []
    for content_hash, holders in files_with.items():
        if content_hash in elsewhere:
            same += [Same(file, elsewhere[content_hash]) for file in holders]
            continue
        # Several files may have the same new text: prefer the first that has a document to update.
        first = next((file for file in holders if unmatched.get(file.name)), holders[0])
        if outdated := unmatched.get(first.name):
            changed.append(Pair(outdated.pop(0), first))
        else:
            new.append(first)
        same += [Same(file, None) for file in holders if file is not first]
    unseen = folder.unseen
    vanished += [
        document
        for documents in unmatched.values()
        for document in documents
        if folder_above(document.name, unseen) is None
    ]
    return Plan(
        kept=_by_name(kept),
        changed=_by_name(changed),
        new=tuple(sorted(new, key=lambda file: file.name)),
        same=tuple(sorted(same, key=lambda entry: entry.file.name)),
        vanished=tuple(sorted(vanished, key=lambda document: (document.name, document.id))),
    )


def _by_name(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=lambda pair: pair.file.name))


HASH_OF_FILE = """
    COALESCE((SELECT file_hash FROM document_files WHERE document_id = documents.id), text_hash, content_hash)
"""
"""The hash that tells whether the file of a document has changed (`folder.hash_of`)."""

# The bounds are the folder followed by `/`, and by the character after `/`.
BELOW = f"""
    SELECT id, source_path, {HASH_OF_FILE} FROM documents WHERE source_path >= :first AND source_path < :end
"""
WITH_TEXT = """
    SELECT id, source_path FROM documents
    WHERE content_hash = :content_hash OR text_hash = :content_hash
       OR id IN (SELECT document_id FROM document_files WHERE file_hash = :content_hash)
    ORDER BY id
"""


def documents_of(snapshot: Snapshot, folder: Folder) -> tuple[list[FolderDocument], dict[str, int]]:
    """The documents of a folder, and ids of other documents with the text of a file, by its hash."""
    documents = _below(snapshot, folder)
    files = defaultdict(list)
    for file in folder.files:
        files[file.content_hash].append(file.name)
    elsewhere = {}
    for content_hash in files.keys() - {document.content_hash for document in documents}:
        row = snapshot.first(WITH_TEXT, {"content_hash": content_hash})
        if row is None:
            continue
        document_id, path = row
        name = next((name for name in files[content_hash] if path and name.endswith(f"/{path}")), None)
        if name is None:
            elsewhere[content_hash] = document_id
        else:
            documents.append(FolderDocument(document_id, name, content_hash, path))
    return documents, elsewhere


def _below(snapshot: Snapshot, folder: Folder) -> list[FolderDocument]:
    root = folder.root.rstrip("/")
    rows = snapshot.tuples(BELOW, {"first": f"{root}/", "end": f"{root}0"})
    paths = {file.name: file.path for file in folder.files}
    folded = {name.casefold(): name for name in sorted(paths)}
    documents = []
    for document_id, source_path, content_hash in rows:
        if is_listable(source_path, folder.root, folder.selection):
            name = source_path if source_path in paths else folded.get(source_path.casefold(), source_path)
            if name != source_path and not _is_same_file(source_path, paths[name]):
                name = source_path
            documents.append(FolderDocument(document_id, name, content_hash, source_path))
    return documents


def _is_same_file(name: str, path: Path) -> bool:
    """Whether a name and a path are the same file, as on case-insensitive file systems."""
    try:
        return Path(name).samefile(path)
    except OSError:
        return False
