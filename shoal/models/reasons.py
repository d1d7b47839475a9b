"""Why a passage is a result: reasons that can be shown, and the sentence that they make."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple


class ReasonKind(enum.StrEnum):
    """What query and passage have in common."""

    name = "name"
    code = "code"
    phrase = "phrase"
    rare_word = "rare_word"
    word = "word"
    heading = "heading"
    tag = "tag"
    topic = "topic"
    learned = "learned"
    related_words = "related_words"
    meaning = "meaning"
    around = "around"
    feedback = "feedback"
    background = "background"
    pin = "pin"


QUOTED = frozenset((ReasonKind.phrase, ReasonKind.rare_word, ReasonKind.word, ReasonKind.heading))
"""Kinds whose items are words as the passage writes them."""
JOINED_BY_AND = QUOTED | {ReasonKind.name, ReasonKind.code, ReasonKind.tag}


class Reason(NamedTuple):
    """A reason of a result: `lead` and `items` read as a part of a sentence."""

    kind: Annotated[
        ReasonKind,
        "`name`, `code`, `phrase`, `rare_word` and `word` are in the text of the passage, `heading` in its "
        "title, headings or path; a `phrase` has several words side by side; `topic` is a label of query and "
        "passage; `learned` the same, by learned words alone; `related_words` are pairs of a word of the "
        "query and one of the passage",
    ]
    lead: Annotated[str, "what is said of the items, such as `holds`"]
    items: Annotated[tuple[str, ...], "names, words as the passage has them, or topics"] = ()


Reasons = Annotated[tuple[Reason, ...], "the parts of `why`, the surest first"]


def sentence_of(reasons: Iterable[Reason]) -> str:
    """Return the reasons as one sentence, with words of the passage between asterisks."""
    return "".join(f"*{text}*" if is_quoted else text for text, is_quoted in pieces_of(reasons))


def pieces_of(reasons: Iterable[Reason]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the sentence of some reasons, and whether each is a word of the passage."""
    for number, (kind, lead, items) in enumerate(reasons):
        yield f"; {lead}" if number else lead, False
        # Names of topics have an "and" of their own.
        last_joint = " and " if kind in JOINED_BY_AND else ", "
        for place, item in enumerate(items):
            yield " " if not place else last_joint if place == len(items) - 1 else ", ", False
            yield item, kind in QUOTED
