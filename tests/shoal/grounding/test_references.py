"""Which ranges of documents may be cited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.grounding.references import Range, _Allowed

RANGES = st.builds(
    lambda document_id, start, length: Range(document_id, start, start + length),
    st.integers(1, 2),
    st.integers(0, 8),
    st.integers(1, 8),
)


@given(st.lists(RANGES, max_size=6), RANGES)
def test_a_range_may_be_cited_within_one_that_is_allowed(ranges: list[Range], cited: Range) -> None:
    contains = any(
        each.document_id == cited.document_id and each.start <= cited.start and cited.end <= each.end
        for each in ranges
    )
    assert _Allowed(ranges).has(cited) == contains
