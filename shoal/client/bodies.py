"""What is sent: files and lines, read as the connection takes them, and once more where they have to be sent
again."""

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
"""How much of a file is read at a time; also how often progress is reported."""
KEPT_BYTES = 8 * 1024 * 1024
"""How much of lines that come only once is kept in memory for sending them again; more goes to a temporary
file."""
ARCHIVES = {".zip": "application/zip", ".tar.gz": "application/gzip", ".tgz": "application/gzip"}

RECORDS = (".ndjson", ".jsonl")
"""Extensions of files that hold a document a line."""

Sent = Callable[[int], None]
"""Told the bytes of files as they leave; a negative number takes back what has to be sent again."""


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file to send: where it is, the name it goes by, its size in bytes when it was looked at. `folder`: a folder
    above it below which no symbolic link is followed."""

    path: Path
    name: str
    size: int
    folder: Path | None = None

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], name: str | None = None, folder: Path | None = None
    ) -> UploadFile:
        """Look at a regular file, named `name` or as its path is written. Raises OSError if it cannot be read."""
        path = Path(path)
        with open_file(path, folder) as file:
            size = file.seek(0, 2)
        return cls(path, name or path.as_posix(), size, folder)

    @classmethod
    def from_any(cls, given: UploadFile | str | os.PathLike[str]) -> UploadFile:
        """A file that was looked at, or its path. Raises OSError if it cannot be read."""
        return given if isinstance(given, UploadFile) else cls.of(given)


class MultipartBody:
    """A `multipart/form-data` body read from disk while it is sent; every file becomes a part named `files`.

    httpx can send files too, but opens all of them at once, which a folder of 100,000 notes would not
    survive.
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
        """Bytes of the whole body. Known before it is sent, so that a server can refuse it at once."""
        fields = sum(len(self._field(name, value)) for name, value in self._fields)
        files = sum(len(self._head(file)) + file.size + len(b"\r\n") for file in self._files)
        return fields + files + len(self._end())

    def __iter__(self) -> Iterator[bytes]:
        """Raises ClientError where a file is not what it was when it was looked at, OSError if it has
        gone."""
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
    """Tells what was sent, and takes it back where it has to be sent again."""

    def __init__(self, tell: Sent | None) -> None:
        self._tell, self._told = tell, 0

    def begin(self) -> None:
        if self._told:
            self.sent(-self._told)

    def sent(self, n: int) -> None:
        self._told += n
        if self._tell:
            self._tell(n)


class FileBody:
    """A file as it is."""

    def __init__(self, file: UploadFile, sent: Sent | None = None) -> None:
        self._file, self._meter = file, _Meter(sent)

    def __iter__(self) -> Iterator[bytes]:
        """Raises as MultipartBody."""
        self._meter.begin()
        return content_of(self._file, self._meter.sent)


class LinesBody:
    """Documents as NDJSON. Lines that come only once are kept as they are sent, for sending them again.

    `documents` are objects, or lines of JSON that are ready. Close it.
    """

    def __init__(self, documents: Iterable[Mapping[str, Any] | bytes]) -> None:
        self._lines = map(_line, documents)
        # The file is there only once somebody sends, and its name is nobody's business.
        self._kept: IO[bytes] = tempfile.SpooledTemporaryFile(KEPT_BYTES)  # noqa: SIM115

    def __iter__(self) -> Iterator[bytes]:
        self._kept.seek(0)
        while data := self._kept.read(CHUNK_BYTES):
            yield data
        for line in self._lines:
            self._kept.write(line)
            yield line

    def close(self) -> None:
        self._kept.close()


def content_of(file: UploadFile, sent: Sent) -> Iterator[bytes]:
    """A file piece by piece as it is sent. Raises ClientError where it is not what it was when it was looked
    at."""
    left = file.size
    with open_file(file.path, file.folder) as opened:
        while left:
            data = opened.read(min(CHUNK_BYTES, left))
            if not data:
                break
            left -= len(data)
            yield data
            sent(len(data))
        if left or opened.read(1):
            raise ClientError(f"{file.path} changed while it was being sent; nothing was uploaded")


def archive_type(path: Path) -> str | None:
    """The content type of a file that by its name is an archive the service takes apart; None for any
    other."""
    name = path.name.lower()
    return next((kind for suffix, kind in ARCHIVES.items() if name.endswith(suffix)), None)


def holds_records(path: Path) -> bool:
    """Whether a file by its name holds a document a line."""
    return path.suffix.lower() in RECORDS


def _line(document: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(document, bytes):
        return document if document.endswith(b"\n") else document + b"\n"
    return json.dumps(dict(document)).encode() + b"\n"


def _quoted(name: str) -> str:
    """A parameter of Content-Disposition, escaped as browsers do (WHATWG HTML, multipart/form-data)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
