"""Read a text as tokens: words, and what a text states exactly.

Exact are numbers with their units, dates, times, versions, addresses, codes and single letters. Two notations
of the same thing are the same (`same`): "7,700 m" and "7.7 kilometres", "15 March 2024" and "2024-03-15".
This module is the interface to all that grounding knows of words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
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
    read_number_words,
    read_roman,
)
from shoal.grounding.tokens import (
    ORDINAL_END,
    Day,
    Kind,
    Token,
    fold,
    hour_of_day,
    identity,
    is_day,
    make_word,
    read_run,
    same,
)
from shoal.models.verdicts import Status
from shoal.words.analysis import stems_of

__all__ = ["Kind", "Token", "identity", "joined_keys", "read_tokens", "same", "with_inner_underscores"]

_RUN = re.compile(r"\S+")
_INNER_UNDERSCORE = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_SENTENCE_ENDS = frozenset(".!?…。！？")


def read_tokens(text: str) -> list[Token]:
    """Return the tokens of a text in order. Takes time linear in its length."""
    tokens = [token for run in _RUN.finditer(text) for token in read_run(run[0], run.start())]
    return _with_stems(join_phrases(_with_starts(tokens), text))


def with_inner_underscores(masked: str, text: str) -> str:
    """Return a text without markup, of the same length, with the underscores of names: "user_profile"."""
    if "_" not in text or len(masked) != len(text):
        return masked
    pieces, end = [], 0
    for underscore in _INNER_UNDERSCORE.finditer(text):
        pieces += [masked[end : underscore.start()], underscore[0]]
        end = underscore.end()
    return "".join([*pieces, masked[end:]])


def joined_keys(tokens: Sequence[Token]) -> dict[str, int]:
    """Return neighbouring tokens written as one, such as "xr300" for "XR 300", and the place of the first."""
    found: dict[str, int] = {}
    for place, (one, other) in enumerate(itertools.pairwise(tokens)):
        if one.form.isalnum() and other.form.isalnum():
            found.setdefault(one.form + other.form, place)
    return found


def _with_starts(tokens: list[Token]) -> list[Token]:
    """Mark the tokens that begin a sentence."""
    marked, begins = [], True
    for token in tokens:
        if token.kind is Kind.sign:
            begins = begins or token.text[-1] in _SENTENCE_ENDS or token.text == ":"
            marked.append(token)
        else:
            is_article = begins and token.kind is Kind.letter and token.text == "A"
            marked.append(replace(make_word("A", token.start) if is_article else token, initial=begins))
            begins = False
    return marked


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


NAME, NEGATION, ORDER, COMPARATIVE = "name", "negation", "order", "comparative"
"""Kinds of parts beside the kinds of exact tokens (`words.Kind`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a statement, `statement[start_char:end_char]`, and its counterpart in a passage.

    kind             a kind of exact token, such as `number` or `code`, or `name`
    found            the counterpart as written; None if there is none
    passage          the number of the passage that has it
    passage_start    where the counterpart begins in it, and `passage_end` where it ends
    """

    kind: str
    text: str
    start_char: int
    end_char: int
    status: Status
    found: str | None = None
    passage: int | None = None
    passage_start: int | None = None
    passage_end: int | None = None


def make_part(
    token: Token, status: Status, counterpart: Token | None = None, passage: int | None = None, kind: str = ""
) -> Part:
    """Return the part that a token of a statement is."""
    place = (token.text, token.start, token.end, status)
    if counterpart is None or passage is None:
        return Part(kind or token.kind.value, *place)
    return Part(
        kind or token.kind.value, *place, counterpart.text, passage, counterpart.start, counterpart.end
    )


_ROMAN_LEADS_TEXT = """
    act appendix army article book chapter class corps division emperor figure form grade king level no
    number part phase pope queen scene section stage table title tsar type vol volume war
"""
_ROMAN_LEADS = frozenset(_ROMAN_LEADS_TEXT.split())
_VERSION_WORDS = frozenset(["version", "release", "v", "revision"])


def join_phrases(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens of a text with those joined that state one thing. Takes linear time."""
    for join in _JOINS:
        tokens = join(tokens, text)
    return tokens


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
    return (at - 1, day) if "月" in parts and is_day(day) else None


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
    if at >= len(tokens) or ORDINAL_END.search(tokens[place].form):
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
                hour = hour_of_day(int(before.key[:2]), half)
                merged[-1] = _spanning(before, token, text, key=f"{hour:02}{before.key[2:]}")
                continue
            if (number := _day_number(before)) is not None and number <= 12:
                hour = hour_of_day(number, half)
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


_JOINS: tuple[Callable[[list[Token], str], list[Token]], ...] = (
    _merge_digits,
    _merge_number_words,
    _merge_dates,
    _merge_units,
    _merge_times,
    _mark_versions,
)
