"""From the three forms of a filter to its tree: an expression, a JSON object, and filters by name.

An expression is parsed by recursive descent. Keywords are in any case. Each token is read once, so the time
is linear in the length.

    any        = all ("OR" all)*
    all        = one ("AND" one)*
    one        = "NOT" one | "(" any ")" | condition
    condition  = field comparison value | field ["NOT"] "IN" "[" value ("," value)* "]"
               | field ["NOT"] "EXISTS" | field ["NOT"] "CONTAINS" value | field ["NOT"] "STARTS" "WITH" value
               | field ["NOT"] "ENDS" "WITH" value | field value "TO" value

An object has the form that Chroma, Pinecone and MongoDB share. All its members are to be met:

    {"tags": "sea", "year": {"$gte": 2020}, "$or": [{"draft": false}, {"$not": {"draft": {"$exists": true}}}]}

Filters by name (`tags`, `min_confidence` and others) are conditions too, one or several for each name.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.declared.filters import SearchFilters
from shoal.errors import FilterError, QueryError
from shoal.filters.tree import (
    KEYWORDS,
    MAX_DIGITS,
    METADATA,
    All,
    Condition,
    Field,
    Kind,
    Limits,
    Node,
    Not,
    Op,
    Origin,
    Scalar,
    Some,
    UnknownFieldError,
    check_number,
    condition,
    conditions_of,
    field_of,
    joined,
)
from shoal.models.search import TagsMatch
from shoal.scorer import Scorer

MAX_EXPRESSION_CHARS = 262_144
"""Longest expression: ten thousand ids of twenty digits, and room for more."""
SHOWN_CHARS = 30
"""Characters of a token that an error shows."""

# A text ends at its quotation mark, or is not closed. The alternatives exclude each other by their first
# character, so the time is linear.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<mark><=|>=|!=|==|[=<>()\[\],])
      | (?P<text>"(?:[^"\\]|\\.)*(?P<end>")?|'(?:[^'\\]|\\.)*(?P<end2>')?)
      | (?P<word>[^\s()\[\],=<>!"']+)
      | (?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
MAX_DEPTH = 32
"""Levels of brackets and negations."""
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_COMPARISONS = {"=": Op.eq, "==": Op.eq, "<": Op.lt, "<=": Op.le, ">": Op.gt, ">=": Op.ge}
_WITH = {"STARTS": Op.prefix, "ENDS": Op.suffix}
_TRUTHS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_OPERATORS = "=, !=, <, <=, >, >=, IN, EXISTS, CONTAINS, STARTS WITH, ENDS WITH or a range such as 1 TO 5"
_JOINED: dict[str, type[All | Some]] = {"$and": All, "$or": Some}
_NOT = "$not"
_ONE_VALUE = {
    "$eq": Op.eq,
    "$lt": Op.lt,
    "$lte": Op.le,
    "$gt": Op.gt,
    "$gte": Op.ge,
    "$prefix": Op.prefix,
    "$suffix": Op.suffix,
    "$contains": Op.contains,
}
_OBJECT_OPERATORS = (*_ONE_VALUE, "$ne", "$in", "$nin", "$exists")
SHOWN_VALUE_CHARS = 60
"""Characters of a name or value of an object that an error shows."""
_NAMED_FILTERS = (
    ("min_confidence", "confidence", Op.ge),
    ("min_coverage", "coverage", Op.ge),
    ("reef_ids", "reef", Op.any_of),
    ("island_ids", "island", Op.any_of),
    ("archipelago", "archipelago", Op.eq),
    ("document_ids", "id", Op.any_of),
    ("format", "format", Op.eq),
    ("created_after", "created", Op.ge),
    ("created_before", "created", Op.lt),
    ("source_path", "source_path", Op.any_of),
    ("file_type", "file_type", Op.eq),
)
"""Filters that compare one field: the name of the filter, the field, and how they compare."""


class Type(enum.Enum):
    word = enum.auto()
    text = enum.auto()
    mark = enum.auto()
    end = enum.auto()


class Token(NamedTuple):
    """A token; `value` of a text is without quotation marks. Positions count code points, from 0."""

    type: Type
    value: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """The token in an error."""
        if self.type is Type.end:
            return "the end"
        value = self.value if len(self.value) <= SHOWN_CHARS else f"{self.value[:SHOWN_CHARS]}…"
        return f'"{value}"' if self.type is Type.text else value

    def is_word(self, *keywords: str) -> bool:
        """Whether the token is one of these keywords, in any case."""
        return self.type is Type.word and self.value.upper() in keywords


def tokens_of(expression: str) -> list[Token]:
    """Return the tokens, the last of type `end`. Raises FilterError."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise FilterError(f"is {len(expression):,} characters; the limit is {MAX_EXPRESSION_CHARS:,}")
    tokens: list[Token] = []
    for match in _TOKEN.finditer(expression):
        start, end = match.span()
        kind = match.lastgroup
        if match["space"] is not None:
            continue
        if match["bad"] is not None:
            raise FilterError(f"unexpected {match['bad']!r}", start, end)
        if match["text"] is not None:
            if match["end"] is None and match["end2"] is None:
                raise FilterError(
                    f"the text that begins here is not closed by {match['text'][0]}", start, end
                )
            inner = match["text"][1:-1]
            value = _ESCAPED.sub(r"\1", inner) if "\\" in inner else inner
            tokens.append(Token(Type.text, value, start, end))
        else:
            type_ = Type.mark if kind == "mark" else Type.word
            tokens.append(Token(type_, match[0], start, end))
    tokens.append(Token(Type.end, "", len(expression), len(expression)))
    return tokens


def parse_expression(expression: str) -> Node | None:
    """Return the tree of an expression; None if it is blank. Raises FilterError."""
    tokens = tokens_of(expression)
    return None if tokens[0].type is Type.end else _Parser(tokens, expression).whole()


def parse_field(name: str) -> Field:
    """Return the field of a name in an object: a path with points, where a name in quotation marks may hold
    points.

    Raises FilterError and UnknownFieldError.
    """
    if not name:
        raise FilterError('a name is empty; a key of the metadata is written metadata.""')
    return _Parser(tokens_of(name)).only_field() if '"' in name else field_of(tuple(name.split(".")))


class _Parser:
    def __init__(self, tokens: list[Token], expression: str = "") -> None:
        self._tokens = tokens
        self._expression = expression
        self._place = 0
        self._depth = 0
        self._limits = Limits()

    def whole(self) -> Node:
        node = self._any()
        token = self._next
        if token.type is not Type.end:
            raise _error(token, f"expected AND, OR or the end, found {token.shown}")
        return node

    def only_field(self) -> Field:
        field = self._field()
        if self._next.type is not Type.end:
            raise _error(self._next, f"expected the end of the name, found {self._next.shown}")
        return field

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._tokens[self._place]
        self._place += 1
        return token

    def _took(self, *keywords: str) -> bool:
        """Take the next token if it is one of these keywords."""
        is_next = self._next.is_word(*keywords)
        self._place += is_next
        return is_next

    def _took_mark(self, mark: str) -> bool:
        is_next = self._next.type is Type.mark and self._next.value == mark
        self._place += is_next
        return is_next

    def _any(self) -> Node:
        return self._joined(self._all, "OR", Some)

    def _all(self) -> Node:
        return self._joined(self._one, "AND", All)

    def _joined(self, part: Callable[[], Node], keyword: str, kind: type[All | Some]) -> Node:
        parts = [part()]
        while self._took(keyword):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _one(self) -> Node:
        token = self._next
        if self._took("NOT"):
            return Not(self._deeper(token, self._one))
        if self._took_mark("("):
            node = self._deeper(token, self._any)
            if not self._took_mark(")"):
                raise _error(
                    self._next,
                    f"expected AND, OR or ) for the ( at character {token.start + 1}, "
                    f"found {self._next.shown}",
                )
            return node
        return self._condition()

    def _deeper(self, token: Token, part: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _error(token, TOO_DEEP)
        node = part()
        self._depth -= 1
        return node

    def _condition(self) -> Node:
        first = self._next
        field = self._field()
        token = self._next
        if token.type is Type.mark and token.value in (*_COMPARISONS, "!="):
            self._take()
            value = self._value()
            if token.value == "!=":
                return Not(self._checked(first, field, Op.eq, value))
            return self._checked(first, field, _COMPARISONS[token.value], value)
        is_negated = self._took("NOT")
        if self._took("EXISTS"):
            node: Node = self._checked(first, field, Op.exists)
        elif self._took("IN"):
            node = self._checked(first, field, Op.any_of, *self._values())
        elif self._took("CONTAINS"):
            node = self._checked(first, field, Op.contains, self._value())
        elif self._next.is_word(*_WITH):
            keyword = self._take().value.upper()
            if not self._took("WITH"):
                raise _error(self._next, f"expected WITH after {keyword}, found {self._next.shown}")
            node = self._checked(first, field, _WITH[keyword], self._value())
        elif not is_negated and self._tokens[min(self._place + 1, len(self._tokens) - 1)].is_word("TO"):
            low = self._value()
            self._take()
            high = self._value()
            return All((self._checked(first, field, Op.ge, low), self._checked(first, field, Op.le, high)))
        else:
            expected = "IN, EXISTS, CONTAINS, STARTS WITH or ENDS WITH" if is_negated else _OPERATORS
            raise _error(self._next, f"expected {expected}, found {self._next.shown}")
        return Not(node) if is_negated else node

    def _checked(self, first: Token, field: Field, op: Op, *values: tuple[Token, Scalar]) -> Node:
        """The condition with its values in their stored form; an error points at the value to blame."""
        end = values[-1][0].end if values else self._tokens[self._place - 1].end
        places = tuple((token.start, token.end) for token, _ in values)
        origin = Origin(self._expression, first.start, end, places)
        try:
            checked = condition(field, op, tuple(value for _, value in values), self._limits)
        except FilterError as error:
            raise origin.error(str(error), error.blamed) from None
        return dataclasses.replace(checked, origin=origin)

    def _field(self) -> Field:
        """Read the names of a path: words and texts side by side, with points between them."""
        first = self._next
        if first.type not in (Type.word, Type.text) or first.is_word(*KEYWORDS):
            raise _error(first, f"expected a field, found {first.shown}")
        parts = [""]
        is_complete = True  # whether a point or the end must follow
        end = first.start
        while self._next.type in (Type.word, Type.text) and self._next.start == end:
            token = self._take()
            end = token.end
            if token.type is Type.text:
                if parts[-1] or (not is_complete and len(parts) == 1):
                    raise _error(token, "expected a point before this part of the path")
                parts[-1], is_complete = token.value, False
                continue
            before, *others = token.value.split(".")
            if before and (parts[-1] or not is_complete):
                raise _error(token, "expected a point before this part of the path")
            parts[-1] = before or parts[-1]
            parts.extend(others)
            is_complete = True
            if others and not all(others[:-1]):
                raise _error(token, 'a part of the path is empty; write it as ""')
        last = self._tokens[self._place - 1]
        if last.type is Type.word and last.value.endswith("."):
            raise _error(last, "the path ends with a point")
        if first.type is Type.word and first.value.startswith("."):
            raise _error(first, "the path begins with a point")
        try:
            return field_of(tuple(parts), is_quoted=first.type is Type.text)
        except UnknownFieldError as error:
            raise FilterError(str(error), first.start, last.end) from None

    def _values(self) -> list[tuple[Token, Scalar]]:
        opening = self._next
        closing = {"[": "]", "(": ")"}.get(opening.value) if opening.type is Type.mark else None
        if closing is None:
            raise _error(opening, f"expected [ and a list of values, found {opening.shown}")
        self._take()
        values: list[tuple[Token, Scalar]] = []
        while not self._took_mark(closing):
            if values and not self._took_mark(","):
                raise _error(self._next, f"expected , or {closing}, found {self._next.shown}")
            values.append(self._value())
        return values

    def _value(self) -> tuple[Token, Scalar]:
        token = self._take()
        if token.type is Type.text:
            return token, token.value
        if token.type is not Type.word:
            self._place -= 1
            raise _error(token, f"expected a value, found {token.shown}")
        if token.is_word(*KEYWORDS):
            self._place -= 1
            raise _error(
                token, f'expected a value, found the keyword {token.shown}; as a text it is "{token.value}"'
            )
        if token.value.lower() in _TRUTHS:
            return token, _TRUTHS[token.value.lower()]
        if _NUMBER.fullmatch(token.value):
            return token, _number(token)
        return token, token.value


def _number(token: Token) -> int | float:
    text = token.value.removeprefix("+")
    try:
        number = json.loads(text) if not re.match(r"-?0\d", text) else float(text)
        return check_number("filter", number)
    except QueryError as error:
        raise _error(token, str(error)) from None
    except ValueError:  # Python reads no integer as long as this
        raise _error(token, f"is too large a number: an integer has at most {MAX_DIGITS:,} digits") from None


def _error(token: Token, message: str) -> FilterError:
    return FilterError(message, token.start, token.end)


def make_filter(given: object) -> Node | None:
    """Return the tree of a filter as an expression or an object; None if it has no condition.

    Raises FilterError.
    """
    if given is None:
        return None
    if isinstance(given, str):
        try:
            return parse_expression(given)
        except FilterError as error:
            error.expression = given
            raise
    if not isinstance(given, Mapping):
        raise FilterError("must be an expression or an object")
    return _of_object(given, "filter", Limits(), 0) if given else None


def _of_object(given: object, place: str, limits: Limits, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise FilterError(TOO_DEEP)
    if not isinstance(given, Mapping) or not given:
        raise _object_error(place, "must be an object with at least one member")
    parts: list[Node] = []
    for name, value in given.items():
        here = f"{place}.{str(name)[:SHOWN_VALUE_CHARS]}"
        if name in _JOINED:
            if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
                raise _object_error(here, "must be a list of at least one object")
            nodes = tuple(
                _of_object(each, f"{here}[{number}]", limits, depth + 1) for number, each in enumerate(value)
            )
            parts.append(nodes[0] if len(nodes) == 1 else _JOINED[name](nodes))
        elif name == _NOT:
            parts.append(Not(_of_object(value, here, limits, depth + 1)))
        elif not isinstance(name, str) or name.startswith("$"):
            raise _object_error(here, _unknown(name, (*_JOINED, _NOT)))
        else:
            parts.extend(_of_field(name, value, here, limits))
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _of_field(name: str, value: object, place: str, limits: Limits) -> list[Node]:
    try:
        field = parse_field(name)
    except (UnknownFieldError, FilterError) as error:
        raise _object_error(place, str(error)) from None
    if not isinstance(value, Mapping):
        if isinstance(value, list | tuple):
            raise _object_error(place, f'is a list; write {{"{name[:SHOWN_VALUE_CHARS]}": {{"$in": […]}}}}')
        value = {"$eq": value}
    if not value:
        raise _object_error(place, f"needs an operator: {', '.join(_OBJECT_OPERATORS)}")
    return [
        _compared_member(field, operator, compared, f"{place}.{str(operator)[:SHOWN_VALUE_CHARS]}", limits)
        for operator, compared in value.items()
    ]


def _compared_member(field: Field, operator: object, value: Any, place: str, limits: Limits) -> Node:
    if operator in ("$in", "$nin"):
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _object_error(place, "must be a list")
        node = _condition(field, Op.any_of, tuple(value), place, limits)
        return node if operator == "$in" else Not(node)
    if operator == "$exists":
        if not isinstance(value, bool):
            raise _object_error(place, "must be true or false")
        node = _condition(field, Op.exists, (), place, limits)
        return node if value else Not(node)
    if operator == "$ne":
        return Not(_condition(field, Op.eq, (value,), place, limits))
    if not isinstance(operator, str) or operator not in _ONE_VALUE:
        raise _object_error(place, _unknown(operator, _OBJECT_OPERATORS))
    return _condition(field, _ONE_VALUE[operator], (value,), place, limits)


def _condition(field: Field, op: Op, values: tuple[Any, ...], place: str, limits: Limits) -> Node:
    if any(value is not None and not isinstance(value, str | int | float) for value in values):
        raise _object_error(place, "compares with strings, numbers, true, false and null")
    try:
        checked = condition(field, op, values, limits)
    except FilterError as error:
        raise _object_error(place, str(error)) from None
    return dataclasses.replace(checked, origin=Origin(path=place.removeprefix("filter.")))


def _unknown(name: object, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name)[:SHOWN_VALUE_CHARS], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"there is no operator {str(name)[:SHOWN_VALUE_CHARS]}; {hint}"


def _object_error(place: str, message: str) -> FilterError:
    return FilterError(f"{place.removeprefix('filter.')}: {message}" if place != "filter" else message)


def conditions_by_filter(filters: SearchFilters) -> Iterator[tuple[str, Node]]:
    """Yield (name, condition) of each filter; each key of the metadata has its own, `metadata.KEY`."""
    if filters.tags_match is TagsMatch.any and filters.tags:
        yield "tags", _compared("tags", Op.any_of, *filters.tags)
    elif has_all := joined([_compared("tags", Op.eq, tag) for tag in filters.tags]):
        yield "tags", has_all
    for name, field_name, op in _NAMED_FILTERS:
        value = getattr(filters, name)
        if value is not None:
            yield name, _compared(field_name, op, *(value if op is Op.any_of else (value,)))
    if filters.name_contains is not None:
        fields = "title", "source_path"
        yield (
            "name_contains",
            Some(tuple(_compared(each, Op.contains, filters.name_contains) for each in fields)),
        )
    for key, value in (filters.metadata or {}).items():
        yield f"{METADATA}.{key}", Condition(Field(METADATA, (key,)), Op.eq, (value,))


def _compared(name: str, op: Op, *values: Scalar) -> Condition:
    return Condition(Field(name), op, values)


@dataclass(frozen=True)
class ReefNames:
    """What filters need to know of the scorer.

    names            by field: the name of each id
    island_of        the island of each reef
    label_threshold  lowest probability of a reef that is a label
    """

    names: Mapping[str, Mapping[int, str]]
    island_of: Mapping[int, int]
    label_threshold: float

    @classmethod
    def of(cls, scorer: Scorer, label_threshold: float) -> ReefNames:
        named = {
            "reef": scorer.reefs,
            "island": scorer.islands,
            "archipelago": getattr(scorer, "archipelagos", ()),
        }
        names = {
            field: {each.id: getattr(each, "name", "") for each in some} for field, some in named.items()
        }
        return cls(names, {reef.id: reef.island_id for reef in scorer.reefs}, label_threshold)

    def check(self, tree: Node) -> None:
        """Raise FilterError if a condition names a reef, island or archipelago that does not exist."""
        for each in conditions_of(tree):
            self.with_ids(each)

    def with_ids(self, condition: Condition) -> Condition:
        """Return a condition with ids in place of names. Raises FilterError."""
        if condition.field.kind is not Kind.named or condition.op is Op.exists:
            return condition
        ids = []
        for number, value in enumerate(condition.values):
            try:
                ids.append(self._id(condition.field.name, value))
            except FilterError as error:
                raise condition.origin.error(str(error), number) from None
        return dataclasses.replace(condition, values=tuple(ids))

    def _id(self, field: str, value: Any) -> int:
        names = self.names[field]
        if isinstance(value, int):
            if value not in names:
                raise FilterError(f"there is no {field} {str(value)[:SHOWN_VALUE_CHARS]}")
            return value
        wanted = value.casefold()
        for each, name in names.items():
            if name.casefold() == wanted:
                return each
        close = difflib.get_close_matches(value[:SHOWN_VALUE_CHARS], names.values(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise FilterError(f"there is no {field} {value[:SHOWN_VALUE_CHARS]!r}{hint}")
