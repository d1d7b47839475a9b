"""Fetching of one page or file of the web, under limits of hosts, addresses, time and size.

Connections go to allowed addresses only and end at a deadline. A host is resolved once for each connection.
Its addresses are checked, and the connection goes to one of them, so that no second answer of a name server
counts. Neither proxies nor cookies nor keys are used.
"""

from __future__ import annotations

import codecs
import email.message
import email.utils
import queue
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import unquote

import httpcore
import httpx

from shoal.conversion.converted import largest_file
from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX, FileKind
from shoal.conversion.recognition import recognise, suffix_of
from shoal.conversion.texts import known_encoding
from shoal.conversion.web_addresses import FetchPolicy, WebAddress, parse_url
from shoal.errors import EmptyDocumentError, FetchError, RefusedKindError
from shoal.models.documents import Validators
from shoal.settings import Settings
from shoal.support.http_endpoints import retry_after
from shoal.version import __version__

MAX_ADDRESSES = 4
"""Addresses of a host that are tried."""
CONNECT_SECONDS = 10.0
"""Longest wait for a connection to one address."""

Resolver = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host. Raises OSError."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
MAX_REDIRECTS = 5
MAX_VALIDATOR_CHARS = 1024
"""A longer ETag is not kept."""
MAX_NAME_CHARS = 200
INDEX = "index"
"""Name of a page whose URL ends with a folder."""
_OK = 200
_WITH_CONTENT = frozenset({_OK, 207})  # 207: several answers of WebDAV
_NOT_MODIFIED = 304
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_PIECE_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
_ANY_TYPE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
"""Content types that say less than the name of a file."""
_KIND_OF_TYPE = {kind: known for known in FILE_KINDS.values() for kind in known.media_types}


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, those that the system prefers first."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class Deadline:
    """The end of a request."""

    def __init__(self, seconds: float) -> None:
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Set the end to so many seconds from now, for the next request over a connection."""
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()

    def within(self, seconds: float = float("inf")) -> float:
        """Return the time that a step may take. Raises httpcore.ReadTimeout when none is left."""
        left = min(self.left(), seconds)
        if left <= 0:
            raise httpcore.ReadTimeout
        return left


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to addresses that the policy allows, and to no other."""

    def __init__(self, policy: FetchPolicy, resolver: Resolver, deadline: Deadline) -> None:
        self._policy = policy
        self._resolver = resolver
        self._deadline = deadline
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("it has no address")
        # All are checked: a host with public and private addresses is a trap.
        for ip in [self._policy.check_ip(host, ip) for ip in self._resolve(host, port)][:MAX_ADDRESSES]:
            try:
                seconds = self._deadline.within(CONNECT_SECONDS)
                stream = self._backend.connect_tcp(ip, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        """Resolve a host in a thread, because no limit of time applies to it otherwise."""
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._resolver(host, port))
            except Exception as error:
                answers.put(error)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=self._deadline.within())
        except queue.Empty:
            raise httpcore.ConnectTimeout from None
        if isinstance(answer, Exception):
            is_temporary = getattr(answer, "errno", None) == socket.EAI_AGAIN
            raise FetchError(
                "unreachable", f"the name {host} could not be resolved", is_temporary=is_temporary
            )
        return answer


class _TimedStream(httpcore.NetworkStream):
    """A connection whose every step ends at the deadline, however often a few bytes arrive."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.within())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.within())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.within())
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def unreachable(host: str, error: httpcore.NetworkError) -> FetchError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return FetchError("unreachable", f"the certificate of {host} is not valid: {cause.verify_message}")
    return FetchError("unreachable", f"no connection to {host}: {shown(str(error))}", is_temporary=True)


def shown(text: str) -> str:
    """Return text of a server on one line and not too long."""
    return " ".join(UNPRINTABLE.sub(" ", text).split())[:500]


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """What a server sent. `name`: without folders; `kind`: as recognised."""

    data: bytes
    name: str
    kind: FileKind
    validators: Validators


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sent, after redirects; `data` is empty unless the status is that of content."""

    status: int
    headers: httpx.Headers
    data: bytes
    address: WebAddress

    @property
    def validators(self) -> Validators:
        return Validators(_kept(self.headers, "etag"), _kept(self.headers, "last-modified"))

    def refusal(self) -> FetchError:
        """Return the error for a status that is not the expected one."""
        return _refusal(self.status, self.headers, self.address.host)

    def file(self) -> FetchedFile:
        """Return the page or file. Raises FetchError, RefusedKindError, EmptyDocumentError."""
        if self.status != _OK:
            raise self.refusal()
        if not self.data:
            raise EmptyDocumentError(f"{self.address.host} sent an empty page")
        return _file_of(self)


class Fetcher:
    """Fetches from the hosts that the settings allow. Safe to share between threads."""

    def __init__(
        self, settings: Settings, resolver: Resolver = resolve, policy: FetchPolicy | None = None
    ) -> None:
        self._settings = settings
        self._policy = FetchPolicy(settings) if policy is None else policy
        self._resolver = resolver
        self._tls: ssl.SSLContext | None = None

    def fetch(self, url: str, known: Validators | None = None) -> FetchedFile | None:
        """Return the page or file; None if it is still the version with the validators `known`.

        Raises FetchError, InvalidFieldError, RefusedKindError, EmptyDocumentError.
        """
        address = parse_url(url, self._settings.max_source_path_chars)
        answer = self.request(address, headers=_conditions(known))
        if answer.status == _NOT_MODIFIED and known is not None:
            return None
        return answer.file()

    def request(
        self,
        address: WebAddress,
        method: str = "GET",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes | None = None,
        *,
        max_redirects: int = MAX_REDIRECTS,
    ) -> Answer:
        """Return the answer to a request, whatever its status. `headers`: more of them; redirects get them
        too, and go only to hosts that the policy allows.

        Raises FetchError.
        """
        self._policy.check_url(address)
        deadline = Deadline(self._settings.fetch_seconds)
        for n_before in range(1 + max_redirects):
            answer = self._ask(address, method, [*_headers(address), *headers], body, deadline)
            if answer.status not in _REDIRECTS or "location" not in answer.headers or not max_redirects:
                return answer
            if n_before < max_redirects:
                address = self._policy.check_redirect(address, answer.headers["location"])
        raise FetchError("refused", f"{address.host} redirects more than {max_redirects} times")

    def _context(self, scheme: str) -> ssl.SSLContext | None:
        if self._tls is None and scheme == "https":
            self._tls = httpx.create_ssl_context()
        return self._tls

    def _ask(
        self,
        address: WebAddress,
        method: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | None,
        deadline: Deadline,
    ) -> Answer:
        """Send one request, and follow no redirect."""
        url = httpcore.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=address.port,
            target=address.target,
        )
        network = CheckedNetwork(self._policy, self._resolver, deadline)
        context = self._context(address.scheme)
        try:
            with (
                httpcore.ConnectionPool(context, network_backend=network) as pool,
                pool.stream(method, url, headers=headers, content=body) as response,
            ):
                given = httpx.Headers(response.headers)
                is_read = response.status in _WITH_CONTENT and method != "HEAD"
                data = self._body(response, given, address.host) if is_read else b""
                return Answer(response.status, given, data, address)
        except httpcore.TimeoutException:
            if deadline.left() > 0:
                raise FetchError(
                    "unreachable", f"no connection to {address.host} in time", is_temporary=True
                ) from None
            seconds = self._settings.fetch_seconds
            raise FetchError(
                "time_limit",
                f"{address.host} took longer than {seconds:g} seconds (SHOAL_FETCH_SECONDS)",
                is_temporary=True,
            ) from None
        except httpcore.NetworkError as error:
            raise unreachable(address.host, error) from None
        except httpcore.ProtocolError as error:
            raise FetchError(
                "failed",
                f"the answer of {address.host} is incomplete, or not HTTP: {shown(str(error))}",
                is_temporary=True,
            ) from None

    def _body(self, response: httpcore.Response, headers: httpx.Headers, host: str) -> bytes:
        limit = largest_file(self._settings)
        too_large = FetchError(
            "too_large", f"{host} sends more than {limit:,} bytes, which is the limit (SHOAL_MAX_FILE_BYTES)"
        )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > limit:
            raise too_large
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise FetchError("failed", f"{host} sends a compression that was not asked for")
        packed = _at_most(limit, response.iter_stream(), too_large)
        try:
            pieces = _unpacked(packed) if "gzip" in encoding else packed
            return b"".join(_at_most(limit, pieces, too_large))
        except zlib.error:
            raise FetchError(
                "failed", f"the compressed answer of {host} is damaged", is_temporary=True
            ) from None


def _headers(address: WebAddress) -> list[tuple[bytes, bytes]]:
    return [
        (b"Host", address.authority.encode()),
        (b"User-Agent", f"Shoal/{__version__}".encode()),
        (b"Accept", b"*/*"),
        (b"Accept-Encoding", b"gzip"),
        (b"Connection", b"close"),
    ]


def _conditions(known: Validators | None) -> list[tuple[bytes, bytes]]:
    headers = []
    if known is not None and known.etag:
        headers.append((b"If-None-Match", known.etag.encode("latin-1")))
    if known is not None and known.last_modified:
        headers.append((b"If-Modified-Since", known.last_modified.encode("latin-1")))
    return headers


def _at_most(limit: int, pieces: Iterable[bytes], error: FetchError) -> Iterator[bytes]:
    """Yield pieces of at most `limit` bytes together. Raises `error` for more."""
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            raise error
        yield piece


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what gzip has packed, in bounded pieces. Raises zlib.error."""
    unpacker = zlib.decompressobj(_GZIP)
    for piece in pieces:
        rest = piece
        while rest:
            if unpacker.eof:
                # Files of gzip may follow each other (RFC 1952, 2.2).
                unpacker = zlib.decompressobj(_GZIP)
            yield unpacker.decompress(rest, _PIECE_BYTES)
            rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    if not unpacker.eof:
        raise zlib.error


def _refusal(status: int, headers: httpx.Headers, host: str) -> FetchError:
    is_temporary = status in _TEMPORARY
    pause = retry_after(headers.get("retry-after", "")) if is_temporary else None
    return FetchError(
        "failed", f"{host} answered with status {status}", is_temporary=is_temporary, retry_after=pause
    )


def _file_of(answer: Answer) -> FetchedFile:
    data, headers = answer.data, answer.headers
    content_type = email.message.Message()
    content_type["Content-Type"] = shown(headers.get("content-type", ""))
    media_type = content_type.get_content_type() if headers.get("content-type") else ""
    name = _with_suffix(_name(headers, answer.address), media_type)
    kind = recognise(data, name)
    if kind.refusal:
        raise RefusedKindError(kind.refusal_code, kind.refusal, kind.name)
    if kind.id in ("html", "markdown", "text"):
        data = _in_unicode(data, content_type.get_content_charset())
    return FetchedFile(data, name, kind, answer.validators)


def _name(headers: Mapping[str, str], address: WebAddress) -> str:
    """Return the name of a file: that of the header, else the last part of the path."""
    disposition = email.message.Message()
    disposition["Content-Disposition"] = shown(headers.get("content-disposition", ""))
    path = address.target.decode("ascii").partition("?")[0]
    for given in (disposition.get_filename() or "", unquote(path.rpartition("/")[2])):
        name = UNPRINTABLE.sub("", PurePosixPath(PureWindowsPath(given).name).name).strip()
        if name.strip(". "):
            suffix = suffix_of(name)
            return name[: MAX_NAME_CHARS - len(suffix)] + suffix if len(name) > MAX_NAME_CHARS else name
    return INDEX


def _with_suffix(name: str, media_type: str) -> str:
    """Return a name that says the same as the content type: `page.php` of a web page is `page.php.html`."""
    by_type, by_suffix = _KIND_OF_TYPE.get(media_type), KIND_OF_SUFFIX.get(suffix_of(name))
    if by_type is None or not by_type.suffixes or by_type is by_suffix:
        return name
    if media_type in _ANY_TYPE and by_suffix is not None:
        return name
    return name + by_type.suffixes[0]


def _in_unicode(data: bytes, charset: str | None) -> bytes:
    """Return a text in UTF-8 with its mark, if it has another encoding that the header names."""
    encoding = known_encoding(charset)
    if encoding is None:
        return data
    for name in ("utf-8", encoding):
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        return data if name == "utf-8" else codecs.BOM_UTF8 + text.encode("utf-8", "replace")
    return data


def _kept(headers: httpx.Headers, name: str) -> str | None:
    """Return a validator as the server sent it; None if it cannot be sent back."""
    text = headers.get(name, "").strip()
    is_plain = text.isprintable() and all(ord(char) < 256 for char in text)
    return text if text and is_plain and len(text) <= MAX_VALIDATOR_CHARS else None
