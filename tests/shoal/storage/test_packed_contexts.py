"""Contexts are the same after they were packed and unpacked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.storage.column_values import pack_context, unpack_contexts

SUMS = st.one_of(*(st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 63)))


@given(st.lists(st.dictionaries(st.integers(0, 255), SUMS, max_size=207), max_size=8))
def test_contexts_are_unpacked_as_they_were(contexts: list[dict[int, int]]) -> None:
    packed = [pack_context(tuple(context), tuple(context.values())) for context in contexts]
    lengths, reefs, sums = unpack_contexts(packed)
    assert lengths.tolist() == list(map(len, contexts))
    assert reefs.tolist() == [reef for context in contexts for reef in context]
    assert sums.tolist() == [value for context in contexts for value in context.values()]


def test_small_sums_take_a_byte_each() -> None:
    assert len(pack_context([3, 7], [64, 255])) == 1 + 2 + 2
    assert len(pack_context([3, 7], [64, 256])) == 1 + 2 + 4
