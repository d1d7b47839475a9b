"""The tree of a filter: its conditions, the fields that they compare, and the checks of their values.

A condition compares the values of one field. It is met or not, never unknown: a document without the field
does not meet it, so it meets its negation.

A name that is no field is a path into the metadata of a document: `year`, `author.name`. `metadata.` in front
says so explicitly, which a key needs that is named like a field, or nearly so.

Values are checked and brought into the form that is stored. Dates, numbers, texts and types of files are
checked in the same way wherever else they are arguments.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX
from shoal.errors import FilterError, QueryError
from shoal.models.documents import DocFormat
from shoal.settings import Settings
from shoal.storage.chunk_queries import MEDIA
from shoal.support.clock import timestamp

METADATA = "metadata"
MAX_PATH_PARTS = 16
"""Keys on the way to a nested value of the metadata."""
_NEAR = 0.8
"""Similarity from which an unknown name is taken for a misspelt field, by `difflib`: one letter of five."""
_COMPARED = 60
"""Characters of a name that are compared; no field has as many."""
_BARE = re.compile(r"""[^\s()\[\],=<>!"'\\.]+""")
"""A part of a path that needs no quotation marks."""
KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "EXISTS", "CONTAINS", "STARTS", "ENDS", "WITH", "TO"})
ALIASES = MappingProxyType(
    {
        "document_id": "id",
        "path": "source_path",
        "tag": "tags",
        "created_at": "created",
        "updated_at": "updated",
        "section_path": "section",
    }
)
Scalar = str | int | float | bool | None
_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MAX_CHARS = 40
"""No date is longer."""
LAST_YEAR = 9998
"""The end of the year 9999 is no date."""
Span = tuple[int, int]
"""Begin and end, the end exclusive."""
FILE_TYPES = (*MEDIA, *(kind.id for kind in FILE_KINDS.values() if kind.refusal is None))
"""Types that the filter `file_type` knows, besides suffixes of files."""
MAX_DIGITS = sys.int_info.default_max_str_digits
"""Digits of an integer: Python reads no longer one from JSON, so no metadata has one."""
_FIRST_TOO_LARGE = 10**MAX_DIGITS
MAX_CONDITIONS = 256
"""In one filter; each looks at every document."""
MAX_VALUES = 10_000
"""In all lists of a filter together."""
MAX_SEARCHES = 16
"""`CONTAINS`, `STARTS WITH` and `ENDS WITH` in one filter; each reads all texts of a field."""
MAX_VALUE_CHARS = 4_096
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII)
_YEAR = re.compile(r"\d{4}", re.ASCII)


class Kind(enum.Enum):
    """What the values of a field are, which decides how they compare.

    time   seconds; also written as H:MM:SS
    named  a number with a name; either is equal to it
    json   as in JSON: texts, numbers, truth values and null
    """

    text = enum.auto()
    number = enum.auto()
    date = enum.auto()
    time = enum.auto()
    named = enum.auto()
    json = enum.auto()


class Known(NamedTuple):
    """A field of documents or, if `of_chunk`, of chunks. `is_many`: one document or chunk can have several
    values."""

    kind: Kind
    about: str
    of_chunk: bool = False
    is_many: bool = False


FIELDS: MappingProxyType[str, Known] = MappingProxyType(
    {
        "id": Known(Kind.number, "id of the document"),
        "title": Known(Kind.text, "title of the document"),
        "source_path": Known(Kind.text, "path or address that the document came from"),
        "folder": Known(Kind.text, "folders of the path, each with all above it", is_many=True),
        "format": Known(Kind.text, "`markdown` or `plaintext`"),
        "file_type": Known(Kind.text, "type of document, or suffix of the path", is_many=True),
        "tags": Known(Kind.text, "tags of the document", is_many=True),
        "created": Known(Kind.date, "when the document was stored first"),
        "updated": Known(Kind.date, "when the document was changed last"),
        "date": Known(Kind.date, "`date` of the metadata, if it is a date; otherwise as `created`"),
        "section": Known(Kind.text, "headings that the passage stands under", of_chunk=True, is_many=True),
        "page": Known(Kind.number, "pages that the passage stands on", of_chunk=True, is_many=True),
        "time_start": Known(Kind.time, "where the passage begins in its recording", of_chunk=True),
        "time_end": Known(Kind.time, "where the passage ends in its recording", of_chunk=True),
        "reef": Known(Kind.named, "first label of the passage", of_chunk=True, is_many=True),
        "island": Known(Kind.named, "island of the first label", of_chunk=True, is_many=True),
        "archipelago": Known(Kind.named, "strongest archipelago of the passage", of_chunk=True, is_many=True),
        "confidence": Known(Kind.number, "how clearly the passage has one topic", of_chunk=True),
        "coverage": Known(Kind.number, "share of the passage's words that are known", of_chunk=True),
        "language": Known(Kind.text, "language of the passage, such as `en` or `de`", of_chunk=True),
    }
)
_OF_RIGHTS = {name: Known(Kind.text, "", is_many=True) for name in ("allow", "deny")}
"""Fields of the rights of a document. No name of a filter means them."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field by its name, or a path into the metadata: then `name` is `metadata`."""

    name: str
    path: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind.json if self.path else (FIELDS.get(self.name) or _OF_RIGHTS[self.name]).kind

    @property
    def of_chunk(self) -> bool:
        return not self.path and self.name in FIELDS and FIELDS[self.name].of_chunk

    @property
    def text(self) -> str:
        """The name as an expression has it, the shortest that means this field."""
        if not self.path:
            return self.name
        parts = [part if _is_bare(part) else quoted(part) for part in self.path]
        needs_prefix = parts[0] == self.path[0] and (
            self.path[0] == METADATA or (len(self.path) == 1 and _near_field(self.path[0]) is not None)
        )
        return ".".join([METADATA, *parts] if needs_prefix else parts)


ALLOW, DENY = Field("allow"), Field("deny")
"""The principals that may see a document, and those that may not."""


class UnknownFieldError(ValueError):
    """A name that is too near to that of a field to be one of the metadata. `near`: the field."""

    def __init__(self, message: str, near: str | None = None) -> None:
        super().__init__(message)
        self.near = near


def field_of(parts: tuple[str, ...], *, is_quoted: bool = False) -> Field:
    """Return the field that a path of names means. A quoted first name is one of the metadata.

    Raises UnknownFieldError.
    """
    if len(parts) > MAX_PATH_PARTS:
        raise UnknownFieldError(f"a path has at most {MAX_PATH_PARTS} names")
    if not is_quoted:
        if parts == (METADATA,):
            raise UnknownFieldError("metadata needs a key, such as metadata.year")
        if parts[0] == METADATA:
            return Field(METADATA, parts[1:])
        if len(parts) == 1:
            name = ALIASES.get(parts[0], parts[0])
            if name in FIELDS:
                return Field(name)
            near = _near_field(name)
            if near is not None:
                raise UnknownFieldError(
                    f"there is no field {name[:60]}; did you mean {near}? A key of the metadata with this "
                    f"name is metadata.{name[:60]}",
                    near,
                )
    return Field(METADATA, parts)


def _near_field(name: str) -> str | None:
    """The field that a name means or may mean."""
    return _near_short(name[: _COMPARED + 1])


@functools.lru_cache(maxsize=1024)
def _near_short(name: str) -> str | None:
    """The same for a short name. Comparing takes longer than many a search."""
    if name in FIELDS or name in ALIASES:
        return ALIASES.get(name, name)
    close = difflib.get_close_matches(name[:_COMPARED].lower(), [*FIELDS, *ALIASES], n=1, cutoff=_NEAR)
    return ALIASES.get(close[0], close[0]) if close else None


def _is_bare(part: str) -> bool:
    return _BARE.fullmatch(part) is not None and part.upper() not in KEYWORDS


def quoted(text: str) -> str:
    """Return a text in quotation marks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Op(enum.StrEnum):
    """How a condition compares."""

    eq = "="
    lt = "<"
    le = "<="
    gt = ">"
    ge = ">="
    any_of = "IN"
    exists = "EXISTS"
    prefix = "STARTS WITH"
    suffix = "ENDS WITH"
    contains = "CONTAINS"


RANGES = frozenset({Op.lt, Op.le, Op.gt, Op.ge})
TEXT_SEARCHES = frozenset({Op.prefix, Op.suffix, Op.contains})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a condition stands in what was given: a part of an expression, or a path in an object.

    `values`: the parts of its values in the expression, [start, end) in code points.
    """

    expression: str = ""
    start: int = 0
    end: int = 0
    values: tuple[tuple[int, int], ...] = ()
    path: str = ""

    def error(self, message: str, blamed: int | None = None) -> FilterError:
        """Return an error that points at the condition, or at one of its values."""
        if not self.expression:
            return FilterError(f"{self.path}: {message}" if self.path else message)
        start, end = self.start, self.end
        if blamed is not None and blamed < len(self.values):
            start, end = self.values[blamed]
        error = FilterError(message, start, end)
        error.expression = self.expression
        return error


@dataclass(frozen=True, slots=True)
class Condition:
    """A field compared with values: several for `IN`, none for `EXISTS`, else one. `origin`: where it was
    given; no part of what it means."""

    field: Field
    op: Op
    values: tuple[Scalar, ...] = ()
    origin: Origin = dataclasses.field(default=Origin(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class All:
    """Met if all parts are; at least two."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """Met if at least one part is; at least two."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Met if its part is not."""

    part: Node


Node = Condition | All | Some | Not


def text_of(node: Node) -> str:
    """Return the expression that is parsed to this tree."""
    match node:
        case All(parts):
            return " AND ".join(_inside(part, All | Some) for part in parts)
        case Some(parts):
            return " OR ".join(_inside(part, Some) for part in parts)
        case Not(part):
            return f"NOT {_inside(part, All | Some)}"
        case Condition(field, Op.exists):
            return f"{field.text} EXISTS"
        case Condition(field, Op.any_of, values):
            return f"{field.text} IN [{', '.join(map(literal, values))}]"
        case Condition(field, op, (value,)):
            return f"{field.text} {op} {literal(value)}"
    raise AssertionError(f"a condition without values: {node}")


def _inside(node: Node, enclosed: type[Node] | object) -> str:
    text = text_of(node)
    return f"({text})" if isinstance(node, enclosed) else text  # type: ignore[arg-type]


def literal(value: Scalar) -> str:
    """Return a value as an expression has it; texts in quotation marks."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value)


def conditions_of(node: Node) -> Iterator[Condition]:
    """Yield the conditions of a tree, from left to right."""
    match node:
        case Condition():
            yield node
        case Not(part):
            yield from conditions_of(part)
        case All(parts) | Some(parts):
            for part in parts:
                yield from conditions_of(part)


def joined(parts: Sequence[Node]) -> Node | None:
    """Return the tree that is met where all parts are; None for no parts."""
    return All(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def both(left: Node | None, right: Node | None) -> Node | None:
    """Return the tree that is met where both are; None is no condition."""
    if left is None or right is None:
        return right if left is None else left
    return All((left, right))


@functools.lru_cache(maxsize=4096)
def span_of(text: str) -> Span | None:
    """Return the span that a text names, or None if it is no date."""
    if len(text) > MAX_CHARS:
        return None
    try:
        if month := _MONTH.fullmatch(text):
            first = date(int(month[1]), int(month[2]), 1)
            return _span(first, (first + timedelta(days=31)).replace(day=1))
        if _DAY.fullmatch(text):
            day = date.fromisoformat(text)
            return _span(day, day + timedelta(days=1))
        if _MOMENT.match(text):
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            begin = (moment - _EPOCH) // _MICROSECOND
            return begin, begin + 1
    except (ValueError, OverflowError):
        pass
    return None


def moment_of(microseconds: int) -> str:
    """Return a moment, in microseconds since 1970, in ISO 8601."""
    return timestamp(_EPOCH + timedelta(microseconds=microseconds))


def span_of_year(year: int) -> Span | None:
    """Return the span of a year from 1 to LAST_YEAR, or None."""
    return _span(date(year, 1, 1), date(year + 1, 1, 1)) if 1 <= year <= LAST_YEAR else None


def _span(first: date, end: date) -> Span:
    return _begin(first), _begin(end)


def _begin(day: date) -> int:
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def check_characters(field: str, text: str) -> str:
    """Return `text`. Raises QueryError for a lone surrogate (half a character), which has no UTF-8
    encoding."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError(field, "contains half a character (a lone surrogate)")
    return text


def check_number(field: str, number: float) -> float:
    """Return a number that metadata can hold: finite, or an integer of up to MAX_DIGITS digits. Raises
    QueryError."""
    if isinstance(number, int) and abs(number) >= _FIRST_TOO_LARGE:
        raise QueryError(field, f"is too large a number: an integer has at most {MAX_DIGITS:,} digits")
    if isinstance(number, float) and not math.isfinite(number):
        raise QueryError(field, "is too large a number")
    return number


def check_file_type(field: str, value: object, _settings: Settings | None = None) -> str | None:
    """Return a file type in the form of `shoal.storage.chunk_queries`; None for an empty text. Raises
    QueryError."""
    if not isinstance(value, str):
        raise QueryError(field, "must be a string")
    name = value.strip().lower()
    if not name or name in FILE_TYPES:
        return name or None
    suffix = name if name.startswith(".") else f".{name}"
    if suffix in KIND_OF_SUFFIX:
        return suffix
    close = difflib.get_close_matches(name, FILE_TYPES, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise QueryError(field, f"{value[:40]!r} is neither a suffix nor one of {', '.join(FILE_TYPES)}{hint}")


_TEXT_FIELDS = ", ".join(name for name, known in FIELDS.items() if known.kind is Kind.text)


@dataclass
class Limits:
    """What a filter has used of its limits. Raises FilterError when one is exceeded."""

    n_conditions: int = 0
    n_values: int = 0
    n_searches: int = 0

    def count(self, op: Op, values: tuple[Scalar, ...]) -> None:
        self.n_conditions += 1
        self.n_values += len(values)
        self.n_searches += op in TEXT_SEARCHES
        for used, limit, what in (
            (self.n_conditions, MAX_CONDITIONS, "conditions"),
            (self.n_values, MAX_VALUES + MAX_CONDITIONS, "values"),
            (self.n_searches, MAX_SEARCHES, "conditions with CONTAINS, STARTS WITH or ENDS WITH"),
        ):
            if used > limit:
                raise FilterError(f"a filter has at most {limit:,} {what}")


def condition(field: Field, op: Op, values: tuple[Scalar, ...], limits: Limits) -> Condition:
    """Return a condition whose values are in the form that is stored.

    Raises FilterError, whose `blamed` is the number of a value.
    """
    limits.count(op, values)
    if op in TEXT_SEARCHES and field.kind not in (Kind.text, Kind.json):
        raise FilterError(f"{field.text} is not a text; {op} is for {_TEXT_FIELDS} and the metadata")
    if op in RANGES and field.kind in (Kind.text, Kind.named):
        raise FilterError(f"{field.text} has no order; {op} is for numbers and dates")
    checked = []
    for number, value in enumerate(values):
        try:
            checked.append(_checked(field, op, value))
        except QueryError as error:
            raise FilterError(str(error), blamed=number) from None
    return Condition(field, op, tuple(checked))


def _checked(field: Field, op: Op, value: Scalar) -> Scalar:
    if isinstance(value, str):
        check_characters("filter", value)
        if len(value) > MAX_VALUE_CHARS:
            raise FilterError(f"a text has at most {MAX_VALUE_CHARS:,} characters")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        check_number("filter", value)
    if op in TEXT_SEARCHES:
        if not isinstance(value, str) or not value:
            raise FilterError(f"{op} needs a text that is not empty")
        return value
    return _CHECKS[field.kind](field, op, value)


def _any(_field: Field, op: Op, value: Scalar) -> Scalar:
    if op in RANGES and (value is None or isinstance(value, bool)):
        raise FilterError(f"{op} compares numbers and dates")
    if op in RANGES and isinstance(value, str) and span_of(value) is None:
        raise FilterError(f"{op} compares numbers and dates such as 2026-01-31; {value[:40]!r} is neither")
    return value


def _text(field: Field, op: Op, value: Scalar) -> str:
    if not isinstance(value, str):
        raise FilterError(f"{field.text} is a text; write the value in quotation marks")
    if field.name == "tags":
        return " ".join(value.split())
    if field.name == "format" and value not in DocFormat.__members__:
        raise FilterError(
            f"{value[:40]!r} is not one of {', '.join(DocFormat)}{_near(value, list(DocFormat))}"
        )
    return (check_file_type("filter", value) or "") if field.name == "file_type" else value


def _number(field: Field, _op: Op, value: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{field.text} is a number")
    return value


def _date(field: Field, _op: Op, value: Scalar) -> Scalar:
    if isinstance(value, str) and _YEAR.fullmatch(value):
        value = int(value)
    is_year = isinstance(value, int) and not isinstance(value, bool) and span_of_year(value) is not None
    if not is_year and not (isinstance(value, str) and span_of(value) is not None):
        raise FilterError(
            f"{field.text} is a date, such as 2026, 2026-01, 2026-01-31 or 2026-01-31T12:00:00Z"
        )
    return value


def _time(field: Field, _op: Op, value: Scalar) -> float:
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value)):
        return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + float(clock[3])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{field.text} is a time in seconds, or such as 1:02:30")
    return value


def _name(field: Field, _op: Op, value: Scalar) -> Scalar:
    if value is None or isinstance(value, bool | float):
        raise FilterError(f"{field.text} is a whole number or a name")
    return value


def _near(name: str, names: list[Any]) -> str:
    close = difflib.get_close_matches(name[:60], names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_CHECKS = {
    Kind.json: _any,
    Kind.text: _text,
    Kind.number: _number,
    Kind.date: _date,
    Kind.time: _time,
    Kind.named: _name,
}
