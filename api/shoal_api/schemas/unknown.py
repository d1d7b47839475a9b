"""What to say of a name that a schema does not know: where it belongs, what was meant, or what there is."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence

SHOWN_CHARS = 40
"""Of a name that somebody made up; the answer is not the place to repeat a megabyte."""


def hint(name: str, known: Sequence[str], inner: Mapping[str, Sequence[str]]) -> str:
    """The message for `name`.

    `known` are the names at this level, `inner` those inside objects at this level, by the object's name.
    """
    for parent, names in inner.items():
        if name in names:
            example = json.dumps({parent: {name: "..."}}).replace('"..."', "...")
            return f"belongs into `{parent}`: {example}"
    meant = closest(name, known)
    if meant is None:
        dotted = {each: f"{parent}.{each}" for parent, names in inner.items() for each in names}
        found = closest(name, dotted)
        meant = dotted[found] if found else None
    if meant is not None:
        return f"is not known; did you mean `{meant}`?"
    return "is not known; known are " + ", ".join(known) if known else "is not known"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is a misspelling, a beginning or an extension of; None if there is none."""
    known = list(known)
    name = name[:SHOWN_CHARS].lower()
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return near[0]
    # `query` for `q`, `doc` for `document_ids`.
    return next((each for each in known if name and (each.startswith(name) or name.startswith(each))), None)
