"""The loops over postings, in numpy; `compiled` has the same in machine code, with equal numbers.

Sums are whole numbers, so their order does not matter. The formula of an impact is evaluated in double
precision in the same order of operations, so that both give the same bits.

A kernel adds posting lists to the totals of a segment. `use_compiled` replaces the kernels of the process
by compiled ones; it takes a second or more, so commands that search once do not call it.
"""

from __future__ import annotations

import importlib
import logging
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index.ragged import firsts_of_runs

SHARED_BITS = 8
"""While overlaps are added up, totals keep the number of shared reefs in their lowest bits."""
SHARED_MASK = (1 << SHARED_BITS) - 1

log = logging.getLogger(__name__)

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


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


def _impacts(frequency: F64, k1: float, scale: float) -> I64:
    weakening = frequency + k1
    frequency *= scale
    frequency /= weakening
    np.rint(frequency, out=frequency)
    whole: I64 = np.maximum(frequency, 1.0, out=frequency).astype(np.int64)
    return whole


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


class Kernels(NamedTuple):
    add_impacts: AddImpacts
    add_blocks: AddBlocks
    add_overlaps: AddOverlaps
    is_compiled: bool


NUMPY = Kernels(_add_impacts, _add_blocks, _add_overlaps, is_compiled=False)


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
