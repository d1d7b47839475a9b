"""The kernels in machine code, with the numbers of `kernels`. Importing this module compiles them, or loads
them from the cache of an earlier process.

Arrays of segments are read-only, which is part of the type that numba compiles for. The loops hold no lock of
the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from shoal.index.kernels import I64, SHARED_BITS, U8, U16, Factors, Formula, Kernels


def _readonly(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


_BYTES, _ORDINALS = _readonly(types.uint8), _readonly(types.uint16)
_FACTORS, _TOTALS, _DOUBLE = _readonly(types.float32), types.int64[::1], types.float64


def _compile(*arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    signatures: Any = [types.boolean(*arguments)]

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signatures, cache=True, nogil=True, error_model="numpy")(function)
        except (RuntimeError, OSError):
            # There is no folder for the cache that this process may write.
            return numba.njit(signatures, nogil=True, error_model="numpy")(function)

    return decorate


@_compile(_TOTALS, _ORDINALS, *[_BYTES] * 3, *[_FACTORS] * 3, *[_DOUBLE] * 2)
def _add_impacts_loop(  # type: ignore[no-untyped-def]
    totals, ordinals, text, headings, title, text_factors, heading_factors, title_factors, k1, scale
):
    n = min(len(totals), len(text_factors), len(heading_factors), len(title_factors))
    has_headings, has_title = len(headings) > 0, len(title) > 0
    for i in range(len(ordinals)):
        ordinal = ordinals[i]
        if ordinal >= n:
            return False
        frequency = text[i] * np.float64(text_factors[ordinal])
        if has_headings:
            frequency += headings[i] * np.float64(heading_factors[ordinal])
        if has_title:
            frequency += title[i] * np.float64(title_factors[ordinal])
        totals[ordinal] += max(round(frequency * scale / (frequency + k1)), 1)
    return True


@_compile(_TOTALS, _ORDINALS, _ORDINALS, types.int64)
def _add_overlaps_loop(totals: I64, ordinals: U16, weights: U16, factor: int) -> bool:
    n = len(totals)
    for i in range(len(ordinals)):
        ordinal = ordinals[i]
        if ordinal >= n:
            return False
        totals[ordinal] += weights[i] * factor + 1
    return True


def _add_impacts(
    totals: I64, ordinals: U16, text: U8, headings: U8, title: U8, factors: Factors, formula: Formula
) -> bool:
    return bool(_add_impacts_loop(totals, ordinals, text, headings, title, *factors, *formula))


def _add_overlaps(totals: I64, ordinals: U16, weights: U16, query_weight: int) -> bool:
    return bool(_add_overlaps_loop(totals, ordinals, weights, query_weight << SHARED_BITS))


KERNELS = Kernels(_add_impacts, _add_overlaps, is_compiled=True)
