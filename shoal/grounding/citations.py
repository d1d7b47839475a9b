"""The passages that citations stand for, and references that a person writes as citations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.errors import QueryError
from shoal.grounding.references import MAX_REFERENCES, CitableText, CitedPassage, make_references
from shoal.grounding.statements import make_statement
from shoal.storage.database import Database

MAX_CITED = 2_000
"""Most passages of one `read_cited`."""


def parse_references(lines: Iterable[str]) -> list[dict[str, int]]:
    """Return references that are written one a line as `chunk 12`, `document 3` or `document 3:120-480`.

    Blank lines are no references. Raises QueryError, which names the line.
    """
    references: list[dict[str, int]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(references) == MAX_REFERENCES:
            raise QueryError("references", f"must have at most {MAX_REFERENCES:,} lines")
        try:
            (citation,) = make_statement("", [line]).citations
        except (QueryError, ValueError):
            citation = None
        if citation is None or citation.label is not None:
            raise QueryError(
                "references", f"line {number:,} is not like chunk 12, document 3 or document 3:120-480"
            )
        given = citation._asdict()
        del given["text"]
        references.append({name: value for name, value in given.items() if value is not None})
    return references


def read_cited(
    database: Database, citations: Sequence[str], references: Sequence[Mapping[str, Any]] | None
) -> dict[str, CitedPassage]:
    """Return the passages of citations as in the `references` of a verdict; those that may not be cited or
    are too long are missing. Of more than MAX_CITED citations, the first are read. Raises QueryError."""
    found: dict[str, CitedPassage] = {}
    wanted = [citation for text in citations[:MAX_CITED] for citation in make_statement("", [text]).citations]
    with database.snapshot() as snapshot:
        citable = CitableText(snapshot, make_references(references), wanted)
        for citation in wanted:
            cited = citable.find(citation)
            try:
                passage = None if cited is None else citable.read(cited)
            except QueryError:
                continue
            if passage is not None:
                found[citation.text] = passage
    return found
