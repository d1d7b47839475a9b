"""Tokens of a text, how they are cut from it, and when two of them state the same."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from lagoon.tokens import is_stop_word, normalise
from shoal.grounding.notations import UNITS, Unit, read_digits

ORDINAL_END = re.compile(r"(?:\dst|\dnd|\drd|\dth|first|second|third|fifth|[a-z]th|\ds)\Z")
"""The end of an ordinal, or of a plural of digits: "20th", "third", "1990s"."""


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
        """Whether it is a stop word; an acronym such as "WHO" is none, nor is the month May."""
        is_month = self.text == "May" and not self.initial
        return self.kind is Kind.word and not is_month and not self.key.isupper() and is_stop_word(self.form)


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


def identity(token: Token) -> str:
    """Return what two tokens that are written in different ways have in common, where that is one text."""
    return format(token.values[0].normalize(), "f") if token.values else token.key


def fold(text: str) -> str:
    """Return a text in lower case, with width and forms of signs folded."""
    return unicodedata.normalize("NFKC", text).casefold().replace("−", "-").replace("μ", "µ")


def is_day(day: Day) -> bool:
    _, month, number = day
    return (month is None or 1 <= month <= 12) and (number is None or 1 <= number <= 31)


def hour_of_day(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if half[0] in "pP" else 0)


def make_word(text: str, at: int) -> Token:
    form = (text.lower() if text.isascii() else normalise(text)) or fold(text)
    return Token(Kind.word, at, at + len(text), text, form, form)


_OPENERS = "([{\"'“”‘’«»‹›„‚「『（【¿¡*|<"
_CLOSERS = "()]}\"'“”‘’«»‹›」』）】.,;:!?…*|、。，；：！？>("
_DASHES = re.compile(r"([–—―]|\.\.+|…|--+)")
_INNER = re.compile(r"(?:(?!(?<=\w)['’ʼ](?=\w))[^\w\-])+|_+")
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
_FRACTIONS = {"½": Decimal("0.5"), "¼": Decimal("0.25"), "¾": Decimal("0.75")}


def read_run(run: str, at: int) -> Iterator[Token]:
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
            yield _exact(text, place) or make_word(text, place)
    else:
        yield make_word(piece, at)


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
        return make_word(body, at)
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
        if is_day(day):
            return _made(Kind.date, body, at, fold(body), days=(day,))
    elif given := _DAY_DATE.fullmatch(body):
        first, second, year = int(given[1]), int(given[3]), int(given[4])
        year += 0 if len(given[4]) == 4 else 1900 if year > 50 else 2000
        orders = [(year, second, first)] + ([(year, first, second)] if given[2] != "." else [])
        days = tuple(dict.fromkeys(day for day in orders if is_day(day)))
        if days:
            return _made(Kind.date, body, at, fold(body), days=days)
    return None


def _time(body: str, at: int) -> Token | None:
    clock = _CLOCK.fullmatch(body)
    if clock and int(clock[1]) < 25 and int(clock[2]) < 60:
        seconds = f":{clock[3]}" if clock[3] and clock[3] != "00" else ""
        return _made(Kind.time, body, at, f"{hour_of_day(int(clock[1]), clock[4]):02}:{clock[2]}{seconds}")
    hour = _HOUR.fullmatch(body)
    if hour and int(hour[1]) <= 12:
        return _made(Kind.time, body, at, f"{hour_of_day(int(hour[1]), hour[2]):02}:00")
    return None


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
    return not is_word and not any(ORDINAL_END.search(piece) for piece in pieces)


def _code_key(body: str) -> str:
    plain = fold(body)
    signs = "".join(each for each in plain if each in "+#&@$./:")
    lead = plain[: len(plain) - len(plain.lstrip("-"))]
    return lead + "".join(each for each in plain if each.isalnum()) + signs


def _made(kind: Kind, body: str, at: int, key: str, **more: object) -> Token:
    return Token(kind, at, at + len(body), body, fold(body), key, **more)  # type: ignore[arg-type]


def _sign(text: str, at: int) -> Token:
    return Token(Kind.sign, at, at + len(text), text, text, text)
