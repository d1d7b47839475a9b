"""File of the vocabulary's normal forms, front-coded: neighbours in a sorted list share a prefix.

Line i is word i: a character that encodes the length of the prefix shared with the word before, then the rest
    of the
word. Every 32nd word is stored whole, so that a word is decoded without reading all lines before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

import numpy as np

BLOCK = 32
_NOTHING_SHARED = ord("0")
_MOST_SHARED = ord("~") - _NOTHING_SHARED


def encode_words(words: Iterable[str]) -> bytes:
    """Encode words as the content of the file, UTF-8."""
    lines = []
    before = ""
    for index, word in enumerate(words):
        shared = min(_shared_prefix_length(before, word), _MOST_SHARED) if index % BLOCK else 0
        lines.append(f"{chr(_NOTHING_SHARED + shared)}{word[shared:]}\n")
        before = word
    return "".join(lines).encode("utf-8")


def _shared_prefix_length(left: str, right: str) -> int:
    for length, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return length
    return min(len(left), len(right))


def decode_words(lines: Iterable[str]) -> Iterator[str]:
    """Decode words from consecutive lines; the first line begins a block."""
    word = ""
    for line in lines:
        word = word[: ord(line[0]) - _NOTHING_SHARED] + line[1:]
        yield word


class StoredWords(Sequence[str]):
    """Normal forms by word id, read from their file on first access: scoring uses hashes and never needs
    them."""

    def __init__(self, path: Path, n_words: int) -> None:
        self._path = path
        self._n_words = n_words
        self._opened: tuple[bytes, list[int]] | None = None

    def __len__(self) -> int:
        return self._n_words

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(self)[index]
        if not -self._n_words <= index < self._n_words:
            raise IndexError(index)
        data, starts = self._open()
        block, line = divmod(index % self._n_words, BLOCK)
        lines = data[starts[block] : starts[block + 1]].decode("utf-8").split("\n")
        return next(islice(decode_words(lines), line, None))

    def __iter__(self) -> Iterator[str]:
        return decode_words(self._open()[0].decode("utf-8").split("\n")[: self._n_words])

    def _open(self) -> tuple[bytes, list[int]]:
        """Content of the file and the start offsets of its blocks."""
        if self._opened is None:
            data = self._path.read_bytes()
            ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
            self._opened = data, [0, *(ends[BLOCK - 1 :: BLOCK] + 1).tolist(), len(data)]
        return self._opened
