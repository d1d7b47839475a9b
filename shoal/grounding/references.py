"""References: the passages of a library that a text may cite, their texts, and quotations in them.

A person writes references one a line, such as `document 3:120-480`; programs give them as records.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.declared.arguments import MAX_ID
from shoal.errors import QueryError
from shoal.grounding.statements import Citation, make_statement
from shoal.grounding.support import Passage
from shoal.models.verdicts import MAX_LABEL, MAX_REFERENCES
from shoal.storage.database import Database, Snapshot, listed_in_parts
from shoal.support.plain_text import line_range

MAX_PASSAGE_CHARS = 100_000
"""Longest text that one citation may stand for; a longer one says too little about where the support is."""
FIELDS = ("label", "chunk_id", "document_id", "start_char", "end_char")

CHUNK_RANGES = "SELECT id, document_id, start_char, end_char FROM chunks WHERE id IN ({ids})"
DOCUMENT_ENDS = (
    "SELECT document_id, MAX(end_char) FROM chunks WHERE document_id IN ({ids}) GROUP BY document_id"
)
GET_CHUNK = """
    SELECT d.title, s.path, c.text, c.start_char, c.start_line
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id = :chunk_id
"""
CHUNKS_IN = """
    SELECT d.title, c.text_before, c.text, c.start_char, c.start_line
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.document_id = :document_id AND c.end_char > :start AND c.start_char < :end
    ORDER BY c.chunk_index
"""
EQUIVALENT = ("'’‘‚`´", '"“”„«»', "-‐‑‒–—−", "…")
"""Groups of characters that models use interchangeably."""
ELLIPSIS = re.compile(r"(?:\[\s*+)?(?:\.{3,}|…|\. \. \.)(?:\s*+\])?")
"""An omission in a quotation."""
MAX_CITED = 2_000
"""Most passages of one `read_cited`."""


class Reference(NamedTuple):
    """A passage that may be cited: a chunk, a document, or characters of a document."""

    label: int
    chunk_id: int | None = None
    document_id: int | None = None
    start_char: int | None = None
    end_char: int | None = None


class Range(NamedTuple):
    """Characters of a document; `chunk_id` if they are a chunk."""

    document_id: int
    start: int
    end: int
    chunk_id: int | None = None


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """The text of a range, with its place in the document."""

    range: Range
    title: str
    start_line: int
    passage: Passage


def make_references(given: object) -> tuple[Reference, ...] | None:
    """Validate references; a missing label is the position, from 1. Raises QueryError for `references.N`."""
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise QueryError("references", "must be a list")
    items = list(given)
    if len(items) > MAX_REFERENCES:
        raise QueryError("references", f"must have at most {MAX_REFERENCES:,} items")
    references = tuple(_reference(f"references.{place}", place + 1, item) for place, item in enumerate(items))
    labels: set[int] = set()
    for place, reference in enumerate(references):
        if reference.label in labels:
            raise QueryError(f"references.{place}.label", f"{reference.label} is given twice")
        labels.add(reference.label)
    return references


def _reference(field: str, position: int, item: object) -> Reference:
    if not isinstance(item, Mapping):
        raise QueryError(field, 'must be an object such as {"chunk_id": 12}')
    unknown = next((name for name in item if name not in FIELDS), None)
    if unknown is not None:
        raise QueryError(f"{field}.{str(unknown)[:40]}", f"is unknown; known are {', '.join(FIELDS)}")
    values = {
        name: _whole(f"{field}.{name}", name, value) for name, value in item.items() if value is not None
    }
    if ("chunk_id" in values) == ("document_id" in values):
        raise QueryError(field, "must have a chunk_id or a document_id, and not both")
    span = [name for name in ("start_char", "end_char") if name in values]
    if span and ("chunk_id" in values or len(span) == 1):
        raise QueryError(field, "must have start_char and end_char together, and only with a document_id")
    if span and values["start_char"] >= values["end_char"]:
        raise QueryError(f"{field}.end_char", "must be above start_char")
    return Reference(**{"label": position, **values})


def _whole(field: str, name: str, value: object) -> int:
    low, high = (0, MAX_LABEL) if name == "label" else (0 if name.endswith("char") else 1, MAX_ID)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise QueryError(field, f"must be a whole number from {low} to {high:,}")
    return value


class CitableText:
    """What citations may stand for: the references, or without them the whole library."""

    def __init__(
        self, snapshot: Snapshot, references: Sequence[Reference] | None, citations: Iterable[Citation]
    ) -> None:
        self._snapshot = snapshot
        self._references = {str(reference.label): reference for reference in references or ()}
        wanted: list[Citation | Reference] = [*self._references.values(), *citations]
        self._chunks = _chunk_ranges(snapshot, {each.chunk_id for each in wanted if each.chunk_id})
        self._ends = _document_ends(snapshot, {each.document_id for each in wanted if each.document_id})
        allowed = None if references is None else [self._range(each) for each in references]
        self._allowed = None if allowed is None else _Allowed(each for each in allowed if each)

    def find(self, citation: Citation) -> Range | None:
        """Return what a citation stands for; None if that does not exist or may not be cited."""
        if citation.label is not None:
            reference = self._references.get(citation.label)
            return None if reference is None else self._range(reference)
        cited = self._range(citation)
        if cited is None or self._allowed is None or self._allowed.has(cited):
            return cited
        return None

    def read(self, cited: Range) -> CitedPassage | None:
        """Read the text of a range; None if no chunk has any of it.

        Raises QueryError if it is too long to be one citation.
        """
        length = cited.end - cited.start
        if length > MAX_PASSAGE_CHARS:
            raise QueryError(
                "references",
                f"document {cited.document_id} has {length:,} characters there; the limit of a reference is "
                f"{MAX_PASSAGE_CHARS:,}: give start_char and end_char",
            )
        if cited.chunk_id is not None:
            row = self._snapshot.first(GET_CHUNK, {"chunk_id": cited.chunk_id})
            context = "\n".join([row["title"], *json.loads(row["path"])])
            return CitedPassage(cited, row["title"], row["start_line"], Passage(row["text"], context))
        key = {"document_id": cited.document_id, "start": cited.start, "end": cited.end}
        rows = self._snapshot.rows(CHUNKS_IN, key)
        if not rows:
            return None
        first, *others = rows
        text = "".join(
            [first["text"], *(piece for row in others for piece in (row["text_before"], row["text"]))]
        )
        cut = max(cited.start - first["start_char"], 0)
        start = first["start_char"] + cut
        line = first["start_line"] + text.count("\n", 0, cut)
        text = text[cut : cited.end - first["start_char"]]
        return CitedPassage(cited._replace(start=start), first["title"], line, Passage(text, first["title"]))

    def _range(self, cited: Citation | Reference) -> Range | None:
        if cited.chunk_id is not None:
            return self._chunks.get(cited.chunk_id)
        if cited.document_id is None or cited.document_id not in self._ends:
            return None
        end = self._ends[cited.document_id]
        if cited.start_char is None or cited.end_char is None:
            return Range(cited.document_id, 0, end)
        return Range(cited.document_id, cited.start_char, min(cited.end_char, end))


class _Allowed:
    """Ranges that may be cited; a range within one of them may be cited too."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        by_document: dict[int, list[tuple[int, int]]] = {}
        for each in ranges:
            by_document.setdefault(each.document_id, []).append((each.start, each.end))
        self._starts: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}
        for document_id, spans in by_document.items():
            spans.sort()
            self._starts[document_id] = [start for start, _ in spans]
            # The furthest end of the ranges up to each.
            furthest, ends = 0, []
            for _, end in spans:
                furthest = max(furthest, end)
                ends.append(furthest)
            self._ends[document_id] = ends

    def has(self, cited: Range) -> bool:
        """Whether one of the ranges contains another."""
        place = bisect_right(self._starts.get(cited.document_id, ()), cited.start) - 1
        return place >= 0 and self._ends[cited.document_id][place] >= cited.end


def _chunk_ranges(snapshot: Snapshot, ids: set[int]) -> dict[int, Range]:
    rows = _rows(snapshot, CHUNK_RANGES, ids)
    return {row[0]: Range(row[1], row[2], row[3], row[0]) for row in rows}


def _document_ends(snapshot: Snapshot, ids: set[int]) -> dict[int, int]:
    return {row[0]: row[1] for row in _rows(snapshot, DOCUMENT_ENDS, ids)}


def _rows(snapshot: Snapshot, statement: str, ids: set[int]) -> Iterable[Any]:
    in_order = sorted(each for each in ids if each <= MAX_ID)
    for names, parameters in listed_in_parts("id", in_order):
        yield from snapshot.tuples(statement.format(ids=names), parameters)


@dataclass(frozen=True, slots=True)
class FoundQuotation:
    """A quotation found in a document: `content[start_char:end_char]`; lines count from 1, end inclusive."""

    start_char: int
    end_char: int
    start_line: int
    end_line: int

    @property
    def lines(self) -> str:
        return line_range(self.start_line, self.end_line)


def find_quotation(quotation: str, content: str) -> FoundQuotation | None:
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
    return FoundQuotation(start, position, _line(content, start), _line(content, position - 1))


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
