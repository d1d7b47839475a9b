"""An index: several segments without their deleted documents, at one moment."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.index.ragged import starts_of
from shoal.index.segment import BLOCK, Segment

NOWHERE = -1
"""Place of a chunk that is not live."""


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


@dataclass(frozen=True, eq=False)
class Part:
    """A segment without its deleted documents, and without chunks that another part has instead.

    live_documents  bool (n_documents,), or None if none is deleted
    replaced        ordinals of the chunks that another part has, whole blocks; their document counts there
    whole           the part that this one is of, if some of its documents may not be seen
    """

    segment: Segment
    live_documents: NDArray[np.bool_] | None = None
    replaced: NDArray[np.int64] | None = None
    whole: Part | None = None

    @classmethod
    def without(cls, segment: Segment, deleted: Collection[int]) -> Part:
        """Return a segment without the documents of these ids."""
        if not deleted:
            return cls(segment)
        return cls(segment, ~np.isin(segment.document_ids, np.array(list(deleted), dtype=np.int64)))

    def visible(self, documents: NDArray[np.bool_]) -> Part:
        """Return this part with only those of its documents, bool (n_documents,)."""
        live = documents if self.live_documents is None else documents & self.live_documents
        return Part(self.segment, live, self.replaced, self)

    @functools.cached_property
    def live_chunks(self) -> NDArray[np.bool_] | None:
        """bool (n_chunks,), or None if none is deleted or replaced."""
        live = None if self.live_documents is None else self.live_documents[self.segment.document_of]
        if self.replaced is not None:
            live = np.ones(self.segment.n_chunks, dtype=np.bool_) if live is None else live
            live[self.replaced] = False
        return live

    @functools.cached_property
    def totals(self) -> Totals:
        segment = self.segment
        if self.live_documents is not None and self.replaced is None:
            sizes = np.diff(segment.document_starts.astype(np.int64))[self.live_documents]
            text, headings, title = segment.words_of_documents[:, self.live_documents].sum(axis=1).tolist()
            n_blocks = int(np.sum(-(-sizes // BLOCK)))
            return Totals(int(sizes.sum()), len(sizes), text, headings, title, n_blocks)
        is_live = slice(None) if self.live_chunks is None else self.live_chunks
        fields = segment.fields
        n_documents = segment.n_documents if self.live_documents is None else int(self.live_documents.sum())
        lengths = (
            fields[0].lengths,
            fields[1].lengths[segment.section_of],
            fields[2].lengths[segment.document_of],
        )
        words = [int(column[is_live].sum(dtype=np.int64)) for column in lengths]
        sizes = np.diff(segment.document_starts.astype(np.int64))
        if self.live_documents is not None:
            sizes = sizes[self.live_documents]
        n_blocks = int(np.sum(-(-sizes // BLOCK)))
        if self.replaced is not None:
            n_documents -= len(np.unique(segment.document_of[self.replaced]))
            n_blocks -= len(np.unique(segment.blocks.of_chunks[self.replaced]))
        return Totals(len(segment.chunk_ids[is_live]), n_documents, words[0], words[1], words[2], n_blocks)


class FormCount(NamedTuple):
    """Occurrences of a form of a word, and those with a capital letter."""

    n: int
    n_capitals: int


class FormCounter(Protocol):
    """Counts forms in visible passages.

    has    whether one of them has a form
    share  counts it in as many as its share of capital letters takes
    """

    def __call__(self, index: Index, form: str) -> FormCount: ...

    def has(self, index: Index, form: str) -> bool: ...

    def share(self, index: Index, form: str) -> FormCount: ...


class Index:
    """Segments and their deleted documents. Immutable, and safe to use from several threads.

    The chunks of all segments have one numbering, their places: those of the first part, then those of the
    second. No chunk is live in two segments.

    starts  i64 (n_parts + 1,): the first place of each part, and the number of places
    cached  what modules that rank compute once for an index
    whole   of the index of what a viewer sees: the one that it is of
    count_form  likewise: counts a form in visible passages
    """

    whole: Index | None = None
    count_form: FormCounter | None = None

    def __init__(self, segments: Iterable[tuple[Segment, Collection[int]]]) -> None:
        """`segments`: each with the ids of the documents that are deleted from it."""
        self._set(Part.without(segment, deleted) for segment, deleted in segments)

    @classmethod
    def of_parts(cls, parts: Iterable[Part]) -> Index:
        """Return an index of parts, which may be those of another index."""
        index = cls.__new__(cls)
        index._set(parts)
        return index

    def visible(self, documents: Sequence[NDArray[np.bool_]], count_form: FormCounter) -> Index:
        """Return the index of what a viewer sees: `documents` has, for each part, which of its documents."""
        index = Index.of_parts(part.visible(own) for part, own in zip(self.parts, documents, strict=True))
        index.whole, index.count_form = self, count_form
        return index

    def _set(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        columns = zip(*(part.totals for part in self.parts), strict=True)
        self.totals = Totals(*map(sum, columns)) if self.parts else Totals(0, 0, 0, 0, 0, 0)
        self.starts = starts_of(np.array([part.segment.n_chunks for part in self.parts], dtype=np.int64))
        self.cached: dict[Any, Any] = {}

    def __len__(self) -> int:
        """Return the number of places, those of deleted chunks included."""
        return int(self.starts[-1])

    def by_part(self, column: NDArray[Any]) -> Iterator[tuple[Part, NDArray[Any]]]:
        """Yield each part with its share of an array that has an element per place."""
        bounds = self.starts.tolist()
        for number, part in enumerate(self.parts):
            yield part, column[bounds[number] : bounds[number + 1]]

    def split(self, places: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (part, which of the places are in it, their ordinals there); nothing for `NOWHERE`."""
        order = np.argsort(places)
        cuts = np.searchsorted(places[order], self.starts).tolist()
        for number, (start, end) in enumerate(pairwise(cuts)):
            if start < end:
                which = order[start:end]
                yield number, which, places[which] - self.starts[number]

    def located(self, places: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Yield the part of each of a few places and its ordinal there; part `NOWHERE` for `NOWHERE`."""
        parts = np.searchsorted(self.starts, places, side="right") - 1
        return zip(parts.tolist(), (places - self.starts[parts]).tolist(), strict=True)

    def chunk_ids(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the chunks at some places."""
        ids = np.empty(len(places), dtype=np.int64)
        for number, which, ordinals in self.split(places):
            ids[which] = self.parts[number].segment.chunk_ids[ordinals]
        return ids

    def document_ids(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the documents of the chunks at some places."""
        ids = np.empty(len(places), dtype=np.int64)
        for number, which, ordinals in self.split(places):
            segment = self.parts[number].segment
            ids[which] = segment.document_ids[segment.document_of[ordinals]]
        return ids

    def place_of(self, chunk_id: int) -> int | None:
        """Return the place of a live chunk, or None."""
        for number, part in enumerate(self.parts):
            ordinal = part.segment.ordinal_of(chunk_id)
            if ordinal is not None and (part.live_chunks is None or part.live_chunks[ordinal]):
                return int(self.starts[number]) + ordinal
        return None

    def places_of(self, chunk_ids: Sequence[int]) -> NDArray[np.int64]:
        """Return the places of chunks, i64 (n,); `NOWHERE` for a chunk that is not live."""
        places = map(self.place_of, chunk_ids)
        return np.array([NOWHERE if place is None else place for place in places], dtype=np.int64)

    def places_of_document(self, document_id: int) -> NDArray[np.int64]:
        """Return the places of the live chunks of a document, ascending."""
        return np.flatnonzero(self.of_documents([document_id]))

    def live(self) -> NDArray[np.bool_]:
        """Return, for each place, whether its chunk is live."""
        mask = np.ones(len(self), dtype=np.bool_)
        for part, own in self.by_part(mask):
            if part.live_chunks is not None:
                own[:] = part.live_chunks
        return mask

    def of_documents(self, document_ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each place, whether its chunk is a live one of these documents."""
        wanted = np.asarray(document_ids, dtype=np.int64)
        mask = np.zeros(len(self), dtype=np.bool_)
        for part, own in self.by_part(mask):
            is_wanted = np.isin(part.segment.document_ids, wanted)
            if part.live_documents is not None:
                is_wanted &= part.live_documents
            if is_wanted.any():
                own[:] = is_wanted[part.segment.document_of]
            if part.replaced is not None:
                own[part.replaced] = False
        return mask

    def of_chunks(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each place, whether its chunk is one of these, live or not."""
        mask = np.zeros(len(self), dtype=np.bool_)
        for part, own in self.by_part(mask):
            own[:] = np.isin(part.segment.chunk_ids, chunk_ids)
        return mask
