"""Build a segment from documents.

The words of all documents are sorted together: an occurrence is one 64-bit number of term, unit and
position, and the sorted numbers are the postings. Of words of one term at one position, one counts.
"""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.format import (
    BEYOND,
    FAR_BLOCK,
    FORMS_IN_RUN,
    LONG,
    MAX_CHUNKS,
    MAX_FORM_BYTES,
    MAX_REEFS,
    MILLIONTHS,
    PAGE,
    SegmentWriter,
)
from shoal.index.ragged import firsts_of_runs, joined, starts_of
from shoal.index.scoring import reef_weights
from shoal.support.languages import ENGLISH
from shoal.words.inflections import analyze_in
from shoal.words.terms import Terms, is_mark

_UNIT_BITS = 16
_TERM_BITS = 32
_POSITION_MASK = (1 << _UNIT_BITS) - 1


SAME, NEXT, UNCOUNTED = range(3)
"""How a word stands to the one before it: at the same position, or behind it; an uncounted one too, but it
does not count in the length of its unit."""
FIRST, LAST = "\x02", "\x03"
"""Marks before the first and behind the last word of a title, heading or file name. With them, a phrase is
all of it. No word has these characters."""


class Words(NamedTuple):
    """The words (`shoal.words.analysis`) of some units, in order.

    forms     distinct forms
    ids       int (n_words,): index into `forms`
    advances  u8 (n_words,): SAME, NEXT or UNCOUNTED
    starts    int (n_units + 1,): where the words of each unit start in `ids`, and the end
    capitals  bool (n_words,): whether each begins with a capital letter
    """

    forms: Sequence[str]
    ids: NDArray[Any]
    advances: NDArray[np.uint8]
    starts: NDArray[Any]
    capitals: NDArray[np.bool_]


NO_WORDS = Words(
    (),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.uint8),
    np.zeros(2, dtype=np.int64),
    np.empty(0, dtype=np.bool_),
)
"""The words of one unit without any."""


class Profiles(NamedTuple):
    """The reefs of the chunks of a document.

    starts    int (n_chunks + 1,): where the reefs of each chunk start, and the end
    reef_ids  u8 (p,): each at most once in a chunk, below `MAX_REEFS`
    z_scores  u16 (p,): in any unit, since only their ratios count
    """

    starts: NDArray[Any]
    reef_ids: NDArray[Any]
    z_scores: NDArray[Any]


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """What the index stores of a document.

    chunk_ids   int (n_chunks,), in the order of the text; at least one
    sections    int (n_chunks,): key of each chunk's section; neighbours with the same key are in one section
    headings    words of the headings above each section as one unit, by its key; may lack sections without
    any title       words of the title as one unit confidence  float (n_chunks,), with six digits behind the
    point
    """

    document_id: int
    chunk_ids: NDArray[Any]
    words: Words
    title: Words
    sections: NDArray[Any]
    headings: Mapping[int, Words]
    profiles: Profiles
    confidence: NDArray[Any]


class FieldArrays(NamedTuple):
    """The sections of one field (`shoal.index.format`) with whole frequencies and positions."""

    lengths: NDArray[np.int64]
    terms: Sequence[str]
    posting_starts: NDArray[np.int64]
    position_starts: NDArray[np.int64]
    ordinals: NDArray[np.uint16]
    frequencies: NDArray[np.int64]
    positions: NDArray[np.uint16]


def segment_bytes(documents: Iterable[IndexedDocument], terms: Terms) -> bytes:
    """Return the bytes of a segment; see `write_segment`."""
    file = io.BytesIO()
    write_segment(documents, terms, file)
    return file.getvalue()


def write_segment(documents: Iterable[IndexedDocument], terms: Terms, file: BinaryIO) -> int:
    """Write a segment of some documents to a seekable file and return its number of bytes.

    The order of the documents does not matter. Raises ValueError if they have more than `MAX_CHUNKS` chunks
    together, or if two documents or chunks have the same id.
    """
    ordered = sorted(documents, key=lambda document: document.document_id)
    chunk_ids = joined([document.chunk_ids for document in ordered])
    if len(chunk_ids) > MAX_CHUNKS:
        raise ValueError(f"a segment holds {MAX_CHUNKS} chunks, and these are {len(chunk_ids)}")
    document_ids = np.array([document.document_id for document in ordered], dtype=np.int64)
    if len(np.unique(chunk_ids)) < len(chunk_ids) or np.any(document_ids[1:] == document_ids[:-1]):
        raise ValueError("two documents or chunks have the same id")
    sizes = np.array([len(document.chunk_ids) for document in ordered], dtype=np.int64)
    text, headings, title = (_FieldBuilder() for _ in range(3))
    section_sizes: list[int] = []
    for document in ordered:
        text.add(document.words)
        title.add(document.title)
        firsts = firsts_of_runs(np.asarray(document.sections))
        for key in np.asarray(document.sections)[firsts].tolist():
            headings.add(document.headings.get(key, NO_WORDS))
        section_sizes += np.diff(firsts, append=len(document.chunk_ids)).tolist()
    writer = SegmentWriter(file)
    writer.write("chunk_ids", chunk_ids)
    writer.write("document_ids", document_ids)
    writer.write("document_starts", starts_of(sizes))
    writer.write("section_starts", starts_of(np.array(section_sizes, dtype=np.int64)))
    confidence = np.concatenate([np.empty(0), *(document.confidence for document in ordered)])
    writer.write("confidence", np.rint(confidence * MILLIONTHS))
    fields = {"text": text.arrays(terms), "headings": headings.arrays(terms), "title": title.arrays(terms)}
    for name, arrays in fields.items():
        encoded = [term.encode() for term in arrays.terms]
        write_dictionary(writer, name, arrays.lengths, encoded, arrays.posting_starts, arrays.position_starts)
        append_postings(writer, name, arrays.ordinals, arrays.frequencies, arrays.positions)
    _write_reefs(writer, [document.profiles for document in ordered], sizes)
    counts, capitals = Counter[str](), Counter[str]()
    for field in (text, headings, title):
        field.count_forms(counts, capitals)
    write_forms(writer, counts, capitals)
    for name, arrays in fields.items():
        exceptions = Exceptions()
        exceptions.add(arrays.frequencies, arrays.positions)
        exceptions.write(writer, name)
    return writer.finish()


def write_forms(writer: SegmentWriter, counts: Mapping[str, int], capitals: Mapping[str, int]) -> None:
    """Write the sections of the forms of words, each with how often it occurs, and how often with a capital
    letter."""
    # Characters have the order of their UTF-8.
    forms = sorted(form for form in counts if len(form.encode()) <= MAX_FORM_BYTES)
    encoded = [form.encode() for form in forms]
    lengths = np.array(list(map(len, encoded)), dtype=np.int64)
    starts = starts_of(lengths)
    all_counts, all_capitals = (
        np.array([numbers.get(form, 0) for form in forms], dtype=np.int64) for numbers in (counts, capitals)
    )
    long = np.flatnonzero(all_counts >= LONG)
    writer.write("forms", np.frombuffer(b"".join(encoded), dtype=np.uint8))
    writer.write("form_lengths", lengths)
    writer.write("form_starts", np.append(starts[:-1:FORMS_IN_RUN], starts[-1]))
    writer.write("form_counts", np.minimum(all_counts, LONG))
    writer.write("form_capitals", np.minimum(all_capitals, LONG))
    writer.write("form_long_places", long)
    writer.write("form_long_counts", all_counts[long])
    writer.write("form_long_capitals", all_capitals[long])


class Exceptions:
    """Collects the frequencies and positions of a field that do not fit into a byte."""

    def __init__(self) -> None:
        self._n_postings = self._n_positions = 0
        self._arrays: dict[str, list[NDArray[Any]]] = {
            name: [] for name in ("long_places", "long_frequencies", "far_places", "far_pages")
        }

    def add(self, frequencies: NDArray[np.int64], positions: NDArray[Any]) -> None:
        """Add the next postings and their positions."""
        long = np.flatnonzero(frequencies >= LONG)
        far = np.flatnonzero(positions >= PAGE)
        self._arrays["long_places"].append(long + self._n_postings)
        self._arrays["long_frequencies"].append(frequencies[long])
        self._arrays["far_places"].append(far + self._n_positions)
        self._arrays["far_pages"].append(positions[far] // PAGE)
        self._n_postings += len(frequencies)
        self._n_positions += len(positions)

    def write(self, writer: SegmentWriter, field: str) -> None:
        """Write the sections of the exceptions."""
        arrays: dict[str, NDArray[Any]] = {name: joined(parts) for name, parts in self._arrays.items()}
        is_far = np.zeros(self._n_positions if len(arrays["far_places"]) else 0, dtype=np.bool_)
        is_far[arrays.pop("far_places")] = True
        counts = np.add.reduceat(is_far, np.arange(0, len(is_far), FAR_BLOCK), dtype=np.int64)
        arrays["is_far"] = np.packbits(is_far, bitorder="little")
        arrays["far_starts"] = starts_of(counts)[:-1]
        for name in ("long_places", "long_frequencies", "is_far", "far_starts", "far_pages"):
            writer.write(f"{field}.{name}", arrays[name])


def write_dictionary(
    writer: SegmentWriter,
    name: str,
    lengths: NDArray[np.int64],
    terms: Sequence[bytes],
    posting_starts: NDArray[np.int64],
    position_starts: NDArray[np.int64],
) -> None:
    """Write the sections of a field that come before its postings, and declare those of the postings."""
    writer.write(f"{name}.lengths", lengths)
    writer.write(f"{name}.terms", np.frombuffer(b"".join(terms), dtype=np.uint8))
    writer.write(f"{name}.term_starts", starts_of(np.array(list(map(len, terms)), dtype=np.int64)))
    writer.write(f"{name}.posting_starts", posting_starts)
    writer.write(f"{name}.position_starts", position_starts)
    writer.declare(f"{name}.ordinals", int(posting_starts[-1]))
    writer.declare(f"{name}.frequencies", int(posting_starts[-1]))
    writer.declare(f"{name}.positions", int(position_starts[-1]))


def append_postings(
    writer: SegmentWriter,
    name: str,
    ordinals: NDArray[Any],
    frequencies: NDArray[np.int64],
    positions: NDArray[Any],
) -> None:
    """Write the next postings of a field."""
    writer.append(f"{name}.ordinals", ordinals)
    writer.append(f"{name}.frequencies", np.minimum(frequencies, LONG))
    writer.append(f"{name}.positions", positions & (PAGE - 1))


class _FieldBuilder:
    """Collects the words of a field, unit by unit."""

    def __init__(self) -> None:
        # Gives the next number to a new form.
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        # Documents that were read together share their forms.
        self._forms: Sequence[str] = ()
        self._numbers_of_forms = np.empty(0, dtype=np.int32)
        self._words: list[NDArray[np.int32]] = []
        self._advances: list[NDArray[np.uint8]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._capitals: list[NDArray[np.bool_]] = []

    def add(self, words: Words) -> None:
        """Add units, such as the chunks of a document."""
        if words.forms is not self._forms:
            self._forms, self._numbers_of_forms = words.forms, self._numbered(words.forms)
        self._words.append(self._numbers_of_forms[words.ids])
        self._advances.append(words.advances)
        self._sizes.append(np.diff(words.starts))
        self._capitals.append(words.capitals)

    def arrays(self, terms: Terms) -> FieldArrays:
        """Return the postings of all units."""
        words = np.concatenate([np.empty(0, dtype=np.int32), *self._words])
        names, ids = self._ranked_terms(words, terms)
        places, lengths = self._places()
        # Term, unit and position in one number each: sorting them sorts everything.
        keys = ids.astype(np.int64)
        keys <<= _TERM_BITS
        keys |= places
        keys.sort()
        keys = _without_repeated(keys)
        places = keys.astype(np.uint32)  # without the terms
        keys >>= _UNIT_BITS
        firsts = firsts_of_runs(keys)
        keys >>= _TERM_BITS - _UNIT_BITS
        return FieldArrays(
            lengths=lengths,
            terms=names,
            posting_starts=starts_of(np.bincount(keys[firsts], minlength=len(names))),
            position_starts=starts_of(np.bincount(keys, minlength=len(names))),
            ordinals=(places[firsts] >> _UNIT_BITS).astype(np.uint16),
            frequencies=np.diff(firsts, append=len(keys)),
            positions=places.astype(np.uint16),
        )

    def count_forms(self, counts: Counter[str], capitals: Counter[str]) -> None:
        """Add how often each form occurs, and how often with a capital letter, without single letters and
        marks, also those of inflections."""
        words = np.concatenate([np.empty(0, dtype=np.int32), *self._words])
        in_capitals = words[np.concatenate([np.empty(0, dtype=np.bool_), *self._capitals])]
        for total, some in ((counts, words), (capitals, in_capitals)):
            numbers = np.bincount(some, minlength=len(self._numbers)).tolist()
            forms = zip(self._numbers, numbers, strict=True)
            total.update({form: n for form, n in forms if n and len(form) > 1 and not is_mark(form)})

    def _numbered(self, forms: Sequence[str]) -> NDArray[np.int32]:
        return np.fromiter(map(self._numbers.__getitem__, forms), dtype=np.int32, count=len(forms))

    def _ranked_terms(self, words: NDArray[np.int32], terms: Terms) -> tuple[list[str], NDArray[np.int32]]:
        """(all terms in order, the place of each occurrence's term among them)."""
        of_forms = terms.of_forms(list(self._numbers))
        # A stream may have forms that occur outside its chunks only.
        is_used = np.bincount(words, minlength=len(of_forms)) > 0
        names = sorted({of_forms[i] for i in np.flatnonzero(is_used).tolist()})
        ranks = dict(zip(names, range(len(names)), strict=True))
        ranked = np.array([ranks.get(term, 0) for term in of_forms], dtype=np.int32)
        return names, ranked[words]

    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(unit and position of each occurrence in one number, length of each unit)."""
        sizes = joined(self._sizes)
        advances = np.concatenate([np.empty(0, dtype=np.uint8), *self._advances])
        starts = starts_of(sizes)
        steps = np.concatenate([[0], np.cumsum(advances != SAME, dtype=np.int64)])
        counted = np.concatenate([[0], np.cumsum(advances == NEXT, dtype=np.int64)])
        positions = steps[1:] - np.repeat(steps[starts[:-1]], sizes)
        np.minimum(positions, BEYOND, out=positions)
        positions |= np.repeat(np.arange(len(sizes)) << _UNIT_BITS, sizes)
        return positions, counted[starts[1:]] - counted[starts[:-1]]


def _without_repeated(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted keys, each once, except those of words beyond the last position."""
    is_kept = np.ones(len(keys), dtype=np.bool_)
    is_kept[1:] = (keys[1:] != keys[:-1]) | (keys[1:] & _POSITION_MASK == BEYOND)
    return keys if is_kept.all() else keys[is_kept]


def _write_reefs(writer: SegmentWriter, profiles: Sequence[Profiles], sizes: NDArray[np.int64]) -> None:
    counts = joined([np.diff(profile.starts) for profile in profiles])
    reef_ids = joined([profile.reef_ids for profile in profiles])
    if len(reef_ids) and int(reef_ids.max()) >= MAX_REEFS:
        raise ValueError(f"reef ids must be below {MAX_REEFS}")
    weights = reef_weights(joined([profile.z_scores for profile in profiles]), starts_of(counts))
    keys = reef_ids << _TERM_BITS
    keys |= np.repeat(np.arange(int(sizes.sum())) << _UNIT_BITS, counts)
    keys |= weights
    keys.sort()
    writer.write("reef_starts", starts_of(np.bincount(keys >> _TERM_BITS)))
    writer.write("reef_ordinals", (keys >> _UNIT_BITS) & _POSITION_MASK)
    writer.write("reef_weights", keys & _POSITION_MASK)


MAX_PATH_CHARS = 500
"""Characters of a path whose words are searched, from its end."""
_SEPARATORS = re.compile(r"[/\\]+")
_SUFFIX = re.compile(r"\.\w{1,8}\Z")


class NameTexts(NamedTuple):
    """names: texts that are names; also: further names, and others: texts that are none, whose words count
    nothing in the length of the unit; language: of them all."""

    names: Sequence[str]
    also: Sequence[str] = ()
    others: Sequence[str] = ()
    language: str = ENGLISH

    @property
    def texts(self) -> Sequence[str]:
        return [*self.names, *self.also, *self.others]


def name_texts(title: str, source_path: str | None, language: str = ENGLISH) -> NameTexts:
    """Return the names of a document: its title and the name of its file; and the rest of its path."""
    # Without the scheme of an address.
    path = (source_path or "").split("://", 1)[-1][-MAX_PATH_CHARS:]
    *folders, name = _SEPARATORS.split(path.rstrip("/\\"))
    stem = _SUFFIX.sub("", name)
    also = [stem] if stem and stem.casefold() != title.casefold() else []
    others = [*folders, name] if stem != name else folders
    return NameTexts([title], also, [other for other in others if other], language)


def name_words(units: Sequence[NameTexts]) -> list[Words]:
    """Return the words of each unit."""
    texts = [text for unit in units for text in unit.texts]
    if not texts:
        return [NO_WORDS for _ in units]
    stream, starts = analyze_in(texts, [unit.language for unit in units for _ in unit.texts])
    forms = [*stream.forms, FIRST, LAST]
    first, last = np.array([len(forms) - 2], dtype=np.int32), np.array([len(forms) - 1], dtype=np.int32)
    mark = np.array([UNCOUNTED], dtype=np.uint8)
    counted = stream.advances.astype(np.uint8)
    uncounted = np.where(stream.advances, UNCOUNTED, SAME).astype(np.uint8)
    bounds = itertools.pairwise(starts.tolist())
    words = []
    for names, also, others, _ in units:
        ids, steps = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.uint8)]
        for of_unit, advances in ((names, counted), (also, uncounted)):
            for start, end in itertools.islice(bounds, len(of_unit)):
                ids += [first, stream.ids[start:end], last]
                steps += [mark, advances[start:end], mark]
        for start, end in itertools.islice(bounds, len(others)):
            ids.append(stream.ids[start:end])
            steps.append(uncounted[start:end])
        all_ids = np.concatenate(ids)
        # Names have capitals for their place.
        no_capitals = np.zeros(len(all_ids), dtype=np.bool_)
        words.append(Words(forms, all_ids, np.concatenate(steps), np.array([0, len(all_ids)]), no_capitals))
    return words
