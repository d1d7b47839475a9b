"""Messages for unknown fields, with a suggestion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shoal.support.other_names import meant_name


def hint(name: str, known: Sequence[str], inner: Mapping[str, Sequence[str]]) -> str:
    """Return the message for an unknown field `name`.

    `known` are the names at this level; `inner` maps objects at this level to the names inside them.
    """
    for parent, names in inner.items():
        if name in names:
            example = json.dumps({parent: {name: "..."}}).replace('"..."', "...")
            return f"belongs in `{parent}`: {example}"
    meant = meant_name(name, known)
    if meant is None:
        dotted = {field: f"{parent}.{field}" for parent, names in inner.items() for field in names}
        match = meant_name(name, dotted)
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
    if meant_name(name, known) is None:
        meant = meant_name(name, of_body)
        if meant is not None:
            return f"is not known; did you mean the field `{meant}` of the body?"
        if len(takers) == 1:
            return f"is not known here; `{takers[0]}` takes it"
        if not known:
            return "is not known: this address has no query parameters"
    return hint(name, known, {})
