"""The loops over postings, in numpy; `compiled` has the same in machine code, with equal numbers.

Sums are whole numbers, so their order does not matter. The formula of `impacts` is evaluated in double
precision in the same order of operations, so that both give the same bits.

A kernel adds one posting list to the totals of a segment. `use_compiled` replaces the kernels of the process
by compiled ones; it takes a second or more, so commands that search once do not call it.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError

SHARED_BITS = 8
"""Totals of overlaps keep the number of shared reefs in their lowest bits."""

log = logging.getLogger(__name__)

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]


class Factors(NamedTuple):
    """What an occurrence counts in each unit: the weight of its field over the unit's norm for its length.

    text, headings, title   f32 (n,), by ordinal
    """

    text: F32
    headings: F32
    title: F32


class Formula(NamedTuple):
    """The numbers of BM25 for one term: impact = scale * tf / (tf + k1), where tf is the sum over the fields
    of frequency times factor. An impact is rounded, and is at least 1."""

    k1: float
    scale: float


class AddImpacts(Protocol):
    def __call__(
        self,
        totals: I64,
        ordinals: U16,
        text: U8,
        headings: U8,
        title: U8,
        factors: Factors,
        formula: Formula,
    ) -> bool:
        """Add the impact of each posting to the total of its ordinal.

        `headings` and `title` are empty if no posting has any. Return whether all ordinals are in range;
        otherwise the totals are undefined.
        """


class AddOverlaps(Protocol):
    def __call__(self, totals: I64, ordinals: U16, weights: U16, query_weight: int) -> bool:
        """Add (weight * query weight) << SHARED_BITS | 1 to the total of each ordinal; otherwise as above."""


def impacts(text: NDArray[Any], headings: U8, title: U8, factors: Factors, formula: Formula) -> I64:
    """Return the impact of each posting, given the factors of its unit."""
    frequency = text * factors.text.astype(np.float64)
    if len(headings):
        frequency += headings * factors.headings.astype(np.float64)
    if len(title):
        frequency += title * factors.title.astype(np.float64)
    weakening = frequency + formula.k1
    frequency *= formula.scale
    frequency /= weakening
    np.rint(frequency, out=frequency)
    whole: I64 = np.maximum(frequency, 1.0, out=frequency).astype(np.int64)
    return whole


def _add_impacts(
    totals: I64, ordinals: U16, text: U8, headings: U8, title: U8, factors: Factors, formula: Formula
) -> bool:
    # The ordinals of a posting list are distinct.
    try:
        own = Factors(*(column[ordinals] for column in factors))
        totals[ordinals] += impacts(text, headings, title, own, formula)
    except IndexError:
        return False
    return True


def _add_overlaps(totals: I64, ordinals: U16, weights: U16, query_weight: int) -> bool:
    products = weights.astype(np.int64)
    products *= query_weight << SHARED_BITS
    products |= 1
    try:
        totals[ordinals] += products
    except IndexError:
        return False
    return True


class Kernels(NamedTuple):
    add_impacts: AddImpacts
    add_overlaps: AddOverlaps
    is_compiled: bool


NUMPY = Kernels(_add_impacts, _add_overlaps, is_compiled=False)


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
