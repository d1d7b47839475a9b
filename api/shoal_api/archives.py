"""Archives: their members one after the other, in bounded memory, and nothing of them trusted.

A member is never written anywhere under its name, which serves as the source path of a document and nothing else; that
it must be an ordinary relative one keeps what is stored readable. What cannot be taken is told member by member. Only
an archive that cannot be read to its end, or that unpacks to more than an upload may hold, is refused as a whole: then
nothing of it is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from shoal.settings import MIB, Settings
from shoal_api.spool import READ_BYTES
from shoal_api.tarball import Entry, Gzip, Kind, MalformedTarballError, Tar

ZIP = ("application/zip", "application/x-zip-compressed")
GZIP = ("application/gzip", "application/x-gzip")
"""Content types of a zip archive, and of a tar archive compressed by gzip."""

JUNK_FOLDERS = ("__macosx", "$recycle.bin", "system volume information")
JUNK_FILES = ("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r")
"""Besides names that begin with a dot: what operating systems leave in folders. In lower case."""

ARCHIVE_SUFFIXES = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".lzma", ".lz4"),
    *(".7z", ".rar", ".jar", ".war", ".iso", ".cab"),
)
ARCHIVE_STARTS: tuple[bytes, ...] = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
)
ARCHIVE_STARTS += (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
TAR_MAGIC = slice(257, 262)

ENTRIES_PER_ITEM = 2
"""Entries an archive may have for each document an upload may hold: macOS adds one to each file."""

MAX_DIRECTORY_BYTES = 64 * MIB
"""Of the directory of a zip archive, which is read at once: 600 bytes for each of 100,000 documents."""
ENTRY_START = b"PK\x01\x02"

ZIP_READS = 2
"""How often each byte of a zip archive may be read: once for its end and directory, once for its files."""

RATIO_FLOOR = MIB
"""A tar archive is looked at as a whole once it has unpacked to this much: tars of small files are mostly zeros."""

ENCRYPTED = 0x1
UTF8_NAME = 0x800
_DRIVE = re.compile(r"[A-Za-z]:")


class BrokenArchiveError(ValueError):
    """The body is not the archive that it is said to be, or not the whole of it."""


class ArchiveTooLargeError(ValueError):
    """The archive has more in it than an upload may hold."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its bytes, or the reason why it cannot be taken. `size` is the size it is said to have."""

    name: str
    size: int
    data: bytes = b""
    refusal: str | None = None


class Archive:
    """The members of an archive in order. `skipped` counts the entries passed by so far that are no documents: folders,
    hidden files and what operating systems leave about."""

    def __init__(self, file: IO[bytes], mimetype: str, settings: Settings) -> None:
        self.skipped = 0
        self._file = file
        self._is_zip = mimetype in ZIP
        self._settings = settings
        # Digests: 100,000 names of any length take 10 MB.
        self._names: set[bytes] = set()
        self._unpacked = 0
        self._size = file.seek(0, 2)
        file.seek(0)

    def __iter__(self) -> Iterator[Member]:
        """Raises BrokenArchiveError, ArchiveTooLargeError."""
        return self._of_zip() if self._is_zip else self._of_tar()

    # Zip: a directory at the end says where everything is.

    def _of_zip(self) -> Iterator[Member]:
        most = ENTRIES_PER_ITEM * self._settings.max_upload_items
        with _broken("zip"), zipfile.ZipFile(_Guarded(self._file, self._size, most)) as opened:
            for info in opened.infolist():
                name = self._plain(_zip_name(info))
                if info.filename.endswith(("/", "\\")) or self._is_junk(name):
                    self.skipped += 1
                    continue
                member = self._zip_member(opened, info, name)
                # Each member is within the ratio: if all of them are not, they share their bytes.
                if self._unpacked > self._settings.max_archive_ratio * self._size:
                    raise ArchiveTooLargeError(self._too_dense())
                self._check_total(self._unpacked)
                yield member

    def _zip_member(self, opened: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Member:
        kind = stat.S_IFMT(info.external_attr >> 16)
        refusal = (
            self._wrong_name(name)
            or (_NOT_A_FILE.get(kind, _NO_ORDINARY_FILE) if kind not in (0, stat.S_IFREG) else None)
            or ("is encrypted; send it without a password" if info.flag_bits & ENCRYPTED else None)
            or (_METHOD if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) else None)
            or self._wrong_size(info.file_size)
            or self._wrong_ratio(info.file_size, info.compress_size)
        )
        if refusal is not None:
            return Member(name, info.file_size, refusal=refusal)
        if not info.file_size:
            return Member(name, 0)
        # Counted before: the work is the same where the checksum turns out to be wrong.
        self._unpacked += info.file_size
        try:
            with opened.open(info) as content:
                data = content.read(self._settings.max_document_bytes + 1)
        except ArchiveTooLargeError:
            raise
        except (*_ZIP_ERRORS, EOFError):
            return Member(name, info.file_size, refusal="cannot be unpacked: it is damaged")
        return self._read(name, info.file_size, data)

    # Tar: one entry after the other, known only once it is there.

    def _of_tar(self) -> Iterator[Member]:
        most = ENTRIES_PER_ITEM * self._settings.max_upload_items
        with _broken("tar"):
            source = Gzip(self._file, self._check_ratio)
            entries = Tar(source)
            for n_entries, entry in enumerate(entries, 1):
                if n_entries > most:
                    raise ArchiveTooLargeError(_too_many(most))
                name = self._plain(entry.name)
                if entry.kind is Kind.folder or self._is_junk(name):
                    self.skipped += 1
                else:
                    yield self._tar_member(entries, entry, name)
            # To the end, where the checksum is.
            while source.read(READ_BYTES):
                pass

    def _tar_member(self, entries: Tar, entry: Entry, name: str) -> Member:
        refusal = self._wrong_name(name) or _NOT_A_FILE_IN_TAR.get(entry.kind) or self._wrong_size(entry.size)
        if refusal is not None:
            return Member(name, entry.size, refusal=refusal)
        return self._read(name, entry.size, entries.content())

    def _check_ratio(self, unpacked: int) -> None:
        """Raise ArchiveTooLargeError where so many bytes cannot honestly come from what was read of the file."""
        self._check_total(unpacked)
        if unpacked > RATIO_FLOOR and unpacked > self._settings.max_archive_ratio * self._file.tell():
            raise ArchiveTooLargeError(self._too_dense())

    # Both

    def _read(self, name: str, size: int, data: bytes) -> Member:
        refusal = self._wrong_size(len(data))
        if refusal is None and (data.startswith(ARCHIVE_STARTS) or data[TAR_MAGIC] == b"ustar"):
            refusal = _NESTED
        return Member(name, size, refusal=refusal) if refusal else Member(name, size, data)

    def _plain(self, name: str) -> str:
        """A name as `_plain` has it; of one that is much too long the beginning, which is too long as well."""
        limit = self._settings.max_source_path_chars
        return _plain(name) if len(name) <= 2 * limit else name[: limit + 1]

    def _is_junk(self, name: str) -> bool:
        *folders, file = name.lower().split("/")
        return not any(part == ".." for part in (*folders, file)) and (
            any(part.startswith(".") or part in JUNK_FOLDERS for part in folders)
            or file.startswith(".")
            or file in JUNK_FILES
        )

    def _wrong_name(self, name: str) -> str | None:
        if not name:
            return "has no name"
        limit = self._settings.max_source_path_chars
        if len(name) > limit:
            return f"has a name of more than {limit:,} characters, which is the limit"
        if name.startswith("/") or _DRIVE.match(name):
            return "has an absolute name; names must be relative"
        if ".." in name.split("/"):
            return "has a name that leads out of the archive (`..`)"
        digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
        if digest in self._names:
            return "is in the archive more than once; the first one is taken"
        self._names.add(digest)
        return _NESTED if name.lower().endswith(ARCHIVE_SUFFIXES) else None

    def _wrong_size(self, size: int) -> str | None:
        limit = self._settings.max_document_bytes
        return f"the file has {size:,} bytes; the limit is {limit:,}" if size > limit else None

    def _wrong_ratio(self, size: int, packed: int) -> str | None:
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

    def _too_dense(self) -> str:
        limit = self._settings.max_archive_ratio
        return f"the archive unpacks to over {limit:g} times its size, which is the limit"


_LINK = "is a link; only files are taken"
_DEVICE = "is a device; only files are taken"
_METHOD = "is compressed in a way that is not taken here; use deflate"
_NESTED = "is an archive itself; send it as an upload of its own"
_NO_ORDINARY_FILE = "is no ordinary file"
_NOT_A_FILE_IN_TAR = {Kind.link: _LINK, Kind.device: _DEVICE, Kind.other: _NO_ORDINARY_FILE}
_NOT_A_FILE = {stat.S_IFLNK: _LINK, stat.S_IFCHR: _DEVICE, stat.S_IFBLK: _DEVICE}
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, OverflowError)


def _too_many(limit: int) -> str:
    return f"the archive has more than {limit:,} entries, which is the limit"


@contextlib.contextmanager
def _broken(kind: str) -> Iterator[None]:
    """What the readers of archives say of one that they cannot read."""
    try:
        yield
    except (BrokenArchiveError, ArchiveTooLargeError):
        raise
    except MalformedTarballError as error:
        raise BrokenArchiveError(f"{error}; nothing of it was stored") from None
    except (*_ZIP_ERRORS, EOFError) as error:
        raise BrokenArchiveError(
            f"the body is no {kind} archive, or it is cut off or damaged; nothing of it was stored"
        ) from error


class _Guarded:
    """The file of a zip archive. Its directory is read in one go: not if it is too large, or of too many entries. Entries
    that share their bytes are an error once these were read several times over."""

    def __init__(self, file: IO[bytes], size: int, most_entries: int) -> None:
        self._file = file
        self._most_entries = most_entries
        self._left = ZIP_READS * size + MIB
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset < 0:
            raise zipfile.BadZipFile("an entry is said to be before the beginning of the file")
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise ArchiveTooLargeError("the directory of the archive is too large")
        data = self._file.read(size)
        # No other entries are read than those that begin so; what else looks like one does no harm here.
        if data.startswith(ENTRY_START) and data.count(ENTRY_START) > self._most_entries:
            raise ArchiveTooLargeError(_too_many(self._most_entries))
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveTooLargeError("the files in the archive share their bytes, as those of a bomb do")
        return data


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Most tools write UTF-8 today, though some don't say so."""
    name = info.filename
    if not info.flag_bits & UTF8_NAME:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name


def _plain(name: str) -> str:
    """A name with slashes between its parts, without those that mean nothing, and of letters that UTF-8 has."""
    name = name.replace("\\", "/").encode("utf-8", "replace").decode()
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return ("/" if name.startswith("/") else "") + "/".join(parts)
