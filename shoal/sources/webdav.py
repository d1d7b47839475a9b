"""WebDAV (RFC 4918) as a store: folder by folder, one level at a time.

What a server names is checked: only an entry directly below the folder that was asked for counts, so neither
other hosts nor `..` nor loops lead anywhere else.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from shoal.conversion.converted import largest_file
from shoal.conversion.fetching import Answer
from shoal.conversion.web_addresses import WebAddress, parse_url
from shoal.errors import DocumentTooLargeError, FetchError, ObjectGoneError, SourceError
from shoal.settings import Settings
from shoal.sources.stores import (
    MAX_PENDING,
    MAX_URL_CHARS,
    PAGE_OBJECTS,
    Listed,
    ListedPage,
    Place,
    Store,
    checked_size,
    is_usable_name,
)
from shoal.sources.web_requests import XmlReader, fetcher_of, refusal, source_error

MAX_FOLDERS_DEEP = 64
"""What is deeper is left out: it may be a loop of links of the server."""
_OK, _SEVERAL = 200, 207
_ASKED = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getetag/>'
    b"<getlastmodified/><getcontentlength/></prop></propfind>"
)
_MAX_TEXT_CHARS = 20_000
_ABSOLUTE = re.compile(r"(?:https?:)?//([^/?#]*)", re.IGNORECASE)
_PROPERTIES = frozenset({"getetag", "getlastmodified", "getcontentlength"})


class _Entry(NamedTuple):
    """An answer about one file or folder. `properties`: by name, those that the server has."""

    href: str
    properties: Mapping[str, str]
    is_folder: bool


class _Answers(XmlReader):
    """The entries of an answer with several statuses."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[_Entry] = []
        self._found: dict[str, str] = {}
        self._is_folder = False
        self.statuses: list[str] = []

    def begin(self, attributes: Mapping[str, str]) -> None:
        if len(self.path) == 1 and self.path[0] != "multistatus":
            raise ValueError("it is no answer of WebDAV")
        if self.path == ["multistatus", "response"]:
            self._found, self._is_folder = {}, False
        self._is_folder |= self.path[-2:] == ["resourcetype", "collection"]

    def text(self, text: str) -> None:
        name = self.path[-1]
        if self.path == ["multistatus", "response", "status"]:
            self.statuses.append(text)
        is_href = self.path == ["multistatus", "response", "href"]
        if (is_href or name in _PROPERTIES) and len(self._found.get(name, "")) < _MAX_TEXT_CHARS:
            self._found[name] = self._found.get(name, "") + text

    def end(self) -> None:
        if self.path == ["multistatus", "response"]:
            found = {name: value.strip() for name, value in self._found.items()}
            self.entries.append(_Entry(found.pop("href", ""), found, self._is_folder))


class WebDavStore(Store):
    """The files below a folder of a WebDAV server that SHOAL_SOURCES allows."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.address = place.url
        self._root = parse_url(place.url.replace("webdav", "http", 1), MAX_URL_CHARS)
        self._authorities = {self._root.authority, self._root.host, f"{self._root.host}:{self._root.port}"}
        self._folder = _names(self._root.target.decode("ascii")) or []
        self._selection = place.selection
        self._settings = settings
        self._fetcher = fetcher_of(settings)
        self._headers: list[tuple[bytes, bytes]] = []
        if place.options.get("username") or place.secrets.get("password"):
            user, password = place.options.get("username", ""), place.secrets.get("password", "")
            given = base64.b64encode(f"{user}:{password}".encode())
            self._headers.append((b"Authorization", b"Basic " + given))

    def list(self, place: str | None) -> ListedPage:
        pending: list[str] = [""] if place is None else json.loads(place)
        objects: list[Listed] = []
        n_skipped = 0
        while pending and len(objects) < PAGE_OBJECTS:
            folder = pending.pop()
            for entry in self._entries(folder):
                name = self._name(entry, folder)
                if name == folder:
                    continue
                if name is None or not is_usable_name(name):
                    n_skipped += 1
                elif entry.is_folder:
                    is_deep = name.count("/") >= MAX_FOLDERS_DEEP
                    if is_deep or self._selection.excludes(f"{name}/"):
                        n_skipped += 1
                    else:
                        pending.append(name)
                elif self._selection.reason_against(name) is not None:
                    n_skipped += 1
                else:
                    objects.append(_listed(name, entry.properties))
            if len(pending) > MAX_PENDING:
                raise SourceError(f"it has more than {MAX_PENDING:,} folders to list", is_temporary=False)
        return ListedPage(tuple(objects), json.dumps(pending) if pending else None, n_skipped)

    def _entries(self, folder: str) -> tuple[_Entry, ...]:
        """Raises SourceError."""
        headers = [(b"Depth", b"1"), (b"Content-Type", b"application/xml")]
        try:
            answer = self._ask(f"{folder}/" if folder else "", "PROPFIND", headers, _ASKED)
        except ObjectGoneError:
            if not folder:
                raise SourceError(f"there is nothing at {self.address}; is the address right?") from None
            return ()  # it is gone since it was listed
        if answer.status != _SEVERAL:
            raise SourceError(
                f"{self._root.host} does not answer as a WebDAV server does (status {answer.status})",
                is_temporary=False,
            )
        found = _Answers()
        try:
            found.read(answer.data)
        except ValueError as error:
            raise SourceError(f"the list of {folder or self.address} cannot be read: {error}") from None
        failed = next((each for each in found.statuses if not _is_listed_or_gone(each)), None)
        if failed is not None:
            # What is below would look as if it were gone.
            raise SourceError(f"a part of {folder or self.address} cannot be listed: {failed[:100]}")
        return tuple(found.entries)

    def _ask(
        self,
        name: str,
        method: str = "GET",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes | None = None,
    ) -> Answer:
        """Ask for what is below the root, without following redirects: the password goes nowhere else.

        Raises SourceError, ObjectGoneError, DocumentTooLargeError.
        """
        path = "".join(f"/{quote(part, safe='')}" for part in [*self._folder, *name.split("/")])
        address = WebAddress(self._root.scheme, self._root.host, self._root.port, path.encode())
        try:
            answer = self._fetcher.request(address, method, [*self._headers, *headers], body, max_redirects=0)
        except FetchError as error:
            if error.code == "url_too_large" and method == "GET":
                limit = largest_file(self._settings)
                raise DocumentTooLargeError(f"it has more than {limit:,} bytes, which is the limit") from None
            raise source_error(error) from None
        if answer.status not in (_OK, _SEVERAL):
            raise refusal(answer)
        return answer

    def _name(self, entry: _Entry, folder: str) -> str | None:
        """Return the name of an entry directly below a folder, that of the folder for itself; None for what
        leads elsewhere."""
        # Requests go to the root's host whatever an answer says, and its path is taken as it was sent.
        absolute = _ABSOLUTE.match(entry.href)
        if absolute and absolute[1].rpartition("@")[2].lower() not in self._authorities:
            return None
        names = _names(entry.href[absolute.end() :] if absolute else entry.href)
        path = [*self._folder, *filter(None, folder.split("/"))]
        if names == path:
            return folder
        if names is None or names[:-1] != path:
            return None
        return "/".join(names[len(self._folder) :])

    def read(self, name: str, max_bytes: int) -> bytes:
        data = self._ask(name).data
        return checked_size(data, max_bytes)


def _is_listed_or_gone(status: str) -> bool:
    """Whether the status line of an entry says that it is there, or is not any more."""
    code = status.split()[1:2]
    return bool(code) and (code[0].startswith("2") or code[0] in ("404", "410"))


def _names(path: str) -> list[str] | None:
    """Return the names in a quoted path; None if one of them is no name of a file or folder."""
    names = []
    for part in path.partition("?")[0].strip("/").split("/"):
        try:
            name = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            return None
        if "/" in name:
            return None
        if name:
            names.append(name)
    return names


def _listed(name: str, properties: Mapping[str, str]) -> Listed:
    """An entry with its version: what changes with the content, the surest first, and the size."""
    length = properties.get("getcontentlength", "")
    n_bytes = int(length[:18]) if length.isascii() and length.isdigit() else None
    version = properties.get("getetag") or properties.get("getlastmodified") or ""
    return Listed(name, f"{length} {version}"[:500], n_bytes)
