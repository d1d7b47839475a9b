"""The language of a text, and of each passage of a document.

Scripts that one language writes decide at once. Most English texts are recognised by their stop words, and a
text in Latin letters without signs of another language, such as code or a table, is English too: of both, the
detector is never asked. It is py3langid, which is loaded when it is first needed.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

from lagoon.tokens import STOP_WORDS, fold
from shoal.support.languages import ENGLISH, LANGUAGES

SAMPLE_CHARS = 1_000
"""Characters of a text that are looked at, from its beginning."""
LEAST_WORDS = 4
"""Words of a text in Latin letters below which its language is uncertain."""
CERTAIN_ENGLISH = 0.25
"""Share of English stop words from which a text is English. Other languages have up to a tenth, English prose
over a third."""
LEAST_OTHER = 0.06
"""Share of stop words of other languages, or of words with letters beyond ASCII, from which a text may be in
another language."""
LEAST_PROBABILITY = 0.5
"""Of the detector; below it, the language is uncertain."""
WORD_CHARS = 3
"""Latin letters that say as much as one sign of a script without spaces."""

MAX_CACHED = 1_000
"""Samples whose language is kept: a document is scored anew when it has learned words."""

_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_OF_ONE_LANGUAGE = (
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
)
_KANA, _HAN = re.compile("[\u3040-\u30ff]"), re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
LEAST_KANA = 0.05
"""Share of kana among the signs of a Japanese text; Chinese has none."""
_WITHOUT_WORDS = frozenset({"ja", "th", "zh"})
"""Languages whose texts are pairs of signs to the index, which are no stop words."""
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2c00-\ud7ff]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_NAMES = {"nb": "no", "nn": "no", "bs": "hr"}
"""Codes of the detector that stand for others here."""

Detector = Callable[[str], tuple[str, float]]


@functools.cache
def _detector() -> Detector:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes 0.9 s and 120 MB

    found: Detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True).classify
    return found


@functools.cache
def stop_words(code: str) -> frozenset[str]:
    """Return the stop words of a language, folded; none of one without a list, and Shoal's own of English."""
    if code == ENGLISH:
        return STOP_WORDS
    from stop_words import LANGUAGE_MAPPING, get_stop_words  # reads files

    name = "nb" if code == "no" else code
    has_list = name in LANGUAGE_MAPPING and code not in _WITHOUT_WORDS
    words = get_stop_words(name) if has_list else ()
    return frozenset(fold(word) for word in words if " " not in word) - {""}


@functools.cache
def _others() -> frozenset[str]:
    """Stop words of ASCII letters, two or more, that are none of English."""
    words = itertools.chain.from_iterable(stop_words(code) for code in LANGUAGES if code != ENGLISH)
    return frozenset(word for word in words if len(word) > 1 and word.isascii()) - STOP_WORDS


def detect_language(text: str) -> str | None:
    """Return the code of the language of a text, None if it is uncertain."""
    sample = text[:SAMPLE_CHARS]
    if _is_beyond_latin(sample):
        return _of_script(sample) or _detected(sample)
    words = sample.lower().split()
    if len(words) < LEAST_WORDS:
        return None
    n_stop = sum(map(STOP_WORDS.__contains__, words))
    if n_stop >= CERTAIN_ENGLISH * len(words):
        return ENGLISH
    n_other = sum(word in _others() if word.isascii() else word[0].isalpha() for word in words)
    if n_other < LEAST_OTHER * len(words):
        return ENGLISH if n_stop else None
    return _detected(sample)


def language_of_script(text: str) -> str | None:
    """Return the language of a text that its script says, None if it does not."""
    sample = text[:SAMPLE_CHARS]
    return _of_script(sample) if _is_beyond_latin(sample) else None


def _is_beyond_latin(sample: str) -> bool:
    """Whether more of a text is in other scripts than in Latin letters."""
    if sample.isascii() or not _BEYOND_LATIN.search(sample):
        return False
    n_other = len(_BEYOND_LATIN.findall(sample)) + (WORD_CHARS - 1) * len(_WITHOUT_SPACES.findall(sample))
    return n_other > len(_LATIN.findall(sample))


def _of_script(sample: str) -> str | None:
    """The one language that writes the script of a text whose letters are mostly beyond Latin."""
    n_han, n_kana = len(_HAN.findall(sample)), len(_KANA.findall(sample))
    counts = {code: len(pattern.findall(sample)) for code, pattern in _OF_ONE_LANGUAGE}
    counts["ja" if n_kana > LEAST_KANA * (n_han + n_kana) else "zh"] = n_han + n_kana
    code, n = max(counts.items(), key=lambda each: each[1])
    return code if n > len(_BEYOND_LATIN.findall(sample)) / 2 else None


@functools.lru_cache(maxsize=MAX_CACHED)
def _detected(sample: str) -> str | None:
    code, probability = _detector()(sample)
    return _NAMES.get(code, code) if probability >= LEAST_PROBABILITY else None


def languages_of_passages(passages: Sequence[str], given: str | None = None) -> tuple[str, list[str]]:
    """Return the language of a document, that of most of its text, and of each of its passages.

    A passage whose language is uncertain has that of the document, and a document whose language is uncertain
    is English. `given`: the language that the caller says all of it is in.
    """
    if given is not None:
        return given, [given] * len(passages)
    found = list(map(detect_language, passages))
    sizes: Counter[str] = Counter()
    for code, passage in zip(found, passages, strict=True):
        if code is not None:
            sizes[code] += len(passage)
    most = max(sizes, key=lambda code: (sizes[code], code == ENGLISH, code)) if sizes else ENGLISH
    return most, [code or most for code in found]
