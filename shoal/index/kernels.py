"""The loops over postings, in numpy; `compiled` has the same in machine code, with equal numbers.

Sums are whole numbers, so their order does not matter. The formula of an impact is evaluated in double
precision in the same order of operations, so that both give the same bits.

A kernel adds posting lists to the totals of a segment. `use_compiled` replaces the kernels of the process
by compiled ones; it takes a second or more, so commands that search once do not call it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index.ragged import expand, firsts_of_runs

SHARED_BITS = 8
"""While overlaps are added up, totals keep the number of shared reefs in their lowest bits."""
SHARED_MASK = (1 << SHARED_BITS) - 1

PLACES_TOGETHER = 16_384
"""Places whose keys are computed or compared at once: a few arrays of 128 KB."""

log = logging.getLogger(__name__)

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
I16 = NDArray[np.int16]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Factors(NamedTuple):
    """What an occurrence counts in each unit of a segment: the weight of its field over the unit's norm for
    its length.

    length_of    u32 (n_chunks,): the place of each chunk's length in `text`
    text         f32, by length of the chunk's text
    section_of   u16 (n_chunks,)
    headings     f32 (n_sections,)
    document_of  u16 (n_chunks,)
    title        f32 (n_documents,)
    block_of     u16 (n_chunks,)
    blocks       f32 (n_blocks,): of the texts of a block
    """

    length_of: U32
    text: F32
    section_of: U16
    headings: F32
    document_of: U16
    title: F32
    block_of: U16
    blocks: F32


class Formula(NamedTuple):
    """The numbers of BM25F for one term: impact = scale * tf / (tf + k1), where tf is the sum over the fields
    of frequency times factor. An impact is rounded, and is at least 1.

    context_scale  the scale of its impact in blocks; 0 if it has none
    """

    k1: float
    scale: float
    context_scale: float = 0.0


Listed = tuple[U16, U8]
"""Postings: ordinals of units, ascending, and the frequency in each."""
Spread = tuple[U16, U8, U32]
"""Postings whose units have several chunks, and the first chunk of each unit, with the end."""


class LookUp(Protocol):
    def __call__(self, found: I64, fields: I64, term: bytes) -> bool:
        """Write for each field the number of a term, -1 without it, its first posting, and their end.

        found   (n_fields, 3)
        fields  (n_fields, 8): `Field.addresses` of each

        Return whether dictionaries and postings are in range.
        """


class Unite(Protocol):
    def __call__(
        self, n_chunks: int, text: Listed, headings: Spread, title: Spread
    ) -> tuple[U16, U8, U8, U8]:
        """Return the chunks of any of the units, ascending, with their frequencies in text, headings and
        title."""


class AddImpacts(Protocol):
    def __call__(
        self,
        totals: I64,
        block_totals: I64,
        ordinals: U16,
        text: U8,
        headings: U8,
        title: U8,
        factors: Factors,
        formula: Formula,
    ) -> bool:
        """Add the impact of each posting to the total of its ordinal, and that of each block to its own.

        `headings` and `title` are empty if no posting has any. Headings do not count in blocks. Return
        whether all ordinals are in range; otherwise the totals are undefined.
        """


class AddBlocks(Protocol):
    def __call__(self, totals: I64, block_totals: I64, block_of: U16) -> None:
        """Add the total of its block to each total that is not 0."""


class AddOverlaps(Protocol):
    def __call__(
        self,
        totals: I64,
        n_shared: U8,
        starts: U32,
        ordinals: U16,
        weights: U16,
        reef_ids: I64,
        query_weights: I64,
    ) -> bool:
        """For each posting of the reefs, add weight * query weight to the total of its ordinal, and 1 to
        `n_shared`; both are 0 before.

        The postings of reef i are those from starts[i] to starts[i + 1]; the reefs are among them. Return
        whether all of that is in range; otherwise the sums are undefined.
        """


class PhraseField(NamedTuple):
    """The postings and positions of a field (`shoal.index.segment.Field`)."""

    ordinals: U16
    frequencies: U8
    long_places: U32
    long_frequencies: U32
    positions: U8
    is_far: U8
    far_starts: U32
    far_pages: U8


class Phrase(Protocol):
    def __call__(self, field: PhraseField, terms: I64) -> Listed | None:
        """Return the units where two or more terms are side by side, and how often, at most 255.

        terms  i64 (n, 5), the rarest first: of each its place in the phrase, first posting, end of the
               postings, first position, end of the positions

        Return None if the frequencies do not match the positions, or a far position has no page.
        """


class Blend(Protocol):
    def __call__(
        self,
        final: F64,
        is_found: Bools,
        signals: tuple[I64, I64, U16],
        n_shared: U8,
        best: tuple[float, float, float],
        weights: tuple[float, float, float],
    ) -> None:
        """Write the sum of weight * score / best over the signals, and whether it is above 0 with a score of
        the first signal or a shared reef."""


class AddDense(Protocol):
    def __call__(
        self,
        final: F64,
        is_found: Bools,
        raw: I64,
        has_vector: Bools,
        best: float,
        weight: float,
        estimate: float,
    ) -> None:
        """Add weight * raw / best to each final score with a raw score, and mark it as found. Where there is
        no vector, add weight * (final * estimate); the raw score is 0 there."""


class BestOfRuns(Protocol):
    def __call__(self, keys: I64 | F64, is_eligible: Bools, run: int) -> I64 | F64:
        """Return the best eligible key of every `run` neighbouring places, -1 if none is eligible.

        An empty `is_eligible` makes every place eligible. No key is negative.
        """


class AddCosines(Protocol):
    def __call__(
        self,
        raw: I64,
        codes: U8,
        scales: F32,
        query: I16,
        total: int,
        factor: float,
    ) -> None:
        """Write max(0, rint(scale * factor * (2 * (codes . query) - 15 * total))) of each vector into `raw`.

        codes  two numbers of 0 to 15 in a byte: those of the first row of `query` in the lower halves
        query  i16 (2, n), whose products with codes add up to less than 2**24
        """


def blocks(n: int) -> Iterator[slice]:
    """Split n places into slices whose numbers stay in the cache of a processor."""
    return (slice(start, min(start + PLACES_TOGETHER, n)) for start in range(0, n, PLACES_TOGETHER))


def _impacts(frequency: F64, k1: float, scale: float) -> I64:
    weakening = frequency + k1
    frequency *= scale
    frequency /= weakening
    np.rint(frequency, out=frequency)
    whole: I64 = np.maximum(frequency, 1.0, out=frequency).astype(np.int64)
    return whole


def _unite(n_chunks: int, text: Listed, headings: Spread, title: Spread) -> tuple[U16, U8, U8, U8]:
    columns = np.zeros((3, n_chunks), dtype=np.uint8)
    columns[0][text[0]] = text[1]
    for column, (units, frequencies, starts) in zip(columns[1:], (headings, title), strict=True):
        firsts = starts[:-1][units].astype(np.int64)
        counts = starts[1:][units].astype(np.int64) - firsts
        column[expand(firsts, counts)] = np.repeat(frequencies, counts)
    ordinals = np.flatnonzero(columns.any(axis=0))
    return ordinals.astype(np.uint16), columns[0][ordinals], columns[1][ordinals], columns[2][ordinals]


def _add_impacts(
    totals: I64,
    block_totals: I64,
    ordinals: U16,
    text: U8,
    headings: U8,
    title: U8,
    factors: Factors,
    formula: Formula,
) -> bool:
    try:
        frequency = factors.text[factors.length_of[ordinals]].astype(np.float64)
        frequency *= text
        if len(headings):
            frequency += headings * factors.headings[factors.section_of[ordinals]].astype(np.float64)
        if len(title):
            of_title = title * factors.title[factors.document_of[ordinals]].astype(np.float64)
            frequency += of_title
        # The ordinals of a posting list are distinct.
        totals[ordinals] += _impacts(frequency, formula.k1, formula.scale)
        if not formula.context_scale:
            return True
        blocks = factors.block_of[ordinals]
    except IndexError:
        return False
    firsts = firsts_of_runs(blocks)
    blocks = blocks[firsts]
    frequency = factors.blocks[blocks].astype(np.float64)
    frequency *= np.add.reduceat(text, firsts, dtype=np.int64)
    if len(title):
        frequency += of_title[firsts]
    is_present = frequency > 0
    block_totals[blocks] += _impacts(frequency, formula.k1, formula.context_scale) * is_present
    return True


def _add_blocks(totals: I64, block_totals: I64, block_of: U16) -> None:
    matches = np.flatnonzero(totals)
    totals[matches] += block_totals[block_of[matches]]


def _add_overlaps(
    totals: I64, n_shared: U8, starts: U32, ordinals: U16, weights: U16, reef_ids: I64, query_weights: I64
) -> bool:
    for reef_id, query_weight in zip(reef_ids.tolist(), query_weights.tolist(), strict=True):
        start, end = starts[reef_id : reef_id + 2].tolist()
        if not start <= end <= len(ordinals):
            return False
        products = weights[start:end].astype(np.int64)
        products *= query_weight << SHARED_BITS
        products |= 1
        try:
            totals[ordinals[start:end]] += products
        except IndexError:
            return False
    n_shared[:] = totals & SHARED_MASK
    totals >>= SHARED_BITS
    return True


def _blend(
    final: F64,
    is_found: Bools,
    signals: tuple[I64, I64, U16],
    n_shared: U8,
    best: tuple[float, float, float],
    weights: tuple[float, float, float],
) -> None:
    first, second, third = signals
    for own in blocks(len(final)):
        sums = weights[0] * (first[own] / best[0])
        sums += weights[1] * (second[own] / best[1])
        sums += weights[2] * (third[own] / best[2])
        final[own] = sums
        is_found[own] = (sums > 0) & ((first[own] > 0) | (n_shared[own] > 0))


def _add_dense(
    final: F64,
    is_found: Bools,
    raw: I64,
    has_vector: Bools,
    best: float,
    weight: float,
    estimate: float,
) -> None:
    for own in blocks(len(final)):
        final[own] += weight * np.where(has_vector[own], raw[own] / best, final[own] * estimate)
        is_found[own] |= raw[own] > 0


def _best_of_runs(keys: I64 | F64, is_eligible: Bools, run: int) -> I64 | F64:
    """PLACES_TOGETHER is a multiple of `run`."""
    best: NDArray[Any] = np.empty(-(-len(keys) // run), dtype=keys.dtype)
    for own in blocks(len(keys)):
        some = np.where(is_eligible[own], keys[own], keys.dtype.type(-1)) if len(is_eligible) else keys[own]
        firsts = np.arange(0, len(some), run)
        best[own.start // run : own.start // run + len(firsts)] = np.maximum.reduceat(some, firsts)
    return best


VECTORS_TOGETHER = 1_024
"""Vectors whose codes are unpacked at once: 1.5 MB for 384 numbers each."""


def _add_cosines(raw: I64, codes: U8, scales: F32, query: I16, total: int, factor: float) -> None:
    low, high = query.astype(np.float32)
    rows = codes.reshape(len(raw), len(low))
    for start in range(0, len(raw), VECTORS_TOGETHER):
        own = slice(start, start + VECTORS_TOGETHER)
        # Sums of whole numbers below 2**24 are exact in any order.
        sums = (rows[own] & 15).astype(np.float32) @ low
        products = sums.astype(np.float64)
        products += (rows[own] >> 4).astype(np.float32) @ high
        products = 2 * products - 15 * total
        products *= scales[own].astype(np.float64) * factor
        raw[own] = np.rint(np.maximum(products, 0.0))


class Kernels(NamedTuple):
    """`look_up` and `phrase` are None where arrays do it."""

    look_up: LookUp | None
    unite: Unite
    add_impacts: AddImpacts
    add_blocks: AddBlocks
    add_overlaps: AddOverlaps
    blend: Blend
    add_dense: AddDense
    phrase: Phrase | None
    best_of_runs: BestOfRuns
    add_cosines: AddCosines
    is_compiled: bool


NUMPY = Kernels(
    None,
    _unite,
    _add_impacts,
    _add_blocks,
    _add_overlaps,
    _blend,
    _add_dense,
    None,
    _best_of_runs,
    _add_cosines,
    is_compiled=False,
)


class _Active:
    kernels = NUMPY


def active() -> Kernels:
    """Return the kernels that this process uses now."""
    return _Active.kernels


def use_compiled() -> bool:
    """Compile the kernels or load them from the cache, and use them from now on.

    Return whether that succeeded. Without numba, or with one that does not work, numpy stays in use.
    """
    try:
        _Active.kernels = importlib.import_module("shoal.index.compiled").KERNELS
    except ImportError:
        log.info("numba is not installed: searches use numpy")
    except Exception as error:
        log.warning("kernels not compiled, searches use numpy: %s", error)
    return _Active.kernels.is_compiled


def use_numpy() -> None:
    """Use numpy from now on."""
    _Active.kernels = NUMPY


def check(is_in_range: bool) -> None:
    """Raise DamagedIndexError if a kernel met an ordinal out of range."""
    if not is_in_range:
        raise DamagedIndexError("a posting is out of range")
