"""Clauses of a sentence: where they end, and whether they are negated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.grounding.english import (
    CLAUSE_OPENERS,
    CLAUSE_SIGNS,
    DOUBTS,
    SENTENCE_SIGNS,
    is_adverb_of_negation,
    is_negated_form,
)
from shoal.grounding.words import NEGATION, Kind, Part, Token, identity, make_part
from shoal.models.verdicts import Status

MAX_PLACES = 16
"""Most places of a word that are compared, and most tokens before it among which its negator is sought."""

Clause = tuple[int, int]
"""The first token of a clause, and the one behind its last."""


def clauses(tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses of a sentence: they end at a comma or other sign, and before "and", "which" …"""
    starts = [0]
    for place, token in enumerate(tokens):
        if token.kind is Kind.sign and token.text in CLAUSE_SIGNS:
            starts.append(place + 1)
        elif token.kind is Kind.word and token.form in CLAUSE_OPENERS:
            starts.append(place)
    ends = [*starts[1:], len(tokens)]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def is_meaningful(token: Token) -> bool:
    """Whether a token says something: no sign, stop word or negator."""
    return token.kind is not Kind.sign and not token.is_common and not is_negated_form(token.form)


def negated_places(tokens: Sequence[Token]) -> set[int]:
    """Return the places of meaningful tokens in negated clauses.

    "Not" at the end of its clause, as in "he did not, however, go", negates the next clause too. "It is not
    true that" negates the clause behind it.
    """
    negated: set[int] = set()
    carried = doubted = False
    for start, end in clauses(tokens):
        negators = [place for place in range(start, end) if is_negated_form(tokens[place].form)]
        doubts = sum(tokens[place].form in DOUBTS for place in range(start, end))
        carried = carried or (doubted and tokens[start].form == "that")
        doubted = (len(negators) + doubts) % 2 == 1
        meaningful = [place for place in range(start, end) if is_meaningful(tokens[place])]
        if len(negators) % 2 != carried:
            negated.update(meaningful)
        if negators:
            ends_clause = not any(place > negators[-1] for place in meaningful)
            carried = ends_clause and is_adverb_of_negation(tokens[negators[-1]].form)
        elif meaningful:
            carried = False
    return negated


def compare_negation(statement: Sequence[Token], source: Sequence[Token], passage: int) -> Iterator[Part]:
    """Yield each clause of a statement that is negated where most of its words in the source are not, or the
    reverse."""
    negated_in_source = negated_places(source)
    in_source: dict[str, list[int]] = {}
    for place, token in enumerate(source):
        if is_meaningful(token):
            in_source.setdefault(identity(token), []).append(place)
    negated = negated_places(statement)
    for start, end in clauses(statement):
        known = [
            (place, in_source[identity(statement[place])])
            for place in range(start, end)
            if is_meaningful(statement[place]) and identity(statement[place]) in in_source
        ]
        differing = [
            (own, others[0])
            for own, others in known
            if all((own in negated) is not (other in negated_in_source) for other in others[:MAX_PLACES])
        ]
        if 2 * len(differing) > len(known):
            own, other = differing[0]
            yield make_part(
                _negator_before(statement, own),
                Status.differs,
                _negator_before(source, other),
                passage,
                NEGATION,
            )


def _negator_before(tokens: Sequence[Token], place: int) -> Token:
    """The last negator before a token in its sentence, or the token."""
    for token in reversed(tokens[max(place - MAX_PLACES, 0) : place]):
        if token.kind is Kind.sign and token.text in SENTENCE_SIGNS:
            break
        if is_negated_form(token.form):
            return token
    return tokens[place]


def is_asserted(source: Sequence[Token], first: int, last: int) -> bool:
    """Whether a source says the tokens first..last itself.

    It neither negates nor doubts them, and the last is not the beginning of a range.
    """
    before = list(_before_in_sentence(source, first))
    for place, token in enumerate(before):
        if token.kind is Kind.sign and token.text in CLAUSE_SIGNS and token.text != ",":
            break
        if is_negated_form(token.form) or token.form in DOUBTS:
            return False
        opens_clause = token.form in CLAUSE_OPENERS and token.form != "that"
        if opens_clause or (token.text == "," and place > 0):
            break
    if last + 2 < len(source) and source[last].kind is Kind.number and source[last + 2].kind is Kind.number:
        return source[last + 1].text not in ("-", "–", "—")
    return True


def _before_in_sentence(source: Sequence[Token], first: int) -> Iterator[Token]:
    for place in range(first - 1, -1, -1):
        if source[place].kind is Kind.sign and source[place].text in SENTENCE_SIGNS:
            return
        yield source[place]
