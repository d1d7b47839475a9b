"""Whether a statement changes a fact that another states: same subject, another value.

Both texts are read as English statements. A change is *certain* if one of these holds for the same subject,
and else at most *possible*:

attribute   both give a value to one noun: *my dentist is A* and *B is my dentist now*
relation    both fill a relation that has one value at a time: *lives in A* and *moved to B* (`RELATIONS`)
ended       the new one ends what the old one says: *switched from A to B*, *quit A*, *B instead of A*
amount      numbers, days of the week or clock times differ beside the same words
polarity    the new one has the antonym of a word, or a negation: *loves A* and *hates A*, *no longer A*
slot        the same words but for one value, with a word of change such as *now*; without one, possible

A text that adds (*also*, *another*) changes nothing. Texts are read up to `MAX_WORDS` words.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from shoal.notes.dates import PAST_VERBS, find_dates, is_past
from shoal.notes.index_cache import NUMBER_TERMS, STOP_TERMS, number_of
from shoal.notes.opposites import antonyms_of
from shoal.words.terms import TERMS

MAX_WORDS = 60
"""Words of a text that are read: a longer text is more than a statement."""
MAX_CHARS = 1_000
"""Characters of a text that are read."""
MAX_ENDED = 5
"""Words behind one that ends something, such as *quit*."""

SELF = "self"
"""The subject of a statement about the owner, who is *I*, *the user*, or nobody who is named."""

_WORD = re.compile(r"[^\W_]+(?:['’.:,@+-][^\W_]+)*")
_TITLES = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Prof)\.")
_CLAUSE_END = re.compile(r"[.;:!?](?=\s|$)|\n|, (?=(?:so|but) (?:i|we|my|our)\b)", re.IGNORECASE)
_LABEL = re.compile(r"\A\s*([^\W\d]+(?: [^\W\d]+){0,2}):(?=(?: [+(]?\d[\d.,:()/-]*)+\s*\Z)")
"""What a number is said of: *Landline: 040 123 456.*"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split(","))


_FIRST_PERSON = _words("i my me mine we our us ours user user's i'm i've we've we're i'd")
_PRONOUNS = _words("i we you he she it they user that this there who which")
_OTHERS = _words("he she they it this that other")
_POSSESSIVES = _words("my our his her their its your the user's")
_PERSONS = _words(
    "sister brother mother father mom mum dad parents parent wife husband partner girlfriend boyfriend son "
    "daughter child children kid kids aunt uncle cousin grandmother grandfather grandma grandpa friend "
    "roommate flatmate neighbour neighbor colleague boss niece nephew dog cat fiance fiancee"
)
_SINGLE = _words("mother father mom mum dad wife husband partner girlfriend boyfriend boss fiance fiancee")
"""Persons of whom there is one at a time."""
_COPULAS = _words("is are was were am be been became becomes become isn't aren't 's")
_AUXILIARIES = _words("has have had will would can could shall should do does did now currently just")
_HELPING = _AUXILIARIES | _COPULAS
_OF_PERSONS, _ANYBODY = _POSSESSIVES | _FIRST_PERSON, _PRONOUNS | _PERSONS
"""Words right before what a person is or does, and words for persons."""
_PREPOSITIONS = _words("of at in on for to with by from as about into over under near")
_PAST = PAST_VERBS | _words("put read hurt")
_CHANGE = _words(
    "now currently new newly nowadays anymore longer instead switched changed moved became promoted replaced "
    "stopped quit since raised lowered increased decreased started joined finally already today"
) | _words("recently lately meanwhile")
_CHANGE_PHRASES = _phrases("from now on,these days,no longer,any more,as of,at the moment,up to,down to")
_ADDING = _words("also too another additionally besides second plus")
_MOVES = _words(
    "moved moves changed changes raised lowered increased decreased rises rose goes went dropped drops fell "
    "postponed shifted rescheduled brought pushed set switched renamed updated"
)
_ENDS = _phrases(
    "switched from,moved from,changed from,went from,away from,instead of,rather than,no longer,replaced,"
    "stopped,quit,gave up,given up,gone off,finished,sold,closed,left,dropped,cancelled,canceled,ended,"
    "got rid of,broke up with,fired,resigned from,swapped,"
    "traded,moved out of,deleted,retired,lost,divorced,done with"
)
_DENIES = _phrases("used to,never,not,don't,doesn't,isn't,aren't")
"""What ends only what is said with the same words: *I never eat pork* does not end *I eat beef*."""
_NEGATIONS = _words(
    "not never no without don't doesn't didn't isn't aren't won't can't cannot nobody nothing"
)
_FORMERLY = _words("used formerly previously")
_LEAVES = _words("left quit resigned retired died stopped closed ended expired")
_FOR_A_WHILE = _words("stopped closed ended")
_HOURS = _words("at for early late")
"""What may be over for a while only, with an hour behind it: *closed at noon*."""
_ENDED_BEHIND = _words("and but to with for because so while who")
_NOT_ENDED = _words("at by in on off")
_IGNORED = _words(
    "really very quite always usually every day days time way please want wants like used kind sort thing "
    "have has had had get got go goes going went been being take takes most time times week month year"
)
_OFFICES = _words(
    "lead leads leading led manage manages managing managed head heads heading headed chair chairs chairing "
    "chaired coach coaches coaching coached direct directs directing directed"
)
"""What one person does at a time: another one who does it now has replaced the first."""
_DEFINITE = _words("the my our")
_LASTING = _words("like love enjoy hate know visit see saw buy own play watch meet met try tried read")

RELATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "home": _phrases(
        "live in,lives in,living in,live at,lives at,living at,moved to,move to,moves to,relocated to,"
        "resides in,reside in,based in,settled in,my home is,our home is,my address,bought a house in,"
        "bought a flat in,"
        "rents a flat in,rents an apartment in,living on,lives on,live on"
    ),
    "employer": _phrases(
        "work for,works for,working for,work at,works at,working at,employed by,employed at,hired by,"
        "started at,starts at,start at,joined,job at,position at,employer,been at"
    ),
    "role": _phrases(
        "work as,works as,working as,promoted to,job title,job is,hired as,became a,became an,became the,"
        "profession"
    ),
    "relationship": _phrases(
        "single,engaged,married,divorced,widowed,dating,in a relationship,got engaged,broke up,separated,"
        "boyfriend,girlfriend,fiance,fiancee"
    ),
    "diet": _phrases(
        "vegetarian,vegan,pescatarian,eat meat,eats meat,eating meat,omnivore,meat eater,keto,eat fish,"
        "eats fish,plant-based"
    ),
    "vehicle": _phrases("drive a,drives a,drive an,drives an,driving a,bought a car,car is,my car,our car"),
    "school": _phrases(
        "goes to the school,attends,attend,enrolled at,enrolled in,studies at,study at,changed schools,"
        "school is,student at,goes to,go to"
    ),
    "bank": _phrases("bank with,banks with,bank is,account at,account with"),
    "smoking": _phrases("smoke,smokes,smoking,smoker,cigarettes,non-smoker,nicotine"),
    "studies": _phrases("learning,studying,am learning,been learning"),
    "weight": _phrases("weigh,weighs,weighed,weight"),
    "age": _phrases("years old,turned,age is"),
}
"""What has one value at a time, and the words that say it. They are what people tell assistants most."""
_STATES = frozenset({"relationship", "diet"})
"""Relations whose phrases are the values."""
_RELATION_NEEDS = {
    "vehicle": _words("car sedan suv van drive drives driving bought sold"),
    "school": _words("school schools college university academy attends attend enrolled studies"),
}
"""Words of which a text must have one for its relation, where the phrases alone say too little."""
_RELATION_REFUSES = {
    "employer": _words("club team gym choir class group band league course church society shelter volunteer"),
}
"""Words with which the phrases of a relation say something else: *joined the chess club*."""
_ONE_OF_SEVERAL = frozenset({"studies"})
"""Relations that may have several values, so that a change needs a word of change."""


class Change(NamedTuple):
    """That a statement changes another. `reason`: one of the names above."""

    reason: str
    is_certain: bool


class _Attribute(NamedTuple):
    """A noun that has a value, its other words, and the stems of the value."""

    subject: str
    head: str
    modifiers: frozenset[str]
    value: frozenset[str]


@dataclass(frozen=True, eq=False)
class Statement:
    """What is read of a text."""

    text: str

    @functools.cached_property
    def clauses(self) -> list[list[str]]:
        """The words of each clause, without those that name a day: they say when, not what."""
        return _clauses(_without_dates(self.text[:MAX_CHARS]))

    @functools.cached_property
    def lower(self) -> list[list[str]]:
        return [[word.lower() for word in clause] for clause in self.clauses]

    @functools.cached_property
    def words(self) -> list[str]:
        return list(itertools.chain.from_iterable(self.lower))

    @functools.cached_property
    def content(self) -> tuple[str, ...]:
        """The distinct stems that say something, in order."""
        return _content(self.words)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Stems of words that are names: with a capital letter inside a clause, or with a digit."""
        found = [
            word
            for clause in self.clauses
            for at, word in enumerate(clause)
            if (at and word[0].isupper()) or word[-1].isdigit() or word.isupper()
        ]
        return frozenset(_content([word.lower() for word in found]))

    @functools.cached_property
    def subjects(self) -> tuple[str, ...]:
        """Of each clause, whom or what it is about."""
        return tuple(dict.fromkeys(map(_subject, self.clauses)))

    @functools.cached_property
    def named_persons(self) -> dict[str, str]:
        """The name of each person who is named beside what they are to the owner: *my sister Eva*."""
        return {
            word: following.lower()
            for clause in self.clauses
            for word, following in itertools.pairwise(clause)
            if word in _PERSONS and following[0].isupper()
        }

    @functools.cached_property
    def is_past(self) -> bool:
        """Whether it tells what happened, which a later statement does not change."""
        return any(
            is_past(before, word)
            for clause in self.lower
            for before, word in itertools.pairwise(("", *clause))
        )

    @functools.cached_property
    def has_change(self) -> bool:
        """Whether it has a word that says that something is new or has ended."""
        return not _CHANGE.isdisjoint(self.words) or any(
            _places(self.words, phrase) for phrase in _CHANGE_PHRASES
        )

    @functools.cached_property
    def adds(self) -> bool:
        return not _ADDING.isdisjoint(self.words)

    @functools.cached_property
    def is_negated(self) -> bool:
        return not _NEGATIONS.isdisjoint(self.words)

    @functools.cached_property
    def amounts(self) -> dict[str, frozenset[str]]:
        """Numbers by the stem of the word behind them, and days of the week and clock times by their kind."""
        found: dict[str, set[str]] = {}
        for clause in self.lower:
            for word, following in itertools.pairwise([*clause, ""]):
                singular = word.removesuffix("s")
                if singular in _WEEKDAYS:
                    found.setdefault("weekday", set()).add(singular)
                elif ":" in word and word.replace(":", "").isdigit():
                    found.setdefault("clock", set()).add(word)
                elif (number := number_of(word.replace(",", ""))) is not None or word[0].isdigit():
                    unit = _stem(following) if following and following not in _PREPOSITIONS else ""
                    found.setdefault(unit, set()).add(number or word)
        return {unit: frozenset(values) for unit, values in found.items()}

    @functools.cached_property
    def relations(self) -> dict[tuple[str, str], frozenset[tuple[str, ...]]]:
        """The phrases by which it fills or ends a relation, by (subject, name)."""
        found: dict[tuple[str, str], frozenset[tuple[str, ...]]] = {}
        for clause, words in zip(self.clauses, self.lower, strict=True):
            for name, phrases in RELATIONS.items():
                needs = _RELATION_NEEDS.get(name)
                said = frozenset(
                    phrase for phrase in phrases if _is_said_of_someone(name, clause, words, phrase)
                )
                is_refused = not _RELATION_REFUSES.get(name, frozenset()).isdisjoint(self.words)
                if said and not is_refused and (needs is None or not needs.isdisjoint(self.words)):
                    found[_subject(clause), name] = said
        return found

    @functools.cached_property
    def attributes(self) -> tuple[_Attribute, ...]:
        # Here a day may be the value: *the deadline is 15 May*.
        return tuple(itertools.chain.from_iterable(map(_attributes, _clauses(self.text[:MAX_CHARS]))))

    @functools.cached_property
    def office(self) -> tuple[str, frozenset[str]] | None:
        """Who leads what, for a person with a name: *Noor leads the design team*."""
        for clause in self.clauses:
            for at, (who, verb, which) in enumerate(zip(clause, clause[1:], clause[2:], strict=False)):
                what = frozenset(_content([word.lower() for word in clause[at + 3 :]]))
                if verb.lower() in _OFFICES and which.lower() in _DEFINITE and _is_person(who) and what:
                    return who.lower(), what
        return None

    @functools.cached_property
    def ended(self) -> frozenset[str]:
        """Stems of what it says is no longer so."""
        return self._behind(_ENDS)

    @functools.cached_property
    def denied(self) -> frozenset[str]:
        """Stems of what it says is not so."""
        return self._behind(_DENIES)

    def _behind(self, phrases: Sequence[tuple[str, ...]]) -> frozenset[str]:
        found: set[str] = set()
        for words in self.lower:
            for phrase in phrases:
                for end in _places(words, phrase):
                    if (
                        words[end : end + 1]
                        and words[end] in _NOT_ENDED
                        and phrase[-1] in ("stopped", "left")
                    ):
                        continue
                    behind = itertools.takewhile(lambda word: word not in _ENDED_BEHIND, words[end:])
                    found.update(_content(list(itertools.islice(behind, MAX_ENDED + 2))))
        return frozenset(found - {SELF})

    @property
    def gone(self) -> frozenset[str]:
        """Stems of who has left or what has closed."""
        leaving = [
            _subject(clause)
            for clause, words in zip(self.clauses, self.lower, strict=True)
            for word, behind in itertools.pairwise((*words, ""))
            if word in _LEAVES and not (word in _FOR_A_WHILE and behind in _HOURS)
        ]
        return frozenset(map(_stem, leaving)) - {SELF}

    @property
    def triggers(self) -> frozenset[str]:
        """Stems by which statements with the same relations can be found."""
        names = {name for _, name in self.relations}
        return frozenset(_content([word for name in names for phrase in RELATIONS[name] for word in phrase]))


_WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")


def find_change(old: Statement, new: Statement) -> Change | None:
    """Return how a new statement changes an old one; None if it does not."""
    if new.adds or not old.content or not new.content:
        return None
    if old.office and new.office and old.office[1] == new.office[1] and old.office[0] != new.office[0]:
        return Change("relation", new.has_change and len(old.clauses) == 1)
    subjects = [each for each in old.subjects if each in new.subjects and _are_same(old, new, each)]
    if not subjects:
        return None
    reason = next((name for name, rule in _RULES if rule(old, new)), None)
    if reason is None:
        return None
    is_new = new.has_change and not (old.is_past and new.is_past)
    is_certain = (
        len(old.clauses) == 1
        and any(_are_surely_same(old, new, subject) for subject in subjects)
        and (reason != "slot" or is_new)
        and (reason != "attribute" or new.has_change or _has_equal_noun(old, new))
    )
    return Change(reason, is_certain)


def _are_same(old: Statement, new: Statement, subject: str) -> bool:
    """Whether a subject of both may be one person: *my sister Eva* and *my sister Ida* are two."""
    names = {each.named_persons[subject] for each in (old, new) if subject in each.named_persons}
    return len(names) < 2


def _are_surely_same(old: Statement, new: Statement, subject: str) -> bool:
    """Whether a subject of both is one person. *My sister* may be another than *my sister Eva*, unless she
    *moved*; *he* is anybody."""
    named = [each.named_persons.get(subject) for each in (old, new)]
    return (named[0] == named[1] or new.has_change) and subject not in _OTHERS


def _has_equal_noun(old: Statement, new: Statement) -> bool:
    """Whether an attribute of both has the same words: *my work email* may be another than *my email*."""
    return any(mine.modifiers == other.modifiers for mine, other in _shared(old, new))


def _shared(old: Statement, new: Statement) -> Iterator[tuple[_Attribute, _Attribute]]:
    """The attributes of both with the same noun and different values."""
    for mine, other in itertools.product(old.attributes, new.attributes):
        if (
            mine.subject == other.subject
            and mine.head == other.head
            and (mine.modifiers <= other.modifiers or other.modifiers <= mine.modifiers)
            and mine.value
            and other.value - mine.value
            and not mine.value <= other.value - new.ended
            and (mine.head not in _SEVERAL_STEMS or new.has_change)
        ):
            yield mine, other


def _by_attribute(old: Statement, new: Statement) -> bool:
    return any(True for _ in _shared(old, new))


def _by_relation(old: Statement, new: Statement) -> bool:
    for key in old.relations.keys() & new.relations.keys():
        triggers = new.triggers | old.triggers
        said, named = (set(each.content) - triggers for each in (old, new))
        if key[1] in _STATES:
            if old.relations[key].isdisjoint(new.relations[key]):
                return True
        elif named - said and said - named and (key[1] not in _ONE_OF_SEVERAL or new.has_change):
            return True
    return False


def _by_ending(old: Statement, new: Statement) -> bool:
    if new.denied and new.denied <= set(old.content) and not old.denied & new.denied:
        is_predicate = old.content[0] in new.denied and not old.attributes
        return is_predicate or set(old.content) <= set(new.content)
    ended = new.ended | (new.gone - {_stem(subject) for subject in old.subjects})
    shared = {stem for stem in ended & set(old.content) if not stem.isdecimal()}
    if not shared or old.ended & shared:
        return False
    is_predicate = old.content[0] in shared and not old.attributes
    return bool(shared & old.names) or is_predicate or set(old.content) <= set(new.content)


def _by_amount(old: Statement, new: Statement) -> bool:
    units = [
        unit
        for unit, values in old.amounts.items()
        if unit in new.amounts and values.isdisjoint(new.amounts[unit])
    ]
    is_schedule = bool(units) and {"weekday", "clock"}.issuperset(units)
    if not units or (not new.has_change and (is_schedule or (old.is_past and new.is_past))):
        return False
    values = set(itertools.chain(*old.amounts.values(), *new.amounts.values())) | set(units)
    values |= {
        stem
        for stem in (*old.content, *new.content)
        if stem.removesuffix("s") in _WEEKDAYS or any(c.isdigit() for c in stem)
    }
    values |= set(map(_stem, _WEEKDAYS)) | _NUMBER_STEMS
    mine, other = set(old.content) - values, set(new.content) - values - _CHANGE_STEMS
    if not mine & other:
        return not mine and any(unit not in ("", "weekday", "clock") for unit in units)
    is_same = mine <= other or other <= mine
    return is_same or (units != [""] and new.has_change)


def _by_polarity(old: Statement, new: Statement) -> bool:
    mine, other = set(old.content), set(new.content)
    if mine and mine <= other and len(other - mine) <= 1 and new.is_negated != old.is_negated:
        return True
    opposite = {stem for stem in mine - other if antonyms_of(stem) & (other - mine)}
    return bool(opposite) and bool(mine - opposite) and mine - opposite <= other and not new.ended & mine


def _by_slot(old: Statement, new: Statement) -> bool:
    mine, other = set(old.content) - _CHANGE_STEMS, set(new.content) - _CHANGE_STEMS
    shared, left, right = mine & other, mine - other, other - mine
    if not left or not right or len(left) > 2 or len(right) > 2 or not shared:
        return False
    if new.has_change:
        return len(shared) >= 2 or len(left) == len(right) == 1
    return len(shared) >= 2 and len(left) == len(right) == 1 and old.content[0] not in _LASTING_STEMS


_RULES = (
    ("attribute", _by_attribute),
    ("ended", _by_ending),
    ("relation", _by_relation),
    ("amount", _by_amount),
    ("polarity", _by_polarity),
    ("slot", _by_slot),
)


def says_of_self(text: str) -> bool:
    """Whether a text has *I*, *my*, *we* or another word of the first person."""
    words = _WORD.findall(text[:MAX_CHARS])
    return not _FIRST_PERSON.isdisjoint(_plain(word).lower() for word in words)


# Words


def _clauses(text: str) -> list[list[str]]:
    clauses, n_words = [], 0
    for part in _CLAUSE_END.split(_TITLES.sub(r"\1", _LABEL.sub(r"The \1 is", text))):
        words = [_plain(word) for word in _WORD.findall(part)][: MAX_WORDS - n_words]
        n_words += len(words)
        if words:
            clauses.append(words)
    return clauses


def _plain(word: str) -> str:
    """A word in one spelling."""
    plain = "Maius" if word == "May" else word.replace("’", "'")  # The month, not the verb, a stop word.
    return plain.replace("our", "or") if plain.lower().removesuffix("s") in _BRITISH else plain


_BRITISH = _words("favourite colour neighbour flavour behaviour harbour")


def _is_said_of_someone(
    name: str, clause: Sequence[str], words: Sequence[str], phrase: tuple[str, ...]
) -> bool:
    """Whether a clause has a phrase of a relation, said of a person or of nobody who is named.

    The subject of a verb is right before it: *I think the key lives in the vault* tells of a key.
    """
    for end in _places(words, phrase):
        before = clause[: end - len(phrase)]
        said = [word for word in before if word.lower() not in _HELPING]
        lower = [word.lower() for word in said]
        subject = lower if name in _STATES else lower[-2:]
        if _FORMERLY.isdisjoint(lower) and (
            not said
            or lower[-1] in _OF_PERSONS
            or not _ANYBODY.isdisjoint(subject)
            or all(word[0].isupper() for word in said)
        ):
            return True
    return False


@functools.lru_cache(maxsize=8_192)
def _stem(word: str) -> str:
    return TERMS.of_forms([word.removesuffix("'s")])[0] if word else ""


def _content(words: Sequence[str]) -> tuple[str, ...]:
    stems = (_stem(word) for word in words if word not in _IGNORED and word not in _FIRST_PERSON)
    return tuple(
        dict.fromkeys(stem for stem in stems if stem not in STOP_TERMS and stem not in _CHANGE_STEMS)
    )


_CHANGE_STEMS: frozenset[str] = frozenset(TERMS.of_forms(sorted(_CHANGE | _MOVES - _words("set brought"))))
_SEVERAL_STEMS = frozenset(TERMS.of_forms(sorted(_PERSONS - _SINGLE)))
_LASTING_STEMS = frozenset(TERMS.of_forms(sorted(_LASTING)))
_NUMBER_STEMS = frozenset(NUMBER_TERMS)


def _without_dates(text: str) -> str:
    """The text without the words that name days: they say when, not what."""
    parts, end = [], 0
    for found in find_dates(text, date(2000, 1, 1)):
        parts.append(text[end : found.start])
        end = found.end
    return " ".join([*parts, text[end:]]) if parts else text


def _places(words: Sequence[str], phrase: tuple[str, ...]) -> list[int]:
    """Return the place behind each occurrence of a phrase."""
    n = len(phrase)
    return [
        at + n
        for at in range(len(words) - n + 1)
        if words[at] == phrase[0] and phrase == tuple(words[at : at + n])
    ]


def _subject(clause: Sequence[str]) -> str:
    """Whom or what a clause is about."""
    lower = [word.lower() for word in clause]
    for at, word in enumerate(lower):
        if word in ("my", "our", "his", "her", "their", "user's", "the"):
            following = lower[at + 1] if at + 1 < len(lower) else ""
            is_person = following.removesuffix("'s") in _PERSONS
            behind = clause[at + 2 : at + 3]
            if (
                is_person
                and behind
                and (following.endswith("'s") or behind[0][0].isupper() or _is_verb(behind[0].lower()))
            ):
                return following.removesuffix("'s")
            if word != "the":
                return SELF if word in _FIRST_PERSON else "other"
        elif word in _FIRST_PERSON:
            return SELF
        elif at == 0 and word in _OTHERS:
            return word
        elif (
            word.endswith("'s")
            and word[:-2] not in ("it", "that", "there", "let")
            and clause[at][0].isupper()
        ):
            return word[:-2]
        elif at == 0 and _is_name(clause) and _is_verb(lower[1]):
            return SELF if _has_own(lower[1:]) else word
    return SELF


def _is_name(clause: Sequence[str]) -> bool:
    """Whether the first of several words may be a name."""
    if len(clause) < 2 or not clause[0][0].isupper() or _stem(clause[0].lower()) in STOP_TERMS:
        return False
    # *Ines leads* and *James left* have one verb, and *Works at home* too.
    word, following = clause[0].lower(), clause[1].lower()
    return not _is_verb(word) or following in _LEAVES or (following[-1] == "s" and _is_verb(following))


def _is_person(word: str) -> bool:
    """Whether a word before a verb may be the name of a person."""
    return word[0].isupper() and word.isalpha() and word.lower() not in _PRONOUNS | _PERSONS


def _has_own(words: Sequence[str]) -> bool:
    """Whether a clause says of someone what they are to the owner: *Eva is my dentist*."""
    return any(first in _COPULAS and second in ("my", "our") for first, second in itertools.pairwise(words))


def _is_verb(word: str) -> bool:
    return (
        word in _COPULAS
        or word in _AUXILIARIES
        or word in _PAST
        or (len(word) > 3 and word.endswith(("s", "ed")) and not word.endswith("ss"))
    )


def _attributes(clause: Sequence[str]) -> Iterator[_Attribute]:
    """Nouns of a clause that have a value."""
    words = [word.lower() for word in clause]
    subject = _subject(clause)
    for at, word in enumerate(words):
        if word in _COPULAS and at and (word != "be" or words[at - 1] in _AUXILIARIES) and word != "am":
            before, behind = words[:at], words[at + 1 :]
            while before and before[-1] in _AUXILIARIES:
                before = before[:-1]
            own = next(
                (
                    place
                    for place, each in enumerate(behind[:3])
                    if each in ("my", "our", "his", "her", "their")
                ),
                None,
            )
            if own is not None:
                yield from _attribute(subject, behind[own + 1 :], before)
            elif before and before[-1] not in _PRONOUNS:
                yield from _attribute(subject, _noun_phrase(before), behind)
        elif word in _MOVES and at:
            before, behind = words[:at], words[at + 1 :]
            while before and (before[-1] in _AUXILIARIES or before[-1] in _COPULAS):
                before = before[:-1]
            ends = [place for place, each in enumerate(behind) if each in ("to", "from")]
            if not ends:
                continue
            if behind[0] in _POSSESSIVES and ends[-1] > 1:
                yield from _attribute(subject, behind[1 : ends[-1]], behind[ends[-1] + 1 :])
            elif before and before[-1] not in _PRONOUNS:
                yield from _attribute(subject, _noun_phrase(before), behind[ends[0] + 1 :])


def _noun_phrase(words: Sequence[str]) -> Sequence[str]:
    """The words from the last possessive on, which is where the noun phrase before a verb begins."""
    for at in range(len(words) - 1, -1, -1):
        if words[at] in ("my", "our", "the", "his", "her", "their", "user's") and (
            at == 0 or words[at - 1] not in _PREPOSITIONS
        ):
            return words[at + 1 :]
    return words


def _attribute(subject: str, noun: Sequence[str], value: Sequence[str]) -> Iterator[_Attribute]:
    at = next(
        (place for place, word in enumerate(noun) if word in _PREPOSITIONS or word in _CHANGE - {"new"}),
        len(noun),
    )
    heads = _content([word for word in noun[:at] if word.removesuffix("'s") != subject])
    if heads:
        others = _content(noun[at:])
        yield _Attribute(subject, heads[-1], frozenset((*heads[:-1], *others)), frozenset(_content(value)))
