"""An open segment: lookups of terms, postings and positions in its three fields, and of its reefs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index.format import BEYOND, FIELDS, MAX_CHUNKS, Sections, read_sections
from shoal.index.ragged import expand

NO_TERM = -1
POSITION_BITS = 16
"""An occurrence is one number: the ordinal of its unit, shifted by these bits, plus its position."""


class Postings(NamedTuple):
    """The units that contain a term, ascending, and how often; frequencies end at 255."""

    ordinals: NDArray[np.uint16]
    frequencies: NDArray[np.uint8]


class Field:
    """The postings of one field. A term is the UTF-8 of a stem; its number is its place among all terms."""

    def __init__(self, sections: Sections, name: str) -> None:
        def section(part: str) -> NDArray[Any]:
            return sections[f"{name}.{part}"]

        self.lengths: NDArray[np.uint32] = section("lengths")
        """Words of each unit."""
        self.term_bytes: NDArray[np.uint8] = section("terms")
        self.term_starts: NDArray[np.uint32] = section("term_starts")
        self.posting_starts: NDArray[np.uint32] = section("posting_starts")
        self.position_starts: NDArray[np.uint32] = section("position_starts")
        self.ordinals: NDArray[np.uint16] = section("ordinals")
        self.frequencies: NDArray[np.uint8] = section("frequencies")
        self.positions: NDArray[np.uint8] = section("positions")
        self.long_places: NDArray[np.uint32] = section("long_places")
        self.long_frequencies: NDArray[np.uint32] = section("long_frequencies")
        self.far_places: NDArray[np.uint32] = section("far_places")
        self.far_pages: NDArray[np.uint8] = section("far_pages")
        self.n_terms = len(self.term_starts) - 1
        self._bytes = self.term_bytes.data
        self._starts = self.term_starts.data
        self._check()

    def number(self, term: bytes) -> int:
        """Return the number of a term, or `NO_TERM`."""
        low, high = 0, self.n_terms
        starts, content = self._starts, self._bytes
        while low < high:
            middle = (low + high) // 2
            if content[starts[middle] : starts[middle + 1]].tobytes() < term:
                low = middle + 1
            else:
                high = middle
        return low if low < self.n_terms and self.term(low) == term else NO_TERM

    def term(self, number: int) -> bytes:
        """Return the term of a number."""
        return self._bytes[self._starts[number] : self._starts[number + 1]].tobytes()

    def terms(self, first: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the terms from number `first` up to `end`, ascending."""
        starts = self.term_starts[first : (self.n_terms if end is None else end) + 1].tolist()
        if any(start > stop for start, stop in pairwise(starts)):
            raise DamagedIndexError("its terms are not in order")
        content = self._bytes[starts[0] : starts[-1]].tobytes()
        for start, stop in pairwise(starts):
            yield content[start - starts[0] : stop - starts[0]]

    def postings(self, number: int) -> Postings:
        """Return the postings of a term, without copying."""
        start, end = self._range(self.posting_starts, number, len(self.ordinals))
        ordinals = self.ordinals[start:end]
        if start < end and int(ordinals.max()) >= len(self.lengths):
            raise DamagedIndexError("a posting is out of range")
        return Postings(ordinals, self.frequencies[start:end])

    def counts(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the frequencies of the postings `first:end`, without limit."""
        counts = self.frequencies[first:end].astype(np.int64)
        low, high = np.searchsorted(self.long_places, [first, end])
        counts[self.long_places[low:high].astype(np.int64) - first] = self.long_frequencies[low:high]
        return counts

    def positions_between(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the positions of the occurrences `first:end`."""
        positions = self.positions[first:end].astype(np.int64)
        low, high = np.searchsorted(self.far_places, [first, end])
        positions[self.far_places[low:high].astype(np.int64) - first] += (
            self.far_pages[low:high].astype(np.int64) << 8
        )
        return positions

    def occurrences(self, number: int, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the occurrences of a term in the units where `among` is true, ascending, as
        `ordinal << POSITION_BITS | position`. Words at `BEYOND` are left out."""
        start, end = self._range(self.posting_starts, number, len(self.ordinals))
        first, stop = self._range(self.position_starts, number, len(self.positions))
        counts = self.counts(start, end)
        if int(counts.sum()) != stop - first:
            raise DamagedIndexError("its frequencies do not match its positions")
        positions = self.positions_between(first, stop)
        ordinals = self.ordinals[start:end]
        is_wanted = among[ordinals]
        if not is_wanted.all():
            chosen = np.flatnonzero(is_wanted)
            starts = np.cumsum(counts) - counts
            ordinals, counts = ordinals[chosen], counts[chosen]
            positions = positions[expand(starts[chosen], counts)]
        occurrences = np.repeat(ordinals.astype(np.int64) << POSITION_BITS, counts) | positions
        return occurrences[positions != BEYOND] if len(self.far_places) else occurrences

    def check_starts(self) -> None:
        """Check all lists of postings at once. Raises DamagedIndexError."""
        for starts in (self.term_starts, self.posting_starts, self.position_starts):
            if np.any(starts[1:] < starts[:-1]):
                raise DamagedIndexError("its lists of postings overlap")

    def _range(self, starts: NDArray[np.uint32], number: int, n: int) -> tuple[int, int]:
        start, end = int(starts[number]), int(starts[number + 1])
        if not start <= end <= n:
            raise DamagedIndexError("a list of postings is out of range")
        return start, end

    def _check(self) -> None:
        """Check the sizes, which lookups rely on; single values are checked where they are used."""
        n = self.n_terms
        is_consistent = (
            n >= 0
            and len(self.posting_starts) == len(self.position_starts) == n + 1
            and len(self.frequencies) == len(self.ordinals)
            and len(self.long_places) == len(self.long_frequencies)
            and len(self.far_places) == len(self.far_pages)
            and int(self.term_starts[-1]) == len(self.term_bytes)
            and int(self.posting_starts[-1]) == len(self.ordinals)
            and int(self.position_starts[-1]) == len(self.positions)
            and int(self.term_starts[0]) == int(self.posting_starts[0]) == int(self.position_starts[0]) == 0
            and len(self.lengths) <= MAX_CHUNKS
        )
        if not is_consistent:
            raise DamagedIndexError("its sections do not fit together")


class Segment:
    """An open segment. Its arrays share the memory of the bytes or map that it was opened from.

    chunk_ids        i64 (n,): documents by their ids, the chunks of each in the order of its text; a
                     replaced document has old ids among new ones
    document_ids     i64 (d,), ascending
    document_starts  u32 (d + 1,): document i has the chunks starts[i]:starts[i + 1]
    section_starts   u32 (s + 1,): likewise for sections
    confidence       u32 (n,), in millionths
    """

    def __init__(self, data: Any, *, verify: bool = False) -> None:
        """Open a segment from its bytes, or a map of a file.

        With `verify`, all checksums are compared, which reads the whole segment. Raises DamagedIndexError.
        """
        sections = read_sections(data, verify=verify)
        self.n_bytes = memoryview(data).nbytes
        self.chunk_ids: NDArray[np.int64] = sections["chunk_ids"]
        self.document_ids: NDArray[np.int64] = sections["document_ids"]
        self.document_starts: NDArray[np.uint32] = sections["document_starts"]
        self.section_starts: NDArray[np.uint32] = sections["section_starts"]
        self.confidence: NDArray[np.uint32] = sections["confidence"]
        self.reef_starts: NDArray[np.uint32] = sections["reef_starts"]
        self.reef_ordinals: NDArray[np.uint16] = sections["reef_ordinals"]
        self.reef_weights: NDArray[np.uint16] = sections["reef_weights"]
        self.text, self.headings, self.title = (Field(sections, name) for name in FIELDS)
        self._check()

    @property
    def n_chunks(self) -> int:
        return len(self.chunk_ids)

    @property
    def n_documents(self) -> int:
        return len(self.document_ids)

    @property
    def n_reefs(self) -> int:
        return len(self.reef_starts) - 1

    @property
    def fields(self) -> tuple[Field, Field, Field]:
        """Text, headings and title."""
        return self.text, self.headings, self.title

    @functools.cached_property
    def document_of(self) -> NDArray[np.uint16]:
        """The ordinal of each chunk's document."""
        return _repeated(self.document_starts)

    @functools.cached_property
    def section_of(self) -> NDArray[np.uint16]:
        """The ordinal of each chunk's section."""
        return _repeated(self.section_starts)

    def ordinal_of(self, chunk_id: int) -> int | None:
        """Return the ordinal of a chunk, or None."""
        places, ids = self._by_id
        place = int(np.searchsorted(ids, chunk_id))
        return int(places[place]) if place < len(ids) and ids[place] == chunk_id else None

    @functools.cached_property
    def _by_id(self) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """(ordinals by ascending chunk id, these ids)."""
        if np.all(self.chunk_ids[1:] > self.chunk_ids[:-1]):
            return np.arange(self.n_chunks, dtype=np.uint16), self.chunk_ids
        order = np.argsort(self.chunk_ids)
        return order.astype(np.uint16), self.chunk_ids[order]

    def reef_postings(self, reef_id: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """Return the chunks that have a reef, ascending, and its weight in each, in units of
        1 / `REEF_UNIT`; none for an id beyond the last reef."""
        if reef_id >= self.n_reefs:
            return self.reef_ordinals[:0], self.reef_weights[:0]
        start, end = int(self.reef_starts[reef_id]), int(self.reef_starts[reef_id + 1])
        if not start <= end <= len(self.reef_ordinals):
            raise DamagedIndexError("a list of reef postings is out of range")
        return self.reef_ordinals[start:end], self.reef_weights[start:end]

    def _check(self) -> None:
        n = self.n_chunks
        is_consistent = (
            n <= MAX_CHUNKS
            and len(self.confidence) == n
            and _splits(self.document_starts, n, self.n_documents)
            and _splits(self.section_starts, n, len(self.headings.lengths))
            and len(self.text.lengths) == n
            and len(self.title.lengths) == self.n_documents
            and len(self.reef_starts) >= 1
            and len(self.reef_ordinals) == len(self.reef_weights) == int(self.reef_starts[-1])
            and bool(np.all(self.document_ids[1:] > self.document_ids[:-1]))
        )
        if not is_consistent:
            raise DamagedIndexError("its sections do not fit together")


def _splits(starts: NDArray[np.uint32], n: int, n_parts: int) -> bool:
    """Whether `starts` splits n chunks into parts that are not empty."""
    return (
        len(starts) == n_parts + 1
        and int(starts[0]) == 0
        and int(starts[-1]) == n
        and bool(np.all(starts[1:] > starts[:-1]))
    )


def _repeated(starts: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return np.repeat(np.arange(len(starts) - 1, dtype=np.uint16), np.diff(starts))
