"""Request bodies: files and lines that are read while they are sent, and can be sent again."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from shoal.client.errors import ClientError
from shoal.support.regular_files import open_file

CHUNK_BYTES = 256 * 1024
"""Bytes of a file that are read at a time; also the interval of progress reports."""
MEMORY_BYTES = 8 * 1024 * 1024
"""Bytes of lines from an iterator that are kept in memory for a retry; the rest goes to a temporary file."""
ARCHIVE_TYPES = {".zip": "application/zip", ".tar.gz": "application/gzip", ".tgz": "application/gzip"}

RECORD_SUFFIXES = (".ndjson", ".jsonl")
"""Extensions of files with one document per line."""

Sent = Callable[[int], None]
"""Called with the bytes of files that were sent; a negative number takes back bytes that are sent again."""


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file to upload: its path, its name in the upload, and its size in bytes when it was opened.

    `folder`: a parent folder below which no symbolic link is followed.
    """

    path: Path
    name: str
    size: int
    folder: Path | None = None

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], name: str | None = None, folder: Path | None = None
    ) -> UploadFile:
        """Check a regular file.

        Its name is `name`, or its path as given. Raises OSError if it cannot be read.
        """
        path = Path(path)
        with open_file(path, folder) as file:
            size = file.seek(0, 2)
        return cls(path, name or path.as_posix(), size, folder)

    @classmethod
    def from_any(cls, file: UploadFile | str | os.PathLike[str]) -> UploadFile:
        """Convert a path to an UploadFile. Raises OSError if the file cannot be read."""
        return file if isinstance(file, UploadFile) else cls.of(file)


class MultipartBody:
    """A `multipart/form-data` body that is read from disk while it is sent; each file is a part named
    `files`.

    httpx opens all files of an upload at once, which fails for a folder of 100,000 notes.
    """

    def __init__(
        self,
        files: Sequence[UploadFile],
        *,
        fields: Sequence[tuple[str, str]] = (),
        sent: Sent | None = None,
    ) -> None:
        self._boundary = uuid.uuid4().hex
        self._files = files
        self._fields = fields
        self._meter = _Meter(sent)

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self._boundary}"

    @property
    def length(self) -> int:
        """Bytes of the whole body, known in advance so that a server can refuse it at once."""
        fields = sum(len(self._field(name, value)) for name, value in self._fields)
        files = sum(len(self._head(file)) + file.size + len(b"\r\n") for file in self._files)
        return fields + files + len(self._end())

    def __iter__(self) -> Iterator[bytes]:
        """Raises ClientError if a file has changed since it was opened, OSError if it no longer exists."""
        self._meter.begin()
        for name, value in self._fields:
            yield self._field(name, value)
        for file in self._files:
            yield self._head(file)
            yield from content_of(file, self._meter.sent)
            yield b"\r\n"
        yield self._end()

    def _field(self, name: str, value: str) -> bytes:
        return self._part(f'form-data; name="{_quoted(name)}"', "") + value.encode() + b"\r\n"

    def _head(self, file: UploadFile) -> bytes:
        return self._part(
            f'form-data; name="files"; filename="{_quoted(file.name)}"',
            "Content-Type: application/octet-stream\r\n",
        )

    def _part(self, disposition: str, more: str) -> bytes:
        head = f"--{self._boundary}\r\nContent-Disposition: {disposition}\r\n{more}\r\n"
        return head.encode("utf-8", "replace")

    def _end(self) -> bytes:
        return f"--{self._boundary}--\r\n".encode()


class _Meter:
    """Reports sent bytes, and takes them back when the body is sent again."""

    def __init__(self, report: Sent | None) -> None:
        self._report, self._n_reported = report, 0

    def begin(self) -> None:
        if self._n_reported:
            self.sent(-self._n_reported)

    def sent(self, n: int) -> None:
        self._n_reported += n
        if self._report:
            self._report(n)


class FileBody:
    """The unchanged content of a file."""

    def __init__(self, file: UploadFile, sent: Sent | None = None) -> None:
        self._file, self._meter = file, _Meter(sent)

    def __iter__(self) -> Iterator[bytes]:
        """Raises the same errors as MultipartBody."""
        self._meter.begin()
        return content_of(self._file, self._meter.sent)


class LinesBody:
    """Documents as NDJSON. Sent lines are kept for a retry, because an iterator yields them only once.

    `documents` are objects or encoded lines of JSON. The body must be closed.
    """

    def __init__(self, documents: Iterable[Mapping[str, Any] | bytes]) -> None:
        self._lines = map(_line, documents)
        # Created on the first write beyond MEMORY_BYTES, without a name.
        self._sent_lines: IO[bytes] = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115

    def __iter__(self) -> Iterator[bytes]:
        self._sent_lines.seek(0)
        while data := self._sent_lines.read(CHUNK_BYTES):
            yield data
        for line in self._lines:
            self._sent_lines.write(line)
            yield line

    def close(self) -> None:
        self._sent_lines.close()


def content_of(file: UploadFile, sent: Sent) -> Iterator[bytes]:
    """Yield a file in pieces and report each.

    Raises ClientError if the file has changed since it was opened.
    """
    remaining = file.size
    with open_file(file.path, file.folder) as opened:
        while remaining:
            data = opened.read(min(CHUNK_BYTES, remaining))
            if not data:
                break
            remaining -= len(data)
            yield data
            sent(len(data))
        if remaining or opened.read(1):
            raise ClientError(f"{file.path} changed while it was being sent; nothing was uploaded")


def archive_type(path: Path) -> str | None:
    """The content type of an archive that the service accepts, by file name; None for other files."""
    name = path.name.lower()
    return next((kind for suffix, kind in ARCHIVE_TYPES.items() if name.endswith(suffix)), None)


def holds_records(path: Path) -> bool:
    """Whether a file name is that of a file with one document per line."""
    return path.suffix.lower() in RECORD_SUFFIXES


def _line(document: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(document, bytes):
        return document if document.endswith(b"\n") else document + b"\n"
    return json.dumps(dict(document)).encode() + b"\n"


def _quoted(name: str) -> str:
    """A parameter of Content-Disposition, escaped as browsers do (WHATWG HTML, multipart/form-data)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
