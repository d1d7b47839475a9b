"""An index: several segments without their deleted documents, at one moment."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.segment import Segment

BLOCK = 8
"""Most chunks of a block."""

Masks = list[NDArray[np.bool_]]
"""For each part of an index, whether each of its chunks is meant."""


class Place(NamedTuple):
    """A chunk of an index: the number of its part, and its ordinal there."""

    part: int
    ordinal: int


class Totals(NamedTuple):
    """Numbers of the live documents of an index, or of a part.

    The words of a section's headings and of a document's title count once for each of their chunks.
    """

    n_chunks: int
    n_documents: int
    n_words: int
    n_heading_words: int
    n_title_words: int
    n_blocks: int


class Blocks(NamedTuple):
    """The blocks of a part: a document of n chunks is split into ceil(n / BLOCK) runs of about equal length.

    of_chunks  i64 (n_chunks,): the block of each chunk, ascending
    firsts     i64 (n,): the first chunk of each block
    """

    of_chunks: NDArray[np.int64]
    firsts: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.firsts)


@dataclass(frozen=True)
class Part:
    """A segment without its deleted documents.

    live_documents  bool (n_documents,), or None if none is deleted
    factors         cached factors of chunks and blocks, by the totals of the index and the formula
    """

    segment: Segment
    live_documents: NDArray[np.bool_] | None
    factors: dict[Any, Any] = field(default_factory=dict)

    @functools.cached_property
    def live_chunks(self) -> NDArray[np.bool_] | None:
        """bool (n_chunks,), or None if none is deleted."""
        return None if self.live_documents is None else self.live_documents[self.segment.document_of]

    @functools.cached_property
    def totals(self) -> Totals:
        segment = self.segment
        is_live = slice(None) if self.live_chunks is None else self.live_chunks
        text, headings, title = segment.fields
        n_documents = segment.n_documents if self.live_documents is None else int(self.live_documents.sum())
        lengths = text.lengths, headings.lengths[segment.section_of], title.lengths[segment.document_of]
        words = [int(column[is_live].sum(dtype=np.int64)) for column in lengths]
        sizes = np.diff(segment.document_starts.astype(np.int64))
        if self.live_documents is not None:
            sizes = sizes[self.live_documents]
        n_blocks = int(np.sum(-(-sizes // BLOCK)))
        return Totals(len(segment.chunk_ids[is_live]), n_documents, words[0], words[1], words[2], n_blocks)

    @functools.cached_property
    def blocks(self) -> Blocks:
        starts = self.segment.document_starts.astype(np.int64)
        sizes = starts[1:] - starts[:-1]
        n_blocks = -(-sizes // BLOCK)
        offsets = np.cumsum(n_blocks) - n_blocks
        places = np.arange(self.segment.n_chunks) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        of_chunks = np.repeat(offsets, sizes) + places * np.repeat(n_blocks, sizes) // np.repeat(sizes, sizes)
        return Blocks(of_chunks, np.flatnonzero(np.diff(of_chunks, prepend=-1)))


class Index:
    """Segments and their deleted documents. Immutable, and safe to use from several threads.

    No document is live in two segments.
    """

    def __init__(self, segments: Iterable[tuple[Segment, Collection[int]]]) -> None:
        """`segments`: each with the ids of the documents that are deleted from it."""
        self.parts = tuple(_part(segment, deleted) for segment, deleted in segments)
        columns = zip(*(part.totals for part in self.parts), strict=True)
        self.totals = Totals(*map(sum, columns)) if self.parts else Totals(0, 0, 0, 0, 0, 0)

    def chunk_ids(self, part: int, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of chunks of a part."""
        return self.parts[part].segment.chunk_ids[ordinals]

    def document_ids(self, part: int, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the documents of chunks of a part."""
        segment = self.parts[part].segment
        return segment.document_ids[segment.document_of[ordinals]]

    def place_of(self, chunk_id: int) -> Place | None:
        """Return the place of a live chunk, or None."""
        for number, part in enumerate(self.parts):
            ordinal = part.segment.ordinal_of(chunk_id)
            if ordinal is not None and (part.live_chunks is None or part.live_chunks[ordinal]):
                return Place(number, ordinal)
        return None

    def places_of(self, chunk_ids: Sequence[int]) -> NDArray[np.int64]:
        """Return part and ordinal of chunks, i64 (n, 2); -1 for a chunk that is not live."""
        places = (self.place_of(chunk_id) or Place(-1, -1) for chunk_id in chunk_ids)
        return np.array(list(places), dtype=np.int64).reshape(-1, 2)

    def chunks_of(self, document_id: int) -> tuple[int, range] | None:
        """Return the part and the ordinals of a live document's chunks, or None."""
        for number, part in enumerate(self.parts):
            segment = part.segment
            ordinal = int(np.searchsorted(segment.document_ids, document_id))
            if (
                ordinal < segment.n_documents
                and segment.document_ids[ordinal] == document_id
                and (part.live_documents is None or part.live_documents[ordinal])
            ):
                start, end = segment.document_starts[ordinal : ordinal + 2].tolist()
                return number, range(start, end)
        return None

    def live(self) -> Masks:
        """Return the mask of all live chunks."""
        return [
            np.ones(part.segment.n_chunks, dtype=np.bool_)
            if part.live_chunks is None
            else part.live_chunks.copy()
            for part in self.parts
        ]

    def of_documents(self, document_ids: Sequence[int] | NDArray[np.int64]) -> Masks:
        """Return the mask of the live chunks of these documents."""
        wanted = np.asarray(document_ids, dtype=np.int64)
        masks = []
        for part in self.parts:
            is_wanted = np.isin(part.segment.document_ids, wanted)
            if part.live_documents is not None:
                is_wanted &= part.live_documents
            masks.append(is_wanted[part.segment.document_of])
        return masks

    def terms(self) -> Iterator[str]:
        """Yield the distinct terms of the texts of all segments, ascending, with those of deleted
        documents."""
        names: set[bytes] = set()
        for part in self.parts:
            names.update(part.segment.text.terms())
        return map(bytes.decode, sorted(names))


def _part(segment: Segment, deleted: Collection[int]) -> Part:
    if not deleted:
        return Part(segment, None)
    return Part(segment, ~np.isin(segment.document_ids, np.array(list(deleted), dtype=np.int64)))
