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
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from shoal.index.format import BEYOND, FAR_BLOCK
from shoal.index.kernels import (
    F32,
    F64,
    I16,
    I64,
    SHARED_BITS,
    SHARED_MASK,
    U8,
    U16,
    U32,
    Bools,
    Factors,
    Formula,
    Kernels,
    Listed,
    PhraseField,
    Spread,
)
from shoal.index.segment import POSITION_BITS


def _readonly(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


_U8, _U16, _U32 = (_readonly(kind) for kind in (types.uint8, types.uint16, types.uint32))
_F32, _I64 = (_readonly(kind) for kind in (types.float32, types.int64))
_I16 = _readonly(types.int16)
_BOOLS = _readonly(types.boolean)
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


def _array_at(kind: Any) -> Any:
    """Return what makes an array of a number of elements at an address, in compiled code."""
    pointer: Any = types.CPointer(kind)  # type: ignore[no-untyped-call]

    def typed(typing_context: Any, address: Any) -> Any:
        def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer))

        return pointer(types.int64), cast

    as_pointer: Any = intrinsic(typed)

    @numba.njit(inline="always")
    def array_at(address: Any, n: Any) -> Any:
        return carray(as_pointer(address), n)

    return array_at


_u8_at, _u16_at, _u32_at = map(_array_at, (types.uint8, types.uint16, types.uint32))


@_compile(types.boolean, types.int64[:, ::1], types.Array(types.int64, 2, "C", readonly=True), _U8)
def _look_up_loop(found, fields, term):  # type: ignore[no-untyped-def]
    size = len(term)
    for field in range(len(fields)):
        content_at, n_bytes, starts_at, n, posting_starts_at, ordinals_at, n_postings, n_units = fields[field]
        content, starts = _u8_at(content_at, n_bytes), _u32_at(starts_at, n + 1)
        low, high, number = np.int64(0), n, np.int64(-1)
        while low < high:
            middle = (low + high) // 2
            start, end = np.int64(starts[middle]), np.int64(starts[middle + 1])
            if start > end or end > n_bytes:
                return False
            is_less, is_same = end - start < size, end - start == size
            for i in range(min(int(end - start), size)):
                if content[start + i] != term[i]:
                    is_less, is_same = content[start + i] < term[i], False
                    break
            if is_same:
                number = middle
                break
            if is_less:
                low = middle + 1
            else:
                high = middle
        found[field, 0], found[field, 1], found[field, 2] = number, 0, 0
        if number >= 0:
            posting_starts = _u32_at(posting_starts_at, n + 1)
            start, end = np.int64(posting_starts[number]), np.int64(posting_starts[number + 1])
            if start > end or end > n_postings:
                return False
            ordinals = _u16_at(ordinals_at, n_postings)
            for i in range(start, end):
                if ordinals[i] >= n_units:
                    return False
            found[field, 1], found[field, 2] = start, end
    return True


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


@_compile(types.void, types.float64[::1], types.boolean[::1], _I64, _I64, _U16, _U8, *[_DOUBLE] * 6)
def _blend_loop(  # type: ignore[no-untyped-def]
    final, is_found, first, second, third, n_shared, best, best_2, best_3, weight, weight_2, weight_3
):
    for i in range(len(final)):
        # Without branches, several places are computed at once.
        total = weight * (first[i] / best)
        total += weight_2 * (second[i] / best_2)
        total += weight_3 * (third[i] / best_3)
        final[i] = total
        is_found[i] = (total > 0.0) & ((first[i] > 0) | (n_shared[i] > 0))


@_compile(
    types.void,
    types.float64[::1],
    types.boolean[::1],
    _I64,
    _BOOLS,
    *[_DOUBLE] * 3,
)
def _add_dense(final, is_found, raw, has_vector, best, weight, estimate):  # type: ignore[no-untyped-def]
    for i in range(len(final)):
        if not has_vector[i]:
            final[i] += weight * (final[i] * estimate)
        elif raw[i]:
            final[i] += weight * (raw[i] / best)
            is_found[i] = True


_FIELD = (_U16, _U8, _U32, _U32, _U8, _U8, _U32, _U8)


@_compile(types.int64, _TOTALS, *_FIELD, types.int64[::1])
def _starts_loop(  # type: ignore[no-untyped-def]
    starts,
    ordinals,
    frequencies,
    long_places,
    long_frequencies,
    positions,
    is_far,
    far_starts,
    far_pages,
    term,
):
    """Write where a phrase would start by the occurrences of one of its terms; their number, or -1."""
    offset, first, end, position, last_position = term
    long, n, far = np.searchsorted(long_places, np.uint32(first)), 0, np.int64(0)
    if len(is_far) and position < last_position:
        far = np.int64(far_starts[position // FAR_BLOCK])
        for place in range(position // FAR_BLOCK * FAR_BLOCK, position):
            far += is_far[place >> 3] >> (place & 7) & 1
    for i in range(first, end):
        count = np.int64(frequencies[i])
        if long < len(long_places) and long_places[long] == i:
            count = np.int64(long_frequencies[long])
            long += 1
        if position + count > last_position:
            return -1
        for place in range(position, position + count):
            found = np.int64(positions[place])
            if len(is_far) and is_far[place >> 3] >> (place & 7) & 1:
                if far >= len(far_pages):
                    return -1
                found += np.int64(far_pages[far]) << 8
                far += 1
            if found != BEYOND:
                starts[n] = ((np.int64(ordinals[i]) << POSITION_BITS) | found) - offset
                n += 1
        position += count
    return n if position == last_position else -1


@_compile(types.int64, _TOTALS, *_FIELD, types.int64[::1])
def _keep_neighbours_loop(  # type: ignore[no-untyped-def]  # noqa: C901 - called functions would be compiled apart
    starts,
    ordinals,
    frequencies,
    long_places,
    long_frequencies,
    positions,
    is_far,
    far_starts,
    far_pages,
    term,
):
    """Move to the front those starts that a term follows at its offset; their number, or -1."""
    offset, first, end, position, last_position = term
    at, n_kept = 0, 0
    long = np.searchsorted(long_places, np.uint32(first))
    # Far occurrences before the place `counted`.
    far, counted = np.int64(0), np.int64(-1)
    for i in range(first, end):
        if at == len(starts):
            break
        count = np.int64(frequencies[i])
        if long < len(long_places) and long_places[long] == i:
            count = np.int64(long_frequencies[long])
            long += 1
        stop = position + count
        if stop > last_position:
            return -1
        unit = np.int64(ordinals[i])
        while at < len(starts) and (starts[at] + offset) >> POSITION_BITS < unit:
            at += 1
        place = position
        while at < len(starts) and (starts[at] + offset) >> POSITION_BITS == unit:
            wanted = (starts[at] + offset) & BEYOND
            found = np.int64(-1)
            while place < stop:
                found = np.int64(positions[place])
                if len(is_far) and is_far[place >> 3] >> (place & 7) & 1:
                    block = place // FAR_BLOCK * FAR_BLOCK
                    if counted < block:
                        far, counted = np.int64(far_starts[place // FAR_BLOCK]), block
                    while counted < place:
                        far += is_far[counted >> 3] >> (counted & 7) & 1
                        counted += 1
                    if far >= len(far_pages):
                        return -1
                    found += np.int64(far_pages[far]) << 8
                if found >= wanted:
                    break
                place += 1
            if found == wanted and wanted != BEYOND:
                starts[n_kept] = starts[at]
                n_kept += 1
            at += 1
        position = stop
    return n_kept


_PHRASE: Any = types.Tuple((types.int64, types.uint16[::1], types.uint8[::1]))  # type: ignore[no-untyped-call]


@_compile(_PHRASE, *_FIELD, types.int64[:, ::1])
def _phrase_loop(  # type: ignore[no-untyped-def]
    ordinals, frequencies, long_places, long_frequencies, positions, is_far, far_starts, far_pages, terms
):
    starts = np.empty(terms[0, 4] - terms[0, 3], dtype=np.int64)
    n = _starts_loop(
        starts,
        ordinals,
        frequencies,
        long_places,
        long_frequencies,
        positions,
        is_far,
        far_starts,
        far_pages,
        terms[0],
    )
    for number in range(1, len(terms)):
        if n <= 0:
            break
        n = _keep_neighbours_loop(
            starts[:n],
            ordinals,
            frequencies,
            long_places,
            long_frequencies,
            positions,
            is_far,
            far_starts,
            far_pages,
            terms[number],
        )
    units, counts, n_units = np.empty(max(n, 0), dtype=np.uint16), np.empty(max(n, 0), dtype=np.uint8), 0
    for i in range(n):
        unit = np.uint16(starts[i] >> POSITION_BITS)
        if n_units and units[n_units - 1] == unit:
            counts[n_units - 1] = min(counts[n_units - 1] + 1, 255)
        else:
            units[n_units], counts[n_units] = unit, 1
            n_units += 1
    return min(n, 0), units[:n_units].copy(), counts[:n_units].copy()


_UNITED: Any = types.Tuple((types.uint16[::1], *[types.uint8[::1]] * 3))  # type: ignore[no-untyped-call]


@_compile(_UNITED, types.int64, _U16, _U8, *[_U16, _U8, _U32] * 2)
def _unite_loop(  # type: ignore[no-untyped-def]
    n_chunks,
    text_ordinals,
    text,
    heading_ordinals,
    headings,
    heading_starts,
    title_ordinals,
    title,
    title_starts,
):
    ordinals, own_text = np.empty(n_chunks, dtype=np.uint16), np.empty(n_chunks, dtype=np.uint8)
    own_headings, own_title = np.empty(n_chunks, dtype=np.uint8), np.empty(n_chunks, dtype=np.uint8)
    end = n_chunks
    i, j, k, n = 0, 0, 0, 0
    section, section_end, document, document_end = end, end, end, end
    if len(heading_ordinals):
        section = np.int64(heading_starts[heading_ordinals[0]])
        section_end = np.int64(heading_starts[heading_ordinals[0] + 1])
    if len(title_ordinals):
        document = np.int64(title_starts[title_ordinals[0]])
        document_end = np.int64(title_starts[title_ordinals[0] + 1])
    while n < end:
        chunk = np.int64(text_ordinals[i]) if i < len(text_ordinals) else end
        ordinal = min(chunk, section, document)
        if ordinal >= end:
            break
        ordinals[n], own_text[n], own_headings[n], own_title[n] = ordinal, 0, 0, 0
        if chunk == ordinal:
            own_text[n] = text[i]
            i += 1
        if section == ordinal:
            own_headings[n] = headings[j]
            section += 1
            if section == section_end:
                j += 1
                section = end
                if j < len(heading_ordinals):
                    section = np.int64(heading_starts[heading_ordinals[j]])
                    section_end = np.int64(heading_starts[heading_ordinals[j] + 1])
        if document == ordinal:
            own_title[n] = title[k]
            document += 1
            if document == document_end:
                k += 1
                document = end
                if k < len(title_ordinals):
                    document = np.int64(title_starts[title_ordinals[k]])
                    document_end = np.int64(title_starts[title_ordinals[k] + 1])
        n += 1
    return ordinals[:n].copy(), own_text[:n].copy(), own_headings[:n].copy(), own_title[:n].copy()


def _unite(n_chunks: int, text: Listed, headings: Spread, title: Spread) -> tuple[U16, U8, U8, U8]:
    united: tuple[U16, U8, U8, U8] = _unite_loop(n_chunks, *text, *headings, *title)
    return united


@_compile(types.void, _I64, _U8, types.int64, types.int64[::1])
def _best_of_runs_loop(keys, is_eligible, run, best):  # type: ignore[no-untyped-def]
    for number in range(len(best)):
        # Slices and masks, so that the processor compares several keys at once.
        own = keys[number * run : (number + 1) * run]
        highest = np.int64(-1)
        if len(is_eligible):
            is_own = is_eligible[number * run : (number + 1) * run]
            for i in range(len(own)):
                mask = -np.int64(is_own[i])
                highest = max(highest, (own[i] & mask) | ~mask)
        else:
            for i in range(len(own)):
                highest = max(highest, own[i])
        best[number] = highest


def _best_of_runs(keys: I64 | F64, is_eligible: Bools, run: int) -> I64 | F64:
    best = np.empty(-(-len(keys) // run), dtype=np.int64)
    # Numbers that are not negative compare like their bits.
    bits = np.ascontiguousarray(keys).view(np.int64)
    _best_of_runs_loop(bits, is_eligible.view(np.uint8), run, best)
    if keys.dtype == np.int64:
        return best
    return np.where(best < 0, -1.0, best.view(np.float64))


@_compile(types.void, _TOTALS, _U8, _F32, *[_I16] * 2, types.int64, _DOUBLE)
def _add_cosines_loop(  # type: ignore[no-untyped-def]
    raw, codes, scales, low, high, total, factor
):
    n = len(low)
    for row in range(len(raw)):
        own = codes[row * n : (row + 1) * n]
        products = np.int32(0)
        for i in range(n):
            code = own[i]
            products += np.int32(code & np.uint8(15)) * np.int32(low[i])
            products += np.int32(code >> np.uint8(4)) * np.int32(high[i])
        cosine = (2 * np.int64(products) - 15 * total) * (np.float64(scales[row]) * factor)
        raw[row] = np.int64(np.rint(cosine)) if cosine > 0.0 else 0


def _add_cosines(raw: I64, codes: U8, scales: F32, query: I16, total: int, factor: float) -> None:
    _add_cosines_loop(raw, codes, scales, query[0], query[1], total, factor)


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


def _blend(
    final: F64,
    is_found: Bools,
    signals: tuple[I64, I64, U16],
    n_shared: U8,
    best: tuple[float, float, float],
    weights: tuple[float, float, float],
) -> None:
    _blend_loop(final, is_found, *signals, n_shared, *best, *weights)


def _look_up(found: I64, fields: I64, term: bytes) -> bool:
    return bool(_look_up_loop(found, fields, np.frombuffer(term, dtype=np.uint8)))


def _phrase(field: PhraseField, terms: I64) -> Listed | None:
    state, ordinals, frequencies = _phrase_loop(*field, terms)
    return None if state < 0 else (ordinals, frequencies)


KERNELS = Kernels(
    _look_up,
    _unite,
    _add_impacts,
    _add_blocks,
    _add_overlaps,
    _blend,
    _add_dense,
    _phrase,
    _best_of_runs,
    _add_cosines,
    is_compiled=True,
)
