"""Operations on duplicates and merges of an owner's notes."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.requests import Requester, accepted_job, pages, parse, without_none
from shoal.declared.operations.operation import API
from shoal.models.notes import MergePage, MergeProposal, NoteMerge, ProposalPage
from shoal.models.responses import Job

DEFAULT_OWNER = "default"
NOTES = "/notes"


class NoteMergeOperations(Requester):
    """Operations on duplicates and merges. Arguments and results are those of `shoal.notes.merge_service`.

    Ids of another owner raise NotFoundError. A state that does not allow an operation raises ConflictError.
    """

    @operation
    def dedup_notes(
        self,
        *,
        owner: str = DEFAULT_OWNER,
        recheck: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Start a job that compares the notes that wait with others, or return the owner's open one."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        body = without_none(owner=owner, recheck=recheck)
        request = Request("POST", f"{API}{NOTES}/dedup", json=body, headers=headers)
        return accepted_job((yield from self._send(request)))

    @operation
    def merge_proposals(
        self, *, owner: str = DEFAULT_OWNER, status: str | None = None, limit: int = 50, offset: int = 0
    ) -> Flow[ProposalPage]:
        """A page of the open proposals, or of those with another status, by id."""
        path = f"{NOTES}/proposals"
        return (yield from self._page(ProposalPage, path, limit, offset, owner=owner, status=status))

    @listing
    def each_merge_proposal(
        self, *, owner: str = DEFAULT_OWNER, status: str | None = None
    ) -> Stream[MergeProposal]:
        """All open proposals, or those with another status, read page by page."""
        path = f"{NOTES}/proposals"
        yield from pages(
            lambda limit, offset: self._page(ProposalPage, path, limit, offset, owner=owner, status=status),
            lambda page: page.proposals,
        )

    @operation
    def accept_merge_proposal(
        self,
        proposal_id: int,
        *,
        owner: str = DEFAULT_OWNER,
        canonical_text: str | None = None,
        decided_by: str | None = None,
    ) -> Flow[MergeProposal]:
        """Merge the notes of a proposal; texts that may contradict each other need a `canonical_text`."""
        body = without_none(owner=owner, canonical_text=canonical_text, decided_by=decided_by)
        path = f"{API}{NOTES}/proposals/{int(proposal_id)}/accept"
        request = Request("POST", path, json=body, repeat=Repeat.unsent)
        return parse(MergeProposal, (yield from self._send(request)))

    @operation
    def reject_merge_proposal(self, proposal_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[MergeProposal]:
        """Reject a proposal: its notes are not proposed together again."""
        path = f"{API}{NOTES}/proposals/{int(proposal_id)}/reject"
        request = Request("POST", path, json={"owner": owner}, repeat=Repeat.unsent)
        return parse(MergeProposal, (yield from self._send(request)))

    @operation
    def merge_notes(
        self,
        note_ids: Iterable[int],
        *,
        owner: str = DEFAULT_OWNER,
        canonical_text: str | None = None,
        confidence: float | None = None,
        reason: str | None = None,
        decided_by: str | None = None,
    ) -> Flow[NoteMerge]:
        """Merge notes that say the same."""
        body = without_none(
            owner=owner,
            note_ids=list(note_ids),
            canonical_text=canonical_text,
            confidence=confidence,
            reason=reason,
            decided_by=decided_by,
        )
        request = Request("POST", f"{API}{NOTES}/merges", json=body, repeat=Repeat.unsent)
        return parse(NoteMerge, (yield from self._send(request)))

    @operation
    def note_merges(
        self, *, owner: str = DEFAULT_OWNER, note_id: int | None = None, limit: int = 50, offset: int = 0
    ) -> Flow[MergePage]:
        """A page of the merges, newest first; `note_id`: those with this note."""
        path = f"{NOTES}/merges"
        return (yield from self._page(MergePage, path, limit, offset, owner=owner, note_id=note_id))

    @listing
    def each_note_merge(self, *, owner: str = DEFAULT_OWNER, note_id: int | None = None) -> Stream[NoteMerge]:
        """All merges, newest first, read page by page."""
        path = f"{NOTES}/merges"
        yield from pages(
            lambda limit, offset: self._page(MergePage, path, limit, offset, owner=owner, note_id=note_id),
            lambda page: page.merges,
        )

    @operation
    def undo_note_merge(self, merge_id: int, *, owner: str = DEFAULT_OWNER) -> Flow[NoteMerge]:
        """Undo a merge of notes."""
        path = f"{API}{NOTES}/merges/{int(merge_id)}/undo"
        request = Request("POST", path, json={"owner": owner}, repeat=Repeat.unsent)
        return parse(NoteMerge, (yield from self._send(request)))
