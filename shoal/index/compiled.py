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

from shoal.index.kernels import I64, SHARED_BITS, SHARED_MASK, U8, U16, U32, Factors, Formula, Kernels


def _readonly(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


_U8, _U16, _U32 = (_readonly(kind) for kind in (types.uint8, types.uint16, types.uint32))
_F32, _I64 = _readonly(types.float32), _readonly(types.int64)
_TOTALS, _COUNTS, _DOUBLE = types.int64[::1], types.uint8[::1], types.float64


def _compile(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    signatures: Any = [result(*arguments)]

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signatures, cache=True, nogil=True, error_model="numpy")(function)
        except (RuntimeError, OSError):
            # There is no folder for the cache that this process may write.
            return numba.njit(signatures, nogil=True, error_model="numpy")(function)

    return decorate


@_compile(
    types.boolean,
    *[_TOTALS] * 2,
    *[_U16, _U8, _U8, _U8],
    *[_U32, _F32, _U16, _F32, _U16, _F32, _U16, _F32],
    *[_DOUBLE] * 3,
)
def _add_impacts_loop(  # type: ignore[no-untyped-def]
    totals,
    block_totals,
    ordinals,
    text,
    headings,
    title,
    length_of,
    text_factors,
    section_of,
    heading_factors,
    document_of,
    title_factors,
    block_of,
    block_factors,
    k1,
    scale,
    context_scale,
):
    n = min(len(totals), len(length_of), len(section_of), len(document_of), len(block_of))
    has_headings, has_title, has_context = len(headings) > 0, len(title) > 0, context_scale > 0.0
    block, block_text, title_frequency, block_title = np.int64(-1), np.int64(0), 0.0, 0.0
    for i in range(len(ordinals)):
        ordinal = ordinals[i]
        if ordinal >= n or length_of[ordinal] >= len(text_factors):
            return False
        frequency = text[i] * np.float64(text_factors[length_of[ordinal]])
        if has_headings:
            frequency += headings[i] * np.float64(heading_factors[section_of[ordinal]])
        if has_title:
            title_frequency = title[i] * np.float64(title_factors[document_of[ordinal]])
            frequency += title_frequency
        totals[ordinal] += max(round(frequency * scale / (frequency + k1)), 1)
        if not has_context:
            continue
        if block_of[ordinal] != block:
            if block >= 0:
                frequency = block_text * np.float64(block_factors[block]) + block_title
                if frequency > 0.0:
                    block_totals[block] += max(round(frequency * context_scale / (frequency + k1)), 1)
            block, block_text, block_title = np.int64(block_of[ordinal]), np.int64(0), title_frequency
        block_text += np.int64(text[i])
    if block >= 0:
        frequency = block_text * np.float64(block_factors[block]) + block_title
        if frequency > 0.0:
            block_totals[block] += max(round(frequency * context_scale / (frequency + k1)), 1)
    return True


@_compile(types.void, _TOTALS, _I64, _U16)
def _add_blocks(totals: I64, block_totals: I64, block_of: U16) -> None:
    for i in range(len(totals)):
        if totals[i]:
            totals[i] += block_totals[block_of[i]]


@_compile(types.boolean, _TOTALS, _COUNTS, _U32, _U16, _U16, _I64, _I64)
def _add_overlaps_loop(
    totals: I64, n_shared: U8, starts: U32, ordinals: U16, weights: U16, reef_ids: I64, query_weights: I64
) -> bool:
    n = min(len(totals), len(n_shared))
    for reef in range(len(reef_ids)):
        start, end = starts[reef_ids[reef]], starts[reef_ids[reef] + 1]
        if start > end or end > len(ordinals):
            return False
        factor = query_weights[reef] << SHARED_BITS
        for i in range(start, end):
            ordinal = ordinals[i]
            if ordinal >= n:
                return False
            totals[ordinal] += weights[i] * factor + 1
    for i in range(n):
        n_shared[i] = totals[i] & SHARED_MASK
        totals[i] >>= SHARED_BITS
    return True


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
    return bool(_add_impacts_loop(totals, block_totals, ordinals, text, headings, title, *factors, *formula))


def _add_overlaps(
    totals: I64, n_shared: U8, starts: U32, ordinals: U16, weights: U16, reef_ids: I64, query_weights: I64
) -> bool:
    return bool(_add_overlaps_loop(totals, n_shared, starts, ordinals, weights, reef_ids, query_weights))


KERNELS = Kernels(_add_impacts, _add_blocks, _add_overlaps, is_compiled=True)
