"""Read a text as tokens: words, and what a text states exactly.

Exact are numbers with their units, dates, times, versions, addresses, codes and single letters. Two notations
of the same thing are the same (`same`): "7,700 m" and "7.7 kilometres", "15 March 2024" and "2024-03-15".
This module is all that grounding knows of words.
"""

from __future__ import annotations

import enum
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from lagoon.tokens import is_stop_word, without_clitic
from shoal.grounding.english import base_form
from shoal.grounding.notations import (
    AMBIGUOUS_UNITS,
    CURRENCY_SIGNS,
    MONTHS,
    NUMBER_WORDS,
    UNITS,
    Unit,
    read_digits,
    read_number_words,
    read_roman,
)
from shoal.search.query_language import folded, stems_of


class Kind(enum.StrEnum):
    """What a token is. All but words and signs are exact: they are compared whole."""

    word = "word"
    sign = "sign"
    number = "number"
    date = "date"
    time = "time"
    version = "version"
    address = "address"
    code = "code"
    letter = "letter"


Day = tuple[int | None, int | None, int | None]
"""Year, month and day, as far as they are given."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text, `text[start:end]`.

    form     as written, in lower case, with width and accents folded
    key      equal for the same thing in another form: the stem of a word, a code without separators
    initial  whether it begins a sentence, so that a capital says nothing
    values   what a number may stand for; more than one if its notation is ambiguous
    unit     the unit of a number; `implied` if it stands behind a later number: "10 to 12 km"
    days     what a date may stand for
    """

    kind: Kind
    start: int
    end: int
    text: str
    form: str
    key: str
    initial: bool = False
    values: tuple[Decimal, ...] = ()
    unit: Unit | None = None
    implied: bool = False
    days: tuple[Day, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.kind not in (Kind.word, Kind.sign)

    @property
    def is_name(self) -> bool:
        """Whether it is a capitalised word that does not begin its sentence."""
        return self.kind is Kind.word and not self.initial and self.is_capitalised

    @property
    def is_capitalised(self) -> bool:
        return self.kind is Kind.word and self.text[:1].isupper() and not self.is_common

    @property
    def is_common(self) -> bool:
        """Whether it is a stop word; an acronym such as "WHO" is none."""
        return self.kind is Kind.word and not self.key.isupper() and is_stop_word(self.form)


def same(one: Token, other: Token) -> bool | None:
    """Whether two exact tokens state the same; None if their notations leave it open."""
    if one.form == other.form and (one.unit == other.unit or one.implied or other.implied):
        return True
    kinds = {one.kind, other.kind}
    if kinds == {Kind.number}:
        return _same_number(one, other)
    if kinds == {Kind.date}:
        return _same_date(one, other)
    if kinds == {Kind.date, Kind.number}:
        # A year alone is part of a date; only the stated part must agree.
        date, number = (one, other) if one.kind is Kind.date else (other, one)
        return one is number and number.unit is None and any(day[0] in number.values for day in date.days)
    if kinds == {Kind.version, Kind.number}:
        return one.key == other.key
    return one.kind is other.kind and one.key == other.key


def _same_number(one: Token, other: Token) -> bool | None:
    if one.unit and other.unit and not (one.implied or other.implied):
        if one.unit.measures != other.unit.measures:
            return False
        first = {value * one.unit.factor for value in one.values}
        second = {value * other.unit.factor for value in other.values}
    else:
        first, second = set(one.values), set(other.values)
    if not first & second:
        return False
    return True if len(first) == len(second) == 1 else None


def _same_date(stated: Token, other: Token) -> bool | None:
    """Whether each part of a stated date is in another date."""
    agreeing = [
        [
            all(part is None or part == known for part, known in zip(day, found, strict=True))
            for found in other.days
        ]
        for day in stated.days
    ]
    if not any(map(any, agreeing)):
        return False
    return True if len(stated.days) == len(other.days) == 1 else None


_RUN = re.compile(r"\S+")
_OPENERS = "([{\"'“”‘’«»‹›„‚「『（【¿¡*|<"
_CLOSERS = "()]}\"'“”‘’«»‹›」』）】.,;:!?…*|、。，；：！？>("
_DASHES = re.compile(r"([–—―]|\.\.+|…|--+)")
_INNER = re.compile(r"(?:(?!(?<=\w)['’ʼ](?=\w))[^\w\-])+|_+")
_INNER_UNDERSCORE = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_HAN_RANGES = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_HAN = re.compile(f"[{_HAN_RANGES}]")
_SCRIPTS = re.compile(rf"[{_HAN_RANGES}]|\d+|[^{_HAN_RANGES}\d]+")
_URL = re.compile(r"[a-z][a-z0-9+.\-]*+://\S+", re.IGNORECASE)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+|/\d+)?")
_COLONS = re.compile(r"[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,}|[0-9a-f]{0,4}::[0-9a-f]{0,4}", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:T[\d:.+Z\-]*)?")
_DAY_DATE = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)")
_CLOCK = re.compile(r"(\d{1,2})(?::|h)(\d\d)(?::(\d\d)(?:\.\d+)?)?([ap]\.?m\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"(\d{1,2})([ap]\.?m\.?)", re.IGNORECASE)
_VERSION = re.compile(r"v?(\d+(?:\.\d+){2,}(?:[\-+.]?[a-z][\w.+\-]*)?)|v(\d+(?:\.\d+)*)", re.IGNORECASE)
_THOUSANDS_BY_STOP = re.compile(r"[1-9]\d{0,2}(?:\.\d{3}){2,}(?:,\d+)?")
_NUMBER = re.compile(
    r"([+\-−±~≈<>≤≥]?)(us\$|[$€£¥₹₽₩])?(\d[\d.,'’]*+)(?:-(?=[^\W\d_]))?([^\d\W_][\w/.]*|[%‰°ºμ€£¥¢℃℉]\w*|½)?",
    re.IGNORECASE,
)
_SIGNED_NAME = re.compile(
    r"""[^\W_]+(?:_[^\W_]+)+ | [a-z]{1,3}(?:\+\+|\#) | [a-z]{1,4}(?:&[a-z]{1,4})+ | [.@#$][a-z_][\w\-]*
      | --?[a-z][\w\-]* | (?=[\w.]*[a-z])\w+(?:\.[a-z]\w*)+ | \w*(?:::|/)\S+""",
    re.VERBOSE | re.IGNORECASE,
)
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_HYPHENS_OF_DIGITS = re.compile(r"\d+(?:-\d+){2,}[\dXx]?")
_CAMEL = re.compile(r"[a-z][A-Z]")
_HYPHENATED_CODE = re.compile(r"[^\W\d_]+-\d\w*")
_NO_CODE_TEXT = """
    about and circa early late mid minus non of or over plus post pre sub to top under
"""
_NO_CODE = frozenset(_NO_CODE_TEXT.split())
_ROMAN_LEADS_TEXT = """
    act appendix army article book chapter class corps division emperor figure form grade king level no
    number part phase pope queen scene section stage table title tsar type vol volume war
"""
_ROMAN_LEADS = frozenset(_ROMAN_LEADS_TEXT.split())
_VERSION_WORDS = frozenset(["version", "release", "v", "revision"])
_ORDINAL_END = re.compile(r"(?:\dst|\dnd|\drd|\dth|first|second|third|fifth|[a-z]th|\ds)\Z")
_SENTENCE_ENDS = frozenset(".!?…。！？")
_FRACTIONS = {"½": Decimal("0.5"), "¼": Decimal("0.25"), "¾": Decimal("0.75")}


def read_tokens(text: str) -> list[Token]:
    """Return the tokens of a text in order. Takes time linear in its length."""
    tokens = [token for run in _RUN.finditer(text) for token in _read_run(run[0], run.start())]
    tokens = _with_starts(tokens)
    for merge in (
        _merge_digits,
        _merge_number_words,
        _merge_dates,
        _merge_units,
        _merge_times,
        _mark_versions,
    ):
        tokens = merge(tokens, text)
    return _with_stems(tokens)


def with_inner_underscores(masked: str, text: str) -> str:
    """Return a text without markup, of the same length, with the underscores of names: "user_profile"."""
    if "_" not in text or len(masked) != len(text):
        return masked
    pieces, end = [], 0
    for underscore in _INNER_UNDERSCORE.finditer(text):
        pieces += [masked[end : underscore.start()], underscore[0]]
        end = underscore.end()
    return "".join([*pieces, masked[end:]])


def identity(token: Token) -> str:
    """Return what two tokens that are written in different ways have in common, where that is one text."""
    return format(token.values[0].normalize(), "f") if token.values else token.key


def joined_keys(tokens: Sequence[Token]) -> dict[str, int]:
    """Return neighbouring tokens written as one, such as "xr300" for "XR 300", and the place of the first."""
    found: dict[str, int] = {}
    for place, (one, other) in enumerate(itertools.pairwise(tokens)):
        if one.form.isalnum() and other.form.isalnum():
            found.setdefault(one.form + other.form, place)
    return found


def fold(text: str) -> str:
    """Return a text in lower case, with width and forms of signs folded."""
    return unicodedata.normalize("NFKC", text).casefold().replace("−", "-").replace("μ", "µ")


def _read_run(run: str, at: int) -> Iterator[Token]:
    """The tokens of characters without white space."""
    start, end = 0, len(run)
    while start < end and run[start] in _OPENERS:
        yield _sign(run[start], at + start)
        start += 1
    while end > start and run[end - 1] in _CLOSERS:
        end -= 1
    if end > start:
        yield from _read_body(run[start:end], at + start)
    for place in range(end, len(run)):
        yield _sign(run[place], at + place)


def _read_body(body: str, at: int) -> Iterator[Token]:
    whole = _exact(body, at)
    if whole is not None:
        yield whole
        return
    for pattern in (_DASHES, _INNER):
        if pattern.search(body) and not _has_marks(body):
            yield from _split(body, at, pattern)
            return
    yield from _read_part(body, at)


def _has_marks(body: str) -> bool:
    """Whether combining marks spell a word, as vowel signs do."""
    return not body.isascii() and any(unicodedata.category(each)[0] == "M" for each in body)


def _split(body: str, at: int, pattern: re.Pattern[str]) -> Iterator[Token]:
    place = 0
    for separator in pattern.finditer(body):
        if separator.start() > place:
            yield from _read_part(body[place : separator.start()], at + place)
        yield _sign(separator[0], at + separator.start())
        place = separator.end()
    if place < len(body):
        yield from _read_part(body[place:], at + place)


def _read_part(part: str, at: int) -> Iterator[Token]:
    """The tokens of a part between dashes or signs, which may have hyphens."""
    whole = _exact(part, at)
    if whole is not None:
        yield whole
        return
    place = at
    for number, piece in enumerate(part.split("-")):
        if number:
            yield _sign("-", place - 1)
        if piece:
            yield from _read_piece(piece, place)
        place += len(piece) + 1


def _read_piece(piece: str, at: int) -> Iterator[Token]:
    """The tokens of letters and digits."""
    whole = _exact(piece, at)
    if whole is not None:
        yield whole
    elif not piece.isascii() and _HAN.search(piece):
        # Scripts without spaces are read by character.
        for found in _SCRIPTS.finditer(piece):
            text, place = found[0], at + found.start()
            yield _exact(text, place) or _word(text, place)
    else:
        yield _word(piece, at)


def _exact(body: str, at: int) -> Token | None:
    """The exact token that a body is as a whole, None if it is a word or several tokens."""
    if len(body) == 1 and body.isalpha():
        return _letter(body, at)
    if body in _FRACTIONS:
        return Token(Kind.number, at, at + 1, body, body, body, values=(_FRACTIONS[body],))
    plain = body if body.isascii() else unicodedata.normalize("NFKC", body)
    readers = (_address, _date, _time, _versioned, _number, _code) if _DIGIT.search(plain) else (_named,)
    for read in readers:
        token = read(plain, at)
        if token is not None:
            return token if plain == body else replace(token, end=at + len(body), text=body)
    return None


def _letter(body: str, at: int) -> Token | None:
    is_latin = body.isascii()
    if not is_latin or body in "aIO":
        return None
    return Token(Kind.letter, at, at + 1, body, body.casefold(), body.casefold())


def _named(body: str, at: int) -> Token | None:
    if _URL.fullmatch(body) or _EMAIL.fullmatch(body):
        return _made(Kind.address, body, at, fold(body).rstrip("/"))
    if _INITIALS.fullmatch(body):
        letters = body.replace(".", "")
        key = letters if letters.islower() else letters.upper()
        return Token(Kind.word, at, at + len(body), body, fold(letters), key)
    if "/" in body and fold(body) in UNITS:
        return _word(body, at)
    if _COLONS.fullmatch(body) and len(body) > 4:
        return _made(Kind.address, body, at, fold(body))
    if (_SIGNED_NAME.fullmatch(body) or (body.isalpha() and _CAMEL.search(body))) and body.lower() not in (
        "and/or",
        "either/or",
        "he/she",
    ):
        if "/" in body and not body.startswith(("/", "~", ".")) and body.count("/") < 2:
            return None
        return _made(Kind.code, body, at, _code_key(body))
    return None


def _address(body: str, at: int) -> Token | None:
    if _IPV4.fullmatch(body) or _URL.fullmatch(body) or _EMAIL.fullmatch(body):
        return _made(Kind.address, body, at, fold(body).rstrip("/"))
    if _COLONS.fullmatch(body) and not _CLOCK.fullmatch(body):
        return _made(Kind.address, body, at, fold(body))
    return None


def _date(body: str, at: int) -> Token | None:
    if iso := _ISO_DATE.fullmatch(body):
        day = (int(iso[1]), int(iso[3]), int(iso[4]))
        if _is_day(day):
            return _made(Kind.date, body, at, fold(body), days=(day,))
    elif given := _DAY_DATE.fullmatch(body):
        first, second, year = int(given[1]), int(given[3]), int(given[4])
        year += 0 if len(given[4]) == 4 else 1900 if year > 50 else 2000
        orders = [(year, second, first)] + ([(year, first, second)] if given[2] != "." else [])
        days = tuple(dict.fromkeys(day for day in orders if _is_day(day)))
        if days:
            return _made(Kind.date, body, at, fold(body), days=days)
    return None


def _is_day(day: Day) -> bool:
    _, month, number = day
    return (month is None or 1 <= month <= 12) and (number is None or 1 <= number <= 31)


def _time(body: str, at: int) -> Token | None:
    clock = _CLOCK.fullmatch(body)
    if clock and int(clock[1]) < 25 and int(clock[2]) < 60:
        seconds = f":{clock[3]}" if clock[3] and clock[3] != "00" else ""
        return _made(Kind.time, body, at, f"{_hour(int(clock[1]), clock[4]):02}:{clock[2]}{seconds}")
    hour = _HOUR.fullmatch(body)
    if hour and int(hour[1]) <= 12:
        return _made(Kind.time, body, at, f"{_hour(int(hour[1]), hour[2]):02}:00")
    return None


def _hour(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if half[0] in "pP" else 0)


def _versioned(body: str, at: int) -> Token | None:
    if _THOUSANDS_BY_STOP.fullmatch(body):
        return None
    version = _VERSION.fullmatch(body)
    return _made(Kind.version, body, at, fold(version[1] or version[2])) if version else None


def _number(body: str, at: int) -> Token | None:
    number = _NUMBER.fullmatch(body)
    if number is None:
        return None
    sign, currency, digits, suffix = number.groups()
    values = read_digits(digits)
    if not values or (len(digits) > 1 and digits[0] == "0" and digits.isdigit() and len(digits) > 2):
        return None
    unit = UNITS.get(currency.casefold()) if currency else None
    if suffix:
        folded_suffix = fold(suffix)
        if (
            folded_suffix in ("st", "nd", "rd", "th", "s", "er", "ème", "º", "ª", "o", "a")
            and digits.isdigit()
        ):
            if folded_suffix == "a":
                return None
        elif folded_suffix in UNITS and (not suffix.isupper() or len(suffix) > 1 or suffix in "CFKVAWLJNTBM"):
            # "12A" and "9B" are codes rather than amperes and bytes.
            if suffix in "ABCFKNT" and "-" not in body:
                return None
            unit = UNITS[folded_suffix]
        else:
            return None
    if sign in ("-", "−"):
        values = tuple(-value for value in values)
    return _made(Kind.number, body, at, digits, values=values, unit=unit)


def _code(body: str, at: int) -> Token | None:
    if _DASHES.search(body):
        return None
    if _HYPHENS_OF_DIGITS.fullmatch(body):
        return _made(Kind.code, body, at, _code_key(body))
    letters = _LETTER.search(body)
    if not letters:
        has_signs = re.search(r"[^\w.,\-]", body) is not None and not re.fullmatch(r"\d+[/×x:]\d+", body)
        is_long = body.isdigit()
        return _made(Kind.code, body, at, _code_key(body)) if (is_long or has_signs) else None
    if _HAN.search(body):
        return None
    if "-" in body.strip("-") and not _is_hyphenated_code(body):
        return None
    return _made(Kind.code, body, at, _code_key(body))


def _is_hyphenated_code(body: str) -> bool:
    """Whether letters and digits with hyphens are a code as "XR-300", and no words as "12-year-old"."""
    pieces = [piece for piece in body.split("-") if piece]
    if pieces[0].lower() in _NO_CODE:
        return False
    if _HYPHENATED_CODE.fullmatch(body):
        return True
    is_word = any(piece.isalpha() and len(piece) > 1 and not piece.isupper() for piece in pieces)
    return not is_word and not any(_ORDINAL_END.search(piece) for piece in pieces)


def _code_key(body: str) -> str:
    plain = fold(body)
    signs = "".join(each for each in plain if each in "+#&@$./:")
    lead = plain[: len(plain) - len(plain.lstrip("-"))]
    return lead + "".join(each for each in plain if each.isalnum()) + signs


def _made(kind: Kind, body: str, at: int, key: str, **more: object) -> Token:
    return Token(kind, at, at + len(body), body, fold(body), key, **more)  # type: ignore[arg-type]


def _sign(text: str, at: int) -> Token:
    return Token(Kind.sign, at, at + len(text), text, text, text)


def _word(text: str, at: int) -> Token:
    form = folded(text) or fold(text)
    return Token(Kind.word, at, at + len(text), text, form, form)


def _with_starts(tokens: list[Token]) -> list[Token]:
    """Mark the tokens that begin a sentence."""
    marked, begins = [], True
    for token in tokens:
        if token.kind is Kind.sign:
            begins = begins or token.text[-1] in _SENTENCE_ENDS or token.text == ":"
            marked.append(token)
        else:
            is_article = begins and token.kind is Kind.letter and token.text == "A"
            marked.append(replace(_word("A", token.start) if is_article else token, initial=begins))
            begins = False
    return marked


def _spanning(first: Token, last: Token, text: str, **changes: object) -> Token:
    """A token over several, with other values."""
    written = text[first.start : last.end]
    return replace(first, end=last.end, text=written, form=" ".join(fold(written).split()), **changes)  # type: ignore[arg-type]


def _merge_digits(tokens: list[Token], text: str) -> list[Token]:
    """Join digits that white space groups: "7 700"."""
    merged: list[Token] = []
    for token in tokens:
        before = merged[-1] if merged else None
        if (
            before is not None
            and before.kind is Kind.number
            and token.kind in (Kind.number, Kind.code)
            and token.start == before.end + 1
            and before.unit is None
            and re.fullmatch(r"[1-9]\d{0,2}(?: \d{3})*", before.form)
            and re.fullmatch(r"\d{3}(?:[.,]\d+)?", token.key)
            and token.text[:1].isdigit()
        ):
            digits = before.form.replace(" ", "") + token.key.replace(",", ".")
            merged[-1] = _spanning(
                before, token, text, key=digits, values=(Decimal(digits),), unit=token.unit
            )
        else:
            merged.append(token)
    return merged


def _merge_number_words(tokens: list[Token], text: str) -> list[Token]:
    """Join the words of a number: "two hundred and fifty thousand", "1.5 billion", "twenty-third"."""
    merged: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        begun = token.values[0] if token.kind is Kind.number and len(token.values) == 1 else None
        if begun is None and not (token.kind is Kind.word and token.form in NUMBER_WORDS):
            merged.append(token)
            place += 1
            continue
        words: list[str] = []
        places: list[int] = []
        for follower in range(place + (begun is not None), min(place + 24, len(tokens))):
            each = tokens[follower]
            if each.kind is Kind.sign and each.text == "-" and words:
                continue
            if each.kind is not Kind.word or not (each.form in NUMBER_WORDS or each.form == "and"):
                break
            words.append(each.form)
            places.append(follower)
        phrase = read_number_words(words, begun)
        if phrase is None:
            merged.append(token)
            place += 1
            continue
        last = places[phrase.length - 1]
        key = format(phrase.value, "f")
        merged.append(_spanning(token, tokens[last], text, kind=Kind.number, key=key, values=(phrase.value,)))
        place = last + 1
    return merged


def _merge_dates(tokens: list[Token], text: str) -> list[Token]:
    merged: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _date_at(tokens, place)
        if found is None:
            merged.append(tokens[place])
            place += 1
        else:
            last, day = found
            whole = _spanning(
                tokens[place], tokens[last], text, kind=Kind.date, days=(day,), values=(), unit=None
            )
            merged.append(replace(whole, key=whole.form))
            place = last + 1
    return merged


def _date_at(tokens: Sequence[Token], place: int) -> tuple[int, Day] | None:
    """The last token and the day of a date that names its month: "15 March 2024", "March 15th, 2024"."""
    day = _day_number(tokens[place])
    if day is not None:
        at = _skip(tokens, place + 1, (".", "of", "de", "-"))
        month = _month(tokens, at, after_day=True)
        if month is None:
            return _han_date(tokens, place)
        after = _skip(tokens, at + 1, (",", "of", "de", "del", ".", "-"))
        year = _year(tokens, after)
        return (after, (year, month, day)) if year is not None else (at, (None, month, day))
    month = _month(tokens, place)
    if month is None:
        return _han_date(tokens, place)
    at = _skip(tokens, place + 1, (".", "the"))
    day = _day_number(tokens[at]) if at < len(tokens) else None
    if day is not None:
        after = _skip(tokens, at + 1, (",",))
        year = _year(tokens, after)
        return (after, (year, month, day)) if year is not None else (at, (None, month, day))
    at = _skip(tokens, place + 1, (",", "of", "de", "."))
    year = _year(tokens, at)
    return (at, (year, month, None)) if year is not None else None


def _han_date(tokens: Sequence[Token], place: int) -> tuple[int, Day] | None:
    """A date such as 2024年3月15日."""
    parts: dict[str, int] = {}
    at = place
    for mark in "年月日":
        if (
            at + 1 < len(tokens)
            and tokens[at + 1].text == mark
            and tokens[at].kind is Kind.number
            and tokens[at].key.isdigit()
        ):
            parts[mark] = int(tokens[at].key[:4])
            at += 2
    day: Day = (parts.get("年"), parts.get("月"), parts.get("日"))
    return (at - 1, day) if "月" in parts and _is_day(day) else None


def _skip(tokens: Sequence[Token], place: int, skipped: Sequence[str]) -> int:
    for _ in range(2):
        if place < len(tokens) and tokens[place].form in skipped:
            place += 1
    return place


def _day_number(token: Token) -> int | None:
    if token.kind is not Kind.number or token.unit is not None or len(token.values) != 1:
        return None
    value = token.values[0]
    return int(value) if value == int(value) and 1 <= value <= 31 else None


def _month(tokens: Sequence[Token], place: int, *, after_day: bool = False) -> int | None:
    if place >= len(tokens) or tokens[place].kind is not Kind.word:
        return None
    token = tokens[place]
    if not after_day and not token.text[0].isupper() and token.form in ("may", "march", "mars", "mar"):
        return None
    return MONTHS.get(token.text.casefold()) or MONTHS.get(token.form)


def _year(tokens: Sequence[Token], place: int) -> int | None:
    if place >= len(tokens) or tokens[place].kind is not Kind.number or tokens[place].unit is not None:
        return None
    written = tokens[place].text
    return int(written) if written.isdigit() and 3 <= len(written) <= 4 else None


def _merge_units(tokens: list[Token], text: str) -> list[Token]:
    """Join a number and the unit behind it, and give the numbers of a range the unit of the last."""
    merged: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if (sign := _currency_before(merged, token)) is not None:
            token = _spanning(
                merged.pop(), token, text, kind=Kind.number, key=token.key, values=token.values, unit=sign
            )
        if token.kind is Kind.number:
            unit, last = _unit_after(tokens, place)
            if unit is not None and (token.unit is None or unit.measures == token.unit.measures):
                values = token.values
                token = _spanning(token, tokens[last], text, unit=unit, values=values)
                place = last
            if merged and merged[-1].form == "minus":
                token = _spanning(
                    merged.pop(),
                    token,
                    text,
                    kind=Kind.number,
                    key=token.key,
                    unit=token.unit,
                    values=tuple(-v for v in token.values),
                )
        merged.append(token)
        place += 1
    for at in range(len(merged) - 1, 1, -1):
        first, between, following = merged[at - 2 : at + 1]
        if (
            first.kind is following.kind is Kind.number
            and following.unit is not None
            and first.unit is None
            and between.form in ("-", "–", "—", "to", "or", "and")
        ):
            merged[at - 2] = replace(first, unit=following.unit, implied=True)
    return merged


def _currency_before(before: Sequence[Token], token: Token) -> Unit | None:
    """The currency of "€ 5" or "USD 5"."""
    if token.kind is not Kind.number or token.unit is not None or not before:
        return None
    lead = before[-1]
    if lead.text in ("USD", "EUR", "GBP", "JPY", "INR", "CHF", "RUB", "KRW") or lead.text in CURRENCY_SIGNS:
        return UNITS[fold(lead.text)]
    return None


def _unit_after(tokens: Sequence[Token], place: int) -> tuple[Unit | None, int]:
    """The unit behind a number, and the place of its last token."""
    at = place + 1
    if at < len(tokens) and tokens[at].text == "-":
        at += 1
    if at >= len(tokens) or _ORDINAL_END.search(tokens[place].form):
        return None, place
    first = fold(tokens[at].text)
    for last in (at + 1, at + 2):
        if last < len(tokens):
            pair = f"{first}-{fold(tokens[last].text)}".replace("---", "-")
            if pair in UNITS:
                return UNITS[pair], last
            if first in ("°", "º", "degrees", "degree") and tokens[last].form in (
                "c",
                "f",
                "celsius",
                "fahrenheit",
            ):
                return UNITS[f"°{tokens[last].form[0]}"], last
    if first not in UNITS or (tokens[at].kind not in (Kind.word, Kind.sign, Kind.letter, Kind.code)):
        return None, place
    in_digits = tokens[place].text[-1:].isdigit()
    if first in AMBIGUOUS_UNITS and not (in_digits and (len(first) > 1 or tokens[at].text in "mlgstLVW")):
        return None, place
    return UNITS[first], at


def _merge_times(tokens: list[Token], text: str) -> list[Token]:
    """Join a time and its half of the day: "9:30 p.m.", "9 am", "17:30 Uhr"."""
    merged: list[Token] = []
    for token in tokens:
        before = merged[-1] if merged else None
        half = token.form.replace(".", "")
        if before is not None and half in ("am", "pm") and token.kind in (Kind.word, Kind.code):
            if before.kind is Kind.time:
                hour = _hour(int(before.key[:2]), half)
                merged[-1] = _spanning(before, token, text, key=f"{hour:02}{before.key[2:]}")
                continue
            if (number := _day_number(before)) is not None and number <= 12:
                hour = _hour(number, half)
                merged[-1] = _spanning(before, token, text, kind=Kind.time, key=f"{hour:02}:00", values=())
                continue
        if before is not None and before.kind is Kind.time and token.form in ("uhr", "h", "hrs"):
            merged[-1] = _spanning(before, token, text)
            continue
        merged.append(token)
    return merged


def _mark_versions(tokens: list[Token], text: str) -> list[Token]:
    """Read "3.10" behind a name or "version" as a version, and "XIV" behind a name as a number."""
    for place in range(1, len(tokens)):
        token, before = tokens[place], tokens[place - 1]
        is_title = before.form in _ROMAN_LEADS
        leads = is_title or (before.is_capitalised and not (before.initial and len(token.text) == 1))
        if (
            token.kind is Kind.number
            and token.unit is None
            and re.fullmatch(r"\d+\.\d+", token.text)
            and (before.is_capitalised or before.form in _VERSION_WORDS)
        ):
            tokens[place] = replace(token, kind=Kind.version, values=())
        elif leads and token.kind in (Kind.word, Kind.letter):
            value = read_roman(token.text)
            if value is not None:
                tokens[place] = replace(token, kind=Kind.number, key=str(value), values=(Decimal(value),))
    return tokens


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
