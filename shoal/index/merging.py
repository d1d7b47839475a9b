"""Merge segments into one, without their deleted documents.

The result has the same bytes as a segment built from the remaining documents, except that forms of words of
deleted documents may stay. Postings are merged in batches
of terms, so the memory does not grow with the size of the segments: the dictionaries, the reefs, the
exceptions and one batch are held at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index.building import Exceptions, append_postings, write_dictionary, write_forms
from shoal.index.format import FIELDS, MAX_CHUNKS, SegmentWriter
from shoal.index.ragged import expand, joined, starts_of
from shoal.index.segment import Field, Segment

BATCH_POSITIONS = 1 << 19
"""Positions merged in one step, unless a single term has more. A step takes 40 MB."""
_GONE = -1
_UNIT_BITS = 16


@dataclass(frozen=True, slots=True)
class _Source:
    """A segment, and the new ordinal of each of its documents, sections and chunks; `_GONE` if deleted."""

    segment: Segment
    documents: NDArray[np.int64]
    sections: NDArray[np.int64]
    chunks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _FieldSource:
    """A field of a source.

    units    new ordinals of its units
    numbers  i64 (n_terms,), ascending: the number of each term among the merged ones; a term of deleted
             documents only has that of the next
    """

    field: Field
    units: NDArray[np.int64]
    numbers: NDArray[np.int64]


def merge_segments(sources: Iterable[tuple[Segment, Collection[int]]], file: BinaryIO) -> int:
    """Write one segment of the live documents of several to a seekable file; return its number of bytes.

    `sources` are segments, each with the ids of its deleted documents. Raises ValueError if more than
    `MAX_CHUNKS` chunks remain or a document is live in two sources, and DamagedIndexError for a damaged
    source. Open sources with `verify`: damage that only checksums show would become part of the result.
    """
    try:
        return _merge(list(sources), file)
    except IndexError as error:
        raise DamagedIndexError("an ordinal is out of range") from error


def _merge(segments: Sequence[tuple[Segment, Collection[int]]], file: BinaryIO) -> int:
    sources = _with_new_ordinals(segments)
    n_chunks, n_sections, n_documents = (
        sum(int(np.count_nonzero(units != _GONE)) for units in kind)
        for kind in (
            [source.chunks for source in sources],
            [source.sections for source in sources],
            [source.documents for source in sources],
        )
    )
    chunk_ids = _placed(n_chunks, ((source.chunks, source.segment.chunk_ids) for source in sources))
    document_ids = _placed(
        n_documents, ((source.documents, source.segment.document_ids) for source in sources)
    )
    if len(np.unique(chunk_ids)) < len(chunk_ids) or np.any(document_ids[1:] == document_ids[:-1]):
        raise ValueError("a document or chunk is live in two segments")
    writer = SegmentWriter(file)
    writer.write("chunk_ids", chunk_ids)
    writer.write("document_ids", document_ids)
    document_sizes = ((source.documents, np.diff(source.segment.document_starts)) for source in sources)
    writer.write("document_starts", starts_of(_placed(n_documents, document_sizes)))
    section_sizes = ((source.sections, np.diff(source.segment.section_starts)) for source in sources)
    writer.write("section_starts", starts_of(_placed(n_sections, section_sizes)))
    confidence = ((source.chunks, source.segment.confidence) for source in sources)
    writer.write("confidence", _placed(n_chunks, confidence))
    exceptions = {}
    for name, n_units in zip(FIELDS, (n_chunks, n_sections, n_documents), strict=True):
        exceptions[name] = _merge_field(writer, name, n_units, sources)
    _merge_reefs(writer, sources)
    _merge_forms(writer, segments)
    for name in FIELDS:
        exceptions[name].write(writer, name)
    return writer.finish()


def _with_new_ordinals(segments: Sequence[tuple[Segment, Collection[int]]]) -> list[_Source]:
    """Order the live documents of all segments by their ids."""
    lives = [
        ~np.isin(segment.document_ids, np.array(list(deleted), dtype=np.int64))
        for segment, deleted in segments
    ]
    document_ids = joined(
        [segment.document_ids[live] for (segment, _), live in zip(segments, lives, strict=True)]
    )
    order = np.argsort(document_ids)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    n_chunks = [np.diff(segment.document_starts).astype(np.int64) for segment, _ in segments]
    n_sections = [_sections_per_document(segment) for segment, _ in segments]
    chunks_before, sections_before = (
        starts_of(joined([sizes[live] for sizes, live in zip(kind, lives, strict=True)])[order])
        for kind in (n_chunks, n_sections)
    )
    if int(chunks_before[-1]) > MAX_CHUNKS:
        raise ValueError(f"a segment holds {MAX_CHUNKS} chunks, and these are {int(chunks_before[-1])}")
    sources, n_documents = [], 0
    for (segment, _), live, chunks, sections in zip(segments, lives, n_chunks, n_sections, strict=True):
        documents = np.full(len(live), _GONE, dtype=np.int64)
        n_live = int(live.sum())
        documents[live] = ranks[n_documents : n_documents + n_live]
        n_documents += n_live
        sources.append(
            _Source(
                segment,
                documents,
                _renumbered(documents, sections, sections_before),
                _renumbered(documents, chunks, chunks_before),
            )
        )
    return sources


def _sections_per_document(segment: Segment) -> NDArray[np.int64]:
    firsts = segment.document_of[segment.section_starts[:-1]]
    return np.bincount(firsts, minlength=segment.n_documents)


def _renumbered(
    documents: NDArray[np.int64], sizes: NDArray[np.int64], before: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The new ordinals of the units of all documents, which have `sizes` units each."""
    starts = starts_of(sizes)
    shifts = before[documents] - starts[:-1]
    ordinals = np.arange(int(starts[-1])) + np.repeat(shifts, sizes)
    ordinals[np.repeat(documents == _GONE, sizes)] = _GONE
    return ordinals


def _placed(n: int, parts: Iterable[tuple[NDArray[np.int64], NDArray[Any]]]) -> NDArray[np.int64]:
    """An array of the values of several sources at their new ordinals."""
    values = np.zeros(n, dtype=np.int64)
    for ordinals, source in parts:
        is_live = ordinals != _GONE
        values[ordinals[is_live]] = source[is_live]
    return values


def _merge_field(writer: SegmentWriter, name: str, n_units: int, sources: Sequence[_Source]) -> Exceptions:
    fields = [getattr(source.segment, name) for source in sources]
    kinds = {"text": "chunks", "headings": "sections", "title": "documents"}
    units: list[NDArray[np.int64]] = [getattr(source, kinds[name]) for source in sources]
    for field in fields:
        field.check_starts()
    sizes = [_live_sizes(field, ordinals) for field, ordinals in zip(fields, units, strict=True)]
    live_terms = [
        [term for term, n in zip(field.terms.between(), n_postings.tolist(), strict=True) if n]
        for field, (n_postings, _) in zip(fields, sizes, strict=True)
    ]
    terms = sorted(set().union(*live_terms))
    ranks = dict(zip(terms, range(len(terms)), strict=True))
    totals = np.zeros((2, len(terms)), dtype=np.int64)
    merged = []
    for field, ordinals, names, (n_postings, n_positions) in zip(
        fields, units, live_terms, sizes, strict=True
    ):
        is_live = n_postings > 0
        numbers = np.full(len(field.terms), len(terms), dtype=np.int64)
        numbers[is_live] = [ranks[term] for term in names]
        totals[0, numbers[is_live]] += n_postings[is_live]
        totals[1, numbers[is_live]] += n_positions[is_live]
        numbers = np.minimum.accumulate(numbers[::-1])[::-1]
        merged.append(_FieldSource(field, ordinals, numbers))
    lengths = _placed(n_units, ((new, field.lengths) for field, new in zip(fields, units, strict=True)))
    position_starts = starts_of(totals[1])
    write_dictionary(writer, name, lengths, terms, starts_of(totals[0]), position_starts)
    exceptions = Exceptions()
    for first, end in _batches(position_starts):
        postings = _merge_batch(merged, first, end)
        if len(postings[2]) != position_starts[end] - position_starts[first]:
            raise DamagedIndexError("its frequencies do not match its positions")
        append_postings(writer, name, *postings)
        exceptions.add(*postings[1:])
    return exceptions


def _live_sizes(field: Field, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of live postings and of live positions of each term."""
    if (units != _GONE).all():
        return np.diff(field.posting_starts).astype(np.int64), np.diff(field.position_starts).astype(np.int64)
    is_live_unit = units != _GONE
    n_postings, n_positions = (np.zeros(len(field.terms), dtype=np.int64) for _ in range(2))
    starts = field.posting_starts.astype(np.int64)
    for first, end in _batches(field.position_starts.astype(np.int64)):
        is_live = is_live_unit[field.ordinals[starts[first] : starts[end]]]
        counts = field.counts(int(starts[first]), int(starts[end])) * is_live
        bounds = starts[first : end + 1] - starts[first]
        n_postings[first:end] = np.diff(starts_of(is_live.astype(np.int64))[bounds])
        n_positions[first:end] = np.diff(starts_of(counts)[bounds])
    return n_postings, n_positions


def _batches(position_starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of terms with about `BATCH_POSITIONS` positions each, at least one term."""
    first, n_terms = 0, len(position_starts) - 1
    while first < n_terms:
        end = (
            int(np.searchsorted(position_starts, position_starts[first] + BATCH_POSITIONS, side="right")) - 1
        )
        end = min(max(end, first + 1), n_terms)
        yield first, end
        first = end


def _merge_batch(
    sources: Sequence[_FieldSource], first: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(units, frequencies, positions) of the merged terms `first:end`."""
    keys, counts, starts, positions = [], [], [], []
    n_positions = 0
    for source in sources:
        field = source.field
        low, high = np.searchsorted(source.numbers, [first, end]).tolist()
        posting, last_posting = int(field.posting_starts[low]), int(field.posting_starts[high])
        position, last_position = int(field.position_starts[low]), int(field.position_starts[high])
        source_counts = field.counts(posting, last_posting)
        if int(source_counts.sum()) != last_position - position:
            raise DamagedIndexError("its frequencies do not match its positions")
        n_postings = np.diff(field.posting_starts[low : high + 1]).astype(np.int64)
        numbers = np.repeat(source.numbers[low:high] - first, n_postings)
        units = source.units[field.ordinals[posting:last_posting]]
        is_live = units != _GONE
        source_starts = np.cumsum(source_counts) - source_counts + n_positions
        keys.append((numbers[is_live] << _UNIT_BITS) | units[is_live])
        counts.append(source_counts[is_live])
        starts.append(source_starts[is_live])
        positions.append(field.positions_between(position, last_position))
        n_positions += last_position - position
    all_keys, all_counts, all_starts = joined(keys), joined(counts), joined(starts)
    # The keys of each source ascend, which a stable sort makes use of.
    order = np.argsort(all_keys, kind="stable")
    ordered = all_counts[order]
    return (
        all_keys[order] & (MAX_CHUNKS - 1),
        ordered,
        joined(positions)[expand(all_starts[order], ordered)],
    )


def _merge_forms(writer: SegmentWriter, segments: Sequence[tuple[Segment, Collection[int]]]) -> None:
    counts: Counter[str] = Counter()
    capitals: Counter[str] = Counter()
    for segment, deleted in segments:
        if len(deleted) < segment.n_documents:
            own, n = segment.forms, len(segment.forms)
            forms = [form.decode(errors="replace") for form in own.between()]
            counts.update(dict(zip(forms, own.counts(0, n).tolist(), strict=True)))
            capitals.update(dict(zip(forms, own.capitals(0, n).tolist(), strict=True)))
    write_forms(writer, counts, capitals)


def _merge_reefs(writer: SegmentWriter, sources: Sequence[_Source]) -> None:
    merged = []
    for reef_id in range(max((source.segment.n_reefs for source in sources), default=0)):
        keys = []
        for source in sources:
            ordinals, weights = source.segment.reef_postings(reef_id)
            units = source.chunks[ordinals]
            is_live = units != _GONE
            keys.append((units[is_live] << _UNIT_BITS) | weights[is_live])
        merged.append(np.sort(joined(keys)).astype(np.uint32))
    while merged and not len(merged[-1]):
        merged.pop()
    writer.write("reef_starts", starts_of(np.array(list(map(len, merged)), dtype=np.int64)))
    postings = joined(merged)
    writer.write("reef_ordinals", postings >> _UNIT_BITS)
    writer.write("reef_weights", postings & (MAX_CHUNKS - 1))
