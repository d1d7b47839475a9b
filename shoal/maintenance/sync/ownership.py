"""Decides which documents belong to a folder. Source paths are untrusted client input and are never opened.

A document belongs to the folder if the listing of the folder may return its source path, so a document of an
excluded file belongs to none. A document with a
relative path belongs to it if a file has the same text and a path that ends with this relative path.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from shoal.conversion.folder_listing import is_listable
from shoal.maintenance.sync.folder import Folder
from shoal.maintenance.sync.plan import Stored
from shoal.storage.database import Snapshot

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


def documents_of(snapshot: Snapshot, folder: Folder) -> tuple[list[Stored], dict[str, int]]:
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
            documents.append(Stored(document_id, name, content_hash, path))
    return documents, elsewhere


def _below(snapshot: Snapshot, folder: Folder) -> list[Stored]:
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
            documents.append(Stored(document_id, name, content_hash, source_path))
    return documents


def _is_same_file(name: str, path: Path) -> bool:
    """Whether a name and a path are the same file, as on case-insensitive file systems."""
    try:
        return Path(name).samefile(path)
    except OSError:
        return False
