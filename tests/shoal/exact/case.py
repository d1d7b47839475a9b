"""Cases of exact words: a small library, a query, and what a person expects of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ABSENT = 0.2
"""Most relevance of a passage without an identifier of the query that no passage of the library has."""
ELSEWHERE = 0.5
"""Most relevance of a passage without an identifier of the query that another passage has."""
HAVING = 0.85
"""Least relevance of a passage with all identifiers and most of the words of the query."""

LEXICAL: Mapping[str, Any] = {"mode": "lexical"}
PREFIX: Mapping[str, Any] = {"prefix": True}
PLAIN: Mapping[str, Any] = {"syntax": "plain"}


@dataclass(frozen=True, slots=True)
class Document:
    """A document of one passage."""

    title: str
    text: str
    source_path: str | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """Documents that cases share, and synonyms: each a group of words that mean the same."""

    documents: tuple[Document, ...]
    synonyms: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """What a person expects of a query.

    order       titles of the first results, best first
    arguments   of the search, besides the query
    found       titles that are among the results, at any place
    absent      titles that are no results; `ALL` for every title
    at_least    least relevance of the first result
    at_most     most relevance of the results in `wrong`, or of the first result if `wrong` is empty
    highlights  texts that are highlighted in the first result, in order
    warning     a part of one of the warnings
    unsaid      a part that no warning has
    excluded    words that the query excludes
    lacking     what the first result lacks; None: not looked at
    fails       why the case fails today; the runner skips it
    """

    name: str
    library: Library
    query: str
    order: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    wrong: tuple[str, ...] = ()
    highlights: tuple[str, ...] | None = None
    warning: str | None = None
    unsaid: str | None = None
    excluded: tuple[str, ...] = ()
    lacking: tuple[str, ...] | None = None
    fails: str | None = None


ALL = ("*",)


def library(*documents: tuple[str, ...], synonyms: tuple[tuple[str, ...], ...] = ()) -> Library:
    """Make a library of documents, each a title, a text, and perhaps a source path."""
    return Library(tuple(Document(*document) for document in documents), synonyms)
