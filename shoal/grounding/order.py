"""Order: whether a statement puts the words that it shares with a sentence together as the sentence does.

The shared words are compared in pairs. Two that stand the other way round are explained if the change keeps
the meaning: a phrase moved with its preposition ("In 1815 he lost", "He lost in 1815"), the items of a list
changed places, a passive became active. What is not explained is reported: the comparison does not guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from shoal.grounding.comparison import Region
from shoal.grounding.english import (
    BE,
    CLAUSE_OPENERS,
    COORDINATORS,
    PERSONS,
    PREPOSITIONS,
    SENTENCE_SIGNS,
    is_negated_form,
    is_participle,
    opposites_of,
)
from shoal.grounding.statements import is_meaningful
from shoal.grounding.words import COMPARATIVE, NAME, ORDER, Kind, Part, Token, make_part
from shoal.models.verdicts import Status

MAX_ANCHORS = 150
"""Most shared words of a statement and a sentence whose order is compared; the pairs grow with its square."""
MAX_TOKENS = 2_000
"""Most tokens of a statement that is compared in order."""
MAX_STEPS = 6
"""How far the preposition of a phrase stands before its first shared word."""
SEGMENT_SIGNS = SENTENCE_SIGNS | frozenset(';:—–"“”«»')
PARTING_SIGNS = SENTENCE_SIGNS | frozenset(";:")
MAX_LIST = 60
"""Most tokens between two items of a list."""
MAX_ITEM = 2
"""Most words of an item between them."""
_ADVERB = "-ly"
_AUXILIARIES = BE | frozenset(
    [
        "have",
        "has",
        "had",
        "having",
        "will",
        "would",
        "can",
        "could",
        "may",
        "might",
        "shall",
        "should",
        "must",
        "do",
        "does",
        "did",
    ]
)
_DETERMINERS = frozenset(
    [
        "the",
        "a",
        "an",
        "his",
        "her",
        "its",
        "their",
        "this",
        "these",
        "those",
        "that",
        "our",
        "my",
        "your",
        "some",
        "any",
        "all",
        "both",
        "each",
    ]
)


class _Anchor(NamedTuple):
    """A token that a statement and a sentence share: its places in both."""

    own: int
    other: int


class _Block(NamedTuple):
    """Shared tokens that stand side by side in both texts, from `first` to `last`."""

    first: _Anchor
    last: _Anchor


@dataclass(frozen=True)
class _Text:
    """Tokens, and the place of each in the order of an active sentence."""

    tokens: Sequence[Token]
    rank: Sequence[int]

    def has_clause_end(self, last: int, first: int) -> bool:
        """Whether a clause ends between two places; "and" and "than" may join its words."""
        return self._clause_ends[first] > self._clause_ends[last + 1]

    def has_parting(self, one: int, other: int) -> bool:
        """Whether a sign such as a semicolon stands between two places."""
        return self._partings[other] > self._partings[one]

    @cached_property
    def _clause_ends(self) -> list[int]:
        ends = (_ends_phrase(token) and token.form != "than" for token in self.tokens)
        return [0, *accumulate(ends)]

    @cached_property
    def _partings(self) -> list[int]:
        return [0, *accumulate(token.text in PARTING_SIGNS for token in self.tokens)]

    def governor(self, place: int) -> str | None:
        """The preposition or clause opener of the phrase that begins at a place."""
        for step, before in enumerate(range(place - 1, -1, -1)):
            token = self.tokens[before]
            if token.form in PREPOSITIONS or (
                token.form in CLAUSE_OPENERS and token.form not in COORDINATORS
            ):
                return token.form if token.form != "that" else None
            if (
                step >= MAX_STEPS
                or token.kind is Kind.sign
                or is_meaningful(token)
                or token.form in _AUXILIARIES
            ):
                break
        token = self.tokens[place]
        if token.form.endswith("ly") and token.text.islower():
            return _ADVERB
        return Kind.date.value if token.kind is Kind.date else None


def compare_order(
    statement: Sequence[Token], region: Region, taken: set[int], passage: int
) -> Iterator[Part]:
    """Yield what a statement says in another order than a sentence, or in place of something else in it.

    `taken` are places of the statement that other sentences have; those that this one has are added. A word
    that the sentence has several times is taken behind its predecessor; if that differs, next to it.
    """
    if len(statement) > MAX_TOKENS:
        yield make_part(statement[0], Status.unclear, kind=ORDER)
        return
    chosen: list[Part] = []
    segments: list[list[_Anchor]] = []
    for is_near in (False, True):
        segments = _segments(statement, region, taken, is_near=is_near)
        parts = list(_compare_segments(statement, region, segments, taken, passage))
        if not parts or not is_near:
            chosen = parts
        if not parts:
            break
    yield from chosen
    taken.update(anchor.own for anchors in segments for anchor in anchors)


def _compare_segments(
    statement: Sequence[Token],
    region: Region,
    segments: Sequence[Sequence[_Anchor]],
    taken: Set[int],
    passage: int,
) -> Iterator[Part]:
    for number, anchors in enumerate(segments):
        if len(anchors) > MAX_ANCHORS:
            first = anchors[0]
            yield make_part(statement[first.own], Status.unclear, region.tokens[first.other], passage, ORDER)
            continue
        own, other = _active(statement, region.tokens, anchors)
        yield from _exchanges(own, other, anchors, passage)
        ends = (number == 0 and not taken, number == len(segments) - 1 and not taken)
        yield from _substitutes(own, other, anchors, taken, ends, passage)


def _segments(
    statement: Sequence[Token], region: Region, taken: Set[int], *, is_near: bool
) -> list[list[_Anchor]]:
    """The tokens that each segment of a statement shares with a sentence, in order.

    A colon and the like end a segment. Of several places in the sentence, a token takes the first behind its
    predecessor's, so that what stands in order is found in order; or the nearest. A word may stand in several
    segments, an exact token only once.
    """
    used: set[int] = set()
    segments: list[list[_Anchor]] = [[]]
    last = -1
    for place, token in enumerate(statement):
        if token.kind is Kind.sign and token.text in SEGMENT_SIGNS:
            used = {each for each in used if region.tokens[each].is_exact}
            segments.append([])
            last = -1
        if place in taken or not (is_meaningful(token) or token.form in PERSONS):
            continue
        places = [each for each in region.places(token) if each not in used]
        if places:
            last = _nearest(places, last) if is_near else _next(places, last, token, region)
            used.add(last)
            segments[-1].append(_Anchor(place, last))
    return [anchors for anchors in segments if anchors]


def _nearest(places: Sequence[int], last: int) -> int:
    return min(places, key=lambda place: abs(place - last))


def _next(places: Sequence[int], last: int, token: Token, region: Region) -> int:
    """The first place behind the last one, those written alike first."""
    alike = [each for each in places if region.tokens[each].form == token.form]
    if alike and alike[-1] < last:
        return alike[0]
    return next((each for each in (*alike, *places) if each > last), places[0])


def _active(
    statement: Sequence[Token], source: Sequence[Token], anchors: Sequence[_Anchor]
) -> tuple[_Text, _Text]:
    """Both texts with ranks; a passive is ranked as active where the other text is active."""
    ranks = list(range(len(statement))), list(range(len(source)))
    for anchor in anchors:
        own, other = _passive(statement, anchor.own), _passive(source, anchor.other)
        if own and not other and _is_active(source, anchor.other):
            _rank_as_active(ranks[0], statement, anchor.own)
        elif other and not own and _is_active(statement, anchor.own):
            _rank_as_active(ranks[1], source, anchor.other)
    return _Text(statement, ranks[0]), _Text(source, ranks[1])


def _passive(tokens: Sequence[Token], place: int) -> bool:
    """Whether a token is the participle of a passive: behind a form of "be", or before "by"."""
    if tokens[place].kind is not Kind.word or not is_participle(tokens[place].form):
        return False
    before = [token.form for token in tokens[max(place - 3, 0) : place]]
    for at in range(len(before) - 1, -1, -1):
        if before[at] in BE:
            return True
        if before[at] in _DETERMINERS or before[at] in PREPOSITIONS or before[at] in CLAUSE_OPENERS:
            break
    return place + 1 < len(tokens) and tokens[place + 1].form == "by"


def _is_active(tokens: Sequence[Token], place: int) -> bool:
    """Whether a verb has an object behind it."""
    if place + 1 >= len(tokens):
        return False
    after = tokens[place + 1]
    return after.form in _DETERMINERS or (
        after.kind is not Kind.sign
        and after.form not in PREPOSITIONS
        and after.form not in CLAUSE_OPENERS
        and not after.form.endswith("ly")
    )


def _rank_as_active(rank: list[int], tokens: Sequence[Token], verb: int) -> None:
    """Rank the agent behind "by" first, then the verb, then the subject, which is the patient."""
    start = verb
    while start and not _ends_phrase(tokens[start - 1]):
        start -= 1
    by = next(
        (
            place
            for place in range(verb + 1, min(verb + 16, len(tokens)))
            if tokens[place].form == "by" or tokens[place].text in SENTENCE_SIGNS
        ),
        None,
    )
    end = by or verb
    if by is not None and tokens[by].form == "by":
        end = by + 1
        while end < len(tokens) and not (
            _ends_phrase(tokens[end]) or (tokens[end].form in PREPOSITIONS and tokens[end].form != "of")
        ):
            end += 1
    else:
        by = end = verb + 1
    moved = [*range(by, end), verb, *range(start, verb), *range(verb + 1, by)]
    for new, place in enumerate(moved, start=start):
        rank[place] = new


def _ends_phrase(token: Token) -> bool:
    return (token.kind is Kind.sign and token.text not in ("-", "'", "’")) or (
        token.form in CLAUSE_OPENERS and token.form not in COORDINATORS
    )


def _exchanges(own: _Text, other: _Text, anchors: Sequence[_Anchor], passage: int) -> Iterator[Part]:
    """Yield the blocks of shared words that changed places in a way that is not explained."""
    in_own = sorted(anchors, key=lambda anchor: own.rank[anchor.own])
    in_other = {
        anchor: at for at, anchor in enumerate(sorted(anchors, key=lambda anchor: other.rank[anchor.other]))
    }
    blocks: list[_Block] = []
    for anchor in in_own:
        if blocks and in_other[anchor] == in_other[blocks[-1].last] + 1:
            blocks[-1] = blocks[-1]._replace(last=anchor)
        else:
            blocks.append(_Block(anchor, anchor))
    if len(blocks) < 2:
        return
    reported: set[int] = set()
    for one, first in enumerate(blocks):
        for two in range(one + 1, len(blocks)):
            second = blocks[two]
            if in_other[first.first] < in_other[second.first] or two in reported:
                continue
            is_next = (two == one + 1, in_other[first.first] == in_other[second.last] + 1)
            if _is_exchange(own, other, first, second, is_next):
                reported.add(two)
                moved, counterpart = own.tokens[second.first.own], other.tokens[second.first.other]
                is_sure = _is_figure(moved) and _is_figure(own.tokens[first.first.own])
                status = Status.differs if is_sure else Status.unclear
                yield make_part(moved, status, counterpart, passage, ORDER)


def _is_exchange(own: _Text, other: _Text, first: _Block, second: _Block, is_next: tuple[bool, bool]) -> bool:
    """Whether two blocks that stand the other way round have each other's role.

    Neighbours have it if each stands behind the preposition of the other: "from A to B". Two blocks with a
    third between them, the verb of both, have it unless one of them moved with its preposition, or they stand
    in two clauses. Figures and names belong to what stands beside them in any clause.
    """
    one, two = (
        (own.governor(block.first.own), other.governor(block.first.other)) for block in (first, second)
    )
    if _are_listed(own.tokens, first.last.own, second.first.own) and _are_listed(
        other.tokens, second.last.other, first.first.other
    ):
        return False
    moves = [governors[0] for governors in (one, two) if governors[0] and governors[0] == governors[1]]
    is_parted = other.has_parting(second.first.other, first.first.other)
    if any(is_next):
        return (one[0] != one[1] and one == two[::-1]) or (bool(moves) and is_parted)
    if moves and not is_parted:
        return len(moves) == 2 and moves[0] == moves[1]
    if _is_figure(own.tokens[first.last.own]) and _is_figure(own.tokens[second.first.own]):
        return True
    return not (
        own.has_clause_end(first.last.own, second.first.own)
        or other.has_clause_end(second.last.other, first.first.other)
    )


def _is_figure(token: Token) -> bool:
    """Whether a token is exact or a name."""
    return token.is_exact or token.is_name


def _are_listed(tokens: Sequence[Token], last: int, first: int) -> bool:
    """Whether two items belong to one list: only "and", commas and short items stand between them.

    Only figures may stand between figures: in "the red barrel holds 40 and the blue one 65" they are no list.
    """
    between = tokens[last + 1 : first] if first - last <= MAX_LIST else []
    if not any(_links(token) for token in between):
        return False
    are_exact = tokens[last].is_exact and tokens[first].is_exact
    length = 0
    for token in between:
        length = 0 if _links(token) else length + is_meaningful(token)
        is_item = is_meaningful(token) and length <= MAX_ITEM and not is_participle(token.form)
        if not (_links(token) or token.form in _DETERMINERS or token.text == "-" or is_item):
            return False
        if is_negated_form(token.form) or (are_exact and is_item and not token.is_exact):
            return False
    return True


def _links(token: Token) -> bool:
    return token.form in COORDINATORS or token.text == ","


def _substitutes(
    own: _Text,
    other: _Text,
    anchors: Sequence[_Anchor],
    taken: Set[int],
    ends: tuple[bool, bool],
    passage: int,
) -> Iterator[Part]:
    """Yield names and exact tokens in whose place, between the same shared words, the sentence has others.

    `ends`: whether the beginnings and the ends of both texts stand for each other.
    """
    edges = _in_order(anchors)
    moved = (anchor for anchor in anchors if own.governor(anchor.own) == other.governor(anchor.other))
    shared_own = {anchor.own for anchor in (*edges, *moved)} | taken
    shared_other = {anchor.other for anchor in anchors}
    for anchor in edges:
        yield from _opposite_pairs(
            own.tokens[anchor.own - 1 : anchor.own], other.tokens[anchor.other - 1 : anchor.other], passage
        )
    yield from _skipped(own, other, edges, passage)
    if ends[0]:
        edges.insert(0, _Anchor(-1, -1))
    if ends[1]:
        edges.append(_Anchor(len(own.tokens), len(other.tokens)))
    for before, after in pairwise(edges):
        extra: dict[str, list[Token]] = {}
        for place in range(after.other - 1, before.other, -1):
            if place not in shared_other and (kind := _class_of(other.tokens[place])):
                extra.setdefault(kind, []).append(other.tokens[place])
        gap = [own.tokens[place] for place in range(before.own + 1, after.own) if place not in shared_own]
        yield from _opposite_pairs(*_unshared(gap, other.tokens[before.other + 1 : after.other]), passage)
        for place in range(before.own + 1, after.own):
            token = own.tokens[place]
            found = extra.get(_class_of(token) or "") if place not in shared_own else None
            if found and not (token.initial and found[-1].initial):
                yield make_part(token, Status.differs, found.pop(), passage, _class_of(token) or "")


def _skipped(own: _Text, other: _Text, edges: Sequence[_Anchor], passage: int) -> Iterator[Part]:
    """Yield exact tokens that follow another in a statement, and in the sentence not without a third between.

    "Sales fell by 4 % in 2019 and by 9 % in 2020" does not say "by 4 % in 2020".
    """
    for before, after in pairwise(edges):
        token = own.tokens[after.own]
        if not (own.tokens[before.own].is_exact and token.is_exact):
            continue
        between = other.tokens[before.other + 1 : after.other]
        if any(each.kind is token.kind for each in between) and not any(
            each.is_exact for each in own.tokens[before.own + 1 : after.own]
        ):
            yield make_part(token, Status.unclear, other.tokens[after.other], passage, ORDER)


def _unshared(own: Sequence[Token], others: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """The tokens of two gaps without those that both have."""
    shared = {token.form for token in own} & {token.form for token in others}
    return [token for token in own if token.form not in shared], [
        token for token in others if token.form not in shared
    ]


def _class_of(token: Token) -> str | None:
    """What a token may stand in place of: a name of a name, an exact token of one of its kind."""
    if token.is_exact:
        return token.kind.value
    return NAME if token.is_capitalised else None


def _in_order(anchors: Sequence[_Anchor]) -> list[_Anchor]:
    """The longest list of shared tokens that rise in both texts."""
    best: list[int] = []
    previous: list[int] = []
    for at, anchor in enumerate(anchors):
        lengths = [(best[earlier], earlier) for earlier in range(at) if anchors[earlier].other < anchor.other]
        length, earlier = max(lengths, default=(0, -1))
        best.append(length + 1)
        previous.append(earlier)
    at = max(range(len(best)), key=best.__getitem__)
    chain: list[_Anchor] = []
    while at >= 0:
        chain.append(anchors[at])
        at = previous[at]
    return chain[::-1]


def compare_opposites(
    statement: Sequence[Token], sentence: Sequence[Token], around: Sequence[Token], passage: int
) -> Iterator[Part]:
    """Yield words whose opposite a sentence has: "less" for "more".

    `around` are the tokens of all windows: what they have is not missing.
    """
    stated = {token.form for token in statement}
    present = {each for token in around for each in (token.form, token.key)}
    lacking = [token for token in statement if token.form not in present and token.key not in present]
    yield from _opposite_pairs(lacking, [token for token in sentence if token.form not in stated], passage)


def _opposite_pairs(own: Sequence[Token], others: Sequence[Token], passage: int) -> Iterator[Part]:
    """Yield the words of which others are the opposite."""
    places = {each: token for token in others if _is_worded(token) for each in (token.key, token.form)}
    for token in own if places else ():
        if _is_worded(token):
            found = next(
                (places[each] for each in opposites_of(token.form, token.key) if each in places), None
            )
            if found is not None:
                yield make_part(token, Status.differs, found, passage, COMPARATIVE)


def _is_worded(token: Token) -> bool:
    """Whether a token is a word, also an ordinal such as "first"."""
    return token.kind is not Kind.sign and token.text.isalpha()
