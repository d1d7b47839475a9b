"""Wordnets: the words of a language by their meanings, which words of all languages share.

The Open Multilingual Wordnet ties the words of some thirty languages to the synsets of WordNet 3.0. Each
language is a distribution of its own, `lagoon-data-el` for Greek, that `lagoon.build.wordnets` writes. It is
loaded when it is first needed; a language without one has no wordnet here.

A word is in normal form: folded, its parts with spaces between them, or without spaces in a script that has
none. Its senses have shares, which add up to about 1. Those of English come from counts of tagged text, those
of other languages from the counts of the synsets.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from typing import IO

import numpy as np
import numpy.typing as npt

from lagoon.errors import LagoonError

WORDNETS = frozenset(
    ("ar", "ca", "da", "el", "en", "eu", "fr", "he", "hr", "id", "it", "nl", "no", "pl", "pt", "sv", "zh")
)
"""Languages that have a distribution, by code of ISO 639-1."""
FORMAT = 1
FILE = "words.npz"
SHARE_UNIT = 255
"""Shares of senses are whole multiples of 1 / SHARE_UNIT, at least one."""
_LOADING = threading.Lock()
"""Threads that need the same wordnet read it once."""


@dataclass(frozen=True, eq=False)
class Wordnet:
    """Words of one language and their synsets.

    words     distinct normal forms, ascending
    starts    i64 (words + 1,): where the senses of each word begin, largest share first, and their end
    synsets   u32 (senses,): numbers of synsets, the same in all languages
    shares    u8 (senses,): in units of 1 / SHARE_UNIT
    """

    words: tuple[str, ...]
    starts: npt.NDArray[np.int64]
    synsets: npt.NDArray[np.uint32]
    shares: npt.NDArray[np.uint8]

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The place of each word."""
        return {word: place for place, word in enumerate(self.words)}

    @functools.cached_property
    def most_letters(self) -> int:
        """Letters of the longest word."""
        return max(map(len, self.words), default=0)

    @functools.cached_property
    def _by_synset(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Synsets in order, with the word and the share of each sense."""
        order = np.argsort(self.synsets, kind="stable")
        words = np.repeat(np.arange(len(self.words)), np.diff(self.starts))
        return self.synsets[order], words[order], self.shares[order]

    def senses(self, place: int) -> Iterator[tuple[int, float]]:
        """Yield the synsets of a word with their shares in its uses."""
        own = slice(int(self.starts[place]), int(self.starts[place + 1]))
        for synset, share in zip(self.synsets[own].tolist(), self.shares[own].tolist(), strict=True):
            yield synset, share / SHARE_UNIT

    def words_of(self, synset: int) -> Iterator[tuple[str, float]]:
        """Yield the words of a synset, each with the share of this sense in its uses."""
        synsets, words, shares = self._by_synset
        first, end = np.searchsorted(synsets, [synset, synset + 1]).tolist()
        for word, share in zip(words[first:end].tolist(), shares[first:end].tolist(), strict=True):
            yield self.words[word], share / SHARE_UNIT


def distribution_of(code: str) -> str:
    """Return the name of the distribution with the wordnet of a language."""
    return f"lagoon-data-{code}"


def has_wordnet(code: str) -> bool:
    """Return whether the wordnet of a language is installed."""
    return find_spec(_package(code)) is not None


def load_wordnet(code: str) -> Wordnet | None:
    """Return the wordnet of a language; None if it is not installed, now. Raises LagoonError if it is
    damaged, which holds for the life of the process."""
    if not has_wordnet(code):
        return None
    with _LOADING:
        found = read_installed(code)
    if isinstance(found, Exception):
        raise LagoonError(f"{distribution_of(code)} is damaged; install it again") from found
    return found


@functools.cache
def read_installed(code: str) -> Wordnet | Exception:
    """Return an installed wordnet, or the error that reading it raised. A damaged file may raise any."""
    try:
        with files(_package(code)).joinpath(FILE).open("rb") as stream:
            return read_wordnet_file(stream)
    except Exception as error:
        return error.with_traceback(None)


def read_wordnet_file(stream: IO[bytes]) -> Wordnet:
    """Read the file of a wordnet. Raises ValueError for another format."""
    with np.load(stream, allow_pickle=False) as stored:
        if int(stored["format"]) != FORMAT:
            raise ValueError("another format")
        words = tuple(stored["words"].tobytes().decode().split("\n"))
        counts, synsets, shares = stored["counts"], stored["synsets"], stored["shares"]
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if len(counts) != len(words) or len(synsets) != starts[-1] or len(shares) != starts[-1]:
        raise ValueError("lengths differ")
    return Wordnet(words, starts, synsets, shares)


def _package(code: str) -> str:
    return f"lagoon_data_{code}"
