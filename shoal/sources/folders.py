"""A folder of this machine as a store, listed and read as `shoal sync` does: no link is followed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.conversion.folder_listing import list_folder
from shoal.conversion.folder_rights import rights_of_file
from shoal.errors import DocumentError, NotFoundError, ObjectGoneError, SourceError
from shoal.formats.decoding import clean
from shoal.formats.drafts import read_regular_file
from shoal.settings import Settings
from shoal.sources.stores import Listed, ListedPage, Place, Store, is_usable_name


class FolderStore(Store):
    """The files below a folder. Their versions are size, times and rights."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._root = Path(place.url.removeprefix("file://"))
        self._selection = place.selection
        self._settings = settings

    def list(self, place: str | None) -> ListedPage:
        """Return all files at once: a listing of a disk is cheap, and has no place to go on from."""
        if not self._root.is_dir():
            raise SourceError(f"there is no folder {self._root}; is it mounted?")
        listing = list_folder(self._root, self._selection)
        if listing.unreadable:
            # What is below would look as if it were gone.
            first = listing.unreadable[0]
            raise SourceError(f"{first.path} cannot be listed: {first.reason}")
        usable = [path for path in listing.texts if is_usable_name(path.relative_to(self._root).as_posix())]
        objects = [found for path in usable if (found := self._listed(path)) is not None]
        n_skipped = len(listing.skipped) + len(listing.texts) - len(usable)
        return ListedPage(tuple(objects), None, n_skipped)

    def _listed(self, path: Path) -> Listed | None:
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        name = path.relative_to(self._root).as_posix()
        version = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        try:
            rights = rights_of_file(path, self._root)
        except DocumentError:
            rights = None  # reading the file says what is wrong
        if rights is not None:
            version += f" {hashlib.sha256(repr(rights).encode()).hexdigest()[:16]}"
        return Listed(name, version, status.st_size)

    def read(self, name: str, max_bytes: int) -> bytes:
        try:
            return read_regular_file(self._root / name, max_bytes, self._root)
        except NotFoundError:
            raise ObjectGoneError("it is gone since it was listed") from None

    def source_path(self, name: str) -> str:
        return clean(str(self._root / name))

    def fields(self, name: str) -> Mapping[str, Any]:
        rights = rights_of_file(self._root / name, self._root)
        return {} if rights is None else {"allow": rights[0], "deny": rights[1]}
