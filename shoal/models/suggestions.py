"""Suggestions while somebody types a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A query that may be meant."""

    text: Annotated[str, "plain text, in one line; escape it before it becomes part of a page"]
    kind: Annotated[
        str,
        "`title` of a document, `heading`, `learned` word, `compound` of the dictionary or a learned one, "
        "frequent `query` of the log, or `word`: the query with its last word completed",
    ]
    n: Annotated[
        int,
        "passages of the document, documents with the heading or learned word, passages with the compound, "
        "searches for the query, or passages with the word",
    ]


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Suggestions for the beginning of a query."""

    suggestions: Annotated[Sequence[Suggestion], "best first"]
