"""An open segment: lookups of terms, postings and positions in its three fields, and of its reefs."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.format import (
    BEYOND,
    FAR_BLOCK,
    FIELDS,
    FORMS_IN_RUN,
    MAX_CHUNKS,
    Sections,
    read_sections,
)
from shoal.index.ragged import expand

BLOCK = 8
"""Most chunks of a block."""
NO_TERM = -1
TERMS_IN_RUN = 64
"""One of so many terms of a field is kept in memory, so that a lookup reads one or two pages of the file."""
POSITION_BITS = 16
"""An occurrence is one number: the ordinal of its unit, shifted by these bits, plus its position."""


class Postings(NamedTuple):
    """The units that contain a term, ascending, and how often; frequencies end at 255."""

    ordinals: NDArray[np.uint16]
    frequencies: NDArray[np.uint8]


class Blocks(NamedTuple):
    """The blocks of a segment: a document of n chunks is split into ceil(n / BLOCK) runs of about equal
    length.

    of_chunks  u16 (n_chunks,): the block of each chunk, ascending
    lengths    i64 (n,): words of the texts of each block
    """

    of_chunks: NDArray[np.uint16]
    lengths: NDArray[np.int64]


class Lengths(NamedTuple):
    """The lengths of the units of a field.

    distinct  (n,), ascending; may have some that no unit has
    of_units  u32: the place of each unit's length among them
    """

    distinct: NDArray[Any]
    of_units: NDArray[np.uint32]


_BITS = np.zeros(256, dtype=np.uint32)
for _letter in range(ord("a"), ord("z") + 1):
    _BITS[_letter] = 1 << (_letter - ord("a"))
_BITS[ord("0") : ord("9") + 1] = 1 << 26


def letter_bits(text: str) -> int:
    """Return the letters a to z of a text as a set of bits; any digit is one more."""
    return int(np.bitwise_or.reduce(_BITS[np.frombuffer(text.encode(), dtype=np.uint8)], initial=0))


class Dictionary:
    """Texts in ascending order. The number of one is its place among all."""

    def __init__(self, content: NDArray[np.uint8], starts: NDArray[np.uint32]) -> None:
        """`content`: the UTF-8 of all; `starts`: of each, and the end. Raises DamagedIndexError."""
        self.content, self.starts = content, starts
        if not len(starts) or int(starts[0]) or int(starts[-1]) != len(content):
            raise DamagedIndexError("its sections do not fit together")
        self._bytes = content.data
        self._starts = starts.data

    def __len__(self) -> int:
        return len(self.starts) - 1

    def number(self, term: bytes) -> int:
        """Return the number of a text, or `NO_TERM`."""
        found = self._place(term)
        return found if found < len(self) and self.text(found) == term else NO_TERM

    def starting_with(self, prefix: bytes) -> tuple[int, int]:
        """Return the number of the first term with a prefix, and that after the last."""
        # No byte of UTF-8 is 0xff.
        return self._place(prefix), self._place(prefix + b"\xff")

    def _place(self, term: bytes) -> int:
        """The number of the first term that is not before a term."""
        run = bisect.bisect_right(self._first_texts, term) * TERMS_IN_RUN
        low, high = max(run - TERMS_IN_RUN, 0), min(run, len(self))
        return bisect.bisect_left(range(low, high), term, key=self.text) + low

    @functools.cached_property
    def _first_texts(self) -> list[bytes]:
        """Every term whose number is a multiple of `TERMS_IN_RUN`."""
        return [self.text(number) for number in range(0, len(self), TERMS_IN_RUN)]

    def text(self, number: int) -> bytes:
        """Return the text of a number."""
        return self._bytes[self._starts[number] : self._starts[number + 1]].tobytes()

    def bounds(self, first: int, end: int) -> NDArray[Any]:
        """Return where the texts from number `first` up to `end` start, and the end of the last."""
        return self.starts[first : end + 1]

    def between(self, first: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the texts from number `first` up to `end`, ascending."""
        starts = self.bounds(first, len(self) if end is None else end).tolist()
        if any(start > stop for start, stop in pairwise(starts)):
            raise DamagedIndexError("its terms are not in order")
        content = self._bytes[starts[0] : starts[-1]].tobytes()
        for start, stop in pairwise(starts):
            yield content[start - starts[0] : stop - starts[0]]


class Forms(Dictionary):
    """The forms of the words in all fields, and how often each occurs; occurrences in documents deleted since
    may count. Only one of `FORMS_IN_RUN` has its place in the file."""

    def __init__(self, sections: Sections) -> None:
        super().__init__(sections["forms"], sections["form_starts"])
        self._sizes: NDArray[np.uint8] = sections["form_lengths"]
        self._lengths = self._sizes.data
        self._counts: NDArray[np.uint8] = sections["form_counts"]
        self._capitals: NDArray[np.uint8] = sections["form_capitals"]
        self._long: NDArray[np.uint32] = sections["form_long_places"]
        self._long_counts: NDArray[np.uint32] = sections["form_long_counts"]
        self._long_capitals: NDArray[np.uint32] = sections["form_long_capitals"]
        is_consistent = (
            len(self.starts) == -(-len(self) // FORMS_IN_RUN) + 1
            and len(self._counts) == len(self._capitals) == len(self)
            and len(self._long) == len(self._long_counts) == len(self._long_capitals)
        )
        if not is_consistent:
            raise DamagedIndexError("its sections do not fit together")

    def __len__(self) -> int:
        return len(self._sizes)

    def counts(self, first: int, end: int) -> NDArray[np.int64]:
        """Return how often each of the forms `first:end` occurs."""
        return self._completed(self._counts, self._long_counts, first, end)

    def capitals(self, first: int, end: int) -> NDArray[np.int64]:
        """Return how often each of the forms `first:end` occurs with a capital letter."""
        return self._completed(self._capitals, self._long_capitals, first, end)

    @functools.cached_property
    def letters(self) -> NDArray[np.uint32]:
        """The `letter_bits` of each form."""
        return np.bitwise_or.reduceat(_BITS[self.content], self._all_starts())

    @functools.cached_property
    def n_letters(self) -> NDArray[np.uint8]:
        """The number of characters of each form."""
        is_first = (self.content & 0xC0) != 0x80
        return np.add.reduceat(is_first, self._all_starts(), dtype=np.uint8)

    def text(self, number: int) -> bytes:
        run = number // FORMS_IN_RUN
        start = self._starts[run] + sum(self._lengths[run * FORMS_IN_RUN : number])
        return self._bytes[start : start + self._lengths[number]].tobytes()

    def bounds(self, first: int, end: int) -> NDArray[Any]:
        run = first // FORMS_IN_RUN
        ends = np.cumsum(self._sizes[run * FORMS_IN_RUN : end], dtype=np.int64)
        return (np.append(0, ends) + int(self.starts[run]))[first - run * FORMS_IN_RUN :]

    def _all_starts(self) -> NDArray[np.int64]:
        starts = self.bounds(0, len(self))
        # Every form has a byte, and reduceat takes no place beyond the last.
        if int(starts[-1]) != len(self.content) or not self._sizes.all():
            raise DamagedIndexError("its forms are not complete")
        return starts[:-1]

    def _completed(
        self, short: NDArray[np.uint8], long: NDArray[np.uint32], first: int, end: int
    ) -> NDArray[np.int64]:
        counts = short[first:end].astype(np.int64)
        low, high = _between(self._long, first, end)
        counts[self._long[low:high].astype(np.int64) - first] = long[low:high]
        return counts


class Field:
    """The postings of one field. A term is the UTF-8 of a stem; its number is its place among all terms."""

    def __init__(self, sections: Sections, name: str) -> None:
        def section(part: str) -> NDArray[Any]:
            return sections[f"{name}.{part}"]

        self.lengths: NDArray[np.uint32] = section("lengths")
        """Words of each unit."""
        self.terms = Dictionary(section("terms"), section("term_starts"))
        self.posting_starts: NDArray[np.uint32] = section("posting_starts")
        self.position_starts: NDArray[np.uint32] = section("position_starts")
        self.ordinals: NDArray[np.uint16] = section("ordinals")
        self.frequencies: NDArray[np.uint8] = section("frequencies")
        self.positions: NDArray[np.uint8] = section("positions")
        self.long_places: NDArray[np.uint32] = section("long_places")
        self.long_frequencies: NDArray[np.uint32] = section("long_frequencies")
        self.is_far: NDArray[np.uint8] = section("is_far")
        self.far_starts: NDArray[np.uint32] = section("far_starts")
        self.far_pages: NDArray[np.uint8] = section("far_pages")
        self._check()

    @functools.cached_property
    def arrays(self) -> kernels.PhraseField:
        """What phrases are found in."""
        return kernels.PhraseField(
            self.ordinals,
            self.frequencies,
            self.long_places,
            self.long_frequencies,
            self.positions,
            self.is_far,
            self.far_starts,
            self.far_pages,
        )

    @functools.cached_property
    def distinct_lengths(self) -> Lengths:
        """The lengths of the units: few different ones, so that what depends on them is computed once for
        each."""
        longest = int(self.lengths.max(initial=0))
        if longest < MAX_CHUNKS:
            return Lengths(np.arange(longest + 1), self.lengths)
        distinct, places = np.unique(self.lengths, return_inverse=True)
        return Lengths(distinct, places.astype(np.uint32))

    def look_up(self, term: bytes) -> tuple[int, int, int]:
        """Return the number of a term, its first posting, and their end; `NO_TERM`, 0, 0 without it."""
        number = self.terms.number(term)
        if number == NO_TERM:
            return NO_TERM, 0, 0
        start, end = self._range(self.posting_starts, number, len(self.ordinals))
        if start < end and int(self.ordinals[start:end].max()) >= len(self.lengths):
            raise DamagedIndexError("a posting is out of range")
        return number, start, end

    @functools.cached_property
    def addresses(self) -> tuple[int, ...]:
        """Where and how long the arrays are that `look_up` reads, for compiled code."""
        terms = self.terms
        return (
            terms.content.ctypes.data,
            len(terms.content),
            terms.starts.ctypes.data,
            len(terms),
            self.posting_starts.ctypes.data,
            self.ordinals.ctypes.data,
            len(self.ordinals),
            len(self.lengths),
        )

    def postings(self, start: int, end: int) -> Postings:
        """Return the postings `start:end`, without copying."""
        return Postings(self.ordinals[start:end], self.frequencies[start:end])

    def counts(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the frequencies of the postings `first:end`, without limit."""
        counts = self.frequencies[first:end].astype(np.int64)
        low, high = _between(self.long_places, first, end)
        counts[self.long_places[low:high].astype(np.int64) - first] = self.long_frequencies[low:high]
        return counts

    def positions_between(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the positions of the occurrences `first:end`."""
        positions = self.positions[first:end].astype(np.int64)
        if first >= end or not len(self.far_pages):
            return positions
        block = first // FAR_BLOCK
        before = first - block * FAR_BLOCK
        bits = np.unpackbits(self.is_far[(first - before) // 8 : -(-end // 8)], bitorder="little")
        is_far = bits.view(np.bool_)
        places = np.flatnonzero(is_far[before : before + len(positions)])
        low = int(self.far_starts[block]) + int(np.count_nonzero(is_far[:before]))
        pages = self.far_pages[low : low + len(places)]
        if len(pages) < len(places):
            raise DamagedIndexError("a position is incomplete")
        positions[places] += pages.astype(np.int64) << 8
        return positions

    def range_of(self, number: int) -> tuple[int, int, int, int]:
        """Return the first posting of a term, the end of its postings, its first position, and their end."""
        postings = self._range(self.posting_starts, number, len(self.ordinals))
        return *postings, *self._range(self.position_starts, number, len(self.positions))

    def occurrences(self, number: int, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the occurrences of a term in the units where `among` is true, ascending, as
        `ordinal << POSITION_BITS | position`. Words at `BEYOND` are left out."""
        start, end, first, stop = self.range_of(number)
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
        return occurrences[positions != BEYOND] if len(self.far_pages) else occurrences

    def check_starts(self) -> None:
        """Check all lists of postings at once. Raises DamagedIndexError."""
        for starts in (self.terms.starts, self.posting_starts, self.position_starts):
            if np.any(starts[1:] < starts[:-1]):
                raise DamagedIndexError("its lists of postings overlap")

    def _range(self, starts: NDArray[np.uint32], number: int, n: int) -> tuple[int, int]:
        start, end = int(starts[number]), int(starts[number + 1])
        if not start <= end <= n:
            raise DamagedIndexError("a list of postings is out of range")
        return start, end

    def _check(self) -> None:
        """Check the sizes, which lookups rely on; single values are checked where they are used."""
        n = len(self.terms)
        is_consistent = (
            len(self.posting_starts) == len(self.position_starts) == n + 1
            and len(self.frequencies) == len(self.ordinals)
            and len(self.long_places) == len(self.long_frequencies)
            and len(self.is_far) == (-(-len(self.positions) // 8) if len(self.far_pages) else 0)
            and len(self.far_starts) == (-(-len(self.positions) // FAR_BLOCK) if len(self.far_pages) else 0)
            and int(self.posting_starts[-1]) == len(self.ordinals)
            and int(self.position_starts[-1]) == len(self.positions)
            and int(self.posting_starts[0]) == int(self.position_starts[0]) == 0
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
        self.forms = Forms(sections)
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
    def words_of_documents(self) -> NDArray[np.int64]:
        """i64 (3, n_documents): the words of text, headings and title of the chunks of each document."""
        text, headings, title = self.fields
        of_chunks = text.lengths, headings.lengths[self.section_of], title.lengths[self.document_of]
        starts = self.document_starts[:-1].astype(np.int64)
        return np.array([np.add.reduceat(each, starts, dtype=np.int64) for each in of_chunks]).reshape(3, -1)

    @functools.cached_property
    def section_of(self) -> NDArray[np.uint16]:
        """The ordinal of each chunk's section."""
        return _repeated(self.section_starts)

    @functools.cached_property
    def blocks(self) -> Blocks:
        starts = self.document_starts.astype(np.int64)
        sizes = starts[1:] - starts[:-1]
        n_blocks = -(-sizes // BLOCK)
        offsets = np.cumsum(n_blocks) - n_blocks
        places = np.arange(self.n_chunks) - np.repeat(starts[:-1], sizes)
        of_chunks = np.repeat(offsets, sizes) + places * np.repeat(n_blocks, sizes) // np.repeat(sizes, sizes)
        lengths = np.bincount(of_chunks, weights=self.text.lengths, minlength=int(n_blocks.sum()))
        return Blocks(of_chunks.astype(np.uint16), lengths.astype(np.int64))

    def ordinal_of(self, chunk_id: int) -> int | None:
        """Return the ordinal of a chunk, or None."""
        order = self._by_id
        place = int(np.searchsorted(self.chunk_ids, chunk_id, sorter=order))
        if place == self.n_chunks:
            return None
        ordinal = place if order is None else int(order[place])
        return ordinal if self.chunk_ids[ordinal] == chunk_id else None

    @functools.cached_property
    def _by_id(self) -> NDArray[np.int64] | None:
        """The ordinals by ascending chunk id, or None if that is their order."""
        if np.all(self.chunk_ids[1:] > self.chunk_ids[:-1]):
            return None
        return np.argsort(self.chunk_ids)

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


def _between(places: NDArray[np.uint32], first: int, end: int) -> tuple[int, int]:
    """Where the places from `first` up to `end` are in an ascending array."""
    # Bounds of another type would have the whole array converted.
    low, high = np.searchsorted(places, np.array([first, end], dtype=places.dtype)).tolist()
    return low, high


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
