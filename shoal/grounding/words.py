"""Read a text as tokens: words, and what a text states exactly.

Exact are numbers with their units, dates, times, versions, addresses, codes and single letters. Two notations
of the same thing are the same (`same`): "7,700 m" and "7.7 kilometres", "15 March 2024" and "2024-03-15".
This module is the interface to all that grounding knows of words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from lagoon.tokens import is_stop_word, without_clitic
from shoal.grounding.english import base_form
from shoal.grounding.lexing import read_run
from shoal.grounding.phrases import join_phrases
from shoal.grounding.tokens import Kind, Token, identity, make_word, same
from shoal.words.typed import stems_of

__all__ = ["Kind", "Token", "identity", "joined_keys", "read_tokens", "same", "with_inner_underscores"]

_RUN = re.compile(r"\S+")
_INNER_UNDERSCORE = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_SENTENCE_ENDS = frozenset(".!?…。！？")


def read_tokens(text: str) -> list[Token]:
    """Return the tokens of a text in order. Takes time linear in its length."""
    tokens = [token for run in _RUN.finditer(text) for token in read_run(run[0], run.start())]
    return _with_stems(join_phrases(_with_starts(tokens), text))


def with_inner_underscores(masked: str, text: str) -> str:
    """Return a text without markup, of the same length, with the underscores of names: "user_profile"."""
    if "_" not in text or len(masked) != len(text):
        return masked
    pieces, end = [], 0
    for underscore in _INNER_UNDERSCORE.finditer(text):
        pieces += [masked[end : underscore.start()], underscore[0]]
        end = underscore.end()
    return "".join([*pieces, masked[end:]])


def joined_keys(tokens: Sequence[Token]) -> dict[str, int]:
    """Return neighbouring tokens written as one, such as "xr300" for "XR 300", and the place of the first."""
    found: dict[str, int] = {}
    for place, (one, other) in enumerate(itertools.pairwise(tokens)):
        if one.form.isalnum() and other.form.isalnum():
            found.setdefault(one.form + other.form, place)
    return found


def _with_starts(tokens: list[Token]) -> list[Token]:
    """Mark the tokens that begin a sentence."""
    marked, begins = [], True
    for token in tokens:
        if token.kind is Kind.sign:
            begins = begins or token.text[-1] in _SENTENCE_ENDS or token.text == ":"
            marked.append(token)
        else:
            is_article = begins and token.kind is Kind.letter and token.text == "A"
            marked.append(replace(make_word("A", token.start) if is_article else token, initial=begins))
            begins = False
    return marked


def _with_stems(tokens: list[Token]) -> list[Token]:
    """Give words their stems as keys."""
    places = [place for place, token in enumerate(tokens) if token.kind is Kind.word]
    acronyms = {
        place
        for place in places
        if tokens[place].key.isupper()
        or (is_stop_word(tokens[place].form) and len(tokens[place].text) > 1 and tokens[place].text.isupper())
    }
    forms = [base_form(without_clitic(tokens[place].form)) for place in places]
    for place, stem in zip(places, stems_of(forms), strict=True):
        token = tokens[place]
        tokens[place] = replace(token, key=token.text.replace(".", "").upper() if place in acronyms else stem)
    return tokens
