"""Values as columns store them: compact JSON, passages that a caller has cut, and packed numbers.

The context of a word is stored as bytes, a third of the size of JSON: the width of a sum in bytes (1, 2, 4
or 8), the reefs, a byte each, then their sums, little-endian.

Long integer columns are read packed into one row: each row of SQLite costs half a microsecond in Python and
may wait for other threads. Concatenated by SQL, `SELECT group_concat(a), group_concat(b) ...`, a hundred
thousand numbers arrive in a few milliseconds while other threads run.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.models.documents import Passage
from shoal.models.rights import Rights
from shoal.storage.database import Snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def compact_json(value: Any) -> str:
    """Format compact JSON with unescaped letters; headings and metadata are searched in this form."""
    if isinstance(value, Mapping):
        value = dict(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def passages_to_json(passages: Sequence[Passage]) -> str | None:
    """Return passages as stored; None for a text that is not cut yet."""
    return compact_json(passages) if passages else None


def passages_from_json(text: str | None) -> tuple[Passage, ...]:
    """Return stored passages."""
    return () if text is None else tuple(map(Passage.of_row, json.loads(text)))


def rights_to_json(rights: Rights | None) -> str | None:
    """Return rights as stored; None for a document without rights."""
    return None if rights is None else compact_json(rights._asdict())


def rights_from_json(text: str | None) -> Rights | None:
    """Return stored rights."""
    if text is None:
        return None
    stored = json.loads(text)
    return Rights(None if stored["allow"] is None else tuple(stored["allow"]), tuple(stored["deny"]))


_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_ENDS = ((1 << 8, 1), (1 << 16, 2), (1 << 32, 4))


def pack_context(reefs: Sequence[int], sums: Sequence[int]) -> bytes:
    """Pack a context: reefs 0..255, and their sums, from 0."""
    if not reefs:
        return b""
    largest = max(sums)
    width = next((width for end, width in _ENDS if largest < end), 8)
    n = len(reefs)
    return struct.pack(f"<B{n}B{n}{_CODES[width]}", width, *reefs, *sums)


def unpack_contexts(contexts: Sequence[bytes]) -> tuple[Ints, Ints, Ints]:
    """Unpack n contexts: the number of reefs of each, (n,), then the reefs and sums of all, in order."""
    import numpy as np

    data = np.frombuffer(b"".join(contexts), dtype=np.uint8)
    sizes = np.fromiter(map(len, contexts), dtype=np.int64, count=len(contexts))
    starts = np.cumsum(sizes) - sizes
    widths = np.zeros(len(sizes), dtype=np.int64)
    widths[sizes > 0] = data[starts[sizes > 0]]
    lengths = np.maximum(sizes - 1, 0) // (1 + widths)
    reefs = data[_places(starts + 1, lengths)].astype(np.int64)
    sums = np.zeros(len(reefs), dtype=np.int64)
    for width in _CODES:
        has_width = widths == width
        firsts, counts = (starts + 1 + lengths)[has_width], lengths[has_width]
        sums[np.repeat(has_width, lengths)] = data[_places(firsts, counts * width)].view(f"<u{width}")
    return lengths, reefs, sums


def _places(firsts: Ints, counts: Ints) -> Ints:
    """The places firsts[i], firsts[i] + 1, ... of counts[i] bytes, for each i."""
    import numpy as np

    ends = np.cumsum(counts)
    places: Ints = np.arange(counts.sum()) + np.repeat(firsts - (ends - counts), counts)
    return places


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
