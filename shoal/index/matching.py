"""Matching: which chunks contain a term, how often and in which fields, and which words an index has.

A term is one stem, or several side by side (a phrase). Positions decide phrases: exactly, in each field.

Forms are the words of an index as they are written: those near a typed word, or beginning with it. An edit
inserts, deletes or replaces a letter, or swaps two neighbours (Damerau, "A technique for computer detection
and correction of spelling errors", CACM 7(3), 1964). Few forms are compared letter by letter. Those with the
first letter of the word are a range of a segment's sorted forms, and a set of letters as bits rules out most
of them: an edit adds or removes at most one letter. Forms with another first letter count only if none of
these is one edit away.
"""

from __future__ import annotations

import bisect
import functools
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS
from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.format import FIELDS
from shoal.index.index import NOWHERE, FormCount, Index, Part
from shoal.index.ragged import firsts_of_runs, joined
from shoal.index.segment import NO_TERM, POSITION_BITS, Field, Postings, Segment, letter_bits
from shoal.words.analysis import stems_of
from shoal.words.terms import MAX_LETTERS

TEXT, HEADINGS, TITLE = FIELDS
EVERYWHERE, IN_TEXT = frozenset({TEXT, HEADINGS, TITLE}), frozenset({TEXT})

_MAX_FREQUENCY = 255
_NO_BYTES = np.empty(0, dtype=np.uint8)
_NO_OCCURRENCES = np.empty(0, dtype=np.int64)
_NO_POSTINGS = Postings(np.empty(0, dtype=np.uint16), _NO_BYTES)
KEPT_STEMS = 1_024
"""Stems that are kept as looked up in an index: with 16 segments, in 1.3 MB."""
UNIT, OTHER = 4, 3
"""An occurrence of the term, and one of another form, in fourths."""
OTHER_SHARE = OTHER / UNIT
_MOST = 255 // UNIT
"""More occurrences count as this many; BM25 hardly tells them apart."""
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters of a word from which it is compared within one and two edits. A shorter word is one edit away from
too many others."""
MAX_COMPARED = 256
"""Forms that are compared letter by letter: those with the fewest letters that differ."""
NAME_SHARE = 0.8
"""Share of the occurrences of a name that begin with a capital letter."""
MAX_OF_TERM = 10_000
"""Forms that begin like a term and are looked at."""
KEPT_FORMS = 4_096
"""Forms whose numbers are kept for an index: words of some hundred searches."""
MAX_CHECKED = 64
"""Further forms with a beginning that are looked up in what a viewer sees."""
_ONE, _MANY = np.int8(1), np.int8(MAX_LETTERS // 2)


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
    """Return in how many chunks' texts a stem occurs, without reading postings; deleted chunks count too. For
    a viewer, the visible ones are counted."""
    if index.count_form is not None:
        (found,) = find(index, [IndexTerm((stem,), IN_TEXT)])
        return found.n_chunks
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


def unite(own: Matches, others: Sequence[Matches], inflected: Sequence[Matches] = ()) -> Matches:
    """Return the matches of a group: those of a term and of its other forms, of one index. `inflected`: of
    the term in any inflection, which count like the term itself."""
    if not others and not inflected:
        return own
    columns = [each.parts for each in (own, *inflected, *others)]
    parts = [
        _united(part.segment.n_chunks, forms, 1 + len(inflected))
        for part, *forms in zip(own.index.parts, *columns, strict=True)
    ]
    return Matches(own.index, parts, UNIT)


def _united(n_chunks: int, forms: Sequence[PartMatches], n_own: int) -> PartMatches:
    """Unite the matches of the forms of a word. The first `n_own` count fully, and others as `OTHER`."""
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
                weighted = np.minimum(form[column], _MOST) * np.uint8(UNIT if number < n_own else OTHER)
                united[places] = np.maximum(united[places], weighted)
        columns.append(united)
    return PartMatches(ordinals, *columns)


class NearForm(NamedTuple):
    """A form of the index near a word.

    edits        between the word and the form
    keeps_first  whether it has the first letter of the word
    n            occurrences; those in deleted documents may count
    """

    form: str
    edits: int
    keeps_first: bool
    n: int

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The key that sorts near forms, nearest first."""
        return self.edits, not self.keeps_first, -self.n, self.form


def max_edits(word: str) -> int:
    """Return within how many edits a word is compared."""
    return (len(word) >= ONE_EDIT_FROM) + (len(word) >= TWO_EDITS_FROM)


def count_form(index: Index, form: str) -> int:
    """Return how often a form occurs in an index; occurrences in deleted documents may count."""
    return _counts(index, form)[0]


def has_form(index: Index, form: str) -> bool:
    """Return whether an index has a form; one that stands in deleted documents alone may count."""
    is_stored = stored_count(index, form).n > 0
    return is_stored and (index.count_form is None or index.count_form.has(index, form))


def is_name(index: Index, form: str) -> bool:
    """Return whether an index has a form mostly with a capital letter."""
    stored = stored_count(index, form)
    if not stored.n_capitals:
        return False
    n, n_capitals = stored if index.count_form is None else index.count_form.share(index, form)
    return n_capitals > NAME_SHARE * n


def stored_count(index: Index, form: str) -> FormCount:
    """Return how often a form occurs in all documents of the segments: also in deleted ones, and in those
    that a viewer does not see. It does not occur more often in what is seen."""
    kept: dict[str, FormCount] = (index.whole or index).cached.setdefault(stored_count, {})
    count = kept.get(form)
    if count is None:
        encoded, n, n_capitals = form.encode(), 0, 0
        for part in index.parts:
            forms = part.segment.forms
            number = forms.number(encoded)
            if number != NO_TERM:
                n += int(forms.counts(number, number + 1)[0])
                n_capitals += int(forms.capitals(number, number + 1)[0])
        if len(kept) >= KEPT_FORMS:
            kept.clear()
        kept[form] = count = FormCount(n, n_capitals)
    return count


def near_codes(index: Index, code: str, limit: int) -> list[str]:
    """Return the forms with digits that differ from a folded code by one edit, the most frequent first, at
    most `limit`."""
    if len(code) > MAX_LETTERS:
        return []
    near = [each for each in _near(index, code, 1, code[:1], are_codes=True) if each.edits]
    return [each.form for each in sorted(near, key=lambda each: each.order)[:limit]]


def near_forms(index: Index, word: str, limit: int) -> list[NearForm]:
    """Return the forms of letters near a folded word, nearest first, those of equal distance by their
    occurrences, at most `limit`; no stop words, and not the word itself.

    If there are none, its plurals are compared. None for a word of fewer than 4 letters or more than 64.
    """
    allowed = max_edits(word)
    if not allowed or len(word) > MAX_LETTERS:
        return []
    found = _near(index, word, allowed, word[0])
    if not any(near.edits == 1 for near in found):
        found += _near(index, word, allowed, "") if allowed > 1 else _with_another_first_letter(index, word)
    for plural in (word + "s", word + "es"):
        found += [] if found else _near(index, plural, allowed, word[0])
    nearest = {near.form: near for near in sorted(found, key=lambda near: near.order)}
    return [near for near in nearest.values() if near.edits][:limit]


def forms_starting_with(index: Index, prefix: str, limit: int) -> list[tuple[str, int]]:
    """Return the most frequent forms that begin with a folded text, at most `limit`, each with its number of
    occurrences; no stop words."""
    n = limit + sum(word.startswith(prefix) for word in STOP_WORDS)
    if index.count_form is not None:
        n += MAX_CHECKED
    counts: Counter[str] = Counter()
    for part in index.parts:
        forms = part.segment.forms
        low, high = forms.starting_with(prefix.encode())
        sizes = forms.counts(low, high)
        if len(sizes) > n:
            # Of equally frequent forms, the first by their letters.
            least = np.partition(sizes, len(sizes) - n)[len(sizes) - n]
            more = np.flatnonzero(sizes > least)
            chosen = np.concatenate([more, np.flatnonzero(sizes == least)[: n - len(more)]])
        else:
            chosen = np.arange(len(sizes))
        for place in chosen.tolist():
            counts[forms.text(low + place).decode(errors="replace")] += int(sizes[place])
    counts = _visible(index, counts)
    ranked = sorted(counts.keys() - STOP_WORDS, key=lambda form: (-counts[form], form))
    return [(form, counts[form]) for form in ranked[:limit]]


def forms_of_term(index: Index, term: str) -> Sequence[str]:
    """Return the forms with a term, in ascending order, also those that a viewer does not see.

    A stem and its forms have all but their last letters in common.
    """
    prefix = term[: max(len(term) - 1, 1)].encode()
    forms: set[str] = set()
    for part in index.parts:
        dictionary = part.segment.forms
        low, high = dictionary.starting_with(prefix)
        forms.update(
            form.decode(errors="replace") for form in dictionary.between(low, min(high, low + MAX_OF_TERM))
        )
    ordered = sorted(forms)
    return [form for form, own in zip(ordered, stems_of(ordered), strict=True) if own == term]


def _visible(index: Index, counts: Counter[str]) -> Counter[str]:
    """The occurrences of forms; of what a viewer sees, those of visible forms in visible passages."""
    if index.count_form is None:
        return counts
    visible = ((form, count_form(index, form)) for form in counts)
    return Counter({form: n for form, n in visible if n})


def count_edits(texts: Sequence[str], word: str) -> list[int]:
    """Return the edits between each text and a word."""
    return _compared(texts, word).tolist() if texts else []


def _counts(index: Index, form: str) -> FormCount:
    """How often a form occurs in an index, and how often with a capital letter."""
    stored = stored_count(index, form)
    return stored if index.count_form is None or not stored.n else index.count_form(index, form)


def _near(index: Index, word: str, allowed: int, start: str, *, are_codes: bool = False) -> list[NearForm]:
    """The forms of letters within some edits of a word that start with a text, or those with digits."""
    counts: Counter[str] = Counter()
    differences: dict[str, int] = {}
    bits = np.uint32(letter_bits(word))
    for part in index.parts:
        forms = part.segment.forms
        low, high = forms.starting_with(start.encode())
        sizes = forms.counts(low, high)
        lengths = forms.n_letters[low:high].astype(np.int16)
        letters = forms.letters[low:high]
        extra, missing = np.bitwise_count(letters & ~bits), np.bitwise_count(bits & ~letters)
        is_near = (np.abs(lengths - len(word)) <= allowed) & (np.maximum(extra, missing) <= allowed)
        numbers = np.flatnonzero(is_near)
        differing = (extra + missing)[numbers]
        order = np.argsort(differing, kind="stable")[:MAX_COMPARED]
        for number, difference in zip(numbers[order].tolist(), differing[order].tolist(), strict=True):
            form = forms.text(low + number).decode(errors="replace")
            counts[form] += int(sizes[number])
            differences[form] = difference
    chosen = sorted(counts, key=lambda form: (differences[form], form))[:MAX_COMPARED]
    chosen = [form for form in chosen if form.isalpha() != are_codes and form not in STOP_WORDS]
    edits_of = dict(zip(chosen, count_edits(chosen, word), strict=True))
    near = Counter({form: counts[form] for form in chosen if edits_of[form] <= allowed})
    return [
        NearForm(form, edits_of[form], form[0] == word[0], n) for form, n in _visible(index, near).items()
    ]


def _with_another_first_letter(index: Index, word: str) -> Iterator[NearForm]:
    """The forms that differ by one edit of the first letter."""
    variants = {word[1] + word[0] + word[2:], word[1:]}
    variants.update(letter + rest for letter in string.ascii_lowercase for rest in (word, word[1:]))
    for form in sorted(each for each in variants - STOP_WORDS if each[0] != word[0]):
        count = count_form(index, form)
        if count:
            yield NearForm(form, 1, False, count)


def _compared(texts: Sequence[str], word: str) -> NDArray[np.int8]:
    """i8 (texts,): the edits between each text and a word, by optimal string alignment of all texts at
    once."""
    width = max(map(len, texts))
    letters = np.array(texts, dtype=f"U{max(width, 1)}").view(np.uint32).reshape(len(texts), -1)
    lengths = np.array([len(text) for text in texts])
    typed = np.array([word]).view(np.uint32)
    columns = np.arange(len(word) + 1, dtype=np.int8)
    same = letters[:, :, None] == typed
    replacing = np.ascontiguousarray((~same).view(np.int8).transpose(1, 0, 2))
    swapping = np.where(same[:, 1:, :-1] & same[:, :-1, 1:], _ONE, _MANY).transpose(1, 0, 2)
    rows = np.empty((width + 1, len(texts), len(columns)), dtype=np.int8)
    rows[0] = columns
    for i in range(width):
        row = np.add(rows[i], _ONE, out=rows[i + 1])
        np.minimum(row[:, 1:], rows[i, :, :-1] + replacing[i], out=row[:, 1:])
        if i:
            np.minimum(row[:, 2:], rows[i - 1, :, :-2] + swapping[i - 1], out=row[:, 2:])
        # An insertion costs one for each column.
        row -= columns
        np.minimum.accumulate(row, axis=1, out=row)
        row += columns
    edits: NDArray[np.int8] = rows[lengths, np.arange(len(texts)), -1]
    return edits
