"""Other buckets and remote file systems as stores, through fsspec and the package that each needs.

A listing goes folder by folder: its place is the list of folders that are still to come, so it survives a
restart, and one folder is held in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.errors import DocumentTooLargeError, ObjectGoneError, SourceError
from shoal.sources.stores import (
    MAX_PENDING,
    PAGE_OBJECTS,
    Listed,
    ListedPage,
    Place,
    is_on,
    is_usable_name,
    scheme_of,
)

_VERSION_FIELDS = (
    ("ETag", "etag", "e_tag"),
    ("md5Hash", "content_md5", "md5", "sha", "checksum"),
    ("LastModified", "last_modified", "updated", "mtime", "modified", "created"),
)
"""What file systems call that which changes with the content, the surest first."""
_THROTTLED = ("slowdown", "slow down", "throttl", "too many requests", "429", "503", "rate exceeded")
_PACKAGES = {"gs": "gcsfs", "az": "adlfs", "sftp": "paramiko"}


class FileSystemStore:
    """The objects below an address of a file system that fsspec knows."""

    def __init__(self, place: Place) -> None:
        self._scheme = scheme_of(place.url)
        self._url = place.url.rstrip("/")
        self._selection = place.selection
        try:
            from fsspec.core import url_to_fs

            self._files, root = url_to_fs(self._url, **_arguments(self._scheme, place))
        except ImportError as error:
            package = _PACKAGES.get(self._scheme, "fsspec")
            raise SourceError(
                f"addresses of {self._scheme}:// need a package that is not installed ({error}): "
                f"pip install 'shoal[sources]' {package}",
                is_temporary=False,
            ) from error
        except Exception as error:
            raise _source_error(error) from error
        self._root = str(root).rstrip("/")

    def list(self, place: str | None) -> ListedPage:
        pending: list[str] = [""] if place is None else json.loads(place)
        objects: list[Listed] = []
        n_skipped = 0
        while pending and len(objects) < PAGE_OBJECTS:
            folder = pending.pop()
            for entry in self._entries(folder):
                name = self._name(entry)
                if name is None:
                    n_skipped += 1
                elif entry.get("type") == "directory":
                    if self._selection.excludes(f"{name}/"):
                        n_skipped += 1
                    elif name != folder:
                        pending.append(name)
                elif entry.get("type") != "file" or self._selection.reason_against(name) is not None:
                    n_skipped += 1
                else:
                    size = entry.get("size")
                    objects.append(Listed(name, _version(entry), None if size is None else int(size)))
            if len(pending) > MAX_PENDING:
                raise SourceError(f"it has more than {MAX_PENDING:,} folders to list", is_temporary=False)
        return ListedPage(tuple(objects), json.dumps(pending) if pending else None, n_skipped)

    def _entries(self, folder: str) -> Sequence[Mapping[str, Any]]:
        path = f"{self._root}/{folder}" if folder else self._root
        try:
            entries: Sequence[Mapping[str, Any]] = self._files.ls(path, detail=True, refresh=True)
        except TypeError:
            entries = self._files.ls(path, detail=True)
        except FileNotFoundError:
            if not folder:
                raise SourceError(f"there is nothing at {self._url}; is the address right?") from None
            return ()  # it is gone since it was listed
        except Exception as error:
            raise _source_error(error) from error
        return entries

    def _name(self, entry: Mapping[str, Any]) -> str | None:
        """Return the name of an entry below the root; None if it cannot be followed."""
        path = str(entry["name"]).rstrip("/")
        root = self._root.lstrip("/")
        below = path.lstrip("/").removeprefix(f"{root}/") if root else path.lstrip("/")
        return below if path.lstrip("/") != root and is_usable_name(below) else None

    def read(self, name: str, max_bytes: int) -> bytes:
        try:
            data: bytes = self._files.cat_file(f"{self._root}/{name}", end=max_bytes + 1)
        except FileNotFoundError:
            raise ObjectGoneError("it is gone since it was listed") from None
        except Exception as error:
            raise _source_error(error) from error
        if len(data) > max_bytes:
            raise DocumentTooLargeError(f"it has more than {max_bytes:,} bytes, which is the limit")
        return data

    def source_path(self, name: str) -> str:
        return f"{self._url}/{name}"

    def file_name(self, name: str) -> str:
        return name

    def fields(self, name: str) -> Mapping[str, Any]:
        return {}

    def close(self) -> None:
        """fsspec closes its connections itself."""


def _arguments(scheme: str, place: Place) -> dict[str, Any]:
    """Return the arguments of a file system. No instance is shared, since secrets may have changed."""
    given: dict[str, Any] = {**place.options, **place.secrets}
    if "anon" in given:
        given["anon"] = is_on(given["anon"])
    if "port" in given:
        given["port"] = int(given["port"])
    if scheme == "memory":
        return given
    return {**given, "skip_instance_cache": True, "use_listings_cache": False}


def _version(entry: Mapping[str, Any]) -> str:
    """Return a text that changes with the content: the surest that the file system says, and the size."""
    for names in _VERSION_FIELDS:
        for name in names:
            if entry.get(name) is not None:
                return f"{entry.get('size')} {entry[name]}"[:500]
    return f"{entry.get('size')}"


def _source_error(error: Exception) -> SourceError:
    """Return an error of a file system as one of the source, on one line and without secrets of requests."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, PermissionError):
        return SourceError(f"access was refused ({reason}); check the secrets", is_temporary=False)
    is_throttled = any(word in reason.lower() for word in _THROTTLED)
    return SourceError(f"the store asks for fewer requests: {reason}" if is_throttled else reason)
