"""Words of a file compared with words of its document.

A word is a run of letters and digits, in normal form NFKC and without case. In scripts that put no spaces
between words, each character counts. White space, punctuation and marks are no words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_SIMPLE_WORD = re.compile(r"[^\W_]+")
# Characters besides letters of Latin, Greek and Cyrillic and usual marks: words of them need more care.
_UNUSUAL = re.compile(
    "[^\x00-\xa9\xab\xac\xae-\xb1\xb4-\xb7\xbb\xbf-\u0130\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0386-\u03ce\u0400-\u0481\u2010-\u2015\u2018-\u2022\u2039\u203a\u20ac]"
)
# Thai to Burmese, Khmer, and from the radicals to the ideographs and syllables of East Asia.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
# Inside of words and not seen: soft hyphens, joiners, marks of direction, and marks above letters.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u0300-\u036f\u064b-\u0652\u0640]"
)
# Ligatures of Arabic come in the order of reading or of drawing.
_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627\u0644]{2,40}")
_MAX_JOINED_CHARS = 60
_MAX_DIVIDED = 50_000
_MAX_JOINED = 40  # words of a file that are one of the document, such as letters set apart


def words_of(text: str) -> list[str]:
    """Return the words of a text in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    if not _UNUSUAL.search(text):
        return _SIMPLE_WORD.findall(text.casefold())
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", unicodedata.normalize("NFC", text))).casefold()
    text = _LAM_ALEF.sub(lambda match: "".join(sorted(match.group())), _INVISIBLE.sub("", text))
    return _WORD.findall(text)


@dataclass(slots=True)
class FilePart:
    """A part of a file with visible words, or one whose words cannot be counted, such as a picture.

    `kind`: such as `text`, `comment` or `picture`; `place`: in the file, for a person; may be empty.
    `words` are in order. `counts`: more words, whose order does not matter; `n_numbers`: numbers whose
    format the file does not say. `n_bytes`: of a part without words.
    """

    kind: str
    place: str = ""
    words: Sequence[str] = ()
    counts: Counter[str] = field(default_factory=Counter)
    n_numbers: int = 0
    n_bytes: int = 0

    @property
    def n_words(self) -> int:
        return len(self.words) + self.counts.total() + self.n_numbers

    def counted(self) -> Counter[str]:
        counted = Counter(self.words)
        counted.update(self.counts)
        return counted


def missing_words(parts: Iterable[FilePart], total: Counter[str], present: Mapping[str, int]) -> Counter[str]:
    """Return the words of the parts that are not among those present, with their numbers.

    `total`: the words of all parts. Words that are divided differently count as present: a word that the file
    divides at the end of a line, or the letters of a heading that are set apart.
    """
    missing = shortage(total, present)
    if not missing:
        return missing
    spare = shortage(present, total)
    if spare:
        for part in parts:
            _join(part.words, missing, spare)
        _divide(missing, spare)
    return +missing


def shortage(wanted: Mapping[str, int], present: Mapping[str, int]) -> Counter[str]:
    """Return how much more is wanted of each word than there is."""
    get = present.get
    return Counter({word: n - get(word, 0) for word, n in wanted.items() if n > get(word, 0)})


def _join(words: Sequence[str], missing: Counter[str], spare: Counter[str]) -> None:
    """Take words that follow each other in the file and are one word of the document, the longest first."""
    done = 0
    for at in [i for i, word in enumerate(words) if word in missing][:_MAX_DIVIDED]:
        if at < done or missing[words[at]] <= 0:
            continue
        joined, best = words[at], 0
        for end in range(at + 1, min(at + _MAX_JOINED, len(words))):
            joined += words[end]
            if len(joined) > _MAX_JOINED_CHARS or words[end] not in missing:
                break
            if spare.get(joined, 0) > 0 and all(
                missing[w] >= n for w, n in Counter(words[at : end + 1]).items()
            ):
                best = end + 1
        if best:
            spare["".join(words[at:best])] -= 1
            missing.subtract(words[at:best])
            done = best


def _divide(missing: Counter[str], spare: Counter[str]) -> None:
    """Take words of the file that are several words of the document."""
    for word, n in list(missing.items())[:_MAX_DIVIDED]:
        if n <= 0 or not 2 <= len(word) <= _MAX_JOINED_CHARS:
            continue
        cuts = _cuts(word, spare)
        pieces = Counter(word[a:b] for a, b in pairwise(cuts))
        times = min([n, *(spare[piece] // count for piece, count in pieces.items())]) if pieces else 0
        if times > 0:
            missing[word] -= times
            for piece, count in pieces.items():
                spare[piece] -= times * count


def _cuts(word: str, spare: Counter[str]) -> list[int]:
    """Return where to cut a word into as few spare words as possible; empty if that cannot be."""
    best: list[list[int] | None] = [[0]] + [None] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(end):
            before = best[start]
            if before is not None and spare[word[start:end]] > 0:
                known = best[end]
                if known is None or len(before) + 1 < len(known):
                    best[end] = [*before, end]
    return best[-1] or []
