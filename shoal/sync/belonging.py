"""Which documents are those of a folder: by their absolute paths, and by relative ones where these can only mean it.

A relative path does not say what it is relative to, and an upload may have sent the same from elsewhere. Documents with
such paths are the folder's where at least half of those that begin alike have their text in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.storage.database import Snapshot
from shoal.sync.folder import Folder
from shoal.sync.plan import Stored

# Documents whose source path lies below a folder; the bounds are the folder with `/` and with what follows `/`.
BELOW = """
    SELECT id, source_path, content_hash, source_path FROM documents WHERE source_path >= :first AND source_path < :beyond
"""
# Any that is not absolute: it sorts before `/` or after all that begin with it.
RELATIVE = """
    SELECT id, source_path, content_hash, source_path FROM documents WHERE source_path < '/' OR source_path >= '0'
"""

AT_LEAST = 0.5
"""Share of the documents whose paths begin alike that must have their text in the folder: enough to tell a folder that
was taken in under a relative name, from others that happen to be called the same."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """Documents whose relative paths begin alike, as those of a folder. `is_as_called`: the folder is called by that
    beginning now; `is_named`: the beginning names it at all."""

    documents: tuple[Stored, ...]
    is_as_called: bool
    is_named: bool


def below(snapshot: Snapshot, root: str) -> list[Stored]:
    """Documents whose source path lies below a folder, under whatever name that is given."""
    bounds = {"first": f"{root.rstrip('/')}/", "beyond": f"{root.rstrip('/')}0"}
    return [Stored(*row) for row in snapshot.tuples(BELOW, bounds)]


def relatives_of(snapshot: Snapshot, given: Path, root: str) -> list[Relatives]:
    """Documents that may be of the folder `root`, called `given`; names are what they would be there."""
    called = "" if given.is_absolute() else os.path.normpath(given)
    found = []
    for name in dict.fromkeys(_names(called, root)):
        documents = [
            one._replace(name=f"{root.rstrip('/')}/{one.source_path.removeprefix(f'{name}/')}")
            for one in (below(snapshot, name) if name else _relative(snapshot))
            if _leads_down(one.source_path.removeprefix(f"{name}/"))
        ]
        if documents:
            found.append(Relatives(tuple(documents), is_as_called=name == called != "", is_named=bool(name)))
    return found


def _names(called: str, root: str) -> Iterator[str]:
    """What the folder may have been called: as now, then by the end of its path, the longest first, or not at all."""
    if called not in ("", "."):
        yield called
    parts = root.strip("/").split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])
    yield ""


def _relative(snapshot: Snapshot) -> list[Stored]:
    return [Stored(*row) for row in snapshot.tuples(RELATIVE)]


def _leads_down(path: str) -> bool:
    return ".." not in path.split("/") and "://" not in path


def those_of(found: Folder, relatives: Sequence[Relatives]) -> list[Stored]:
    """The documents with relative paths that are the folder's.

    Of those that begin alike, all where most have their text here. Else those whose files are here, where the folder is
    called by that beginning; a file that is not here says nothing then. Paths that do not name the folder are never
    taken for those of a file that is gone.
    """
    places = {file.name: file.content_hash for file in found.files}
    hashes = set(places.values())
    claimed: dict[int, Stored] = {}
    for one in relatives:
        # Where nothing names the folder, a text counts only at its place.
        known = [
            document
            for document in one.documents
            if document.content_hash in (hashes if one.is_named else {places.get(document.name)})
        ]
        is_of_folder = len(known) >= AT_LEAST * len(one.documents)
        for document in one.documents:
            is_here = document.name in places
            if one.is_named:
                is_its_own = is_of_folder or (one.is_as_called and is_here)
            else:
                is_its_own = is_of_folder and (is_here or document.content_hash in hashes)
            if is_its_own:
                claimed.setdefault(document.id, document)
    return list(claimed.values())
