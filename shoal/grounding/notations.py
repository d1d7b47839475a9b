"""How numbers, units, months and Roman numerals are written: the tables that `words` reads with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

MAX_DIGITS = 24
"""Longer runs of digits are codes; their first digits are compared."""

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_SMALL_ORDINALS = """
    zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
    fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS_ORDINALS = "twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth"
_UNITS_OF = {word: value for value, word in enumerate(_SMALL.split())}
_TENS_OF = {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = {word: value for value, word in enumerate(_SMALL_ORDINALS.split())} | {
    word: 10 * value for value, word in enumerate(_TENS_ORDINALS.split(), start=2)
}
NUMBER_WORDS = frozenset({*_UNITS_OF, *_TENS_OF, *_SCALES, *_ORDINALS, "hundred"})


class NumberPhrase(NamedTuple):
    """A number in words: its value and how many of the words it takes."""

    value: Decimal
    length: int


def read_number_words(words: Sequence[str], begun: Decimal | None = None) -> NumberPhrase | None:
    """Return the number that a list of lower-case words begins with: "two hundred and fifty thousand".

    `begun` is a value in digits before the words: "1.5" before "million". None if no number begins there.
    """
    total, group = Decimal(0), begun
    is_word, length = False, 0
    for place, word in enumerate(words):
        value = _UNITS_OF.get(word, _TENS_OF.get(word))
        if value is not None or word in _ORDINALS:
            ordinal = value is None
            value = _ORDINALS[word] if value is None else value
            if not _continues(group, value, is_word=is_word):
                break
            group, is_word = (group or Decimal(0)) + value, True
            if ordinal:
                return NumberPhrase(total + group, place + 1)
        elif word == "hundred" and group is not None and 0 < group < 100:
            group, is_word = group * 100, True
        elif word in _SCALES and group is not None:
            total, group = total + group * _SCALES[word], None
            is_word = True
        elif word == "and" and group is not None and is_word and group >= 100:
            continue
        else:
            break
        length = place + 1
    return NumberPhrase(total + (group or Decimal(0)), length) if length else None


def _continues(group: Decimal | None, value: int, *, is_word: bool) -> bool:
    """Whether a unit or ten continues a number, as "three" does after "twenty" and "hundred"."""
    if group is None:
        return True
    if not is_word:
        return False
    rest = group % 100
    return (rest == 0 and group > 0) or (rest >= 20 and rest % 10 == 0 and value < 10)


_GROUPED = re.compile(r"\d{1,3}(?:([,.'’ \u00a0\u2009\u202f])\d{3})(?:\1\d{3})*+(?:(?!\1)[.,]\d+)?")
_INDIAN = re.compile(r"\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?")
_PLAIN = re.compile(r"\d+(?:[.,]\d+)?")
_ENGLISH_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")


def read_digits(written: str) -> tuple[Decimal, ...]:
    """Return the values that digits with separators may have; none if they are no single number.

    "7,700" is 7700 as in English. "7.700" is 7.7 or, as in German and Spanish, 7700.
    """
    readings: list[Decimal] = []
    if _PLAIN.fullmatch(written) and not _ENGLISH_THOUSANDS.fullmatch(written):
        readings.append(_decimal(written.replace(",", ".")))
    if (grouped := _GROUPED.fullmatch(written)) or _INDIAN.fullmatch(written):
        separator = grouped[1] if grouped else ","
        whole = written.replace(separator, "")
        value = _decimal(whole.replace(",", "."))
        if value not in readings and not written.startswith("0"):
            readings.append(value)
    return tuple(readings)


def _decimal(digits: str) -> Decimal:
    whole, _, fraction = digits.partition(".")
    return Decimal(f"{whole[:MAX_DIGITS]}.{fraction[:MAX_DIGITS]}" if fraction else whole[:MAX_DIGITS])


class Unit(NamedTuple):
    """A unit: what it measures, and how many of that one's base unit it is."""

    measures: str
    factor: Decimal


_METRIC = {"k": "1e3", "c": "1e-2", "m": "1e-3", "µ": "1e-6", "n": "1e-9"}
_PREFIXABLE = {
    "m": ("metre", "meter"),
    "g": ("gram", "gramme"),
    "l": ("litre", "liter"),
    "s": ("second",),
}
_METRIC_WORDS = {"kilo": "1e3", "centi": "1e-2", "milli": "1e-3", "micro": "1e-6", "nano": "1e-9"}
_UNIT_TABLE = """
    length 1 m metre meter | length 1609.344 mi mile | length 0.3048 ft foot feet | length 0.0254 inch
    inches | length 0.9144 yd yard | mass 1 g gram gramme | mass 1e6 t tonne | mass 453.59237 lb lbs
    pound-mass | mass 28.349523125 oz ounce | volume 1 l litre liter | volume 3.785411784 gallon gal |
    volume 0.568 pint | time 1 s sec second | time 60 min minute | time 3600 h hr hrs hour | time 86400
    day | time 604800 week | months 1 month | months 12 year yr yrs | months 120 decade | months 1200
    century centuries | area 1 m2 m² sqm | area 1e6 km2 km² | area 1e-4 cm2 cm² | area 1e4 ha hectare |
    area 4046.8564224 acre | cubic 1 m3 m³ | cubic 1e9 km3 km³ | cubic 1e-6 cm3 cm³ | celsius 1 °c ℃
    celsius centigrade | fahrenheit 1 °f ℉ fahrenheit | kelvin 1 k kelvin | degrees 1 ° degree deg | share
    1 % percent per-cent pct | permille 1 ‰ | points 1 percentage-point percentage-points | bits 1 bit |
    bytes 1 b byte | bytes 1e3 kb kilobyte | bytes 1e6 mb megabyte | bytes 1e9 gb gigabyte | bytes 1e12 tb
    terabyte | bytes 1024 kib | bytes 1048576 mib | bytes 1073741824 gib | volts 1 v volt | amperes 1 a
    amp ampere | watts 1 w watt | watts 1e3 kw kilowatt | watts 1e6 mw megawatt | watts 1e9 gw gigawatt |
    joules 1 j joule | joules 1e3 kj kilojoule | newtons 1 n newton | pascals 1 pa pascal | pascals 1e3
    kpa | pascals 1e6 mpa | pascals 1e5 bar | hertz 1 hz hertz | hertz 1e3 khz | hertz 1e6 mhz | hertz 1e9
    ghz | kilowatt-hours 1 kwh | speed 1 m/s | speed 0.2777777778 km/h kph | speed 0.44704 mph | calories
    1 cal calorie | calories 1e3 kcal kilocalorie | decibels 1 db decibel | ohms 1 ω ohm | knots 1 knot kn
    | tons 1 ton | fathoms 1 fathom | leagues 1 league | dozens 1 dozen | usd 1 $ usd us$ dollar | eur 1 €
    eur euro | gbp 1 £ gbp pound | jpy 1 ¥ jpy yen | inr 1 ₹ inr rupee | chf 1 chf franc | cents 1 ¢ cent
    | rub 1 ₽ rub rouble ruble | krw 1 ₩ krw won | crowns 1 crown | shillings 1 shilling | pence 1 pence
    penny
"""


MIN_PLURAL = 3
"""Letters of the shortest unit that has a plural: "days", but not "kms"."""


def _units() -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for entry in _UNIT_TABLE.split("|"):
        measures, factor, *written = entry.split()
        for name in written:
            units[name] = Unit(measures, Decimal(factor))
            if len(name) >= MIN_PLURAL and name.isalpha() and not name.endswith("s"):
                units[f"{name}s"] = units[name]
    for base, words in _PREFIXABLE.items():
        for prefix, factor in _METRIC.items():
            units.setdefault(f"{prefix}{base}", Unit(units[base].measures, Decimal(factor)))
        for word, (prefix, factor) in itertools.product(words, _METRIC_WORDS.items()):
            unit = Unit(units[base].measures, Decimal(factor))
            units[f"{prefix}{word}"] = units[f"{prefix}{word}s"] = unit
    lengths = {name: unit for name, unit in units.items() if unit.measures == "length" and len(name) > 3}
    for name, unit in lengths.items():
        units[f"square-{name}"] = Unit("area", unit.factor**2)
        units[f"cubic-{name}"] = Unit("cubic", unit.factor**3)
    return units


UNITS = _units()
"""Units by how they are written, in lower case; two words are joined by a hyphen: "square-miles"."""
CURRENCY_SIGNS = "$€£¥₹₽₩"
_AMBIGUOUS_UNITS_TEXT = """
    a b bar crown foot g h inch j k knot l league m min n pound s second t ton v w won
"""
AMBIGUOUS_UNITS = frozenset(_AMBIGUOUS_UNITS_TEXT.split())
"""Units that are other words too. They count as units only behind digits."""

_MONTHS = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz maerz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)
MONTHS = {name: month for month, names in enumerate(_MONTHS, start=1) for name in names.split()}

_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def read_roman(written: str) -> int | None:
    """Return the value of a Roman numeral in capitals, None if it is none."""
    if not written or len(written) > 15 or not _ROMAN.fullmatch(written):
        return None
    values = [_ROMAN_VALUES[letter] for letter in written]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
