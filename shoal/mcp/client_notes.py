"""The notes of one owner in a running service, with those operations of `shoal.notes.notes.OwnerNotes` that
the tools use. Arguments and results are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal.models.notes import (
    AddedNote,
    CategoryCount,
    MergeProposal,
    Note,
    NotePage,
    NoteResponse,
    NoteStatus,
    ProposalPage,
    Recall,
)
from shoal.notes.drafts import checked_owner

if TYPE_CHECKING:
    from shoal.client import Client


class ClientNotes:
    """Every request names the owner."""

    def __init__(self, client: Client, owner: str) -> None:
        """Raises NoteError for an invalid owner."""
        self._client = client
        self._owner = checked_owner(owner)

    def search(self, query: str, **arguments: Any) -> NoteResponse:
        return self._client.search_notes(query, owner=self._owner, **arguments)

    def recall(self, query: str, **arguments: Any) -> Recall:
        return self._client.recall(self._owner, query, **arguments)

    def get(self, note_id: int) -> Note:
        return self._client.note(note_id, owner=self._owner)

    def list(self, **arguments: Any) -> NotePage:
        return self._client.notes(owner=self._owner, **arguments)

    def categories(self) -> Sequence[CategoryCount]:
        return self._client.note_categories(owner=self._owner)

    def status(self) -> NoteStatus:
        return self._client.note_status(owner=self._owner)

    def add(self, text: str, **fields: Any) -> AddedNote:
        return self._client.add_note(text, owner=self._owner, **fields)

    def update(self, note_id: int, **fields: Any) -> Note:
        return self._client.update_note(note_id, owner=self._owner, **fields)

    def deprecate(self, note_id: int, *, reason: str) -> Note:
        return self._client.deprecate_note(note_id, owner=self._owner, reason=reason)

    def feedback(self, note_id: int, **arguments: Any) -> Note:
        return self._client.judge_note(note_id, owner=self._owner, **arguments)

    def categorize(self, note_id: int, **arguments: Any) -> Note:
        return self._client.categorize_note(note_id, owner=self._owner, **arguments)

    def pin(self, note_id: int, **arguments: Any) -> Note:
        return self._client.pin_note(note_id, owner=self._owner, **arguments)

    def unpin(self, note_id: int) -> Note:
        return self._client.unpin_note(note_id, owner=self._owner)

    def proposals(self, **arguments: Any) -> ProposalPage:
        return self._client.merge_proposals(owner=self._owner, **arguments)

    def decide(
        self, proposal_id: int, accept: bool, *, canonical_text: str | None, decided_by: str
    ) -> MergeProposal:
        if not accept:
            return self._client.reject_merge_proposal(proposal_id, owner=self._owner)
        return self._client.accept_merge_proposal(
            proposal_id, owner=self._owner, canonical_text=canonical_text, decided_by=decided_by
        )
