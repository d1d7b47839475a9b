"""Messages of Outlook (MSG): their properties become a message of MIME, which is then read like any mail.

A message is a compound file. A property is a stream `__substg1.0_TTTTYYYY` (its tag and type in hexadecimal),
or 16 bytes of `__properties_version1.0` if it has a fixed size.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import io
import struct
from collections.abc import Iterator
from email.utils import format_datetime, formataddr
from typing import TYPE_CHECKING
from urllib.parse import quote

from shoal.conversion.converted import ConversionError, Converted, broken, one_line
from shoal.conversion.mail import convert_eml
from shoal.conversion.mime import read_part
from shoal.conversion.rtf import convert_rtf
from shoal.conversion.texts import known_encoding

if TYPE_CHECKING:
    from olefile import OleFileIO

MAX_DEPTH = 5
"""Messages within messages; what is nested deeper is left out."""

_SUBJECT, _BODY, _HTML, _RTF, _HEADERS = "0037", "1000", "1013", "1009", "007D"
_SENDER, _SENDER_SMTP, _SENDER_ADDRESS = "0C1A", "5D01", "0C1F"
_NAME, _SMTP, _ADDRESS = "3001", "39FE", "3003"
_FILE_NAME, _SHORT_NAME, _FILE, _MEDIA_TYPE = "3707", "3704", "3701", "370E"
_MESSAGE_ID = "1035"
_SUBMITTED, _DELIVERED, _CODE_PAGE, _INTERNET_CODE_PAGE, _RECIPIENT_TYPE = (
    0x0039,
    0x0E06,
    0x3FFD,
    0x3FDE,
    0x0C15,
)
_RECIPIENTS = {1: "To", 2: "Cc", 3: "Bcc"}
_EPOCH = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)


def convert_msg(data: bytes, name: str) -> Converted:
    """Convert a message with its attachments. Raises ConversionError if it is none."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            if not ole.exists("__properties_version1.0"):
                raise broken("it has no properties of a message")
            message = _Message(ole, ()).mime(0)
    except OSError as error:
        raise broken(f"its streams cannot be read ({error})") from error
    return convert_eml(message, name)


class _Storage:
    """The properties in a storage of a compound file."""

    def __init__(
        self, ole: OleFileIO, path: tuple[str, ...], head_bytes: int, encoding: str = "cp1252"
    ) -> None:
        """`encoding`: of texts in bytes, unless they say another or are UTF-8."""
        self._ole, self._path = ole, path
        data = self._stream("__properties_version1.0")
        self.fixed = {
            struct.unpack_from("<H", data, at + 2)[0]: data[at + 8 : at + 16]
            for at in range(head_bytes, len(data) - 15, 16)
        }
        page = self.number(_CODE_PAGE) or self.number(_INTERNET_CODE_PAGE)
        # UTF-8 shows by itself; what says so and is not has the usual encoding.
        own = known_encoding(f"cp{page}")
        self.encoding = own if own not in (None, "utf-8") else encoding

    def _stream(self, name: str) -> bytes:
        path = [*self._path, name]
        return self._ole.openstream(path).read() if self._ole.get_type(path) == 2 else b""

    def number(self, tag: int) -> int:
        return int.from_bytes(self.fixed.get(tag, b"")[:4], "little")

    def data(self, tag: str) -> bytes:
        return self._stream(f"__substg1.0_{tag}0102")

    def text(self, tag: str) -> str:
        if data := self._stream(f"__substg1.0_{tag}001F"):
            return data.decode("utf-16-le", "replace").rstrip("\0")
        data = self._stream(f"__substg1.0_{tag}001E").rstrip(b"\0")
        return data.decode("utf-8" if _is_utf8(data) else self.encoding, "replace")

    def date(self, tag: int) -> str:
        ticks = int.from_bytes(self.fixed.get(tag, b""), "little")
        try:
            return format_datetime(_EPOCH + dt.timedelta(microseconds=ticks // 10)) if ticks else ""
        except OverflowError:
            return ""

    def storages(self, prefix: str) -> Iterator[tuple[str, ...]]:
        depth = len(self._path)
        for path in self._ole.listdir(streams=False, storages=True):
            if len(path) == depth + 1 and tuple(path[:depth]) == self._path and path[-1].startswith(prefix):
                yield tuple(path)


class _Message(_Storage):
    def __init__(self, ole: OleFileIO, path: tuple[str, ...]) -> None:
        super().__init__(ole, path, 24 if path else 32)

    def mime(self, depth: int) -> bytes:
        """Return the message as one of MIME."""
        bodies = list(self._bodies())
        parts = [_multipart("alternative", bodies, depth)] if len(bodies) > 1 else bodies
        parts += self._attachments(depth)
        lines = [f"{name}: {value}" for name, value in self._headers() if value]
        head = "\n".join(lines).encode("utf-8", "replace")
        return head + b"\n" + (_multipart("mixed", parts, depth) if parts else b"\n")

    def _headers(self) -> Iterator[tuple[str, str]]:
        sent = read_part(self.text(_HEADERS).encode("utf-8", "replace") + b"\n\n")
        yield "Subject", one_line(self.text(_SUBJECT)) or one_line(sent.header("Subject"))
        sender = _person(self.text(_SENDER), self.text(_SENDER_SMTP) or self.text(_SENDER_ADDRESS))
        yield "From", sender or one_line(sent.header("From"))
        people: dict[str, list[str]] = {}
        for path in self.storages("__recip_version1.0_"):
            recipient = _Storage(self._ole, path, 8, self.encoding)
            person = _person(recipient.text(_NAME), recipient.text(_SMTP) or recipient.text(_ADDRESS))
            people.setdefault(_RECIPIENTS.get(recipient.number(_RECIPIENT_TYPE), "To"), []).append(person)
        for name in _RECIPIENTS.values():
            yield name, ", ".join(filter(None, people.get(name, ()))) or one_line(sent.header(name))
        date = self.date(_SUBMITTED) or self.date(_DELIVERED)
        yield "Date", one_line(sent.header("Date")) or date
        yield "Message-ID", one_line(self.text(_MESSAGE_ID)) or one_line(sent.header("Message-ID"))

    def _bodies(self) -> Iterator[bytes]:
        plain, html = self.text(_BODY), self.data(_HTML) or self.text(_HTML).encode("utf-8", "replace")
        charset = known_encoding(f"cp{self.number(_INTERNET_CODE_PAGE)}") or self.encoding
        charset = "utf-8" if _is_utf8(html) else charset
        if not plain.strip() and not html.strip() and (packed := self.data(_RTF)):
            with contextlib.suppress(ConversionError):
                plain = convert_rtf(unpack_rtf(packed), "").content
        if plain.strip():
            yield _part("text/plain; charset=utf-8", plain.encode("utf-8", "replace"))
        if html.strip():
            yield _part(f"text/html; charset={charset}", html)

    def _attachments(self, depth: int) -> Iterator[bytes]:
        for path in self.storages("__attach_version1.0_"):
            attachment = _Storage(self._ole, path, 8, self.encoding)
            name = one_line(attachment.text(_FILE_NAME) or attachment.text(_SHORT_NAME))
            inner = (*path, f"__substg1.0_{_FILE}000D")
            if self._ole.exists([*inner, "__properties_version1.0"]):
                if depth < MAX_DEPTH:
                    yield _part("message/rfc822", _Message(self._ole, inner).mime(depth + 1))
            elif data := attachment.data(_FILE):
                media_type = one_line(attachment.text(_MEDIA_TYPE))
                is_type = media_type.isascii() and media_type.count("/") == 1 and " " not in media_type
                yield _part(media_type if is_type else "application/octet-stream", data, name or "file")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _person(name: str, address: str) -> str:
    """Return a person as a header of mail has it; addresses inside an organisation are left out."""
    name, address = one_line(name), one_line(address)
    if "@" not in address:
        return name.replace(",", " ")
    return address if name in ("", address) else formataddr((name, address), charset="utf-8")


def _part(media_type: str, data: bytes, file_name: str = "") -> bytes:
    head = f"Content-Type: {media_type}\nContent-Transfer-Encoding: base64\n"
    if file_name:
        head += f"Content-Disposition: attachment; filename*=utf-8''{quote(file_name, safe='')}\n"
    return head.encode() + b"\n" + base64.encodebytes(data)


def _multipart(kind: str, parts: list[bytes], depth: int) -> bytes:
    """Return parts as one. No line of theirs is the boundary, because all data is in base64."""
    boundary = f"=_{kind}_{depth}"
    lines = b"".join(f"--{boundary}\n".encode() + part + b"\n" for part in parts)
    return (
        f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n'.encode()
        + lines
        + f"--{boundary}--\n".encode()
    )


_DICTIONARY = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
_WINDOW = 4096
_COMPRESSED, _STORED = b"LZFu", b"MELA"
_MAX_RTF_BYTES = 64 * 2**20


def unpack_rtf(data: bytes) -> bytes:
    """Return the RTF of a compressed body (MS-OXRTFCP); what is damaged or too long is cut off."""
    if data[8:12] == _STORED:
        return data[16:]
    if data[8:12] != _COMPRESSED:
        return b""
    window = bytearray(_DICTIONARY.ljust(_WINDOW, b" "))
    write, at, out = len(_DICTIONARY), 16, bytearray()
    while at < len(data) and len(out) < _MAX_RTF_BYTES:
        control = data[at]
        at += 1
        for bit in range(8):
            if at + (control >> bit & 1) >= len(data):
                return bytes(out)
            if not control >> bit & 1:
                taken = data[at : at + 1]
                at += 1
            else:
                offset, length = data[at] << 4 | data[at + 1] >> 4, (data[at + 1] & 15) + 2
                at += 2
                if offset == write:
                    return bytes(out)
                taken = b""
            for step in range(len(taken) or length):
                byte = taken[0] if taken else window[(offset + step) % _WINDOW]
                out.append(byte)
                window[write] = byte
                write = (write + 1) % _WINDOW
    return bytes(out)
