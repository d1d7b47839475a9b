"""From an expression to a tree, by recursive descent.

    any        = all ("OR" all)*
    all        = one ("AND" one)*
    one        = "NOT" one | "(" any ")" | condition
    condition  = field comparison value | field ["NOT"] "IN" "[" value ("," value)* "]"
               | field ["NOT"] "EXISTS" | field ["NOT"] "CONTAINS" value | field ["NOT"] "STARTS" "WITH" value
               | field value "TO" value

Keywords are in any case. Each token is read once, so the time is linear in the length.

"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Callable
from typing import NamedTuple

from shoal.errors import FilterError, QueryError
from shoal.filters.fields import KEYWORDS, Field, UnknownFieldError, field_of
from shoal.filters.tree import All, Node, Not, Op, Origin, Scalar, Some
from shoal.filters.value_checks import MAX_DIGITS, Limits, check_number, condition

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


MAX_DEPTH = 32
"""Levels of brackets and negations."""
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_COMPARISONS = {"=": Op.eq, "==": Op.eq, "<": Op.lt, "<=": Op.le, ">": Op.gt, ">=": Op.ge}
_TRUTHS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_OPERATORS = "=, !=, <, <=, >, >=, IN, EXISTS, CONTAINS, STARTS WITH or a range such as 1 TO 5"


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
        elif self._took("STARTS"):
            if not self._took("WITH"):
                raise _error(self._next, f"expected WITH after STARTS, found {self._next.shown}")
            node = self._checked(first, field, Op.prefix, self._value())
        elif not is_negated and self._tokens[min(self._place + 1, len(self._tokens) - 1)].is_word("TO"):
            low = self._value()
            self._take()
            high = self._value()
            return All((self._checked(first, field, Op.ge, low), self._checked(first, field, Op.le, high)))
        else:
            expected = "IN, EXISTS, CONTAINS or STARTS WITH" if is_negated else _OPERATORS
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
