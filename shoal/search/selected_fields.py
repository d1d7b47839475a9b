"""The fields of results that an answer for programs has: those of `include`, without those of `exclude`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from shoal.errors import QueryError

MAX_NAMES = 100
MAX_NAME_CHARS = 100


class SelectedFields:
    """A selection of the fields of a result. Nested objects are kept or left out as a whole."""

    def __init__(self, include: object, exclude: object, known: Collection[str]) -> None:
        """None includes all, and excludes nothing. Raises QueryError for a name that is not among `known`."""
        self._included = _names("include", include, known)
        self._excluded = _names("exclude", exclude, known) or frozenset()

    def of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected ones of the values of a result."""
        return {
            name: value
            for name, value in values.items()
            if (self._included is None or name in self._included) and name not in self._excluded
        }

    def of_answer(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer whose results, or passages of documents, have the selected fields."""
        members = {**answer, "results": [self.of(result) for result in answer["results"]]}
        if answer.get("documents") is not None:
            members["documents"] = [
                {**document, "passages": [self.of(passage) for passage in document["passages"]]}
                for document in answer["documents"]
            ]
        return members


def _names(argument: str, given: object, known: Collection[str]) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise QueryError(argument, "must be a list of names of fields")
    names = list(given)
    if len(names) > MAX_NAMES:
        raise QueryError(argument, f"must have at most {MAX_NAMES} names")
    for name in names:
        if not isinstance(name, str):
            raise QueryError(argument, "must be a list of names of fields")
        if name not in known:
            close = difflib.get_close_matches(name[:MAX_NAME_CHARS], known, n=3)
            hint = f"did you mean {', '.join(close)}?" if close else f"known are {', '.join(sorted(known))}"
            raise QueryError(argument, f"a result has no field {name[:40]!r}; {hint}")
    return frozenset(names)
