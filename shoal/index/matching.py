"""Matching: which chunks contain a term, how often, and in which fields.

A term is one stem, or several side by side (a phrase). Positions decide phrases: exactly, in each field.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.format import FIELDS
from shoal.index.index import NOWHERE, Index, Part
from shoal.index.ragged import firsts_of_runs, joined
from shoal.index.segment import NO_TERM, POSITION_BITS, Field, Postings, Segment

TEXT, HEADINGS, TITLE = FIELDS
EVERYWHERE, IN_TEXT = frozenset({TEXT, HEADINGS, TITLE}), frozenset({TEXT})

_MAX_FREQUENCY = 255
_NO_BYTES = np.empty(0, dtype=np.uint8)
_NO_OCCURRENCES = np.empty(0, dtype=np.int64)
_NO_POSTINGS = Postings(np.empty(0, dtype=np.uint16), _NO_BYTES)


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """Stems side by side (`shoal.words.terms`), in some fields."""

    stems: tuple[str, ...]
    fields: frozenset[str] = EVERYWHERE


class PartMatches(NamedTuple):
    """The chunks of a segment that contain a term, deleted ones included.

    ordinals   u16 (m,), ascending
    text       u8 (m,): occurrences in the chunk's text, at most 255
    headings   u8 (m,): in the headings above it; empty if there are none in the segment
    title      u8 (m,): in the title of its document; likewise
    """

    ordinals: NDArray[np.uint16]
    text: NDArray[np.uint8]
    headings: NDArray[np.uint8]
    title: NDArray[np.uint8]


@dataclass(frozen=True)
class Matches:
    """The matches of a term in each part of an index.

    `unit`: frequencies are in 1 / unit; more than 1 where the forms of a group weigh differently
    (`shoal.index.matching`).
    """

    index: Index
    parts: Sequence[PartMatches]
    unit: int = 1

    @functools.cached_property
    def n_chunks(self) -> int:
        """The number of live chunks that contain the term."""
        return sum(
            _count_live(part, matches) for part, matches in zip(self.index.parts, self.parts, strict=True)
        )

    def mask(self) -> NDArray[np.bool_]:
        """Return, for each place, whether its chunk is live and contains the term."""
        mask = np.zeros(len(self.index), dtype=np.bool_)
        for (part, own), matches in zip(self.index.by_part(mask), self.parts, strict=True):
            own[matches.ordinals] = True
            if part.live_chunks is not None:
                np.logical_and(own, part.live_chunks, out=own)
        return mask

    def add_placed(self, counts: NDArray[np.uint16]) -> None:
        """Add 1 for each chunk with the term in headings or title; `counts` has an element per place."""
        for (_, own), matches in zip(self.index.by_part(counts), self.parts, strict=True):
            if len(matches.headings) or len(matches.title):
                is_placed = matches.headings > 0 if len(matches.headings) else matches.title > 0
                if len(matches.headings) and len(matches.title):
                    is_placed |= matches.title > 0
                own[matches.ordinals[is_placed]] += 1

    def are_in(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the chunk at each of a few places (`Index.places_of`) contains the term."""
        contains = [
            part != NOWHERE and _holds(self.parts[part].ordinals.data, ordinal)
            for part, ordinal in self.index.located(places)
        ]
        return np.array(contains, dtype=np.bool_)

    def count_by_document(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of the live documents that contain the term, ascending, and in how many chunks."""
        found: list[NDArray[np.int64]] = []
        for part, matches in zip(self.index.parts, self.parts, strict=True):
            documents = part.segment.document_of[matches.ordinals]
            if part.live_documents is not None:
                documents = documents[part.live_documents[documents]]
            found.append(part.segment.document_ids[documents])
        return np.unique(joined(found), return_counts=True)


def _holds(ordinals: memoryview, ordinal: int) -> bool:
    """Whether an ordinal is among ascending ones."""
    at = bisect.bisect_left(ordinals, ordinal)
    return at < len(ordinals) and ordinals[at] == ordinal


def find(index: Index, terms: Iterable[IndexTerm]) -> list[Matches]:
    """Return the matches of each term."""
    return [Matches(index, _matches_in_parts(index, term)) for term in terms]


def _matches_in_parts(index: Index, term: IndexTerm) -> list[PartMatches]:
    in_parts = [PartMatches(*_NO_POSTINGS, _NO_BYTES, _NO_BYTES)] * len(index.parts)
    if not term.stems:
        return in_parts
    found = np.stack([_look_up(index, stem) for stem in term.stems], axis=1)
    is_present = np.all(found[:, :, 0] != NO_TERM, axis=1).reshape(-1, len(FIELDS))
    is_present &= [name in term.fields for name in FIELDS]
    places = found.reshape(len(index.parts), len(FIELDS), len(term.stems), 3)
    for number in np.flatnonzero(is_present.any(axis=1)).tolist():
        segment = index.parts[number].segment
        of_fields = zip(segment.fields, is_present[number].tolist(), places[number].tolist(), strict=True)
        in_parts[number] = _joined(
            segment,
            *(_postings(field, each) if is_there else _NO_POSTINGS for field, is_there, each in of_fields),
        )
    return in_parts


KEPT_STEMS = 1_024
"""Stems that are kept as looked up in an index: with 16 segments, in 1.3 MB."""


def _look_up(index: Index, stem: str) -> NDArray[np.int64]:
    """For the fields of each part in turn, (n, 3): the number of a stem, its first posting, and their end."""
    cached = (index.whole or index).cached
    kept: dict[str, NDArray[np.int64]] = cached.setdefault(_look_up, {})
    found = kept.get(stem)
    if found is None:
        fields = [field for part in index.parts for field in part.segment.fields]
        look_up, encoded = kernels.active().look_up, stem.encode()
        if look_up is None:
            found = np.array([field.look_up(encoded) for field in fields], dtype=np.int64).reshape(-1, 3)
        else:
            addresses = cached.get(Field)
            if addresses is None:
                addresses = np.array([field.addresses for field in fields], dtype=np.int64).reshape(-1, 8)
                addresses.flags.writeable = False
                cached[Field] = addresses
            found = np.empty((len(fields), 3), dtype=np.int64)
            if not look_up(found, addresses, encoded):
                raise DamagedIndexError("its terms are not in order, or a posting is out of range")
        if len(kept) >= KEPT_STEMS:
            kept.clear()
        kept[stem] = found
    return found


def count_roughly(index: Index, stem: str) -> int:
    """Return in how many chunks' texts a stem occurs, without reading postings; deleted chunks count too."""
    in_text = _look_up(index, stem)[:: len(FIELDS)]
    return int(np.sum(in_text[:, 2] - in_text[:, 1]))


def _joined(segment: Segment, text: Postings, headings: Postings, title: Postings) -> PartMatches:
    """The matches of a term in a segment by those in its fields."""
    if headings is title is _NO_POSTINGS:
        return PartMatches(*text, _NO_BYTES, _NO_BYTES)
    ordinals, in_text, in_headings, in_title = kernels.active().unite(
        segment.n_chunks, text, (*headings, segment.section_starts), (*title, segment.document_starts)
    )
    return PartMatches(
        ordinals,
        in_text,
        in_headings if len(headings.ordinals) else _NO_BYTES,
        in_title if len(title.ordinals) else _NO_BYTES,
    )


def _postings(field: Field, found: Sequence[Sequence[int]]) -> Postings:
    """The units where stems are side by side. `found`: number, first posting and end of each."""
    if len(found) == 1:
        return field.postings(*found[0][1:])
    return _phrase_postings(field, [number for number, _, _ in found])


def _phrase_postings(field: Field, numbers: Sequence[int]) -> Postings:
    """The units where the terms are side by side, in order."""
    phrase = kernels.active().phrase
    if phrase is None:
        return _counted(_starts_by_arrays(field, numbers))
    terms = [(offset, *field.range_of(number)) for offset, number in enumerate(numbers)]
    terms.sort(key=lambda term: term[2] - term[1])
    found = phrase(field.arrays, np.array(terms, dtype=np.int64))
    if found is None:
        raise DamagedIndexError("its frequencies or far pages do not match its positions")
    return Postings(*found)


def _counted(starts: NDArray[np.int64]) -> Postings:
    """The units of some occurrences, with their numbers."""
    units = starts >> POSITION_BITS
    firsts = firsts_of_runs(units)
    counts = np.minimum(np.diff(firsts, append=len(units)), _MAX_FREQUENCY)
    return Postings(units[firsts].astype(np.uint16), counts.astype(np.uint8))


def _starts_by_arrays(field: Field, numbers: Sequence[int]) -> NDArray[np.int64]:
    """The first word of each occurrence of a phrase."""
    among = np.ones(len(field.lengths), dtype=np.bool_)
    for number in set(numbers):
        contains = np.zeros(len(among), dtype=np.bool_)
        contains[field.postings(*field.range_of(number)[:2]).ordinals] = True
        among &= contains
    if not among.any():
        return _NO_OCCURRENCES
    occurrences = {number: field.occurrences(number, among) for number in set(numbers)}
    offsets = sorted(range(len(numbers)), key=lambda i: len(occurrences[numbers[i]]))
    # Where the phrase would start, by its rarest term; the others must be at their distance.
    starts = occurrences[numbers[offsets[0]]] - offsets[0]
    for offset in offsets[1:]:
        others = occurrences[numbers[offset]]
        if not len(starts) or not len(others):
            return _NO_OCCURRENCES
        places = np.minimum(np.searchsorted(others, starts + offset), len(others) - 1)
        starts = starts[others[places] == starts + offset]
    return starts


def _count_live(part: Part, matches: PartMatches) -> int:
    if part.live_chunks is None:
        return len(matches.ordinals)
    return int(np.count_nonzero(part.live_chunks[matches.ordinals]))


UNIT, OTHER = 4, 3
"""An occurrence of the term, and one of another form, in fourths."""
OTHER_SHARE = OTHER / UNIT
_MOST = 255 // UNIT
"""More occurrences count as this many; BM25 hardly tells them apart."""


def unite(own: Matches, others: Sequence[Matches]) -> Matches:
    """Return the matches of a group: those of a term and of its other forms, of one index."""
    if not others:
        return own
    parts = [
        _united(part.segment.n_chunks, forms)
        for part, *forms in zip(own.index.parts, own.parts, *(each.parts for each in others), strict=True)
    ]
    return Matches(own.index, parts, UNIT)


def _united(n_chunks: int, forms: Sequence[PartMatches]) -> PartMatches:
    if not any(len(form.ordinals) for form in forms):
        return forms[0]
    is_match = np.zeros(n_chunks, dtype=np.bool_)
    for form in forms:
        is_match[form.ordinals] = True
    ordinals = np.flatnonzero(is_match).astype(np.uint16)
    place_of = np.cumsum(is_match, dtype=np.int64) - 1
    columns: list[NDArray[np.uint8]] = []
    for column in (1, 2, 3):
        united = np.zeros(len(ordinals) if any(len(form[column]) for form in forms) else 0, dtype=np.uint8)
        for number, form in enumerate(forms):
            if len(form[column]):
                places = place_of[form.ordinals]
                weighted = np.minimum(form[column], _MOST) * np.uint8(OTHER if number else UNIT)
                united[places] = np.maximum(united[places], weighted)
        columns.append(united)
    return PartMatches(ordinals, *columns)
