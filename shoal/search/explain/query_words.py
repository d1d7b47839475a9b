"""A query word by word: what each is, which reefs it adds to, and what may have been meant instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lagoon.tokens import without_clitic
from shoal.learning.word_details import LearnedWord, find, normal_form
from shoal.search.spelling import count_chunks, suggest
from shoal.storage.database import Snapshot

REEFS_PER_WORD = 5
"""Reefs named for each word; a word has up to a dozen, of which the last say little."""
MAX_LOOKED_UP = 64
"""Different words of a query that are looked up in the library, and unknown ones that something is suggested for: a
query that is a whole page would take seconds."""
MAX_SUGGESTED_FOR = 5

CUSTOM, LEARNED = "custom", "learned"
"""What the scorer calls a word it was given, and what people call it."""


@dataclass(frozen=True, slots=True)
class WordReef:
    """What a word adds to a reef; comparable within one query."""

    reef_id: int
    reef_name: str
    contribution: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query. `query[start_char:end_char] == text`.

    `status`: `known`, `learned`, `unknown`, `stop` (too common to say anything) or `number`. `word` is the form it
    was found under in the vocabulary. `reefs`: strongest first. `learned`: what is known of a learned word, None for
    others. `n_chunks`: how many chunks hold it, in any inflection; None for stop words, and beyond the first
    MAX_LOOKED_UP words. `suggestions`: for a word that neither the vocabulary nor any chunk has.
    """

    text: str
    start_char: int
    end_char: int
    status: str
    word: str | None
    reefs: tuple[WordReef, ...]
    learned: LearnedWord | None = None
    n_chunks: int | None = None
    suggestions: tuple[str, ...] = ()


def explain_words(query: str, scorer: Any, snapshot: Snapshot) -> tuple[Word, ...]:
    """Every word of a query in order. `scorer` knows its learned words."""
    names = {reef.id: reef.name for reef in scorer.reefs}
    matches = scorer.explain_words(query)
    custom = [match.word for match in matches if match.status == CUSTOM]
    learned = find(snapshot, scorer, custom) if custom else {}
    counts = _counts(snapshot, [match.token for match in matches if match.status != "stop"])
    strange = [match.token for match in matches if match.status == "unknown" and counts.get(match.token) == 0]
    meant = {
        token: suggest(without_clitic(normal_form(token)), snapshot, scorer)
        for token in list(dict.fromkeys(strange))[:MAX_SUGGESTED_FOR]
    }
    return tuple(
        Word(
            text=match.token,
            start_char=match.start,
            end_char=match.end,
            status=LEARNED if match.status == CUSTOM else match.status,
            word=match.word,
            reefs=tuple(
                WordReef(reef_id, names[reef_id], round(float(contribution), 6))
                for reef_id, contribution in sorted(match.reefs, key=lambda pair: (-pair[1], pair[0]))[
                    :REEFS_PER_WORD
                ]
            ),
            learned=learned.get(match.word),
            n_chunks=counts.get(match.token) if match.status != "stop" else None,
            suggestions=meant.get(match.token, ()) if match.status == "unknown" else (),
        )
        for match in matches
    )


def _counts(snapshot: Snapshot, tokens: list[str]) -> dict[str, int]:
    return {token: count_chunks(snapshot, token) for token in list(dict.fromkeys(tokens))[:MAX_LOOKED_UP]}
