"""Contexts are the same after they were packed and unpacked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.storage.packed_contexts import pack_context, unpack_context

SUMS = st.one_of(*(st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 63)))


@given(st.dictionaries(st.integers(0, 255), SUMS, max_size=207))
def test_a_context_is_unpacked_as_it_was(context: dict[int, int]) -> None:
    reefs, sums = tuple(context), tuple(context.values())
    assert unpack_context(pack_context(reefs, sums)) == (reefs, sums)


def test_small_sums_take_a_byte_each() -> None:
    assert len(pack_context([3, 7], [64, 255])) == 1 + 2 + 2
    assert len(pack_context([3, 7], [64, 256])) == 1 + 2 + 4
