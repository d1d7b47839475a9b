"""Long columns of whole numbers out of one row.

A row of SQLite costs half a microsecond in Python, and each may wait for other threads. As texts that SQL has joined,
`SELECT group_concat(a), group_concat(b) ...`, a hundred thousand numbers come in a few milliseconds, and other threads
run meanwhile.
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
    """The columns of a statement that joins each into one text, in the ascending order of the first."""
    row = snapshot.first(statement, parameters)
    columns = tuple(numbers(text) for text in row)
    if len(columns[0]) > 1 and not (columns[0][1:] > columns[0][:-1]).all():
        order = np.argsort(columns[0], kind="stable")
        columns = tuple(column[order] for column in columns)
    return columns


def packed_ids(
    snapshot: Snapshot, query: str, parameters: Mapping[str, Any] | None = None
) -> NDArray[np.int64]:
    """The numbers that a query of one column named `id` gives, ascending."""
    return packed_columns(snapshot, f"SELECT group_concat(id) FROM ({query})", parameters)[0]


def numbers(text: str | None) -> NDArray[np.int64]:
    """The numbers of a text that SQL has joined; none of no text."""
    return np.empty(0, np.int64) if text is None else np.fromstring(text, dtype=np.int64, sep=",")
