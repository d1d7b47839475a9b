"""Forward-only reader of gzip-compressed tar archives, in time and memory bounded by their size.

The readers of the standard library are unsafe for untrusted input: `tarfile` applies every global header to
every entry and searches extended headers with regular expressions; for `gzip` see `inflating`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from shoal.conversion.inflating import READ_BYTES, Readable
from shoal.support.byte_units import MIB

BLOCK = 512

MAX_HEADER_BYTES = MIB
"""Limit of one extended header, which holds a name or the attributes of a file. An attribute can have 64
KiB."""

MAX_HEADERS_BYTES = 64 * MIB
"""Limit of all extended headers: 600 bytes for each of 100,000 documents."""

MAX_RECORDS = 2_000_000
"""Limit of the records in all extended headers: 10 for each entry of an archive with 100,000 documents."""

MAX_EXTENSIONS = 4
"""Most extended headers before an entry: one of each kind."""

MAX_DIGITS = 20
"""Most digits of a decimal number; a file has at most 2^64 bytes."""

_TRUNCATED = "the archive is truncated"
_DAMAGED = "the archive is damaged or truncated"
_NO_TAR = "the gzip file holds no tar archive (send a single text unpacked, as multipart/form-data)"


class MalformedTarballError(ValueError):
    """The bytes are not a gzip-compressed tar archive, or exceed the limits of this module."""


class Kind(enum.Enum):
    """The kind of an entry."""

    file = enum.auto()
    folder = enum.auto()
    link = enum.auto()
    device = enum.auto()
    other = enum.auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tar archive. `size` is in bytes; bytes of `name` that are not UTF-8 are lone
    surrogates."""

    name: str
    size: int
    kind: Kind


_KINDS = {
    **dict.fromkeys((b"0", b"\0", b"7"), Kind.file),
    **dict.fromkeys((b"1", b"2"), Kind.link),
    **dict.fromkeys((b"3", b"4"), Kind.device),
    b"5": Kind.folder,
}
_WITHOUT_CONTENT = b"123456"
_POSIX = b"ustar\0"
_USED = (b"path", b"size")
_SPARSE = b"GNU.sparse."


class Tar:
    """The entries of a tar archive in order."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._is_first = True
        self._n_header_bytes = 0
        self._n_records = 0
        # Of the current entry: size of its content, and unread bytes including the padding of the last block.
        self._size = 0
        self._left = 0

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries. Raises MalformedTarballError and the errors of reading the source."""
        while (entry := self._next()) is not None:
            yield entry

    def content(self) -> bytes:
        """Return the content of the current entry. Callable once per entry."""
        self._left -= self._size
        return self._exactly(self._size)

    def _next(self) -> Entry | None:
        """Return the next entry, with the values of its extended headers; None at the end."""
        records: dict[bytes, bytes] = {}
        is_extended = False
        for _ in range(MAX_EXTENSIONS + 1):
            self._skip()
            header = self._header()
            if header is None:
                if is_extended:
                    raise MalformedTarballError(_TRUNCATED)
                return None
            kind, size = header[156:157], _octal(header[124:136])
            if kind in (b"x", b"X"):
                records |= self._records(self._extension(size))
            elif kind == b"L":
                records[b"path"] = self._extension(size).split(b"\0", 1)[0]
            elif kind in (b"g", b"K"):
                # Global headers and link targets are not needed.
                self._account(size)
                self._begin(size)
            else:
                return self._entry(header, kind, size, records)
            is_extended = True
        raise MalformedTarballError(f"more than {MAX_EXTENSIONS} extended headers in a row")

    def _entry(self, header: bytes, kind: bytes, size: int, records: dict[bytes, bytes]) -> Entry:
        name = header[:100].split(b"\0", 1)[0]
        prefix = header[345:500].split(b"\0", 1)[0]
        if prefix and header[257:263] == _POSIX:
            name = prefix + b"/" + name
        name = records.get(b"GNU.sparse.name", records.get(b"path", name))
        if b"size" in records:
            size = _decimal(records[b"size"])
        meaning = _KINDS.get(kind, Kind.other)
        if kind == b"\0" and name.endswith(b"/"):
            meaning = Kind.folder
        if any(key.startswith(_SPARSE) for key in records):
            meaning = Kind.other
        is_continued = kind == b"S" and header[482] != 0
        while is_continued:
            is_continued = self._extension(BLOCK)[504] != 0
        self._begin(0 if kind in _WITHOUT_CONTENT else size)
        return Entry(name.decode("utf-8", "surrogateescape"), size, meaning)

    def _header(self) -> bytes | None:
        """Return the next header block; None at an end mark or at the end of the data."""
        block = self._exactly(BLOCK, or_fewer=True)
        is_first, self._is_first = self._is_first, False
        if len(block) == BLOCK and not block.strip(b"\0"):
            return None
        if not block and not is_first:
            return None
        if len(block) < BLOCK or not _has_valid_checksum(block):
            raise MalformedTarballError(_NO_TAR if is_first else _DAMAGED)
        return block

    def _extension(self, size: int) -> bytes:
        self._account(size)
        self._begin(size)
        return self.content()

    def _records(self, data: bytes) -> dict[bytes, bytes]:
        """Return the needed records of a POSIX extended header by key. A record is `LENGTH KEY=VALUE` and a
        line break."""
        records = {}
        start = 0
        while start < len(data) and data[start]:
            space = data.find(b" ", start, start + MAX_DIGITS + 1)
            end = start + _decimal(data[start : max(start, space)])
            key, equals, value = data[space + 1 : end - 1].partition(b"=")
            if not equals or data[end - 1 : end] != b"\n":
                raise MalformedTarballError(_DAMAGED)
            if key in _USED or key.startswith(_SPARSE):
                records[key] = value
            start = end
            self._n_records += 1
            if self._n_records > MAX_RECORDS:
                raise MalformedTarballError(
                    f"the extended headers of the archive have more than {MAX_RECORDS:,} records, which is "
                    f"the limit"
                )
        return records

    def _account(self, size: int) -> None:
        """Count the bytes of an extended header."""
        self._n_header_bytes += size
        if size > MAX_HEADER_BYTES:
            raise MalformedTarballError(
                f"a header of the archive is too large: it has {size:,} bytes; the limit is "
                f"{MAX_HEADER_BYTES:,}"
            )
        if self._n_header_bytes > MAX_HEADERS_BYTES:
            raise MalformedTarballError(
                f"the extended headers of the archive have more than {MAX_HEADERS_BYTES:,} bytes, which is "
                f"the limit"
            )

    def _begin(self, size: int) -> None:
        self._size = size
        self._left = -(-size // BLOCK) * BLOCK

    def _skip(self) -> None:
        while self._left:
            data = self._source.read(min(self._left, READ_BYTES))
            if not data:
                raise MalformedTarballError(_TRUNCATED)
            self._left -= len(data)

    def _exactly(self, size: int, *, or_fewer: bool = False) -> bytes:
        pieces = []
        while size and (data := self._source.read(min(size, READ_BYTES))):
            pieces.append(data)
            size -= len(data)
        if size and not or_fewer:
            raise MalformedTarballError(_TRUNCATED)
        return b"".join(pieces)


def _has_valid_checksum(header: bytes) -> bool:
    """Whether the checksum of a header is right. It counts itself as spaces; old tools sum signed bytes."""
    others = header[:148] + b" " * 8 + header[156:]
    try:
        checksum = _octal(header[148:156])
    except MalformedTarballError:
        return False
    total = sum(others)
    return checksum == total or checksum == total - 256 * sum(byte > 127 for byte in others)


def _octal(field: bytes) -> int:
    """Return a number in a header: octal digits, or binary if the first bit is set."""
    if field[0] == 0o200:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise MalformedTarballError(_DAMAGED)
    return int(digits or b"0", 8)


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > MAX_DIGITS:
        raise MalformedTarballError(_DAMAGED)
    return int(digits)
