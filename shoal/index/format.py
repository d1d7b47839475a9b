"""The bytes of a segment: a header, the size and checksum of each section, then the sections.

    magic      8 bytes
    format     u32
    n_sections u32
    table      n_sections of (u64 bytes, u32 CRC-32)
    checksum   u32, CRC-32 of all before
    sections   one array each, in the order of `SECTIONS`, each starting at a multiple of 8

All numbers are little-endian. A segment has at most `MAX_CHUNKS` chunks, so that an ordinal, the place of a
chunk in its segment, takes two bytes. Text, headings and titles are three fields with the same sections. What
has a field's text is its *unit*: a chunk has text, a section has headings, a document has a title.

A position takes one byte, and so does a frequency. The larger ones are completed by exceptions, which come
last in the file because their sizes are known last: a list of the few high frequencies, and a bit for each
occurrence, because long chunks have many positions.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError

MAGIC = b"shoalidx"
FORMAT = 5
"""Version of the format and of the definition of a word; a segment of another version is built anew."""
MAX_CHUNKS = 65_536
MAX_REEFS = 255
"""A sum of overlaps keeps the number of shared reefs in one byte."""
BEYOND = 65_535
"""Position of all words behind the first 65,535 of a unit. They count, but stand in no phrase."""
LONG = 255
"""Frequency byte of this many occurrences or more; the exceptions have the number. Likewise for forms."""
MAX_FORM_BYTES = 255
"""Longer forms are encoded data, and stand in no dictionary of forms."""
FORMS_IN_RUN = 16
"""One of so many forms has its place in the file."""
PAGE = 256
"""A position byte is the position modulo this; the exceptions have the quotient unless it is 0."""
FAR_BLOCK = 4_096
"""Occurrences whose exceptions are counted together, so that at most 512 bytes are read to find one."""

MILLIONTHS = 1_000_000
"""Unit of confidences, which have six digits behind the point."""

FIELDS = ("text", "headings", "title")

_DOCUMENT_SECTIONS = (
    ("chunk_ids", "<i8"),  # of each document in its order
    ("document_ids", "<i8"),  # ascending
    ("document_starts", "<u4"),  # first chunk of each document, and the number of chunks
    ("section_starts", "<u4"),  # first chunk of each section, and the number of chunks
    ("confidence", "<u4"),  # of each chunk, in millionths
)
_FIELD_SECTIONS = (
    ("lengths", "<u4"),  # words of each unit; those at one position count once
    ("terms", "u1"),  # UTF-8 of all terms, in ascending order
    ("term_starts", "<u4"),  # of each term in `terms`, and the end
    ("posting_starts", "<u4"),  # first posting of each term, and the number of postings
    ("position_starts", "<u4"),  # first position of each term, and the number of positions
    ("ordinals", "<u2"),  # unit of each posting, ascending within a term
    ("frequencies", "u1"),  # of each posting
    ("positions", "u1"),  # of each occurrence, ascending within a posting
)
_REEF_SECTIONS = (
    ("reef_starts", "<u4"),  # first posting of each reef, and the number of postings
    ("reef_ordinals", "<u2"),  # chunk of each posting, ascending within a reef
    ("reef_weights", "<u2"),  # of each posting
)
_FORM_SECTIONS = (
    ("forms", "u1"),  # UTF-8 of the forms of all words in all fields (`shoal.words`), in ascending order
    ("form_lengths", "u1"),  # bytes of each form
    ("form_starts", "<u4"),  # of every form whose number is a multiple of FORMS_IN_RUN, and the end
    ("form_counts", "u1"),  # occurrences of each form; those in documents deleted since may count
    ("form_capitals", "u1"),  # likewise, those that begin with a capital letter
    ("form_long_places", "<u4"),  # the forms of at least LONG occurrences, ascending
    ("form_long_counts", "<u4"),  # their occurrences
    ("form_long_capitals", "<u4"),
)
_EXCEPTION_SECTIONS = (
    ("long_places", "<u4"),  # postings of at least LONG occurrences, ascending
    ("long_frequencies", "<u4"),
    ("is_far", "u1"),  # a bit for each occurrence, lowest first: at a position from PAGE on; empty if none is
    ("far_starts", "<u4"),  # first of `far_pages` of each FAR_BLOCK occurrences; likewise
    ("far_pages", "u1"),  # of each of these occurrences
)

SECTIONS: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in (
        *_DOCUMENT_SECTIONS,
        *((f"{field}.{name}", kind) for field in FIELDS for name, kind in _FIELD_SECTIONS),
        *_REEF_SECTIONS,
        *_FORM_SECTIONS,
        *((f"{field}.{name}", kind) for field in FIELDS for name, kind in _EXCEPTION_SECTIONS),
    )
}

_HEAD = struct.Struct("<8sII")
_ENTRY = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _HEAD.size + len(SECTIONS) * _ENTRY.size + _CHECKSUM.size
_ALIGNMENT = 8
_BLOCK_BYTES = 1 << 20

Sections = Mapping[str, NDArray[Any]]


class SegmentWriter:
    """Writes the sections of a segment to a seekable file, from its position on.

    Sections are declared in the order of `SECTIONS`. Several declared ones can be filled at once, each from
    its beginning to its end. Nothing in the file is a segment before `finish`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._origin = file.tell()
        self._undeclared = iter(SECTIONS.items())
        self._last = _HEADER_BYTES
        self._end = _aligned(_HEADER_BYTES)
        self._places: dict[str, list[int]] = {}
        self._sizes: list[int] = []
        self._checksums: dict[str, int] = {}

    def declare(self, name: str, n_elements: int) -> None:
        """Reserve the space of the next section."""
        expected, kind = next(self._undeclared)
        assert name == expected, f"{name} is declared before {expected}"
        size = n_elements * kind.itemsize
        if size:
            self._last = self._end + size
        self._places[name] = [self._end, self._end + size]
        self._sizes.append(size)
        self._checksums[name] = 0
        self._end = _aligned(self._end + size)

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Write the next elements of a declared section."""
        data = np.ascontiguousarray(values, dtype=SECTIONS[name]).view(np.uint8).data
        place, end = self._places[name]
        assert place + len(data) <= end, f"{name} is longer than declared"
        self._file.seek(self._origin + place)
        self._file.write(data)
        self._places[name][0] += len(data)
        self._checksums[name] = zlib.crc32(data, self._checksums[name])

    def write(self, name: str, values: NDArray[Any]) -> None:
        """Declare a section and write all of it."""
        self.declare(name, len(values))
        self.append(name, values)

    def finish(self) -> int:
        """Write the header and return the number of bytes of the segment. All sections are complete."""
        assert next(self._undeclared, None) is None, "a section is missing"
        assert all(place == end for place, end in self._places.values()), "a section is incomplete"
        entries = zip(self._sizes, self._checksums.values(), strict=True)
        header = _HEAD.pack(MAGIC, FORMAT, len(SECTIONS)) + b"".join(itertools.starmap(_ENTRY.pack, entries))
        self._file.seek(self._origin)
        self._file.write(header + _CHECKSUM.pack(zlib.crc32(header)))
        self._file.seek(self._origin + self._last)
        self._file.write(bytes(self._end - self._last))
        return self._end


def read_sections(data: Any, *, verify: bool) -> Sections:
    """Return the sections of a segment as arrays that share its memory.

    `data` is anything with the buffer protocol. The header and all sizes are checked, and with `verify` the
    checksum of every section. Raises DamagedIndexError.
    """
    buffer = memoryview(data).cast("B")
    if len(buffer) < _HEADER_BYTES:
        raise DamagedIndexError("it is shorter than its header")
    magic, version, n_sections = _HEAD.unpack_from(buffer)
    if magic != MAGIC:
        raise DamagedIndexError("it does not begin like a segment")
    if version != FORMAT:
        raise DamagedIndexError(f"it has format {version}, not {FORMAT}")
    end = _HEADER_BYTES - _CHECKSUM.size
    if n_sections != len(SECTIONS) or zlib.crc32(buffer[:end]) != _CHECKSUM.unpack_from(buffer, end)[0]:
        raise DamagedIndexError("its header does not match its checksum")
    sections = {}
    place = _aligned(_HEADER_BYTES)
    table = _ENTRY.iter_unpack(buffer[_HEAD.size : end])
    for (name, kind), (size, checksum) in zip(SECTIONS.items(), table, strict=True):
        if size % kind.itemsize or place + size > len(buffer):
            raise DamagedIndexError("it is cut off")
        content = buffer[place : place + size]
        if verify and _checksum(content) != checksum:
            raise DamagedIndexError(f"section {name} does not match its checksum")
        sections[name] = _array(content, kind)
        place = _aligned(place + size)
    if place != len(buffer):
        raise DamagedIndexError("it has another length than its header says")
    return sections


def _array(content: memoryview, kind: np.dtype[Any]) -> NDArray[Any]:
    array = np.frombuffer(content, dtype=kind)
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


def _checksum(content: memoryview) -> int:
    checksum = 0
    for block in _blocks(content):
        checksum = zlib.crc32(block, checksum)
    return checksum


def _blocks(content: memoryview) -> Iterator[memoryview]:
    """The content in pieces, between which other threads run."""
    return (content[start : start + _BLOCK_BYTES] for start in range(0, len(content), _BLOCK_BYTES))


def _aligned(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT
