"""Site maps, RSS and Atom feeds as stores: their entries are the objects, with their URLs as names.

A listing reads one XML file after the other; its place is the list of the files. What cannot be listed ends
the listing with an error, because pages that are left out would look as if they were gone.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import unquote

import httpx

from shoal.conversion.converted import largest_file
from shoal.conversion.fetching import Answer
from shoal.conversion.file_kinds import KIND_OF_SUFFIX
from shoal.conversion.folder_listing import SkipReason
from shoal.conversion.recognition import suffix_of
from shoal.conversion.web_addresses import WebAddress, parse_url
from shoal.errors import (
    DocumentTooLargeError,
    EmptyDocumentError,
    FetchError,
    InvalidFieldError,
    RefusedKindError,
    SourceError,
)
from shoal.settings import Settings
from shoal.sources.stores import Listed, ListedPage, Place, Store
from shoal.sources.web_requests import GONE, SourcePolicy, XmlReader, fetcher_of, refusal, source_error

MAX_ENTRIES = 50_000
"""Entries of one file (sitemaps.org)."""
MAX_FILES = 10_000
"""Files of one site map."""
MAX_DEPTH = 3
"""Site maps below site maps."""
MAX_FILE_BYTES = 50 * 2**20
"""Of a file, unpacked (sitemaps.org)."""
ASKED_TOGETHER = 1_000
"""Entries without a time whose versions one page asks for."""
ASKERS = 8
_OK = 200
_NO_HEAD = frozenset({400, 403, 405, 406, 501})
"""Statuses of servers that answer no HEAD; reading says more."""
_MAX_TEXT_CHARS = 4_000
_GZIP = 16 + zlib.MAX_WBITS
_SHAPES = {
    "urlset": ("url", "loc", "lastmod"),
    "sitemapindex": ("sitemap", "loc", ""),
    "rss": ("item", "link", ""),
    "RDF": ("item", "link", ""),
    "feed": ("entry", "link", "updated"),
}
"""By the root: the element of an entry, and those of its URL and of the time of its last change."""


_Files = list[tuple[str, int]]
"""URLs of XML files, and how deep they are."""


class Entry(NamedTuple):
    """`changed`: the time of its last change as the file has it; empty if it has none."""

    url: str
    changed: str


class _SiteFile(XmlReader):
    """The entries of an XML file."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.is_index = False
        self._found = {"": "", "url": "", "changed": ""}
        self._roles: dict[str, str] = {}
        self._entry = ""

    def begin(self, attributes: Mapping[str, str]) -> None:
        name = self.path[-1]
        if len(self.path) == 1:
            if name not in _SHAPES:
                raise ValueError("it is neither a site map nor a feed")
            self._entry, url, changed = _SHAPES[name]
            self._roles = {url: "url", changed: "changed"}
            self.is_index = name == "sitemapindex"
        elif name == self._entry:
            self._found = {"url": "", "changed": ""}
        elif self._role() == "url" and attributes.get("rel", "alternate") == "alternate":
            self._found["url"] += attributes.get("href", "")

    def _role(self) -> str | None:
        is_of_entry = len(self.path) > 1 and self.path[-2] == self._entry
        return self._roles.get(self.path[-1]) if is_of_entry else None

    def text(self, text: str) -> None:
        role = self._role()
        if role is not None and len(self._found[role]) < _MAX_TEXT_CHARS:
            self._found[role] += text

    def end(self) -> None:
        if self.path[-1] == self._entry and len(self.path) > 1:
            if len(self.entries) >= MAX_ENTRIES:
                raise ValueError(f"it has more than {MAX_ENTRIES:,} entries")
            self.entries.append(Entry(self._found["url"].strip(), self._found["changed"].strip()))


class _Progress(NamedTuple):
    """Where a listing is. `files`: read or not; `file`: the next one; `last`: its last page that was listed.

    A file may change between two parts of it, so its pages are listed in the order of their URLs."""

    files: _Files
    file: int = 0
    last: str = ""


class SiteStore(Store):
    """The pages that a site map or a feed names, on the hosts that SHOAL_SOURCES allows."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._url = place.url
        self._selection = place.selection
        self._settings = settings
        self._policy = SourcePolicy(settings)
        self._fetcher = fetcher_of(settings)
        self._names: dict[str, str] = {}

    def list(self, place: str | None) -> ListedPage:
        progress = _Progress([(self._url, 0)]) if place is None else _Progress(*json.loads(place))
        url, depth = progress.files[progress.file]
        found, base = self._file(url)
        entries, n_skipped = self._chosen(found, base)
        if found.is_index:
            self._add_files(progress.files, entries, depth)
            entries = ()
        left = [entry for entry in sorted(entries, key=lambda each: each.url) if entry.url > progress.last]
        taken = _first_part(left)
        objects = [each for each in self._versions(taken) if each is not None]
        if len(taken) < len(left):
            after = progress._replace(last=taken[-1].url)
        else:
            after = progress._replace(file=progress.file + 1, last="")
        is_last = after.file >= len(after.files)
        n_skipped = 0 if progress.last else n_skipped
        return ListedPage(tuple(objects), None if is_last else json.dumps(after), n_skipped)

    def _file(self, url: str) -> tuple[_SiteFile, WebAddress]:
        """Return the entries of a file, and its address after redirects. Raises SourceError."""
        answer = self._ask(url)
        if answer.status in GONE:
            raise SourceError(f"there is no file {url} (status {answer.status})", is_temporary=False)
        if answer.status != _OK:
            raise refusal(answer)
        found = _SiteFile()
        try:
            found.read(_unpacked(answer.data))
        except ValueError as error:
            # A server may send an incomplete file once.
            raise SourceError(f"{url} cannot be read: {error}") from None
        return found, answer.address

    def _ask(self, url: str, method: str = "GET") -> Answer:
        try:
            return self._fetcher.request(parse_url(url, self._settings.max_source_path_chars), method)
        except FetchError as error:
            raise source_error(error) from None

    def _chosen(self, found: _SiteFile, base: WebAddress) -> tuple[Sequence[Entry], int]:
        """Return the entries that are followed, each once, and the number of the others."""
        chosen: dict[str, Entry] = {}
        n_skipped = 0
        for entry in found.entries:
            url = self._followed(entry.url, base, is_file=found.is_index)
            if url is None:
                n_skipped += 1
            else:
                chosen[url] = Entry(url, entry.changed)
        return tuple(chosen.values()), n_skipped

    def _followed(self, url: str, base: WebAddress, *, is_file: bool) -> str | None:
        """Return an URL in its usual form; None if it is not followed."""
        if not url:
            return None
        try:
            joined = str(httpx.URL(str(base)).join(url))
            address = parse_url(joined, self._settings.max_source_path_chars)
            self._policy.check_url(address)
        except (httpx.InvalidURL, InvalidFieldError, FetchError):
            return None
        name = unquote(address.target.decode("ascii").partition("?")[0]).lstrip("/")
        reason = self._selection.reason_against(name)
        kind = KIND_OF_SUFFIX.get(suffix_of(name))
        is_excluded = reason is SkipReason.excluded
        if not is_file:
            has_no_text = self._selection.include is None and kind is not None and bool(kind.refusal)
            is_excluded |= reason is SkipReason.not_included or has_no_text
        return None if is_excluded else str(address)

    def _add_files(self, files: _Files, entries: Sequence[Entry], depth: int) -> None:
        """Raises SourceError for too many files, and for those that are too deep."""
        known = {url for url, _ in files}
        added = [entry.url for entry in entries if entry.url not in known]
        if added and depth >= MAX_DEPTH:
            raise SourceError(f"it has site maps more than {MAX_DEPTH} levels deep", is_temporary=False)
        files += [(url, depth + 1) for url in added]
        if len(files) > MAX_FILES:
            raise SourceError(f"it has more than {MAX_FILES:,} site maps", is_temporary=False)

    def _versions(self, entries: Sequence[Entry]) -> Sequence[Listed | None]:
        if all(entry.changed for entry in entries):
            return [Listed(entry.url, entry.changed[:500], None) for entry in entries]
        with ThreadPoolExecutor(ASKERS, thread_name_prefix="source") as pool:
            return tuple(pool.map(self._version, entries))

    def _version(self, entry: Entry) -> Listed | None:
        """Return an entry with its version, which the server says if the file does not; None if it is gone.

        Raises SourceError."""
        if entry.changed:
            return Listed(entry.url, entry.changed[:500], None)
        answer = self._ask(entry.url, "HEAD")
        if answer.status in GONE:
            return None
        if answer.status != _OK and answer.status not in _NO_HEAD:
            raise refusal(answer)
        version = answer.validators.etag or answer.validators.last_modified if answer.status == _OK else None
        # Without a version a page is read by each run.
        return Listed(entry.url, (version or f"unknown {time.time_ns()}")[:500], None)

    def read(self, name: str, max_bytes: int) -> bytes:
        answer = self._ask_page(name)
        if answer.status != _OK:
            raise refusal(answer)
        try:
            file = answer.file()
        except (RefusedKindError, EmptyDocumentError):
            return answer.data  # which says the same again
        self._names[name] = file.name
        return file.data

    def _ask_page(self, url: str) -> Answer:
        try:
            return self._fetcher.request(parse_url(url, self._settings.max_source_path_chars))
        except FetchError as error:
            if error.code == "url_too_large":
                limit = largest_file(self._settings)
                raise DocumentTooLargeError(f"it has more than {limit:,} bytes, which is the limit") from None
            raise source_error(error) from None

    def source_path(self, name: str) -> str:
        return name

    def file_name(self, name: str) -> str:
        """The name that the server gave to a page that was read."""
        return self._names.get(name, name)


def _first_part(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the first entries: as many as a page may ask for."""
    n_asked = 0
    for number, entry in enumerate(entries):
        n_asked += not entry.changed
        if n_asked > ASKED_TOGETHER:
            return entries[:number]
    return entries


def _unpacked(data: bytes) -> bytes:
    """Return a file that may be packed with gzip. Raises ValueError."""
    if data.startswith(b"\x1f\x8b"):
        unpacker = zlib.decompressobj(_GZIP)
        try:
            data = unpacker.decompress(data, MAX_FILE_BYTES + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    return data
