"""Choose the tokens that may be learned as words.

A candidate is a token the base vocabulary doesn't know, in its normal form: lower case, diacritics folded,
without a genitive ("darcy's" counts for "darcy"). Names are candidates like any other word. An inner
apostrophe belongs to the word ("o'brien"). Hyphens separate tokens that are still adjacent, so a hyphenated
form is a candidate compound. Regular plurals are observed as separate forms; `vocabulary` adds them to their
singular if the corpus has both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lagoon.tokens import without_clitic

# A longer word is encoded data; the longest words of medical and chemical English have about 45 letters.
MAX_WORD_CHARS = 48

# Words of closed classes and of web markup that are neither in WordNet nor in the stop words. They occur in
# every context, or only in text that was not cleaned.
_FUNCTION_WORDS = """
    'tis 'twas ah albeit alongside although alway amid amidst among amongst anybody anyhow anyone anything
    anytime anyway anywhere aught aye because beneath beside besides beyond could've couldn't couldst despite
    didst dost doth e'er eh ere everybody everyone everything everywhere hadst hast hath hee hence hereafter
    hereby herein hereof hereto heretofore hereupon himselfe hither hitherto howbeit howsoever inasmuch
    insofar insomuch lest lo might've mine moreover must've nary naught ne'er nevertheless nobody nonetheless
    nothing notwithstanding nought o'er oh oneself onto ought oughtn't ours ourself quoth saith seldom self
    selfe shalt shee should've shouldst since somebody someone something sometime somewhere thee theirs
    themselves thence thereafter thereat thereby therefrom therein thereof thereon thereto theretofore
    thereunto thereupon therewith thine thither thou though thy thyself till tis toward towards twas
    underneath unless unlike unto upwards versus via vis wast whatever whatsoever whence whenever whensoever
    whereas whereat whereby wherefore wherein whereof whereon wheresoever whereto whereupon wherever wherewith
    whether whichever whilst whither whoever whomever whomsoever whosoever wilt would've wouldst y'all ye yon
    yours
"""
_MARKUP = "amp com edu gov gt href html htm http https img lt nbsp org pdf php quot src url utf www xml"
_EXCLUDED = frozenset((_FUNCTION_WORDS + _MARKUP).split())

_INDEXED = re.compile(r"[a-z]\d|\d[a-z]")
_ROMAN = re.compile(r"m{0,4}(?:cm|cd|d?c{0,4})(?:xc|xl|l?x{0,4})(?:ix|iv|v?i{0,4})(?:th|st|nd|rd)?")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|d)")
_PAGE_MARK = re.compile(r"(?:pp|pg|pgs|page|fig|figs|vol|chap|ch|sec|art|no|nos|col)\d+[a-z]?")
_QUANTITY = re.compile(
    r"\d+(?:x\d+)*(?:mm|cm|km|m|in|ft|g|kg|mg|ml|l|hz|khz|mhz|kb|mb|gb|am|pm|h|hr|hrs|min|sec|deg|degree|x"
    r"|year|day)?"
)
_HEX = re.compile(r"0x[0-9a-f]+|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}")
_LONG_DIGITS = re.compile(r"\d{5}")
_RUN = re.compile(r"(.)\1\1")
_CHANGE = re.compile(r"\d(?=[a-z])|[a-z](?=\d)")

# "il17ra" and "h1n1" change between letters and digits up to three times, serial numbers more often.
_MOST_CHANGES = 3


def is_candidate(form: str) -> bool:
    """Whether an unknown normal form may be a word.

    Excludes single letters, also with an index ("x1"), roman numerals, ordinals, quantities, page marks,
    hexadecimal and long numbers, remains of markup, letters repeated three times ("aaargh"), and function
    words.
    """
    letters = sum(map(str.isalpha, form))
    if letters < 1 or not 2 <= len(form) <= MAX_WORD_CHARS or form in _EXCLUDED:
        return False
    if form.isalpha():
        return not (_ROMAN.fullmatch(form) or _RUN.search(form))
    return not (
        _RUN.search(form.strip("0123456789"))
        or _INDEXED.fullmatch(form)
        or _ORDINAL.fullmatch(form)
        or _PAGE_MARK.fullmatch(form)
        or _QUANTITY.fullmatch(form)
        or _HEX.fullmatch(form)
        or _ROMAN.fullmatch(form)
        or _LONG_DIGITS.search(form)
        or len(_CHANGE.findall(form)) > _MOST_CHANGES
        or (letters == 1 and form.replace(".", "").isalpha())
    )


def candidate_words(forms: Sequence[str], indices: Sequence[int]) -> dict[int, str]:
    """Map those of the unknown forms `indices` (into `forms`) that may be words to the word they count
    for."""
    words: dict[int, str] = {}
    for index in indices:
        word = without_clitic(forms[index]).rstrip("'")
        if is_candidate(word):
            words[index] = word
    return words
