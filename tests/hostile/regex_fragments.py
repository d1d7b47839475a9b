"""Generator of texts on which a regular expression may be slow, made from its own alphabet.

A backtracking matcher is slow if it can split one run of text in many ways. The pieces of such a run are the
words of the pattern and the characters that it distinguishes: one for each combination of its sets. A few of
these pieces are repeated, after a prefix that leads into the pattern and before a suffix that makes it fail.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

# Preferred for a class of characters: the first that answers as the class does.
_USUAL = " \n\r\ta1A_!.-=#*\"'()[]{}<>/:;,|`~+&$\\\f\u00a0\u00e9\u2029\u3002\U0001f600\x00"
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_WORD_CHARS = "a_"


class Hostile(NamedTuple):
    """A text of `prefix`, a number of `fragment`s, and `suffix`."""

    prefix: str
    fragment: str
    suffix: str

    def text(self, repetitions: int) -> str:
        return self.prefix + self.fragment * repetitions + self.suffix


def hostile_texts(pattern: str | bytes, flags: int, most: int, pieces: int = 10) -> list[Hostile]:
    """Generate up to `most` texts in a fixed order: fragments of one piece first, then of two, then of three.

    At most `pieces` pieces of a pattern are used.
    """
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    alphabet = _alphabet(tree, flags, pieces)
    prefixes = list(dict.fromkeys(["", *_ways_in(tree), *alphabet]))
    suffixes = list(dict.fromkeys(["", "!", *alphabet]))
    chance = random.Random(repr(pattern))
    chosen: list[Hostile] = []
    for length in (1, 2, 3):
        fragments = ["".join(group) for group in _necklaces(alphabet, length)]
        room = max(0, most - len(chosen)) if length == 3 else most // 3
        total = len(fragments) * len(prefixes) * len(suffixes)
        numbers = range(total) if total <= room else sorted(chance.sample(range(total), room))
        for number in numbers:
            rest, suffix = divmod(number, len(suffixes))
            fragment, prefix = divmod(rest, len(prefixes))
            chosen.append(Hostile(prefixes[prefix], fragments[fragment], suffixes[suffix]))
    return chosen


def _necklaces(alphabet: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Generate groups of pieces, without rotations of a group and without repetitions of a shorter group."""
    for group in itertools.product(range(len(alphabet)), repeat=length):
        turns = [group[turn:] + group[:turn] for turn in range(1, length)]
        if all(group < turned for turned in turns):
            yield tuple(alphabet[index] for index in group)


def _alphabet(tree: Any, flags: int, most: int) -> list[str]:
    """Return one character for each class of characters that the pattern's atoms distinguish, then its
    words."""
    atoms: list[tuple[Any, Any]] = []
    words: list[str] = []
    _collect(tree, atoms, words)
    letters = [chr(point) for atom in atoms for point in _code_points(*atom)]
    kinds: dict[tuple[bool, ...], str] = {}
    for letter in [*_USUAL, *letters]:
        kinds.setdefault(tuple(_takes(atom, letter, flags) for atom in atoms), letter)
    single = list(kinds.values())
    single = single[:: -(-len(single) // most)] if len(single) > most else single
    several = list(dict.fromkeys(words))
    room = max(2, most - len(single))
    several = several[:: -(-len(several) // room)] if len(several) > room else several
    return [*single, *several]


def _collect(tree: Any, atoms: list[tuple[Any, Any]], words: list[str]) -> None:
    """Collect the atoms of a pattern, and its literal words."""
    run = ""
    for op, argument in [*tree, (None, None)]:
        if op is sre.LITERAL:
            run += chr(argument)
            continue
        if len(run) == 1:
            atoms.append((sre.LITERAL, ord(run)))
        elif run:
            words.append(run)
        run = ""
        if op in (sre.IN, sre.NOT_LITERAL):
            atoms.append((op, argument))
        for inner in _inner(op, argument):
            _collect(inner, atoms, words)


def _inner(op: Any, argument: Any) -> list[Any]:
    """Return the patterns within an item."""
    if op in _REPEATS:
        return [argument[2]]
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op is sre.BRANCH:
        return list(argument[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    if op is sre.ATOMIC_GROUP:
        return [argument]
    if op is sre.GROUPREF_EXISTS:
        return [one for one in argument[1:] if one is not None]
    return []


def _code_points(op: Any, argument: Any) -> list[int]:
    if op is not sre.IN:
        return [argument]
    points: list[int] = []
    for kind, value in argument:
        if kind is sre.LITERAL:
            points.append(value)
        elif kind is sre.RANGE:
            points += value
    return points


def _takes(atom: tuple[Any, Any], letter: str, flags: int) -> bool:
    op, argument = atom
    forms = {letter, letter.lower(), letter.upper()} if flags & re.IGNORECASE else {letter}
    codes = {ord(form) for form in forms if len(form) == 1}
    if op is sre.LITERAL:
        return argument in codes
    if op is sre.NOT_LITERAL:
        return argument not in codes
    negated = argument[0][0] is sre.NEGATE
    return negated != any(_in_set(kind, value, letter, codes) for kind, value in argument)


def _in_set(kind: Any, value: Any, letter: str, codes: set[int]) -> bool:
    if kind is sre.LITERAL:
        return value in codes
    if kind is sre.RANGE:
        return any(value[0] <= code <= value[1] for code in codes)
    return kind is sre.CATEGORY and re.match(_CATEGORIES[value], letter) is not None


def _ways_in(tree: Any, most: int = 12) -> list[str]:
    """Return texts that lead into the pattern: a short match of its beginning, up to each of its items."""
    ways = list(dict.fromkeys(_beginnings(tree)))
    return ways[:: -(-len(ways) // most)] if len(ways) > most else ways


def _beginnings(tree: Any) -> Iterator[str]:
    before = ""
    for op, argument in tree:
        yield before
        if op not in (sre.ASSERT, sre.ASSERT_NOT):
            for inner in _inner(op, argument):
                for beginning in _beginnings(inner):
                    yield before + beginning
        before += _shortest(op, argument)
    yield before


def _shortest(op: Any, argument: Any) -> str:
    """Return a short text that an item matches."""
    if op is sre.LITERAL:
        return chr(argument)
    if op in (sre.IN, sre.NOT_LITERAL):
        usual = [*_WORD_CHARS, *_USUAL, *(chr(point) for point in _code_points(op, argument))]
        return next((letter for letter in usual if _takes((op, argument), letter, 0)), "")
    if op is sre.ANY:
        return "a"
    if op in _REPEATS:
        return "".join(_shortest(*item) for item in argument[2]) * argument[0]
    if op in (sre.SUBPATTERN, sre.BRANCH, sre.ATOMIC_GROUP):
        return "".join(_shortest(*item) for item in _inner(op, argument)[0])
    return ""
