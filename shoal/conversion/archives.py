"""Archives: reads the members of untrusted zip and tar archives in order, in bounded memory.

No member is written to disk under its name. The name only becomes the source path of a document and must be
an ordinary relative path. A member that cannot be used gets a refusal of its own. An archive is refused as a
whole, and nothing of it is stored, if it cannot be read to its end or unpacks to more than an upload may
hold.

Tar archives, which are compressed by gzip, have a forward-only reader of their own, because those of the
standard library are unsafe for untrusted input: `tarfile` applies every global header to every entry and
searches extended headers with regular expressions; for `gzip` see `shoal.conversion.inflating`.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from shoal.conversion.converted import largest_file
from shoal.conversion.inflating import RATIO_FLOOR, READ_BYTES, Inflated, PackedDataError, Readable
from shoal.conversion.recognition import recognise
from shoal.settings import Settings
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
_WITHOUT_CONTENT = b"123456"
_POSIX = b"ustar\0"
_USED = (b"path", b"size")
_SPARSE = b"GNU.sparse."
ZIP = ("application/zip", "application/x-zip-compressed")
GZIP = ("application/gzip", "application/x-gzip")
"""Content types of a zip archive, and of a gzip-compressed tar archive."""
JUNK_FOLDERS = ("__macosx", "$recycle.bin", "system volume information")
JUNK_FILES = ("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r")
"""Files and folders that operating systems create, in lower case. Names that begin with a dot are skipped as
well."""
ARCHIVE_SUFFIXES = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".lzma", ".lz4"),
    *(".7z", ".rar", ".jar", ".war", ".iso", ".cab"),
)
ARCHIVE = "archive"
"""The kind of a file that is an archive itself."""
ENTRIES_PER_ITEM = 2
"""Entries an archive may have per document an upload may hold: macOS adds one to each file."""
MAX_DIRECTORY_BYTES = 64 * MIB
"""Limit of a zip archive's directory, which is read at once: 600 bytes for each of 100,000 documents."""
ENTRY_START = b"PK\x01\x02"
ZIP_READS = 2
"""How often each byte of a zip archive may be read: once for the end and directory, once for the files."""
ENCRYPTED = 0x1
UTF8_NAME = 0x800
_DRIVE = re.compile(r"[A-Za-z]:")
_LINK = "is a link; only files are accepted"
_DEVICE = "is a device; only files are accepted"
_METHOD = "uses a compression method that is not supported; use deflate"
_NESTED = "is an archive itself; send it as a separate upload"
_NOT_A_REGULAR_FILE = "is not a regular file"
_NOT_A_FILE = {stat.S_IFLNK: _LINK, stat.S_IFCHR: _DEVICE, stat.S_IFBLK: _DEVICE}
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, OverflowError)


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


class BrokenArchiveError(ValueError):
    """The body is not an archive of the declared type, or is incomplete."""


class ArchiveTooLargeError(ValueError):
    """The archive holds more than an upload may hold."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its bytes, or why it is refused. `size` is the declared size."""

    name: str
    size: int
    data: bytes = b""
    refusal: str | None = None


class Archive:
    """The members of an archive in order.

    `skipped` counts the entries so far that are not documents: folders, hidden files and files of operating
    systems.
    """

    def __init__(self, file: IO[bytes], mimetype: str, settings: Settings) -> None:
        self.skipped = 0
        self._file = file
        self._is_zip = mimetype in ZIP
        self._settings = settings
        # Digests of the names: 100,000 of them take 10 MB, however long the names are.
        self._names: set[bytes] = set()
        self._unpacked = 0
        self._size = file.seek(0, 2)
        file.seek(0)

    def __iter__(self) -> Iterator[Member]:
        """Raises BrokenArchiveError, ArchiveTooLargeError."""
        return self._zip_members() if self._is_zip else self._tar_members()

    # Zip: a directory at the end of the file locates every entry.

    def _zip_members(self) -> Iterator[Member]:
        most = ENTRIES_PER_ITEM * self._settings.max_upload_items
        with _wrap_errors("zip"), zipfile.ZipFile(_GuardedFile(self._file, self._size, most)) as opened:
            for info in opened.infolist():
                name = self._normalize(_zip_name(info))
                if info.filename.endswith(("/", "\\")) or self._is_junk(name):
                    self.skipped += 1
                    continue
                member = self._zip_member(opened, info, name)
                # Each member is within the ratio, so a total above it means that members share bytes.
                if self._unpacked > self._settings.max_archive_ratio * self._size:
                    raise ArchiveTooLargeError(self._ratio_message())
                self._check_total(self._unpacked)
                yield member

    def _zip_member(self, opened: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Member:
        kind = stat.S_IFMT(info.external_attr >> 16)
        refusal = (
            self._check_name(name)
            or (_NOT_A_FILE.get(kind, _NOT_A_REGULAR_FILE) if kind not in (0, stat.S_IFREG) else None)
            or ("is encrypted; send it without a password" if info.flag_bits & ENCRYPTED else None)
            or (_METHOD if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) else None)
            or self._check_size(info.file_size)
            or self._check_member_ratio(info.file_size, info.compress_size)
        )
        if refusal is not None:
            return Member(name, info.file_size, refusal=refusal)
        if not info.file_size:
            return Member(name, 0)
        # Counted before unpacking: a member with a wrong checksum costs the same work.
        self._unpacked += info.file_size
        try:
            with opened.open(info) as content:
                data = content.read(largest_file(self._settings) + 1)
        except ArchiveTooLargeError:
            raise
        except (*_ZIP_ERRORS, EOFError):
            return Member(name, info.file_size, refusal="cannot be unpacked: it is damaged")
        return self._read(name, info.file_size, data)

    # Tar: a stream of entries without a directory.

    def _tar_members(self) -> Iterator[Member]:
        most = ENTRIES_PER_ITEM * self._settings.max_upload_items
        with _wrap_errors("tar"):
            source = Inflated(self._file, self._check_ratio)
            entries = Tar(source)
            for n_entries, entry in enumerate(entries, 1):
                if n_entries > most:
                    raise ArchiveTooLargeError(_entries_message(most))
                name = self._normalize(entry.name)
                if entry.kind is Kind.folder or self._is_junk(name):
                    self.skipped += 1
                else:
                    yield self._tar_member(entries, entry, name)
            # Read to the end, where the checksum is.
            while source.read(READ_BYTES):
                pass

    def _tar_member(self, entries: Tar, entry: Entry, name: str) -> Member:
        refusal = self._check_name(name) or _NOT_A_FILE_IN_TAR.get(entry.kind) or self._check_size(entry.size)
        if refusal is not None:
            return Member(name, entry.size, refusal=refusal)
        return self._read(name, entry.size, entries.content())

    def _check_ratio(self, unpacked: int, packed: int) -> None:
        """Raise ArchiveTooLargeError if `unpacked` bytes are too many for the compressed bytes read so
        far."""
        self._check_total(unpacked)
        if unpacked > max(RATIO_FLOOR, self._settings.max_archive_ratio * packed):
            raise ArchiveTooLargeError(self._ratio_message())

    # Both

    def _read(self, name: str, size: int, data: bytes) -> Member:
        refusal = self._check_size(len(data))
        if refusal is None and recognise(data, name).id == ARCHIVE:
            refusal = _NESTED
        return Member(name, size, refusal=refusal) if refusal else Member(name, size, data)

    def _normalize(self, name: str) -> str:
        """Normalize a name with `_normalize_name`; cut one far above the limit to a length still above it."""
        limit = self._settings.max_source_path_chars
        return _normalize_name(name) if len(name) <= 2 * limit else name[: limit + 1]

    def _is_junk(self, name: str) -> bool:
        *folders, file = name.lower().split("/")
        return not any(part == ".." for part in (*folders, file)) and (
            any(part.startswith(".") or part in JUNK_FOLDERS for part in folders)
            or file.startswith(".")
            or file in JUNK_FILES
        )

    def _check_name(self, name: str) -> str | None:
        if not name:
            return "has no name"
        limit = self._settings.max_source_path_chars
        if len(name) > limit:
            return f"has a name of more than {limit:,} characters, which is the limit"
        if name.startswith("/") or _DRIVE.match(name):
            return "has an absolute name; names must be relative"
        if ".." in name.split("/"):
            return "has a name that points outside the archive (`..`)"
        digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
        if digest in self._names:
            return "is in the archive more than once; only the first one is used"
        self._names.add(digest)
        return _NESTED if name.lower().endswith(ARCHIVE_SUFFIXES) else None

    def _check_size(self, size: int) -> str | None:
        limit = largest_file(self._settings)
        return f"the file has {size:,} bytes; the limit is {limit:,}" if size > limit else None

    def _check_member_ratio(self, size: int, packed: int) -> str | None:
        limit = self._settings.max_archive_ratio
        if size <= limit * max(1, packed):
            return None
        return f"unpacks to {size / max(1, packed):,.0f} times its size; the limit is {limit:g} times"

    def _check_total(self, unpacked: int) -> None:
        limit = self._settings.max_upload_bytes
        if unpacked > limit:
            raise ArchiveTooLargeError(
                f"the archive unpacks to more than {limit:,} bytes, which is the limit"
            )

    def _ratio_message(self) -> str:
        limit = self._settings.max_archive_ratio
        return f"the archive unpacks to over {limit:g} times its size, which is the limit"


_NOT_A_FILE_IN_TAR = {Kind.link: _LINK, Kind.device: _DEVICE, Kind.other: _NOT_A_REGULAR_FILE}


def _entries_message(limit: int) -> str:
    return f"the archive has more than {limit:,} entries, which is the limit"


@contextlib.contextmanager
def _wrap_errors(kind: str) -> Iterator[None]:
    """Raise the errors of the archive readers as BrokenArchiveError."""
    try:
        yield
    except (BrokenArchiveError, ArchiveTooLargeError):
        raise
    except (MalformedTarballError, PackedDataError) as error:
        raise BrokenArchiveError(f"{error}; nothing of it was stored") from None
    except (*_ZIP_ERRORS, EOFError) as error:
        raise BrokenArchiveError(
            f"the body is not a {kind} archive, or it is truncated or damaged; nothing of it was stored"
        ) from error


class _GuardedFile:
    """The file of a zip archive, with limits on reading.

    `zipfile` reads the directory in one call, so a directory that is too large or has too many entries is
    refused here. Entries that share bytes are refused once these bytes were read more than ZIP_READS times.
    """

    def __init__(self, file: IO[bytes], size: int, most_entries: int) -> None:
        self._file = file
        self._most_entries = most_entries
        self._left = ZIP_READS * size + MIB
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset < 0:
            raise zipfile.BadZipFile("an entry has a negative offset")
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise ArchiveTooLargeError("the directory of the archive is too large")
        data = self._file.read(size)
        # Every entry begins with this mark. Counting the mark inside other data as well does no harm here.
        if data.startswith(ENTRY_START) and data.count(ENTRY_START) > self._most_entries:
            raise ArchiveTooLargeError(_entries_message(self._most_entries))
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveTooLargeError("the files in the archive share bytes, as in a zip bomb")
        return data


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Return the name of an entry. Most tools write UTF-8, but some do not set the flag for it."""
    name = info.filename
    if not info.flag_bits & UTF8_NAME:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name


def _normalize_name(name: str) -> str:
    """Return a name with forward slashes, without empty and `.` parts, and encodable as UTF-8."""
    name = name.replace("\\", "/").encode("utf-8", "replace").decode()
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return ("/" if name.startswith("/") else "") + "/".join(parts)
