"""Principals: whom the rights of a document and a search token name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

EVERYONE = "everyone"
"""The principal of every search token."""
FORMS = "`everyone`, `user:NAME` or `group:NAME`"
MAX_PRINCIPALS = 1_000
"""In one list: of a document or of a token."""
MAX_CHARS = 256
_FORM = re.compile(r"(?:user|group):[^\s\x00-\x1f\x7f]+")


def checked_principals(given: object) -> tuple[str, ...]:
    """Return a list of principals, each once, in their order. Raises ValueError with what is wrong."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValueError("must be a list of texts")
    unique: dict[str, None] = {}
    for each in given:
        is_text = isinstance(each, str) and len(each) <= MAX_CHARS and each.isprintable()
        if not is_text or (each != EVERYONE and not _FORM.fullmatch(each)):
            shown = repr(each)[:60]
            raise ValueError(f"must be {FORMS}, up to {MAX_CHARS} characters without spaces; {shown} is not")
        unique[each] = None
        if len(unique) > MAX_PRINCIPALS:
            raise ValueError(f"there are over {MAX_PRINCIPALS:,}, which is the limit; use groups")
    return tuple(unique)
