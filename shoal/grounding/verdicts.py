"""Verdicts on the statements of a text."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from shoal.grounding.parts import Status


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
    """Why a statement is rejected.

    `code`: `unreferenced`, `reference` (it cites what is not allowed or does not exist), `citations` (it
    cites too many), `quotation`, `coverage`, or the kind of the parts that it concerns; `message` is the same
    in words.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sentence that supports a statement best: `content[start_char:end_char]` of its document.

    `reference` is the citation as in the statement. `chunk_id` is None if the reference is a document. Lines
    count from 1 and include both ends. `coverage`: share of the statement's words that the sentence and its
    neighbour have, weighted by rarity, 0..1.
    """

    reference: str
    document_id: int
    document_title: str
    chunk_id: int | None
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    coverage: float


@dataclass(frozen=True, slots=True)
class QuotationCheck:
    """A quotation in a statement, and the reference whose text has it; None if none has."""

    text: str
    reference: str | None


@dataclass(frozen=True, slots=True)
class CheckedPart:
    """A part of a statement that is compared by itself, `text[start_char:end_char]` of the verified text.

    kind            what it is: `number`, `date`, `time`, `version`, `address`, `code`, `letter` or `name`; or
                    how it differs: `negation`, `comparative`, `order`
    status          `found`, `missing`, `differs` (the reference has something else in its place) or `unclear`
    found           what the reference has, `content[found_start_char:found_end_char]` of the document; None
                    if nothing there corresponds to the part
    """

    kind: str
    text: str
    start_char: int
    end_char: int
    status: Status
    found: str | None = None
    reference: str | None = None
    document_id: int | None = None
    found_start_char: int | None = None
    found_end_char: int | None = None


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """A statement of the text, `text[start_char:end_char]`, with its verdict.

    kind             `claim`, `heading`, `question`, `code` or `other`
    references       what it cites, in order
    supported_by     those of them that support it: each alone if any does, otherwise those that do together
    coverage         share of its words in the best places of the references together, 0..1
    evidence         the best sentence; None if it cites nothing that exists
    missing_words    its words that the references lack there, heaviest first, at most 20
    parts            what is compared by itself, at most 100, those that were not found first kept
    problems         why it is rejected; empty if it is not
    """

    text: str
    start_char: int
    end_char: int
    kind: str
    verdict: Verdict
    references: tuple[str, ...] = ()
    supported_by: tuple[str, ...] = ()
    coverage: float = 0.0
    evidence: Evidence | None = None
    quotations: tuple[QuotationCheck, ...] = ()
    missing_words: tuple[str, ...] = ()
    missing_numbers: tuple[str, ...] = ()
    missing_names: tuple[str, ...] = ()
    parts: tuple[CheckedPart, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a text: accepted if every claim is supported by what it cites."""

    accepted: bool
    n_claims: int
    n_supported: int
    n_unsupported: int
    n_unclear: int
    n_unreferenced: int
    statements: tuple[StatementVerdict, ...]
    trace_id: str
    took_ms: float
