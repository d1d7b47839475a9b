"""`Columns` behaves like the sequence of its rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.models import IslandScore
from shoal.support.columns import Columns

scores = st.lists(
    st.builds(IslandScore, st.integers(), st.text(max_size=3), st.floats(allow_nan=False), st.integers())
)


@settings(deadline=None)
@given(scores)
def test_columns_equal_their_rows(rows: list[IslandScore]) -> None:
    columns = Columns.of(IslandScore, rows)
    assert list(columns) == rows
    assert columns == rows
    assert columns == tuple(rows)
    assert len(columns) == len(rows)
    assert [columns[i] for i in range(-len(rows), len(rows))] == rows + rows
    assert columns[1:3] == tuple(rows[1:3])
    assert hash(columns) == hash(Columns.of(IslandScore, tuple(rows)))


def test_columns_differ_from_other_rows() -> None:
    columns = Columns.of(IslandScore, [IslandScore(1, "one", 2.0, 3)])
    assert columns != [IslandScore(1, "one", 2.0, 4)]
    assert columns != []
    assert columns != 1
