"""Stores: what a source lists and reads. `open_store` opens the store of an address.

A store lists its objects page by page. The place where a listing goes on is a text that survives a restart. A
store never follows a link, and its names are labels: no name of an object becomes a path of this machine.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from shoal.conversion.folder_listing import EVERYTHING, Selection
from shoal.conversion.web_addresses import PORTS, parse_url
from shoal.errors import DocumentTooLargeError, InvalidFieldError
from shoal.formats.decoding import clean
from shoal.settings import Settings

MAX_URL_CHARS = 2_000
MAX_NAME_BYTES = 4_096
"""A longer name of an object is not followed; stores have at most 1,024, paths at most 4,096."""
PAGE_OBJECTS = 1_000
"""A page of a listing by folders ends after the folder in which it reaches so many objects."""
MAX_PENDING = 100_000
"""Folders that may wait to be listed. With more, the listing ends: what is left out would look as if it were
gone."""
OFF = (
    "sources are off; the operator of this library sets SHOAL_SOURCES to the addresses that sources may "
    "have, and restarts the service"
)


class Listed(NamedTuple):
    """An object as its store lists it. `name`: below the address; `version`: a text that changes with the
    content; `n_bytes`: None if the store does not say."""

    name: str
    version: str
    n_bytes: int | None


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some objects. `place`: where the listing goes on; None at its end. `n_skipped`: entries left out."""

    objects: tuple[Listed, ...]
    place: str | None
    n_skipped: int = 0


class Store(ABC):
    """A place with objects. Methods raise SourceError; `read` may be called by several threads.

    `address`: what stands before the name of an object in the source path of its document.
    """

    address: str

    @abstractmethod
    def list(self, place: str | None) -> ListedPage:
        """Return the objects from `place` on; None: from the beginning."""

    def expect(self, versions: Mapping[str, str]) -> None:  # noqa: B027 - most stores have one content of a name
        """Learn the versions of the objects that are read next, by name."""

    @abstractmethod
    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of an object. Raises ObjectGoneError, DocumentTooLargeError."""

    def source_path(self, name: str) -> str:
        """Return the source path of the document of an object."""
        return f"{self.address}/{name}"

    def file_name(self, name: str) -> str:
        """Return the name whose extension may say of what kind an object is, once it is read."""
        return name

    def fields(self, name: str) -> Mapping[str, Any]:
        """Return what the store knows of an object besides its content: fields of a document."""
        return {}

    def close(self) -> None:  # noqa: B027 - most stores hold nothing open
        """End connections and processes."""


def checked_size(data: bytes, max_bytes: int) -> bytes:
    """Return what was read of an object. Raises DocumentTooLargeError."""
    if len(data) > max_bytes:
        raise DocumentTooLargeError(f"it has more than {max_bytes:,} bytes, which is the limit")
    return data


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is and how it is reached. `secrets`: their values, by name."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    selection: Selection = EVERYTHING


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of store. `options` and `secrets`: the names that it takes; `open`: opens one."""

    options: frozenset[str]
    secrets: frozenset[str]
    open: Callable[[Place, Settings], Store]


def _open_folder(place: Place, settings: Settings) -> Store:
    from shoal.sources.folders import FolderStore

    return FolderStore(place, settings)


def _open_bucket(place: Place, settings: Settings) -> Store:
    from shoal.sources.buckets import BucketStore

    return BucketStore(place)


def _open_site(place: Place, settings: Settings) -> Store:
    from shoal.sources.site_maps import SiteStore

    return SiteStore(place, settings)


def _open_webdav(place: Place, settings: Settings) -> Store:
    from shoal.sources.webdav import WebDavStore

    return WebDavStore(place, settings)


def _open_files(place: Place, settings: Settings) -> Store:
    from shoal.sources.file_systems import FileSystemStore

    return FileSystemStore(place)


def _open_repository(place: Place, settings: Settings) -> Store:
    from shoal.sources.git_repositories import GitStore

    return GitStore(place, settings)


def _open_mailbox(place: Place, settings: Settings) -> Store:
    from shoal.sources.mailboxes import MailboxStore

    return MailboxStore(place, settings)


_NONE: frozenset[str] = frozenset()
_MAILBOX = StoreKind(frozenset({"username"}), frozenset({"password"}), _open_mailbox)
KINDS: Mapping[str, StoreKind] = {
    "file": StoreKind(_NONE, _NONE, _open_folder),
    "s3": StoreKind(
        frozenset({"endpoint_url", "region", "anon"}), frozenset({"key", "secret", "token"}), _open_bucket
    ),
    "gs": StoreKind(frozenset({"project", "anon"}), frozenset({"token"}), _open_files),
    "az": StoreKind(
        frozenset({"account_name", "anon"}),
        frozenset({"account_key", "sas_token", "connection_string"}),
        _open_files,
    ),
    "https": StoreKind(_NONE, _NONE, _open_site),
    "http": StoreKind(_NONE, _NONE, _open_site),
    "webdavs": StoreKind(frozenset({"username"}), frozenset({"password"}), _open_webdav),
    "webdav": StoreKind(frozenset({"username"}), frozenset({"password"}), _open_webdav),
    "sftp": StoreKind(frozenset({"port", "username", "host_key"}), frozenset({"password"}), _open_files),
    "git+https": StoreKind(frozenset({"branch", "username"}), frozenset({"token"}), _open_repository),
    "git+ssh": StoreKind(frozenset({"branch", "username"}), _NONE, _open_repository),
    "git+file": StoreKind(frozenset({"branch"}), _NONE, _open_repository),
    "imaps": _MAILBOX,
    "imap": _MAILBOX,
    "memory": StoreKind(_NONE, _NONE, _open_files),
}
"""Kinds by the scheme of their address. `memory`: the memory of this process, for trials."""
URL_OPTIONS = frozenset({"endpoint_url"})
"""Options that are addresses, which SHOAL_SOURCES must allow too."""


def checked_url(url: object) -> str:
    """Return the address of a source in its usual form, without a slash at its end. Raises
    InvalidFieldError."""
    text = _checked_text(url)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise InvalidFieldError("url", "is not a valid address") from None
    if parts.scheme not in KINDS:
        known = ", ".join(f"{scheme}://" for scheme in KINDS if scheme != "memory")
        raise InvalidFieldError("url", f"must be a path from / on, or begin with one of {known}")
    if "@" in parts.netloc:
        raise InvalidFieldError("url", "must not contain a user name or password; give them as secrets")
    if parts.scheme in PORTS:
        return str(parse_url(text, MAX_URL_CHARS))
    if parts.query or parts.fragment:
        raise InvalidFieldError("url", "must not have a part after ? or #")
    if parts.scheme in ("file", "git+file") and (parts.netloc or not parts.path.startswith("/")):
        raise InvalidFieldError("url", "must have three slashes after file:, as in file:///srv/texts")
    if parts.scheme == "file":
        return f"file://{os.path.normpath(parts.path)}"
    if not parts.netloc and parts.scheme not in ("memory", "git+file"):
        raise InvalidFieldError("url", f"must name what is followed, as in {parts.scheme}://NAME/FOLDER")
    if ".." in unquote(parts.path).split("/"):
        raise InvalidFieldError("url", "must not contain ..")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _checked_text(url: object) -> str:
    """Return an address with its scheme. Raises InvalidFieldError."""
    if not isinstance(url, str) or not url.strip():
        raise InvalidFieldError("url", "must be an address such as s3://BUCKET/FOLDER or /srv/texts")
    text = url.strip()
    if len(text) > MAX_URL_CHARS or not text.isprintable():
        raise InvalidFieldError("url", f"must have at most {MAX_URL_CHARS:,} printable characters")
    return f"file://{text}" if text.startswith("/") else text


def is_usable_name(name: str) -> bool:
    """Whether an object can be followed by its name: not hidden, without control characters, not too long."""
    is_hidden = any(part.startswith(".") for part in name.split("/"))
    is_short = len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES
    has_controls = clean(name) != name or any(char in name for char in "\t\n\r\f")
    return bool(name) and not is_hidden and not has_controls and is_short


def is_on(option: str | None) -> bool:
    return option is not None and option.lower() in ("1", "true", "yes", "on")


def scheme_of(url: str) -> str:
    return url.partition("://")[0]


def check_allowed(field_name: str, url: str, settings: Settings) -> None:
    """Raise InvalidFieldError unless SHOAL_SOURCES allows an address."""
    allowed = settings.sources.split()
    if not allowed:
        raise InvalidFieldError(field_name, OFF)
    target = _real(checked_url(url) if scheme_of(url) in KINDS else url)
    for each in allowed:
        root = _real(checked_url(each) if scheme_of(each) in KINDS or each.startswith("/") else each)
        if target == root or target.startswith(f"{root.rstrip('/')}/"):
            return
    raise InvalidFieldError(
        field_name, "is none of the addresses in SHOAL_SOURCES, and not below one of them"
    )


def _real(url: str) -> str:
    """Return an address by which two can be compared: that of this machine without symbolic links."""
    scheme, _, path = url.rstrip("/").partition("://")
    if scheme not in ("file", "git+file"):
        return url.rstrip("/")
    path, mark, folder = (path or "/").partition("//") if scheme == "git+file" else (path or "/", "", "")
    return f"{scheme}://{os.path.realpath(path)}{mark}{folder}"


def open_store(place: Place, settings: Settings, *, reaches: bool = True) -> Store:
    """Open the store of an address that SHOAL_SOURCES allows. Raises InvalidFieldError, SourceError.

    With `reaches=False` it is opened for its source paths only, and the setting may have changed.
    """
    if reaches:
        check_allowed("url", place.url, settings)
        for name in URL_OPTIONS & place.options.keys():
            check_allowed(f"options.{name}", place.options[name], settings)
    return KINDS[scheme_of(place.url)].open(place, settings)
