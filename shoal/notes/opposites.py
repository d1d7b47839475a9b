"""Signs that two texts about one matter contradict each other, found in the order of their terms.

Six signs, each 0 or more:

negations   the difference of the numbers of negations: *do not store* and *store*
moved       how far the negations of the texts concern different terms: *never merge, rebase* and *merge,
            never rebase*
antonyms    words of one text whose antonym is in the other: *before* and *after*
numbers     1 if each text has a number that the other lacks, or a day of the week, month, season or time of
            day
contrasts   how far the two sides of a contrast are exchanged: *X, not Y* and *Y instead of X*; *X before Y*
            and *Y before X*
exchanges   how far two terms have exchanged the words around them: *Tom manages Eva* and *Eva manages Tom*

An antonym beside a negation is none: *forbidden* and *not allowed* agree.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from shoal.models.notes import Signs
from shoal.notes.index_cache import STOP_TERMS, number_of
from shoal.words.analysis import terms_of
from shoal.words.terms import TERMS

MAX_TOKENS = 200
"""Tokens of a text that are read; longer texts are not one statement."""
MAX_EXCHANGED = 16
"""Terms whose places are compared; the time grows with the square."""
NEGATION_REACH = 3
"""Subjects behind a negation that it may concern."""
SIDE_BEFORE, SIDE_BEHIND = 6, 3
"""Tokens and subjects on the sides of a contrast or comparison."""

MAX_COMPARED = 5
"""Letters of an adjective that is compared with -er and -est, which stems keep: *highest* and *lowest*."""

NEGATION, ABSENCE = "\0not", "\0no"
CONTRAST = "\0contrast"
MARKS = (NEGATION, ABSENCE, CONTRAST)
"""Stand for *not* and *never*, for *no* and *without*, and for *instead of*, *rather than*, *X, not Y*."""

# Opposites that WordNet lacks: words of direction and of time, and words of this trade.
_MORE_ANTONYMS = """
    above under, accept refuse, active inactive, add remove, add delete, after before, afterwards before,
    allow block, allow deny, allow forbid, allow prevent, always never, append overwrite, async sync,
    asynchronous synchronous, attach detach, avoid use, avoid prefer, blocking nonblocking, blunt sharp,
    dislike enjoy, dislike like, dislike love, enjoy hate,
    both neither, bottom top, close far, cold hot, cold warm, commit ignore, commit rollback, connect
    disconnect, create delete, create drop, cut increase, dark bright, decrease raise, deep shallow, deny
    grant, different same, different equal, disable enable, disallow allow, down up, dynamic static, eager
    lazy, eagerly lazily, empty full, encrypt decrypt, enough insufficient, expand collapse, expand
    shrink, fail succeed, fail pass, few many, finish begin, forbid permit, forbidden allowed, forward
    backward, freeze thaw, global local, grow shrink, guilty innocent, hard soft, hate like, hate love,
    hide show, horizontal vertical, immutable mutable, include omit, increase reduce, increase lower,
    inside outside, install uninstall, keep remove, keep delete, large small, late early, least most, left
    right, less more, load unload, lock unlock, long short, loud quiet, mandatory optional, mandatory
    voluntary, manual automatic, merge split, mount unmount, noisy quiet, off on, old new, open shut,
    optional required, over under, permanent temporary, positive negative, prefer reject, prohibit allow,
    pull push, quick slow, quickly slowly, quote unquote, rarely often, reject allow, release absorb,
    release acquire, remember forget, require forbid, rich poor, rise fall, rough smooth, safe unsafe,
    salted unsalted, seldom often, senior junior, serial parallel, sequential parallel, set unset, start
    stop, start end, strict loose, strong weak, subscribe unsubscribe, sweet sour, tall short, thick thin,
    tight loose, true false, unique duplicate, upgrade downgrade, verbose terse, verbose quiet, visible
    hidden, wet dry, wide narrow, with without, worse better, yes no, must optional, must voluntary, must
    may, required voluntary, need optional
"""
_TIME_NAMES = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "spring summer autumn winter",
    "morning noon afternoon evening night midnight",
)
"""Names of times, each line a kind: one takes the place of another as numbers do."""
_DIRECTIONS = (
    "before after afterwards above below over under more less most least first last up down on off "
    "always all "
    "must may"
)
_NEGATIONS = "never cannot"
_ABSENCES = "no nobody nothing nowhere neither nor without"
_LEXICAL_NEGATIONS = "forbidden forbid prohibit prohibited avoid ban banned lack lacks missing"
_BEFORE_T = "don doesn didn isn aren wasn weren can won shouldn mustn couldn wouldn hasn haven hadn ain needn"
_CLAUSES = "because so and but since which when if while then unless although as for to"
_ARTICLES = "a an the this that these those its it their our your is are be was were do does did"


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms_of(text))


DIRECTIONS = _terms(_DIRECTIONS)
TIME_NAMES = tuple(map(_terms, _TIME_NAMES))
NEGATIONS, ABSENCES, LEXICAL_NEGATIONS = map(_terms, (_NEGATIONS, _ABSENCES, _LEXICAL_NEGATIONS))
BEFORE_T, CLAUSES, ARTICLES = _terms(_BEFORE_T), _terms(_CLAUSES), _terms(_ARTICLES)
BEFORE, AFTER, THAN = "befor", _terms("after afterwards once"), "than"
BY = "by"
FROM, ENDS = "from", {"from", "to"}


@dataclass(frozen=True, eq=False)
class Statement:
    """A text with its negations and contrasts in one form each.

    tokens     terms, `NEGATION` and `CONTRAST`, in order
    negated    the terms in the reach of a negation
    n_negations
    """

    tokens: tuple[str, ...]
    negated: frozenset[str]
    n_negations: int

    @classmethod
    def of(cls, terms: Sequence[str]) -> Statement:
        """Read the terms of a text (`shoal.words`)."""
        tokens = tuple(_canonical(terms[:MAX_TOKENS]))
        negated: set[str] = set()
        n_negations = 0
        for at, token in enumerate(tokens):
            if token in MARKS:
                negated.update(_behind(tokens, at, NEGATION_REACH))
            if token == NEGATION:
                negated.update(_nearest_before(tokens, at))
            n_negations += token in MARKS or token in LEXICAL_NEGATIONS
        return cls(tokens, frozenset(negated), n_negations)

    @functools.cached_property
    def distinct(self) -> frozenset[str]:
        """Terms with a subject or a direction."""
        return frozenset(token for token in self.tokens if is_subject(token) or token in DIRECTIONS)

    @functools.cached_property
    def values(self) -> tuple[frozenset[str], ...]:
        """The numbers, and the names of times of each kind."""
        numbers = frozenset(number for token in self.tokens if (number := number_of(token)) is not None)
        return numbers, *(names.intersection(self.tokens) for names in TIME_NAMES)

    @functools.cached_property
    def sides(self) -> tuple[frozenset[str], frozenset[str]]:
        """The terms on the first and on the second side of contrasts and comparisons."""
        first: set[str] = set()
        second: set[str] = set()
        for at, token in enumerate(self.tokens):
            if token in (CONTRAST, THAN, BEFORE) or token in AFTER:
                before = set(filter(is_subject, self.tokens[max(0, at - SIDE_BEFORE) : at]))
                behind = set(_behind(self.tokens, at, SIDE_BEHIND))
                if token in AFTER:
                    before, behind = behind, before
                first |= before
                second |= behind
            if token in ENDS and set(self.tokens) >= ENDS:
                (first if token == FROM else second).update(_behind(self.tokens, at, 1))
        return frozenset(first - second), frozenset(second - first)

    def around(self, verb: str) -> tuple[frozenset[str], frozenset[str]]:
        """The subjects before and behind the first place of a verb: who acts, and on whom."""
        at = self.tokens.index(verb)
        before = filter(is_subject, self.tokens[max(0, at - SIDE_BEFORE) : at])
        behind = filter(is_subject, self.tokens[at + 1 : at + 1 + SIDE_BEFORE])
        return frozenset(before), frozenset(behind)

    @functools.cached_property
    def passives(self) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        """Who acts, and on whom, by the verb of each passive with *by*."""
        passives = {}
        for at, token in enumerate(self.tokens):
            if token == BY and at and is_subject(self.tokens[at - 1]):
                verb = self.tokens[at - 1]
                passives[verb] = frozenset(_behind(self.tokens, at, 1)), self.around(verb)[0]
        return passives

    @functools.cached_property
    def surroundings(self) -> Mapping[str, frozenset[tuple[int, str]]]:
        """The two tokens on each side of every subject or direction: (side, token)."""
        around: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
        tokens = [token for token in self.tokens if token not in ARTICLES]
        for at, token in enumerate(tokens):
            if is_subject(token) or token in DIRECTIONS:
                around[token].update((-1, other) for other in tokens[max(0, at - 2) : at])
                around[token].update((1, other) for other in tokens[at + 1 : at + 3])
        return {token: frozenset(places) for token, places in around.items()}


def signs(left: Statement, right: Statement) -> Signs:
    """Return the signs that two texts contradict each other; the order of the texts does not matter."""
    negations = abs(left.n_negations - right.n_negations)
    contrasts, agree = _contrasts(left, right)
    antonyms = 0
    for word in left.distinct - right.distinct:
        for other in antonyms_of(word) & (right.distinct - left.distinct):
            if agree and BEFORE in (word, other):
                continue
            if (word in left.negated) == (other in right.negated):
                antonyms += 1
            else:
                negations = max(0, negations - 1)
    numbers = any(own - other and other - own for own, other in zip(left.values, right.values, strict=True))
    return Signs(
        float(min(negations, 2)),
        _moved(left.negated & right.distinct, right.negated & left.distinct),
        float(min(antonyms, 2)),
        float(numbers),
        contrasts,
        _exchanges(left, right),
    )


def is_subject(token: str) -> bool:
    """Whether a token is a term with a subject, not a stop word or a mark."""
    return token not in STOP_TERMS and token[0] != "\0"


def antonyms_of(term: str) -> frozenset[str]:
    """Return the terms with the opposite meaning."""
    return _antonyms().get(term, frozenset())


def _moved(left: frozenset[str], right: frozenset[str]) -> float:
    if not left or not right:
        return 0.0
    return 1 - len(left & right) / min(len(left), len(right))


def _contrasts(left: Statement, right: Statement) -> tuple[float, bool]:
    """(how far the sides are exchanged, whether they agree)."""
    (a, b), (c, d) = left.sides, right.sides
    # Only an exchange in both directions counts: the side before a comparison is often in another sentence.
    same, crossed = len(b & d), min(len(a & d), len(b & c))
    return (crossed / (crossed + same) if crossed else 0.0), same > crossed


def _nearest_before(tokens: Sequence[str], at: int) -> list[str]:
    """Return the subject of the verb that is negated: *floats* in "floats must not be used"."""
    for token in reversed(tokens[max(0, at - NEGATION_REACH) : at]):
        if is_subject(token):
            return [token]
        if token in CLAUSES:
            break
    return []


def _behind(tokens: Sequence[str], at: int, most: int) -> list[str]:
    """Return the subjects behind a token, up to the end of its clause."""
    subjects: list[str] = []
    for token in tokens[at + 1 : at + 1 + 3 * most]:
        if len(subjects) == most or (subjects and (token in CLAUSES or token in MARKS)):
            break
        if is_subject(token):
            subjects.append(token)
    return subjects


def _exchanges(left: Statement, right: Statement) -> float:
    agreements = [*_passive_agreements(left, right), *_passive_agreements(right, left)]
    if agreements:
        return 0.0 if any(agreements) else 1.0
    first, second = left.surroundings, right.surroundings
    moved = sorted(term for term in first.keys() & second.keys() if first[term] != second[term])
    largest = 0.0
    for x, y in itertools.combinations(moved[:MAX_EXCHANGED], 2):
        both = {x, y}
        crossed = _alike(first[x], second[y], both) + _alike(first[y], second[x], both)
        straight = _alike(first[x], second[x], both) + _alike(first[y], second[y], both)
        largest = max(largest, (crossed - straight) / 2)
    return largest


def _passive_agreements(passive: Statement, active: Statement) -> Iterator[bool]:
    """Yield for each verb whether the one who acts in a passive also acts in the other text."""
    for verb, (actors, others) in passive.passives.items():
        if verb in active.distinct and verb not in active.passives:
            before, behind = active.around(verb)
            if actors & before and others & behind:
                yield True
            elif actors & behind and others & before:
                yield False


def _alike(a: frozenset[tuple[int, str]], b: frozenset[tuple[int, str]], without: set[str]) -> float:
    a = frozenset(place for place in a if place[1] not in without)
    b = frozenset(place for place in b if place[1] not in without)
    return len(a & b) / max(1, len(a | b))


def _canonical(terms: Sequence[str]) -> Iterable[str]:
    at = 0
    while at < len(terms):
        term, following = terms[at], terms[at + 1] if at + 1 < len(terms) else ""
        size = 1
        if following == "t" and term in BEFORE_T:
            token, size = NEGATION, 2
        elif (term, following) in (("rather", "than"), ("instead", "of")):
            token, size = CONTRAST, 2
        elif term == "not":
            subject_before = at > 0 and terms[at - 1] not in STOP_TERMS
            token = CONTRAST if subject_before or (at and terms[at - 1] in ("and", "but")) else NEGATION
        else:
            token = NEGATION if term in NEGATIONS else ABSENCE if term in ABSENCES else term
        yield token
        at += size


@functools.cache
def _antonyms() -> Mapping[str, frozenset[str]]:
    text = resources.files("shoal.notes").joinpath("antonyms.txt").read_text(encoding="utf-8")
    words = [*text.split(), *_MORE_ANTONYMS.replace(",", " ").split()]
    terms = TERMS.of_forms(words)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for left, right in zip(terms[::2], terms[1::2], strict=True):
        for ending in (
            ("", "er", "est") if len(left) <= MAX_COMPARED and len(right) <= MAX_COMPARED else ("",)
        ):
            if left != right:
                found[left + ending].add(right + ending)
                found[right + ending].add(left + ending)
    return {term: frozenset(others) for term, others in found.items()}
