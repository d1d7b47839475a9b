"""Verdicts on the statements of a text."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, NamedTuple

MIN_COVERAGE = 0.7
"""Least coverage of a supported statement: benchmarks/grounding.py."""
MAX_TEXT_CHARS = 1_000_000
MAX_STATEMENT_CHARS = 8_000
MAX_STATEMENTS = 5_000
MAX_CITATIONS = 16
"""Most citations of one statement; a sentence that cites more is not grounded in any of them."""
MAX_REFERENCES = 10_000
MAX_LABEL = 999_999_999
MAX_PARTS = 100
"""Most parts of a verdict, those that were not found first."""

Coverage = Annotated[
    float, "share of the statement's words that the passages have there, weighted by rarity, 0 to 1"
]


class Status(enum.StrEnum):
    """Whether the cited passages have a part of a statement."""

    found = "found"
    missing = "missing"
    differs = "differs"
    """They have something else in its place."""
    unclear = "unclear"
    """They have it in a way that leaves open whether it means the same."""


class StatementKind(enum.StrEnum):
    """What a statement is. Only a claim needs a citation."""

    claim = "claim"
    heading = "heading"
    question = "question"
    code = "code"
    other = "other"
    """It has no words that say something: "Yes.", a rule, a comment."""


class Verdict(enum.StrEnum):
    """Whether a statement is grounded."""

    supported = "supported"
    unsupported = "unsupported"
    """It cites references, and they do not say it."""
    unclear = "unclear"
    """Its references have its words in a way that may mean something else: the check cannot tell."""
    unreferenced = "unreferenced"
    """It makes a claim and cites nothing."""
    no_claim = "no_claim"
    """It is a heading, a question or code, or says nothing, and needs no citation."""


class Problem(NamedTuple):
    """Why a statement is rejected."""

    code: Annotated[
        str,
        "`unreferenced`, `reference` (it cites what is not allowed or does not exist), `citations` (it cites "
        "too many), `quotation`, `coverage`, or the kind of the parts that it concerns",
    ]
    message: Annotated[str, "the problem in words"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sentence that supports a statement best: `content[start_char:end_char]` of its document."""

    reference: Annotated[str, "the citation as in the statement"]
    document_id: int
    document_title: str
    chunk_id: Annotated[int | None, "null if the reference is a document"]
    text: str
    start_char: Annotated[int, "offset in the document's content, in code points"]
    end_char: int
    start_line: Annotated[int, "from 1"]
    end_line: Annotated[int, "inclusive"]
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class QuotationCheck:
    """A quotation in a statement."""

    text: Annotated[str, "the quotation"]
    reference: Annotated[str | None, "the reference that has it; null if none has"]


@dataclass(frozen=True, slots=True)
class CheckedPart:
    """A part of a statement that is compared by itself, `text[start_char:end_char]` of the verified text. Its
    counterpart is `content[found_start_char:found_end_char]` of the document."""

    kind: Annotated[
        str,
        "`number`, `date`, `time`, `version`, `address`, `code`, `letter` or `name`; `negation`, "
        "`comparative` or `order` where it differs in this",
    ]
    text: Annotated[str, "the part as in the statement"]
    start_char: Annotated[int, "offset in the text, in code points; in a given statement"]
    end_char: int
    status: Annotated[
        Status,
        "`differs`: the reference has something else in its place; `unclear`: the check cannot tell whether "
        "it means the same",
    ]
    found: Annotated[str | None, "what the reference has; null if nothing"] = None
    reference: Annotated[str | None, "the citation as in the statement"] = None
    document_id: int | None = None
    found_start_char: Annotated[int | None, "offset of `found` in the document's content, in code points"] = (
        None
    )
    found_end_char: Annotated[int | None, "offset of its end, exclusive"] = None


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """A statement of the text, `text[start_char:end_char]`, with its verdict."""

    text: Annotated[str, "the statement as in the text"]
    start_char: Annotated[int, "offset in the text, in code points; 0 for given statements"]
    end_char: int
    kind: Annotated[StatementKind, "only a claim needs a citation"]
    verdict: Annotated[
        Verdict,
        "`no_claim` if it needs no citation; `unclear` if the references have its words in a way that may "
        "mean something else",
    ]
    references: Annotated[tuple[str, ...], "what it cites, in order"] = ()
    supported_by: Annotated[
        tuple[str, ...],
        "those of them that support it: each alone if any does, otherwise those that do together",
    ] = ()
    coverage: Coverage = 0.0
    evidence: Annotated[
        Evidence | None, "the sentence that supports it best; null without an existing reference"
    ] = None
    quotations: Annotated[tuple[QuotationCheck, ...], "what it quotes"] = ()
    missing_words: Annotated[
        tuple[str, ...], "its words that the passages lack there, heaviest first, at most 20"
    ] = ()
    missing_numbers: Annotated[tuple[str, ...], "its numbers that they lack there"] = ()
    missing_names: Annotated[tuple[str, ...], "its names that they lack"] = ()
    parts: Annotated[
        tuple[CheckedPart, ...],
        f"what is compared by itself, at most {MAX_PARTS}, those not found kept first",
    ] = ()
    problems: Annotated[tuple[Problem, ...], "why it is rejected; empty if it is not"] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a text: accepted if every claim is supported by what it cites."""

    accepted: Annotated[bool, "whether every claim is supported by what it cites"]
    n_claims: Annotated[int, "statements that need a citation"]
    n_supported: Annotated[int, "claims that are supported"]
    n_unsupported: Annotated[int, "claims that cite something, and are not supported by it"]
    n_unclear: Annotated[int, "claims that the check cannot decide"]
    n_unreferenced: Annotated[int, "claims that cite nothing"]
    statements: Annotated[tuple[StatementVerdict, ...], "in the order of the text"]
    trace_id: str
    took_ms: float
