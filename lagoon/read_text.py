"""A text read with the base vocabulary, in memory and as bytes: scoring it again needs neither parsing nor
tokenizing."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import CompoundMatches
from lagoon.reading import BaseReading
from lagoon.tokens import TokenStream
from lagoon.vocabulary import Resolution

# Number of arrays; then type and length of each.
_N_ARRAYS = struct.Struct("<H")
_ARRAY = struct.Struct("<cQ")
_ENCODING = "utf-8", "surrogatepass"


@dataclass(frozen=True)
class ReadText:
    """Sentence i is tokens bounds[i]..bounds[i+1]-1 of `base`, which lacks the offsets of its tokens."""

    base: BaseReading
    bounds: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """The text as bytes: about half the size of an English text. Word ids are those of lagoon's data."""
        tokens, forms, compounds = self.base.tokens, self.base.forms, self.base.compounds
        return pack_arrays(
            [
                np.frombuffer("\n".join(tokens.forms).encode(*_ENCODING), dtype=np.uint8),
                tokens.ids,
                np.packbits(tokens.joined),
                forms.kinds,
                forms.words + 1,
                compounds.starts,
                compounds.lengths,
                compounds.words,
                np.diff(self.bounds, prepend=0),
            ]
        )

    @staticmethod
    def from_bytes(data: bytes) -> "ReadText":
        """The text that `to_bytes` of the same release has written with the same data."""
        names, ids, joined, kinds, words, starts, lengths, compounds, sizes = unpack_arrays(data)
        forms = names.tobytes().decode(*_ENCODING).split("\n") if len(names) else []
        nowhere = np.empty(0, dtype=np.int64)
        tokens = TokenStream(
            forms,
            ids.astype(np.int32),
            nowhere,
            nowhere,
            np.unpackbits(joined, count=len(ids)).astype(np.bool_),
        )
        # Only the search for base compounds, which are found already, needs the parts of forms.
        resolution = Resolution(kinds, words.astype(np.int64) - 1, nowhere)
        matches = CompoundMatches(
            starts.astype(np.int64), lengths.astype(np.int64), compounds.astype(np.int64)
        )
        return ReadText(BaseReading(tokens, resolution, matches), np.cumsum(sizes, dtype=np.int64))


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Arrays of whole numbers from 0 to 2**32 - 1 as bytes, each in the narrowest type that fits."""
    narrow = [
        array.astype(np.min_scalar_type(int(array.max(initial=0))).newbyteorder("<"), copy=False)
        for array in arrays
    ]
    heads = [_ARRAY.pack(array.dtype.char.encode(), len(array)) for array in narrow]
    return b"".join([_N_ARRAYS.pack(len(narrow)), *heads, *(array.tobytes() for array in narrow)])


def unpack_arrays(data: bytes) -> list[NDArray[Any]]:
    """The arrays that `pack_arrays` has packed. Raises ValueError if they are cut off."""
    (n_arrays,) = _N_ARRAYS.unpack_from(data)
    at = _N_ARRAYS.size + n_arrays * _ARRAY.size
    arrays: list[NDArray[Any]] = []
    for index in range(n_arrays):
        kind, length = _ARRAY.unpack_from(data, _N_ARRAYS.size + index * _ARRAY.size)
        array = np.frombuffer(data, np.dtype(kind.decode()).newbyteorder("<"), length, at)
        arrays.append(array)
        at += array.nbytes
    return arrays
