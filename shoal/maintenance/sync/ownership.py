"""Which documents are those of a folder. Their source paths come from whoever sent them, so these are never opened.

A document is the folder's where its source path is one that the listing of the folder may return. A relative path does
not say what it is relative to; such a document is the folder's where the end of a file's path is its path, and the
file's text its text.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from shoal.formats.folder_listing import may_be_listed
from shoal.maintenance.sync.folder import Folder
from shoal.maintenance.sync.plan import Stored
from shoal.storage.database import Snapshot

# The bounds are the folder with `/` and with what follows `/`.
BELOW = "SELECT id, source_path, content_hash FROM documents WHERE source_path >= :first AND source_path < :beyond"
WITH_TEXT = "SELECT id, source_path FROM documents WHERE content_hash = :content_hash"


def documents_of(snapshot: Snapshot, folder: Folder) -> tuple[list[Stored], dict[str, int]]:
    """The documents of a folder, and the ids of other documents by the hash of the text that they share with a file."""
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
    rows = snapshot.tuples(BELOW, {"first": f"{root}/", "beyond": f"{root}0"})
    paths = {file.name: file.path for file in folder.files}
    folded = {name.casefold(): name for name in sorted(paths)}
    documents = []
    for document_id, source_path, content_hash in rows:
        if may_be_listed(source_path, folder.root):
            name = source_path if source_path in paths else folded.get(source_path.casefold(), source_path)
            if name != source_path and not _is_same(source_path, paths[name]):
                name = source_path
            documents.append(Stored(document_id, name, content_hash, source_path))
    return documents


def _is_same(name: str, path: Path) -> bool:
    """Whether the file system takes a name for that of a file, as some do whose names have no capitals."""
    try:
        return Path(name).samefile(path)
    except OSError:
        return False
