"""Fast reading of long integer columns, packed into one row.

Each row of SQLite costs half a microsecond in Python and may wait for other threads. Concatenated by SQL,
`SELECT group_concat(a), group_concat(b) ...`, a hundred thousand numbers arrive in a few milliseconds while
other threads run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.storage.database import Snapshot


def packed_columns(
    snapshot: Snapshot, statement: str, parameters: Mapping[str, Any] | None = None
) -> tuple[NDArray[np.int64], ...]:
    """Read the columns of a statement that concatenates each into one text, sorted by the first column."""
    row = snapshot.first(statement, parameters)
    columns = tuple(numbers(text) for text in row)
    if len(columns[0]) > 1 and not (columns[0][1:] > columns[0][:-1]).all():
        order = np.argsort(columns[0], kind="stable")
        columns = tuple(column[order] for column in columns)
    return columns


def packed_ids(
    snapshot: Snapshot, query: str, parameters: Mapping[str, Any] | None = None
) -> NDArray[np.int64]:
    """Read the numbers of a query with one column named `id`, ascending."""
    return packed_columns(snapshot, f"SELECT group_concat(id) FROM ({query}) found", parameters)[0]


def numbers(text: str | None) -> NDArray[np.int64]:
    """Parse the numbers of a concatenated text; empty for None."""
    return np.empty(0, np.int64) if text is None else np.fromstring(text, dtype=np.int64, sep=",")
