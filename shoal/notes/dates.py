"""The days that an English text names, relative to the day on which it was said.

`find_dates("I moved last Tuesday.", date(2025, 3, 12))` finds 4 March. Read are dates (`8 May 2023`, `May 8`,
`2023-05-08`), months, seasons and years, days of the week behind a word such as *on* or *last*, and relative
words (*yesterday*, *two weeks ago*, *next month*). Times of day and what is repeated (*on Tuesdays*) are no
dates, and neither are days that no calendar has. The tense of the sentence says whether a day without a year,
or a day of the week, is past or ahead. Every word is looked at a bounded number of times.
"""

from __future__ import annotations

import calendar
import enum
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

MAX_WORDS = 4_000
"""Words of a text that are read."""
YEARS_AROUND = 8
"""Years in which a day without a year is looked for: there are eight between the leap years around 1900."""
SEASON_DAYS, DAYS_OF_WEEK = 92, 7
FIRST_YEAR, LAST_YEAR = 1900, 2100
"""Years without another sign of a date are numbers outside of these."""

_WORD = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?![\d-])|\d+|[^\W\d_]+(?:['’][^\W\d_]+)?")


class FoundDate(NamedTuple):
    """Days that a text names.

    first, last   the same for a single day
    start, end    of the words in the text, code points
    is_start      whether the words say when something begins: *since May*, *from 1 July*, *as of Monday*
    """

    first: date
    last: date
    start: int
    end: int
    is_start: bool = False


class _Span(NamedTuple):
    """Days, and how many words name them."""

    first: date
    last: date
    n_words: int


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = {
    name: number
    for number in range(1, 13)
    for name in (calendar.month_name[number].lower(), calendar.month_abbr[number].lower())
} | {"sept": 9}
_WEEKDAYS = {calendar.day_name[number].lower(): number for number in range(7)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_HOLIDAYS = {
    ("new", "year's", "day"): (1, 1),
    ("new", "year's", "eve"): (12, 31),
    ("new", "year's"): (1, 1),
    ("valentine's", "day"): (2, 14),
    ("halloween",): (10, 31),
    ("christmas", "eve"): (12, 24),
    ("christmas",): (12, 25),
}
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_WORDS.split())} | {
    "a": 1,
    "an": 1,
    "couple": 2,
    "few": 3,
    "several": 4,
}
_DAYS = {"today": 0, "tonight": 0, "yesterday": -1, "tomorrow": 1}
_UNITS = {name: name for name in ("day", "week", "weekend", "month", "year")} | {"night": "day"}
_UNITS |= {f"{name}s": unit for name, unit in _UNITS.items()}
_SHIFTS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}
_BEFORE_MONTHS = _words("in since until till by of from during before after early late mid last this next")
_BEFORE_WEEKDAYS = {"on", "since", "until", "till", "by", "from", "before", "after"}
_BEFORE_YEARS = {"in", "since", "until", "till", "by", "from", "during", "before", "after", "of", "year"}
_STARTS = {"since", "from", "starting", "effective"}
_FUTURE = _words("will shall going plan plans planned planning upcoming won't shan't gonna")
_WILL = "'ll"
_PRESENT = _words("am is are be due starts begins leaves ends expires need needs must should")
_CONTRACTED = ("'m", "'re")
_LIMITS = {"until", "till", "by"}
_AIMS = {"to", "for"}
"""Words before a day that may be ahead in any tense: *it was moved to 30 June*."""
PAST_VERBS = _words(
    "left went became got had was were did took made sold bought began quit gave ran wrote knew grew drew "
    "flew kept sang sat slept spoke spent stood taught told thought threw won wore broke brought built chose "
    "drove ate fell felt found forgot heard held lost paid rode rose said saw sent met came caught swam been "
    "born wasn't weren't didn't hadn't"
)
"""Irregular forms of verbs of the past."""
_PAST_END, _NOT_PAST_END = "ed", "eed"
_COPULAS = _words("am is are be get feel so very really i'm you're we're they're he's she's it's")
"""Words behind which one with the ending of the past is an adjective: *I am excited*."""
_SENTENCE_END = re.compile(r"[.!?;]\s|\n")
_ORDINAL_ENDS = {"st", "nd", "rd", "th"}
_AMBIGUOUS = {"may", "march", "mar", "sun", "sat", "second", "dec", "jan"}
"""Names of months that are words, too, so that they need a sign."""


def find_dates(text: str, said: date) -> list[FoundDate]:
    """Return the days that a text names, in the order of its words."""
    matches = []
    for match in _WORD.finditer(text):
        matches.append(match)
        if len(matches) == MAX_WORDS:
            break
    reader = _Reader(matches, text, said)
    found: list[FoundDate] = []
    at = 0
    while at < len(matches):
        span = reader.read(at)
        if span is None:
            at += 1
            continue
        before = reader.lower[at - 1] if at else ""
        is_start = before in _STARTS or reader.lower[max(0, at - 2) : at] == ["as", "of"]
        end = matches[at + span.n_words - 1].end()
        found.append(FoundDate(span.first, span.last, matches[at].start(), end, is_start))
        at += span.n_words
    return found


class _Tense(enum.Enum):
    """When a sentence says that something happens."""

    past = enum.auto()
    future = enum.auto()
    present = enum.auto()
    unknown = enum.auto()


def _tense(words: Sequence[str]) -> _Tense:
    if any(word in _FUTURE or word.endswith(_WILL) for word in words):
        return _Tense.future
    if any(map(is_past, ("", *words), words)):
        return _Tense.past
    if any(word in _PRESENT or word.endswith(_CONTRACTED) for word in words):
        return _Tense.present
    return _Tense.unknown


def is_past(before: str, word: str) -> bool:
    """Return whether a word is a verb of the past, given the word before it; both in lower case."""
    if word in PAST_VERBS:
        return True
    has_ending = len(word) > 3 and word.endswith(_PAST_END) and not word.endswith(_NOT_PAST_END)
    return has_ending and before not in _COPULAS


def _ends_sentence(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    return _SENTENCE_END.search(text, left.end(), right.start()) is not None


class _Reader:
    def __init__(self, matches: Sequence[re.Match[str]], text: str, said: date) -> None:
        self.words = [match.group().replace("’", "'") for match in matches]
        self.lower = [word.lower() for word in self.words]
        self.said = said
        self.tenses: list[_Tense] = []
        """That of the sentence of each word."""
        first = 0
        for at in range(1, len(matches) + 1):
            if at == len(matches) or _ends_sentence(text, matches[at - 1], matches[at]):
                self.tenses += [_tense(self.lower[first:at])] * (at - first)
                first = at

    def read(self, at: int) -> _Span | None:
        """Return the days that the words from here on name, None if they name none."""
        return self._first_of((_Reader.beside_date, *_PLAIN_RULES), at)

    def _first_of(self, rules: Sequence[Callable[[_Reader, int], _Span | None]], at: int) -> _Span | None:
        try:
            return next(filter(None, (rule(self, at) for rule in rules)), None)
        except (ValueError, OverflowError, IndexError, StopIteration):
            return None  # no such day

    def word(self, at: int) -> str:
        return self.lower[at] if 0 <= at < len(self.lower) else ""

    def of_year(self, at: int, month: int, day: int | None = None) -> date:
        """The day without a year that the words at a place name; without `day`, the first of the month.

        By the word before, else by the tense, else the nearest one. Raises ValueError if there is none.
        """
        before, tense = self.word(at - 1), self.tense(at)
        days = _of_years(self.said.year, month, day or 1)
        # A month may be the present one, which is neither past nor ahead.
        now = self.said if day else self.said.replace(day=1)
        if before == "this":
            return next(each for each in days if each.year == self.said.year)
        if before in ("last", "past", "previous"):
            return [each for each in days if each < now][-1]
        if before in ("next", "coming"):
            return next(each for each in days if each > now)
        if before == "since" or tense is _Tense.past:
            return [each for each in days if each <= now][-1]
        if tense is _Tense.future:
            return next(each for each in days if each >= now)
        middle = timedelta(0 if day else 14)
        return min(days, key=lambda each: abs((each + middle - self.said).days))

    def tense(self, at: int) -> _Tense:
        """The tense of what the words at a place say."""
        tense = self.tenses[at]
        if self.word(at - 1) in _AIMS:
            return _Tense.unknown
        is_limit = tense is not _Tense.past and self.word(at - 1) in _LIMITS
        return _Tense.future if is_limit else tense

    # Rules: each looks at a few words from `at` on.

    def iso(self, at: int) -> _Span | None:
        word = self.word(at)
        if len(word) == 10 and word[4] == "-":
            day = date.fromisoformat(word)
            return _Span(day, day, 1)
        if len(word) == 7 and word[4] == "-":
            return _month(int(word[:4]), int(word[5:]), 1)
        return None

    def day_and_month(self, at: int) -> _Span | None:
        """*8 May 2023*, *8th of May*."""
        day, behind = self._day_number(at)
        if day is None:
            return None
        behind += self.word(behind) == "of"
        month = _MONTHS.get(self.word(behind))
        if month is None:
            return None
        return self._day(at, month, day, behind + 1)

    def month_and_day(self, at: int) -> _Span | None:
        """*May 8, 2023*, *May the 8th*, *in May*, *May 2023*."""
        month = _MONTHS.get(self.word(at))
        if month is None:
            return None
        behind = at + 1 + (self.word(at + 1) == "the")
        day, end = self._day_number(behind)
        before = self.word(at - 1)
        is_clear = self.words[at][0].isupper() and (self.word(at) not in _AMBIGUOUS or at > 0)
        if day is not None and (is_clear or before in _BEFORE_MONTHS):
            return self._day(at, month, day, end)
        if (year := self._year(at + 1)) is not None:
            return None if self._is_day_before(at) else _month(year, month, 2)
        if before not in _BEFORE_MONTHS or not self.words[at][0].isupper() or len(self.word(at)) < 3:
            return None
        if before == "of" and self.word(at - 2) not in ("end", "beginning", "middle", "start", "month"):
            return None
        first = self.of_year(at, month)
        return _month(first.year, month, 1)

    def weekday(self, at: int) -> _Span | None:
        """*on Tuesday*, *last Tuesday*, *next Tuesday*."""
        word, size = self.word(at), 1
        shift = _SHIFTS.get(word)
        if shift is not None:
            word, size = self.word(at + 1), 2
        number = _WEEKDAYS.get(word)
        if number is None or (shift is None and self.word(at - 1) not in _BEFORE_WEEKDAYS):
            return None
        back = (self.said.weekday() - number) % 7
        is_ahead = shift == 1 or (shift is not None and shift == 0 and back > 0)
        is_future = self.tense(at) in (_Tense.future, _Tense.present) and self.word(at - 1) != "since"
        if is_ahead or (shift is None and is_future):
            day = self.said + timedelta((number - self.said.weekday()) % 7 or (7 if shift == 1 else 0))
        elif shift == 0:
            day = self.said
        else:
            day = self.said - timedelta(back or 7)
        return _Span(day, day, size)

    def relative_day(self, at: int) -> _Span | None:
        """*yesterday*, *the day before yesterday*, *the day after tomorrow*."""
        words = tuple(self.lower[at : at + 3])
        if words == ("day", "before", "yesterday"):
            return _days(self.said, -2, 3)
        if words == ("day", "after", "tomorrow"):
            return _days(self.said, 2, 3)
        shift = _DAYS.get(self.word(at))
        return None if shift is None else _days(self.said, shift, 1)

    def shifted_unit(self, at: int) -> _Span | None:
        """*last week*, *this month*, *next year*, *last summer*."""
        shift = _SHIFTS.get(self.word(at))
        if shift is None:
            return None
        name = self.word(at + 1)
        if name in ("morning", "afternoon", "evening"):
            return _days(self.said, shift, 2) if shift <= 0 else None
        if name in _SEASONS:
            month = _SEASONS[name]
            starts = _of_years(self.said.year, month, 1)
            if shift > 0:
                start = next(each for each in starts if each > self.said)
            else:
                start = [each for each in starts if each <= self.said][-1]
            if shift < 0 and (self.said - start).days < SEASON_DAYS:
                start = start.replace(year=start.year - 1)
            return _season(start, 2)
        if name not in _UNITS or name.endswith("s"):
            return None
        if name == "night":
            return _days(self.said, shift, 2)
        return None if _UNITS[name] == "day" else _unit(self.said, _UNITS[name], shift, 2)

    def counted_units(self, at: int) -> _Span | None:
        """*two weeks ago*, *a couple of days ago*, *in three days*."""
        is_ahead = self.word(at) == "in"
        place = at + is_ahead
        if self.word(place) == "a" and self.word(place + 1) in ("couple", "few"):
            place += 1
        word = self.word(place)
        number = int(word) if word.isdecimal() and len(word) <= 4 else _NUMBERS.get(word)
        if number is None:
            return None
        place += 1 + (self.word(place + 1) == "of")
        unit = _UNITS.get(self.word(place))
        if unit is None:
            return None
        if is_ahead:
            is_future = self.tense(at) is _Tense.future
            if not (is_future or self.word(place + 1) in ("time", "")):
                return None
            return _counted(self.said, unit, number, place + 1 - at)
        behind = self.word(place + 1)
        if behind not in ("ago", "earlier", "back"):
            return None
        return _counted(self.said, unit, -number, place + 2 - at)

    def beside_date(self, at: int) -> _Span | None:
        """*two days before Christmas*, *the week after 9 June*."""
        number = 1 if self.word(at) == "the" else _NUMBERS.get(self.word(at))
        unit = _UNITS.get(self.word(at + 1))
        sign = {"before": -1, "after": 1}.get(self.word(at + 2))
        if number is None or unit not in ("day", "week") or sign is None:
            return None
        named = self._first_of(_PLAIN_RULES, at + 3)
        if named is None:
            return None
        shift = sign * number * (1 if unit == "day" else DAYS_OF_WEEK)
        if unit == "week" and self.word(at) == "the":
            days = sorted((shift, sign))
            edge = named.first if sign < 0 else named.last
            return _Span(edge + timedelta(days[0]), edge + timedelta(days[1]), named.n_words + 3)
        return _Span(named.first + timedelta(shift), named.last + timedelta(shift), named.n_words + 3)

    def season(self, at: int) -> _Span | None:
        """*summer 2022*, *the summer of 2022*."""
        month = _SEASONS.get(self.word(at))
        if month is None:
            return None
        behind = at + 1 + (self.word(at + 1) == "of")
        year = self._year(behind)
        return None if year is None else _season(date(year, month, 1), behind + 1 - at)

    def year(self, at: int) -> _Span | None:
        """*in 2019*, *since 2019*."""
        year = self._year(at)
        if year is None or self.word(at - 1) not in _BEFORE_YEARS:
            return None
        return _Span(date(year, 1, 1), date(year, 12, 31), 1)

    def holiday(self, at: int) -> _Span | None:
        """*New Year's Day*, *Christmas*."""
        for size in (3, 2, 1):
            words = tuple(self.lower[at : at + size])
            day = _HOLIDAYS.get(words)
            if day is not None and len(words) == size:
                first = self.of_year(at, *day)
                return _Span(first, first, size)
        return None

    # Parts

    def _day(self, at: int, month: int, day: int, behind: int) -> _Span:
        year = self._year(behind)
        if year is None:
            named = self.of_year(at, month, day)
            return _Span(named, named, behind - at)
        named = date(year, month, day)
        return _Span(named, named, behind + 1 - at)

    def _day_number(self, at: int) -> tuple[int | None, int]:
        """(the number of a day or None, the place behind it)."""
        word = self.word(at)
        if not word.isdecimal() or len(word) > 2 or not 1 <= int(word) <= 31:
            return None, at
        return int(word), at + 1 + (self.word(at + 1) in _ORDINAL_ENDS)

    def _is_day_before(self, at: int) -> bool:
        """Whether the number of a day is before the name of a month: *30 February*, which is no day."""
        at -= self.word(at - 1) == "of"
        at -= self.word(at - 1) in _ORDINAL_ENDS
        return self._day_number(at - 1)[0] is not None

    def _year(self, at: int) -> int | None:
        word = self.word(at)
        if len(word) == 4 and word.isdecimal() and FIRST_YEAR <= int(word) <= LAST_YEAR:
            return int(word)
        return None


_PLAIN_RULES = (
    _Reader.iso,
    _Reader.day_and_month,
    _Reader.month_and_day,
    _Reader.weekday,
    _Reader.relative_day,
    _Reader.shifted_unit,
    _Reader.counted_units,
    _Reader.season,
    _Reader.year,
    _Reader.holiday,
)


def _of_years(year: int, month: int, day: int) -> list[date]:
    """A day in each of the years around one that have it, ascending. Raises ValueError if none has."""
    years = range(max(year - YEARS_AROUND, 1), min(year + YEARS_AROUND, date.max.year) + 1)
    has_day = (each for each in years if day <= calendar.monthrange(each, month)[1])
    days = [date(each, month, day) for each in has_day]
    if not days:
        raise ValueError(f"no year has the day {day} of the month {month}")
    return days


def _days(said: date, shift: int, n_words: int) -> _Span:
    day = said + timedelta(shift)
    return _Span(day, day, n_words)


def _month(year: int, month: int, n_words: int) -> _Span:
    first = date(year, month, 1)
    return _Span(first, first.replace(day=calendar.monthrange(year, month)[1]), n_words)


def _season(first: date, n_words: int) -> _Span:
    end = first.replace(year=first.year + (first.month + 3 > 12), month=(first.month + 2) % 12 + 1)
    return _Span(first, end - timedelta(1), n_words)


def _unit(said: date, unit: str, shift: int, n_words: int) -> _Span:
    """The whole week, weekend, month or year that is `shift` after the present one."""
    if unit == "month":
        months = said.year * 12 + said.month - 1 + shift
        return _month(months // 12, months % 12 + 1, n_words)
    if unit == "year":
        year = said.year + shift
        return _Span(date(year, 1, 1), date(year, 12, 31), n_words)
    monday = said - timedelta(said.weekday()) + timedelta(7 * shift)
    if unit == "weekend":
        saturday = monday + timedelta(5)
        return _Span(saturday, saturday + timedelta(1), n_words)
    return _Span(monday, monday + timedelta(6), n_words)


def _counted(said: date, unit: str, number: int, n_words: int) -> _Span:
    if unit == "day":
        return _days(said, number, n_words)
    if unit == "week":
        return _days(said, 7 * number, n_words)
    return _unit(said, unit, number, n_words)
