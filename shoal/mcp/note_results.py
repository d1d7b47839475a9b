"""The structured results of the tools for notes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shoal.mcp.document_results import Fraction, Quoting, Result, Status


class NoteView(Result):
    """A note as agents see it."""

    id: int
    kind: str
    title: str
    text: str = Field(description="The note as stored, quoted.")
    domain: str
    tags: list[str]
    categories: list[str]
    prerequisites: dict[str, list[str]] = Field(description="Where the note applies.")
    source: str
    verified: bool = Field(description="Whether a person or a second source confirmed it.")
    pinned_by: str | None = Field(description="`person`, `tags` or `relevance`; null: not pinned.")
    pin_tags: list[str]
    occurrence_count: int = Field(description="How often the text was submitted.")
    times_matched: int
    deprecated: bool
    deprecated_reason: str | None
    merged_into: int | None
    created_at: str
    updated_at: str


class FoundNote(Result):
    """A note that matches a query, and why."""

    note: NoteView
    score: float
    similarity: Fraction
    matched_words: list[str]
    shared_topics: list[str]


class FoundNotes(Quoting):
    """What a search in notes found, best first."""

    status: Status
    query: str
    n_results: int
    results: list[FoundNote]
    message: str
    warnings: list[str]


class SimilarNoteView(Result):
    """A note that says nearly the same as a new one, or the opposite."""

    id: int
    text: str
    similarity: Fraction
    is_opposite: bool = Field(description="The two may contradict each other.")


class AddedNoteView(Quoting):
    """A submitted note."""

    note: NoteView
    is_duplicate: bool = Field(description="The text was stored already; its count went up.")
    similar: list[SimilarNoteView]
    message: str


class ChangedNote(Quoting):
    """A note after a change."""

    note: NoteView
    message: str


class NoteList(Quoting):
    """A page of notes."""

    status: Status
    total: int = Field(description="Number of notes on all pages.")
    offset: int
    next_offset: int | None = Field(description="Offset of the next page; null on the last one.")
    notes: list[NoteView]
    message: str


class ProposedNoteView(Result):
    """A note that may say the same as others."""

    id: int
    text: str = Field(description="The note as stored, quoted; empty if it was deleted.")


class ProposalView(Result):
    """Notes that may say the same, for a decision."""

    id: int
    notes: list[ProposedNoteView]
    similarity: Fraction = Field(description="Of the least similar pair.")
    is_opposite: bool = Field(description="They may contradict each other; to merge them, give the text.")
    canonical_text: str = Field(description="Proposed text; empty: that of the surviving note.")
    reason: str
    status: str = Field(description="`open`, `merged`, `rejected` or `outdated`.")


class ProposalList(Quoting):
    """A page of open proposals."""

    status: Status
    total: int = Field(description="Number of proposals on all pages.")
    next_offset: int | None = Field(description="Offset of the next page; null on the last one.")
    proposals: list[ProposalView]
    message: str


class DecidedProposal(Quoting):
    """A proposal after the decision."""

    proposal: ProposalView
    message: str


class CategoryView(Result):
    """A category with the number of its notes."""

    path: str
    n_notes: int


class NoteStatus(Quoting):
    """How many notes there are."""

    owner: str
    n_active: int
    n_deprecated: int
    n_pinned: int
    by_kind: dict[str, int]
    categories: list[CategoryView]


class RecalledItem(Result):
    """An item of memory."""

    content: str
    metadata: dict[str, Any]
    similarity: Fraction


class RecalledItems(Quoting):
    """What the memory of a user says about a query."""

    response: str
    count: int
    results: list[RecalledItem]
    topics: list[str]
    similarities: list[Fraction]


class RememberedItem(Result):
    """What became of a submitted item."""

    note_id: int | None
    is_duplicate: bool
    error: str | None = Field(description="Why the item was refused.")


class RememberedItems(Quoting):
    """What became of the submitted items, in their order."""

    n_stored: int
    n_duplicates: int
    n_refused: int
    items: list[RememberedItem]
