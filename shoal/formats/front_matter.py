"""Front matter: a block of metadata at the start of a Markdown file.

It is YAML between `---` lines or TOML between `+++` lines. Only `title` and `tags` are used, so the usual
YAML forms of these two are read directly, without a YAML parser.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Front matter is short; a "---" further down does not close it.
MAX_CHARS = 64 * 1024

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\n|\r)")
_CLOSING = {
    "---": re.compile(r"[\r\n](?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)"),
    "+++": re.compile(r"[\r\n]\+\+\+[ \t]*(?=[\r\n]|\Z)"),
}
# The required start of the first line that is not a comment; otherwise the block is text between two rules.
_FIRST_KEY = {
    "---": re.compile(r"[\w\"'][\w .\"'-]{0,64}:(?:\s|\Z)"),
    "+++": re.compile(r"[\w\"'][\w .\"'-]{0,64}=|\["),
}
_NEWLINE = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(title|tags|keywords)[ \t]*+:[ \t]*+(.*)", re.IGNORECASE)
# Per line of TOML: the time of tomllib is quadratic in the number of parts of a dotted key.
_MAX_DOTS = 100


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`end_char` is the end of the closing line, before its newline."""

    end_char: int
    title: str | None
    tags: tuple[str, ...]


def find_front_matter(content: str) -> FrontMatter | None:
    """Read the front matter of a Markdown text, or return None. Unreadable parts are ignored."""
    opening = _OPENING.match(content)
    if opening is None:
        return None
    fence = opening.group(1)
    closing = _CLOSING[fence].search(content, opening.end() - 1, opening.end() + MAX_CHARS)
    if closing is None:
        return None
    body = content[opening.end() : closing.start()]
    lines = _NEWLINE.split(body)
    stripped = (line.strip() for line in lines)
    first = next((line for line in stripped if line and not line.startswith("#")), "")
    if not _FIRST_KEY[fence].match(first):
        return None
    title, tags = _read_toml(lines) if fence == "+++" else _read_yaml(lines)
    return FrontMatter(closing.end(), title, tags)


def _read_toml(lines: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    if any(line.count(".") > _MAX_DOTS for line in lines):
        return None, ()
    try:
        fields = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):  # invalid TOML, a number of thousands of digits, or nested too deep
        return None, ()
    title = fields.get("title")
    return (title if isinstance(title, str) else None), _texts(fields.get("tags"))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _read_yaml(lines: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    title: str | None = None
    tags: list[str] = []
    collecting = False
    for line in lines:
        item = line.strip()
        if collecting and item.startswith("- "):
            tags.append(_unquoted(item[2:]))
            continue
        collecting = False
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            continue
        key, value = match.group(1).lower(), match.group(2).strip()
        if key == "title":
            title = _unquoted(value) or None
        elif value:
            tags += [_unquoted(part) for part in value.strip("[]").split(",")]
        else:
            collecting = True
    return title, tuple(tag for tag in tags if tag)


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return value
