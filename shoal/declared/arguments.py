"""How an argument is declared: an `Argument` at the type of a member of a TypedDict, or of a parameter.

The API, the commands and the checks of the library follow from it.
"""

import enum
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from shoal.errors import QueryError
from shoal.support.clock import timestamp
from shoal.support.other_names import COMPARED_CHARS, meant_name

MAX_ID = 2**63 - 1
"""Largest integer that SQLite and PostgreSQL store, and so the largest id."""
MAX_PAGE = 2**31 - 1
"""Largest limit and offset of a listing in the library."""
MAX_LIMIT = 1_000
"""Most entries of a page of the API."""
MAX_IDS = 10_000
"""Most ids in one filter; every database accepts this many parameters in one statement."""

Member = TypeVar("Member", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some texts, or a member of an enumeration, which is also given as its text."""

    members: type[enum.StrEnum] | tuple[str, ...]

    def check(self, name: str, value: object, settings: object = None) -> str:
        if isinstance(self.members, tuple):
            return _check_text(name, value, self.members)
        return check_choice(name, value, self.members)

    @property
    def texts(self) -> list[str]:
        """The texts that are valid."""
        return [str(member) for member in self.members]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `low` to `high`, or to the value of a `setting`."""

    low: int
    high: int | None = None
    setting: str = ""

    def check(self, name: str, value: object, settings: object = None) -> int:
        high = getattr(settings, self.setting) if self.setting else self.high
        return check_whole(name, value, self.low, high)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of at least `low`, and at most `high` if there is a limit."""

    low: float = 0
    high: float | None = None

    def check(self, name: str, value: object, settings: object = None) -> float:
        number = check_finite(name, value)
        if self.high is not None and not self.low <= number <= self.high:
            raise QueryError(name, f"must be between {self.low:,} and {self.high:,}")
        if number < self.low:
            raise QueryError(name, f"must be {self.low:,} or more")
        return number


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def check(self, name: str, value: object, settings: object = None) -> bool:
        if not isinstance(value, bool):
            raise QueryError(name, "must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number for each of some names, from 0 to `high`; `names` describes them.

    As text: `lexical:0.7,reef:0.3`, or with `=`.
    """

    names: Mapping[str, str]
    high: float

    def of_text(self, name: str, text: str) -> dict[str, float]:
        """Parse numbers that are written as text. Raises QueryError."""
        numbers: dict[str, float] = {}
        for part in text.split(","):
            key, _, value = (piece.strip() for piece in part.replace("=", ":", 1).partition(":"))
            try:
                number = float(value)
            except ValueError:
                example = ",".join(f"{each}=0.5" for each in [*self.names][:2])
                raise QueryError(name, f"must be written as {example}") from None
            if key in numbers:
                raise QueryError(name, f"give {key[:COMPARED_CHARS]!r} twice")
            numbers[key] = number
        return numbers


@dataclass(frozen=True, slots=True)
class Ids:
    """A list of different ids, whole numbers of at least `low`."""

    low: int

    def check(self, name: str, value: object, settings: object = None) -> tuple[int, ...]:
        ids = dict.fromkeys(check_whole(name, item, self.low, MAX_ID) for item in check_list(name, value))
        if len(ids) > MAX_IDS:
            raise QueryError(name, f"must have at most {MAX_IDS:,} items")
        return tuple(ids)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in ISO 8601, or a `datetime`; checked, it is a UTC timestamp."""

    def check(self, name: str, value: object, settings: object = None) -> str:
        if isinstance(value, str):
            try:
                return timestamp(datetime.fromisoformat(value))
            except (ValueError, OverflowError):
                pass
        elif isinstance(value, datetime):
            return timestamp(value)
        raise QueryError(name, "must be a date or a time in ISO 8601, such as 2026-01-31T12:00:00Z")


class TextForm(enum.Enum):
    """How an argument is written where only text can be: in an address and in a command."""

    one = "one"
    """As one text."""
    with_commas = "with commas"
    """As texts with commas between them."""
    repeated = "repeated"
    """As one text each time that it is given."""
    json = "json"
    """As JSON."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that the library checks by a rule of its own. `schema`: its JSON Schema."""

    schema: Mapping[str, Any]
    text: TextForm | None = TextForm.one


@dataclass(frozen=True, slots=True)
class Text:
    """A text of `least` to `most` characters. `message` says of another what is wrong. `or_whole`: whether a
    whole number is its text, too."""

    most: int | None = None
    least: int = 0
    pattern: str = ""
    message: str | None = None
    or_whole: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """A list of at most `most` values of one kind, or without a limit of its own; if `or_one`, also one text
    without the list."""

    kind: "Kind" = Text()
    most: int | None = MAX_IDS
    or_one: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """An object with the arguments of a TypedDict, its class `of`. `example` is for messages. Unless
    `is_checked`, only the library checks it, so that one of many may be bad."""

    of: type
    example: str = ""
    is_checked: bool = True


Kind = Choice | Whole | Number | Flag | Numbers | Ids | Moment | Value | Text | Many | Members


class Audit(enum.Enum):
    """Whether a line of the audit log has an argument."""

    always = "always"
    given = "given"
    """Only if it was given."""
    by_hand = "by hand"
    """Not at all, or in a form of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a search.

    about          what it does, in Markdown, as a part of a sentence; the documentation of every surface
    body, address  what only a JSON body, or only texts in addresses and commands, have to know besides
    default        what it is if it is not given; an argument with the default None may be null
    option         the name of the command's option, where it is another
    member         its name in a request, where it is another
    metavar        what the help of the command calls its value
    ranks          whether the order of the results depends on it, so that the pages of a search share it
    is_saved       whether a saved search has it
    is_for_notes   whether searches that also find notes take it
    is_explained   whether an explanation depends on it
    is_counted     whether the metrics count searches that use it
    audit          whether the audit log has it
    is_anywhere    whether it is a query parameter of a request with a body, too
    may_be_null    whether it may be null where absent members have no defaults
    """

    kind: Kind
    about: str
    body: str = ""
    address: str = ""
    default: Any = None
    option: str = ""
    member: str = ""
    metavar: str = ""
    ranks: bool = True
    is_saved: bool = True
    is_for_notes: bool = True
    is_explained: bool = True
    is_counted: bool = False
    audit: Audit = Audit.by_hand
    is_anywhere: bool = False
    may_be_null: bool = False


def arguments_of(declaration: type) -> dict[str, Argument]:
    """Return the arguments that the members of a class declare, by name."""
    hints = typing.get_type_hints(declaration, include_extras=True)
    declared = {
        name: typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Required else hint
        for name, hint in hints.items()
    }
    return {name: hint.__metadata__[0] for name, hint in declared.items()}


def required_of(declaration: Any) -> list[str]:
    """Return the names of the members that a class requires; `__required_keys__` misses those of modules
    whose annotations are texts."""
    hints = typing.get_type_hints(declaration, include_extras=True)
    known = declaration.__required_keys__
    return [
        name for name, hint in hints.items() if name in known or typing.get_origin(hint) is typing.Required
    ]


OBJECT = Value({"type": "object"}, TextForm.json)
"""Any JSON object."""


def check_choice(name: str, value: object, members: type[Member]) -> Member:
    """Validate a member of an enumeration. Raises QueryError."""
    return members(_check_text(name, value, [member.value for member in members]))


def _check_text(name: str, value: object, valid: Sequence[str]) -> str:
    if not isinstance(value, str):
        raise QueryError(name, f"must be one of {', '.join(valid)}")
    if value not in valid:
        raise QueryError(name, f"{value[:40]!r} is not one of {', '.join(valid)}")
    return value


def check_whole(name: str, value: object, low: int, high: int | None) -> int:
    """Validate a whole number from `low` to `high`. Raises QueryError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise QueryError(name, "must be a whole number")
    if value < low or (high is not None and value > high):
        raise QueryError(name, f"must be between {low:,} and {high:,}")
    return value


def check_list(name: str, value: object) -> list[Any]:
    """Return the items of a list or another collection but a text. Raises QueryError."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise QueryError(name, "must be a list")
    return list(value)


def check_finite(name: str, value: object) -> float:
    """Validate a number that has a float. Raises QueryError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise QueryError(name, "must be a number")
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float
        return False


def unknown_name(name: str, valid: Iterable[str]) -> str:
    """Return what is wrong with a name that is none of the `valid` ones, with the one that may be meant."""
    meant = meant_name(name, valid)
    hint = f"did you mean {meant}?" if meant else f"known are {', '.join(valid)}"
    return f"there is no {name[:COMPARED_CHARS]!r}; {hint}"


def check_names(operation: str, given: Iterable[str], valid: Iterable[str]) -> None:
    """Raise TypeError for a keyword that is no argument of an operation."""
    names = tuple(valid)
    for name in given:
        if name not in names:
            raise TypeError(f"{operation}: {unknown_name(name, names)}")
