"""Patterns of folders, such as `/work/acme/*`, in prerequisites of notes and in tags by path.

| pattern | matches |
|---|---|
| `/work/acme` | this folder and everything below it |
| `/work/*/api` | `*` and `?` match within one name |
| `/work/**/api` | `**` matches any number of folders |
| `acme/api` | the same names anywhere in the path |
| `~/acme` | below the home folder of any user, so that the pattern means the same on every machine |

Matching takes time proportional to the length of the pattern times that of the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

MAX_CHARS = 300
"""Longest pattern, characters."""

_ANY_FOLDERS = "**"
_HOMES = ("/home/*", "/Users/*", "/root", "?:/Users/*")


def matches(folder: str, pattern: str) -> bool:
    """Whether an absolute path of a folder is matched by a pattern or lies below a folder that is."""
    parts = _parts(folder)
    return any(_match(parts, [*_parts(anchored), _ANY_FOLDERS]) for anchored in _anchored(pattern))


def parse_path_tags(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `PATTERN=TAG` separated by commas: pairs of pattern and tag. Raises ValueError."""
    pairs = []
    for entry in filter(None, map(str.strip, text.split(","))):
        pattern, equals, tag = (part.strip() for part in entry.rpartition("="))
        if not (pattern and equals and tag):
            raise ValueError(f"{entry[:50]!r} must be PATTERN=TAG, such as /work/acme/*=acme")
        if len(pattern) > MAX_CHARS:
            raise ValueError(f"a pattern has {len(pattern):,} characters; the limit is {MAX_CHARS:,}")
        pairs.append((pattern, tag))
    return tuple(pairs)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part]


def _anchored(pattern: str) -> list[str]:
    """Return patterns from the root of the file system that together mean the same."""
    pattern = pattern.replace("\\", "/")
    if pattern == "~" or pattern.startswith("~/"):
        return [home + pattern[1:] for home in _HOMES]
    is_anchored = pattern.startswith("/") or pattern[1:2] == ":"
    return [pattern if is_anchored else f"{_ANY_FOLDERS}/{pattern}"]


def _match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether all parts match. What follows `**` takes its first possible place: a later one leaves fewer
    parts for the rest of the pattern."""
    i_part = i_pattern = 0
    retry_part = retry_pattern = -1
    while i_part < len(parts):
        if i_pattern < len(pattern) and pattern[i_pattern] == _ANY_FOLDERS:
            i_pattern += 1
            retry_part, retry_pattern = i_part, i_pattern
        elif i_pattern < len(pattern) and _match_name(parts[i_part], pattern[i_pattern]):
            i_part += 1
            i_pattern += 1
        elif retry_pattern >= 0:
            retry_part += 1
            i_part, i_pattern = retry_part, retry_pattern
        else:
            return False
    return all(part == _ANY_FOLDERS for part in pattern[i_pattern:])


def _match_name(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))
