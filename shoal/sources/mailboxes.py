"""Mailboxes of IMAP servers as stores: each mail is an object, its attachments become documents with it.

A mailbox is opened for reading only, so no mail is marked as seen. A mail never changes under its number
(UID), which holds as long as the mailbox has the same UIDVALIDITY (RFC 3501, 2.3.1.1).
"""

from __future__ import annotations

import base64
import contextlib
import imaplib
import io
import json
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpcore
import httpx

from shoal.conversion.fetching import CheckedNetwork, Deadline, resolve, shown, unreachable
from shoal.conversion.web_addresses import FetchPolicy
from shoal.errors import (
    FetchError,
    InvalidFieldError,
    ObjectGoneError,
    SourceError,
)
from shoal.settings import Settings
from shoal.sources.stores import Listed, ListedPage, Place, Store, checked_size
from shoal.support.byte_units import MIB
from shoal.support.patterns import canonical_host

PAGE_MAILS = 5_000
COMMAND_SECONDS = 120.0
"""Longest answer to a command, with all that it sends."""
LOGOUT_SECONDS = 5.0
MAX_LINE_BYTES = MIB
MAX_ANSWER_BYTES = 16 * MIB
"""Most bytes of an answer besides the mail that was asked for."""
_PORTS = {"imaps": 993, "imap": 143}
_NAME = re.compile(r"(\d{1,10})-(\d{1,10})\.eml")
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_PASSING = ("[unavailable]", "[inuse]", "[limit]", "[serverbug]", "too many", "try again")
"""What refusals say that may pass (RFC 5530)."""


class MailboxStore(Store):
    """The mails of a mailbox, named `UIDVALIDITY-UID.eml`. One connection serves all threads."""

    def __init__(self, place: Place, settings: Settings) -> None:
        parts = urlsplit(place.url)
        try:
            self._host, self._port = canonical_host(parts.hostname or ""), parts.port or _PORTS[parts.scheme]
        except ValueError:
            raise InvalidFieldError(
                "url", "must name a host, and a port if it is another than usual"
            ) from None
        self._is_encrypted = parts.scheme == "imaps"
        self._mailbox = unquote(parts.path.strip("/")) or "INBOX"
        if not self._mailbox.isprintable():
            raise InvalidFieldError("url", "must not have control characters in the name of a mailbox")
        self._username = place.options.get("username", "")
        self._password = place.secrets.get("password", "")
        # Users have documents of their own.
        user = f"{quote(self._username, safe='')}@" if self._username else ""
        self.address = f"{parts.scheme}://{user}{parts.netloc}{parts.path}"
        self._selection = place.selection
        self._policy = FetchPolicy(settings)
        self._connection: _Connection | None = None
        self._validity = 0
        self._lock = threading.Lock()

    def list(self, place: str | None) -> ListedPage:
        with self._lock, self._failures():
            connection = self._opened()
            last_uid = 0
            if place is not None:
                validity, last_uid = json.loads(place)
                if validity != self._validity:
                    raise SourceError(
                        "the mailbox was made anew while it was being listed; the next run lists it again",
                        is_temporary=False,
                    )
            first = 1 + self._position(connection, last_uid)
            last = min(connection.n_mails, first + PAGE_MAILS - 1)
            sizes = connection.sizes(first, last) if first <= last else {}
            mails = [
                Listed(f"{self._validity}-{uid}.eml", str(uid), size)
                for uid, size in sorted(sizes.items())
                if uid > last_uid
            ]
            objects = tuple(each for each in mails if self._selection.reason_against(each.name) is None)
            is_last = last >= connection.n_mails or not mails
            place = None if is_last else json.dumps([self._validity, int(mails[-1].version)])
            return ListedPage(objects, place, len(mails) - len(objects))

    @staticmethod
    def _position(connection: _Connection, uid: int) -> int:
        """Return how many mails have this UID or a smaller one.

        UIDs ascend with the positions of mails, which change when mails are deleted.
        """
        if uid == 0:
            return 0
        return bisect_right(range(1, connection.n_mails + 1), uid, key=connection.uid_at)

    def read(self, name: str, max_bytes: int) -> bytes:
        match = _NAME.fullmatch(name)
        with self._lock, self._failures():
            connection = self._opened()
            if match is None or int(match[1]) != self._validity:
                raise ObjectGoneError("the mailbox was made anew since it was listed")
            data = connection.mail(int(match[2]), max_bytes)
        if data is None:
            raise ObjectGoneError("it is gone since it was listed")
        return checked_size(data, max_bytes)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.end()
            self._connection = None

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise failures of a connection as SourceError. The next call opens another connection."""
        try:
            yield
        except (imaplib.IMAP4.error, OSError, *_NETWORK_ERRORS, FetchError) as error:
            if self._connection is not None:
                self._connection.shutdown()
                self._connection = None
            raise _source_error(error, self._host) from None

    def _opened(self) -> _Connection:
        """Return the connection, with the mailbox open. The first call of a store sets its UIDVALIDITY."""
        if self._connection is None:
            if not self._username or not self._password:
                raise SourceError(
                    "mailboxes need the option username and the secret password", is_temporary=False
                )
            connection = _Connection(self._connected())
            try:
                connection.sign_in(self._username, self._password)
                self._validity = connection.examine(self._mailbox)
            except BaseException:
                connection.shutdown()
                raise
            self._connection = connection
        return self._connection

    def _connected(self) -> _Stream:
        deadline = Deadline(COMMAND_SECONDS)
        network = CheckedNetwork(self._policy, resolve, deadline)
        stream = network.connect_tcp(self._host, self._port)
        if not self._is_encrypted:
            address = stream.get_extra_info("server_addr")
            if not isinstance(address, tuple) or address[0] not in _HERE:
                stream.close()
                raise SourceError(
                    "imap:// sends the password for everybody to read, so it may lead to this machine only; "
                    "use imaps://",
                    is_temporary=False,
                )
            return _Stream(stream, deadline)
        return _Stream(stream.start_tls(httpx.create_ssl_context(), self._host), deadline)


_HERE = ("127.0.0.1", "::1")
_NETWORK_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException)


class _Stream(io.RawIOBase):
    """A connection as a file, with a deadline for each command."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def begin(self, seconds: float) -> None:
        """Begin to count the seconds of a command."""
        self._deadline.restart(seconds)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: bytes) -> None:
        self._stream.write(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Connection(imaplib.IMAP4):
    """The protocol over a checked connection, with limits. Methods raise IMAP4.error, OSError, and errors of
    httpcore."""

    n_mails = 0

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._reader = io.BufferedReader(stream, 65_536)
        self._left = MAX_ANSWER_BYTES
        super().__init__()

    # Of imaplib.IMAP4

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:
        """The connection is open."""

    def read(self, size: int) -> bytes:
        self._take(size)
        return self._reader.read(size)

    def readline(self) -> bytes:
        line = self._reader.readline(MAX_LINE_BYTES)
        self._take(len(line))
        return line

    def send(self, data: Any) -> None:
        self._stream.send(bytes(data))

    def shutdown(self) -> None:
        self._reader.close()

    def _take(self, n_bytes: int) -> None:
        self._left -= n_bytes
        if self._left < 0:
            raise self.abort("the server sends more than was asked for")

    def end(self) -> None:
        """Say goodbye and close the connection."""
        self._stream.begin(LOGOUT_SECONDS)
        with contextlib.suppress(self.error, OSError, *_NETWORK_ERRORS):
            self.logout()
        self.shutdown()

    # Commands

    def _answer(self, run: Callable[[], tuple[str, Any]], expected: int = 0) -> Any:
        """Run a command whose answer has `expected` bytes of content. Raises IMAP4.error for a refusal."""
        self._stream.begin(COMMAND_SECONDS)
        self._left = MAX_ANSWER_BYTES + expected
        status, answer = run()
        if status != "OK":
            text = answer[-1] if answer and isinstance(answer[-1], bytes) else b""
            raise self.error(text.decode("utf-8", "replace"))
        return answer

    def sign_in(self, username: str, password: str) -> None:
        """Raises SourceError if the server refuses the password."""
        if not (username + password).isprintable():
            raise SourceError("the password has control characters", is_temporary=False)
        given = f"\0{username}\0{password}".encode()
        try:
            if "AUTH=PLAIN" in self.capabilities:
                self._answer(lambda: self.authenticate("PLAIN", lambda _: given))
            else:
                self._answer(lambda: self.login(_quoted(username), password))
        except self.abort:
            raise
        except (self.error, UnicodeError) as error:
            raise _refusal("the login was refused", error) from None

    def examine(self, mailbox: str) -> int:
        """Open a mailbox to read it; return its UIDVALIDITY."""
        try:
            (n_mails,) = self._answer(lambda: self.select(_quoted(_utf7(mailbox)), readonly=True))[-1:]
        except self.abort:
            raise
        except self.error as error:
            raise _refusal(f"there is no mailbox {mailbox!r} to read", error) from None
        _, (validity,) = self.response("UIDVALIDITY")
        if validity is None:
            raise SourceError("the server gives mails no lasting numbers", is_temporary=False)
        self.n_mails = int(n_mails or 0)
        return int(validity)

    def sizes(self, first: int, last: int) -> dict[int, int | None]:
        """Return the sizes of mails by UID, in bytes, of those from one position to another."""
        found: dict[int, int | None] = {}
        for item in self._answer(lambda: self.fetch(f"{first}:{last}", "(UID RFC822.SIZE)")):
            text = item[0] if isinstance(item, tuple) else item or b""
            uid, size = _UID.search(text), _SIZE.search(text)
            if uid is not None and (size is not None or int(uid[1]) not in found):
                found[int(uid[1])] = None if size is None else int(size[1])
        return found

    def uid_at(self, position: int) -> int:
        found = self.sizes(position, position)
        if len(found) != 1:
            raise self.abort("the server does not say the number of a mail")
        return next(iter(found))

    def mail(self, uid: int, max_bytes: int) -> bytes | None:
        """Return a mail, at most one byte more than `max_bytes` of it; None if it is gone."""
        part = f"(BODY.PEEK[]<0.{max_bytes + 1}>)"
        for item in self._answer(lambda: self.uid("FETCH", str(uid), part), expected=max_bytes + 1):
            if isinstance(item, tuple) and b"BODY[]" in item[0].upper():
                return bytes(item[1])
        return None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _utf7(name: str) -> str:
    """Return the name of a mailbox in the encoding of RFC 3501, 5.1.3."""

    def encoded(match: re.Match[str]) -> str:
        text = base64.b64encode(match[0].encode("utf-16-be")).decode().rstrip("=")
        return f"&{text.replace('/', ',')}-"

    return re.sub(r"[^\x20-\x7e]+", encoded, name.replace("&", "&-"))


def _refusal(what: str, error: Exception) -> SourceError:
    text = shown(str(error))
    return SourceError(f"{what}: {text}", is_temporary=any(each in text.lower() for each in _PASSING))


def _source_error(error: Exception, host: str) -> SourceError:
    if isinstance(error, FetchError):
        return SourceError(str(error), is_temporary=error.is_temporary)
    if isinstance(error, httpcore.TimeoutException):
        return SourceError(f"{host} did not answer within {COMMAND_SECONDS:g} seconds")
    if isinstance(error, httpcore.NetworkError):
        failure = unreachable(host, error)
        return SourceError(str(failure), is_temporary=failure.is_temporary)
    return SourceError(f"the connection to {host} failed: {shown(str(error)) or type(error).__name__}")
