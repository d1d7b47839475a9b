"""Other buckets and remote file systems as stores, through fsspec and the package that each needs.

A listing goes folder by folder: its place is the list of folders that are still to come, so it survives a
restart, and one folder is held in memory at a time.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from shoal.errors import ObjectGoneError, SourceError
from shoal.sources.stores import (
    MAX_PENDING,
    PAGE_OBJECTS,
    Listed,
    ListedPage,
    Place,
    Store,
    checked_size,
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
SFTP_PORT = 22
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
_REFUSALS = frozenset({"AuthenticationException", "BadAuthenticationType", "BadHostKeyException"})
_PACKAGES = {"gs": "gcsfs", "az": "adlfs", "sftp": "paramiko"}


class FileSystemStore(Store):
    """The objects below an address of a file system that fsspec knows."""

    def __init__(self, place: Place) -> None:
        self._scheme = scheme_of(place.url)
        self.address = place.url.rstrip("/")
        self._selection = place.selection
        self._place = place
        self._opened: tuple[Any, str] | None = None
        self._lock = threading.Lock()
        # Threads that share a client of paramiko take each other's answers, and wait for ever.
        self._turn: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self._scheme == "sftp" else contextlib.nullcontext()
        )

    def _reached(self) -> tuple[Any, str]:
        """Return the file system and the path of the root in it; it is opened for the first request.

        Raises SourceError."""
        with self._lock:
            if self._opened is None:
                self._opened = _open(self._scheme, self._place)
            return self._opened

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
        files, root = self._reached()
        path = f"{root}/{folder}" if folder else root or "/"
        fresh = {} if self._scheme == "sftp" else {"refresh": True}
        try:
            entries: Sequence[Mapping[str, Any]] = files.ls(path, detail=True, **fresh)
        except FileNotFoundError:
            if not folder:
                raise SourceError(f"there is nothing at {self.address}; is the address right?") from None
            return ()  # it is gone since it was listed
        except Exception as error:
            raise _source_error(error) from error
        return entries

    def _name(self, entry: Mapping[str, Any]) -> str | None:
        """Return the name of an entry below the root; None if it cannot be followed."""
        path = str(entry["name"]).rstrip("/")
        root = self._reached()[1].lstrip("/")
        below = path.lstrip("/").removeprefix(f"{root}/") if root else path.lstrip("/")
        return below if path.lstrip("/") != root and is_usable_name(below) else None

    def read(self, name: str, max_bytes: int) -> bytes:
        files, root = self._reached()
        try:
            with self._turn:
                data: bytes = files.cat_file(f"{root}/{name}", end=max_bytes + 1)
        except FileNotFoundError:
            raise ObjectGoneError("it is gone since it was listed") from None
        except Exception as error:
            raise _source_error(error) from error
        return checked_size(data, max_bytes)

    def close(self) -> None:
        if self._scheme == "sftp" and self._opened is not None:
            self._opened[0].client.close()  # fsspec closes the others itself


def _open(scheme: str, place: Place) -> tuple[Any, str]:
    """Return a file system and the path of the address in it. Raises SourceError."""
    try:
        if scheme == "sftp":
            return _open_sftp(place)
        from fsspec.core import url_to_fs

        files, root = url_to_fs(place.url.rstrip("/"), **_arguments(scheme, place))
    except ImportError as error:
        package = _PACKAGES.get(scheme, "fsspec")
        raise SourceError(
            f"addresses of {scheme}:// need a package that is not installed ({error}): "
            f"pip install 'shoal[sources]' {package}",
            is_temporary=False,
        ) from error
    except Exception as error:
        raise _source_error(error) from error
    return files, str(root).rstrip("/")


def _open_sftp(place: Place) -> tuple[Any, str]:
    """Like `_open`: a server is trusted only if its key is known, which fsspec does not ask for."""
    import paramiko
    from fsspec.implementations.sftp import SFTPFileSystem

    given: dict[str, Any] = {**place.options, **place.secrets}
    only_known = OnlyKnownKeys(given.pop("host_key", None))

    class CheckedFileSystem(SFTPFileSystem):  # type: ignore[misc]
        cachable = False

        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(only_known)
            self.client.connect(self.host, timeout=CONNECT_SECONDS, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(READ_SECONDS)

    parts = urlsplit(place.url)
    given["port"] = parts.port or int(given.get("port", SFTP_PORT))
    return CheckedFileSystem(parts.hostname, **given), parts.path.rstrip("/")


class OnlyKnownKeys:
    """Refuses servers whose keys are neither in `known_hosts` nor given as the option `host_key`."""

    def __init__(self, fingerprint: str | None) -> None:
        """`fingerprint`: as `ssh-keygen -l` prints it."""
        self._fingerprint = fingerprint

    def missing_host_key(self, _client: Any, host: str, key: Any) -> None:
        """Raises SourceError."""
        if key.fingerprint != self._fingerprint:
            raise SourceError(
                f"the key of {host} is not known: {key.fingerprint}; if it is right, give it as the option "
                "host_key, or add it to ~/.ssh/known_hosts",
                is_temporary=False,
            )


def _arguments(scheme: str, place: Place) -> dict[str, Any]:
    """Return the arguments of a file system. No instance is shared, since secrets may have changed."""
    given: dict[str, Any] = {**place.options, **place.secrets}
    if "anon" in given:
        given["anon"] = is_on(given["anon"])
    caches = {"skip_instance_cache": True, "use_listings_cache": False}
    return given if scheme == "memory" else {**given, **caches}


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
    if isinstance(error, SourceError):
        return error
    if isinstance(error, PermissionError) or type(error).__name__ in _REFUSALS:
        return SourceError(f"access was refused ({reason}); check the secrets", is_temporary=False)
    is_throttled = any(word in reason.lower() for word in _THROTTLED)
    return SourceError(f"the store asks for fewer requests: {reason}" if is_throttled else reason)
