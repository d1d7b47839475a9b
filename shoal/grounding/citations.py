"""The passages that citations stand for, and references that a person writes as citations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import QueryError
from shoal.grounding.references import CitableText, CitedPassage, make_references
from shoal.grounding.statements import make_statement
from shoal.models.verdicts import MAX_REFERENCES
from shoal.storage.database import Database
from shoal.support.plain_text import line_range

EQUIVALENT = ("'’‘‚`´", '"“”„«»', "-‐‑‒–—−", "…")
"""Groups of characters that models use interchangeably."""
ELLIPSIS = re.compile(r"(?:\[\s*+)?(?:\.{3,}|…|\. \. \.)(?:\s*+\])?")
"""An omission in a quotation."""


@dataclass(frozen=True, slots=True)
class Found:
    """A quotation found in a document: `content[start_char:end_char]`; lines count from 1, end inclusive."""

    start_char: int
    end_char: int
    start_line: int
    end_line: int

    @property
    def lines(self) -> str:
        return line_range(self.start_line, self.end_line)


def find_quotation(quotation: str, content: str) -> Found | None:
    """Return the first place where a document contains the quoted words in this order, or None.

    Ignored are white space, the kind of quotation marks and dashes, case, and quotation marks or an ellipsis
    around the quotation. An ellipsis within it matches any text. Everything else must be equal: an added,
    missing or different word is no match.
    """
    parts = [part for part in (_trimmed(part) for part in ELLIPSIS.split(quotation)) if part]
    if not parts:
        return None
    start, position = -1, 0
    for part in parts:
        match = _pattern(part).search(content, position)
        if match is None:
            return None
        start = match.start() if start < 0 else start
        position = match.end()
    return Found(start, position, _line(content, start), _line(content, position - 1))


def _trimmed(part: str) -> str:
    return part.strip().strip("".join(EQUIVALENT[:2])).strip()


def _pattern(part: str) -> re.Pattern[str]:
    text = r"\s++".join("".join(map(_character_pattern, word)) for word in part.split())
    # Only whole words match: "art" does not match in "part".
    before = r"(?<!\w)" if part[0].isalnum() else ""
    after = r"(?!\w)" if part[-1].isalnum() else ""
    return re.compile(before + text + after, re.IGNORECASE)


def _character_pattern(character: str) -> str:
    group = next((group for group in EQUIVALENT if character in group), "")
    return f"[{re.escape(group)}]" if group else re.escape(character)


def _line(content: str, position: int) -> int:
    return content.count("\n", 0, position) + 1


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
