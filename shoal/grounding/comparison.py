"""Compare what a statement says exactly with the tokens of the passages that it cites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

from shoal.grounding.notations import UNITS, Unit
from shoal.grounding.statements import is_asserted
from shoal.grounding.words import NAME, Kind, Part, Token, joined_keys, make_part, same
from shoal.models.verdicts import Status

MAX_CANDIDATES = 64
"""Most places of a passage that one token of a statement is compared with."""

Lookup = tuple[object, ...]
"""A property that tokens stating the same share."""


def is_quoted(statement: Sequence[Token], source: Sequence[Token]) -> bool:
    """Whether a source has the words of a statement side by side, in order, and says them itself.

    Signs, case and white space do not count. A source does not say what it negates or doubts: "it is not true
    that the tank holds 12 litres".
    """
    wanted = [token.form for token in statement if token.kind is not Kind.sign]
    places = [place for place, token in enumerate(source) if token.kind is not Kind.sign]
    if not wanted:
        return False
    joined = "\0" + "\0".join(source[place].form for place in places) + "\0"
    sought = "\0" + "\0".join(wanted) + "\0"
    at = joined.find(sought)
    while at >= 0:
        first = joined.count("\0", 0, at)
        if is_asserted(source, places[first], places[first + len(wanted) - 1]):
            return True
        at = joined.find(sought, at + 1) if at == 0 or len(sought) > MAX_CANDIDATES else -1
    return False


def lookups(token: Token) -> Iterator[Lookup]:
    """Yield the properties of an exact token; tokens that state the same have one in common."""
    yield ("form", token.form)
    yield ("key", token.key)
    if token.kind is Kind.number:
        for value in token.values:
            yield ("value", value)
            if token.unit:
                yield ("unit", token.unit.measures, value * token.unit.factor)
    for year, month, day in token.days:
        yield ("value", Decimal(year)) if year is not None else ("day", month, day)
        yield ("day", month, day)


class Region:
    """Tokens of a passage, found by what they state."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._places: dict[Lookup, list[int]] = {}
        for place, token in enumerate(tokens):
            if token.is_exact:
                for lookup in lookups(token):
                    self._places.setdefault(lookup, []).append(place)
        for place, token in enumerate(tokens):
            if token.kind is Kind.word:
                self._places.setdefault(("word", token.key), []).append(place)
        self._forms = {token.key: place for place, token in enumerate(tokens) if token.kind is Kind.code}
        self._forms |= {token.form: place for place, token in enumerate(tokens) if token.kind is Kind.word}
        self._joined: Mapping[str, int] | None = None
        self._units: set[Unit] | None = None

    def find(self, token: Token) -> tuple[bool | None, Token] | None:
        """Return whether a token states the same as the wanted one, None if it is open, and that token."""
        open_token = None
        for lookup in lookups(token):
            for place in self._places.get(lookup, ())[:MAX_CANDIDATES]:
                is_same = same(token, self.tokens[place])
                if is_same and not self._has_unit_of(token, self.tokens[place]):
                    is_same = None
                if is_same:
                    return True, self.tokens[place]
                if is_same is None:
                    open_token = open_token or self.tokens[place]
        return None if open_token is None else (None, open_token)

    def _has_unit_of(self, token: Token, other: Token) -> bool:
        """Whether a number has the unit of another, behind it or elsewhere in the region."""
        if token.unit is None or other.unit is not None or token.kind is not Kind.number:
            return True
        if self._units is None:
            words = (UNITS.get(each.form) for each in self.tokens if each.kind is Kind.word)
            self._units = {unit for unit in words if unit is not None}
            self._units |= {each.unit for each in self.tokens if each.unit is not None}
        return token.unit in self._units

    def places(self, token: Token) -> list[int]:
        """Return the places of the tokens that state the same, at most MAX_CANDIDATES, in order."""
        if token.kind is Kind.word:
            return self._places.get(("word", token.key), [])[:MAX_CANDIDATES]
        found = {
            place for lookup in lookups(token) for place in self._places.get(lookup, ())[:MAX_CANDIDATES]
        }
        return sorted(place for place in found if same(token, self.tokens[place]))

    def find_joined(self, form: str) -> Token | None:
        """Return the token, or the first of two neighbours, that together are written like this."""
        if form in self._forms:
            return self.tokens[self._forms[form]]
        if self._joined is None:
            self._joined = joined_keys(self.tokens)
        return self.tokens[self._joined[form]] if form in self._joined else None


def check_exact(
    statement: Sequence[Token], regions: Sequence[Region], contexts: Sequence[Region]
) -> Iterator[Part]:
    """Yield the exact parts of a statement; `contexts` are titles and headings, which count as found.

    "One" is hardly ever a count, so it is no part.
    """
    wanted = [
        (place, token) for place, token in enumerate(statement) if token.is_exact and not _is_one(token)
    ]
    if not wanted:
        return
    for place, token in wanted:
        yield _check(place, token, statement, regions, contexts)


def _is_one(token: Token) -> bool:
    return (
        token.kind is Kind.number
        and token.values == (Decimal(1),)
        and token.unit is None
        and token.text.isalpha()
    )


def _check(
    place: int,
    token: Token,
    statement: Sequence[Token],
    regions: Sequence[Region],
    around: Sequence[Region],
) -> Part:
    unclear = None
    for number, region in enumerate(regions):
        found = region.find(token)
        if found is not None and found[0]:
            return make_part(token, Status.found, found[1], number)
        if found is not None:
            unclear = unclear or make_part(token, Status.unclear, found[1], number)
    if unclear is not None:
        return unclear
    for form in _joined_forms(place, token, statement):
        for number, region in enumerate(regions):
            counterpart = region.find_joined(form)
            if counterpart is not None:
                return make_part(token, Status.found, counterpart, number)
    if any(region.find(token) for region in around):
        return make_part(token, Status.found)
    return make_part(token, Status.missing)


def _joined_forms(place: int, token: Token, statement: Sequence[Token]) -> Iterator[str]:
    """A code as written without separators, and a number or letter with the word before or behind it."""
    if not token.form.isalnum():
        if token.kind is Kind.code and token.key.isalnum():
            yield token.key
        return
    yield token.form
    for step in (-1, 1):
        at = place + step
        if 0 <= at < len(statement) and statement[at].text == "-":
            at += step
        if 0 <= at < len(statement) and statement[at].form.isalnum():
            other = statement[at].form
            yield other + token.form if step < 0 else token.form + other


def check_names(
    statement: Sequence[Token], regions: Sequence[Region], has_stem: Callable[[str], bool]
) -> Iterator[Part]:
    """Yield the names of a statement: capitalised words after its first word, each once."""
    seen: set[str] = set()
    for token in statement:
        if not token.is_name or token.key in seen:
            continue
        seen.add(token.key)
        for number, region in enumerate(regions):
            if places := region.places(token):
                yield make_part(token, Status.found, region.tokens[places[0]], number, NAME)
                break
        else:
            is_known = has_stem(token.key) or has_stem(token.form)
            yield make_part(token, Status.found if is_known else Status.missing, kind=NAME)
