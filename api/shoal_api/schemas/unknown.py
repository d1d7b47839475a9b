"""Messages for unknown fields, with a suggestion."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence

SHOWN_CHARS = 40
"""Most characters of an unknown name that are compared."""


def hint(name: str, known: Sequence[str], inner: Mapping[str, Sequence[str]]) -> str:
    """Return the message for an unknown field `name`.

    `known` are the names at this level; `inner` maps objects at this level to the names inside them.
    """
    for parent, names in inner.items():
        if name in names:
            example = json.dumps({parent: {name: "..."}}).replace('"..."', "...")
            return f"belongs in `{parent}`: {example}"
    meant = closest(name, known)
    if meant is None:
        dotted = {field: f"{parent}.{field}" for parent, names in inner.items() for field in names}
        match = closest(name, dotted)
        meant = dotted[match] if match else None
    if meant is not None:
        return f"is not known; did you mean `{meant}`?"
    return "is not known; known are " + ", ".join(known) if known else "is not known"


def parameter_hint(
    name: str, known: Sequence[str], of_body: Sequence[str] = (), takers: Sequence[str] = ()
) -> str:
    """Return the message for an unknown query parameter `name` of a request with the fields `of_body`.

    `takers`: the operations that have a parameter of this name.
    """
    if name in of_body:
        return "is a field of the body, not a query parameter"
    if closest(name, known) is None:
        meant = closest(name, of_body)
        if meant is not None:
            return f"is not known; did you mean the field `{meant}` of the body?"
        if len(takers) == 1:
            return f"is not known here; `{takers[0]}` takes it"
        if not known:
            return "is not known: this address has no query parameters"
    return hint(name, known, {})


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` misspells, abbreviates or extends; None if there is none."""
    known = list(known)
    name = name[:SHOWN_CHARS].lower()
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return near[0]
    # Such as `query` for `q`, or `doc` for `document_ids`.
    return next(
        (field for field in known if name and (field.startswith(name) or name.startswith(field))), None
    )
