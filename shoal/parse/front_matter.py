"""Front matter: the block of metadata that may open a Markdown file.

YAML between `---` lines or TOML between `+++` lines. Only `title` and `tags` are of interest, so YAML is
read by the few forms in which people write those two, not by a YAML parser.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

# Front matter is short; a "---" far down closes something else.
MAX_CHARS = 64 * 1024

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\n|\r)")
_CLOSING = {
    "---": re.compile(r"[\r\n](?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)"),
    "+++": re.compile(r"[\r\n]\+\+\+[ \t]*(?=[\r\n]|\Z)"),
}
# What the first line must look like for the block to be metadata and not a text between two rules.
_FIRST_LINE = {
    "---": re.compile(r"\s*(?:#[^\r\n]*\s+)*[\w\"'][\w .\"'-]{0,64}:(?=\s)"),
    "+++": re.compile(r"\s*(?:#[^\r\n]*\s+)*(?:[\w\"'][\w .\"'-]{0,64}=|\[)"),
}
_NEWLINE = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(title|tags|keywords)[ \t]*:[ \t]*(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`end_char` is just behind the closing line, before its newline."""

    end_char: int
    title: str | None
    tags: tuple[str, ...]


def find_front_matter(content: str) -> FrontMatter | None:
    """The front matter of a Markdown text, if it opens with one. What cannot be read of it is ignored."""
    opening = _OPENING.match(content)
    if opening is None:
        return None
    fence = opening.group(1)
    first = _FIRST_LINE[fence].match(content, opening.end(), opening.end() + MAX_CHARS)
    closing = _CLOSING[fence].search(content, opening.end() - 1, opening.end() + MAX_CHARS)
    if first is None or closing is None or first.end() > closing.start():
        return None
    body = content[opening.end() : closing.start()]
    title, tags = _read_toml(body) if fence == "+++" else _read_yaml(body)
    return FrontMatter(closing.end(), title, tags)


def _read_toml(body: str) -> tuple[str | None, tuple[str, ...]]:
    try:
        fields = tomllib.loads(body.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        return None, ()
    title = fields.get("title")
    return (title if isinstance(title, str) else None), _texts(fields.get("tags"))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _read_yaml(body: str) -> tuple[str | None, tuple[str, ...]]:
    title: str | None = None
    tags: list[str] = []
    collecting = False
    for line in _NEWLINE.split(body):
        item = line.strip()
        if collecting and item.startswith("- "):
            tags.append(_unquoted(item[2:]))
            continue
        collecting = False
        found = _KEY.fullmatch(line.rstrip())
        if found is None:
            continue
        key, value = found.group(1).lower(), found.group(2).strip()
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
