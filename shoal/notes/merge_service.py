"""The part of `OwnerNotes` that finds duplicates and merges them."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.errors import NoteError
from shoal.models.notes import (
    PROPOSAL_STATUSES,
    DedupResult,
    MergePage,
    MergeProposal,
    NoteMerge,
    ProposalPage,
)
from shoal.notes import dedup, drafts, merge_operations
from shoal.notes.context import NoteContext
from shoal.notes.merge_rows import MergeRows
from shoal.notes.merging import AGENT, PERSON, checked_confidence
from shoal.notes.note_rows import NoteRows
from shoal.search.request import check_page


class OwnerMerges:
    """Duplicates and merges of one owner's notes. Ids of others' notes, proposals and merges raise
    NotFoundError."""

    def __init__(self, context: NoteContext, owner: str) -> None:
        self._context = context
        self.owner = owner

    def dedup(self, *, recheck: bool = False) -> DedupResult:
        """Compare the notes that wait with others, in this process, until nothing merges.

        Without a chat endpoint, similar notes become `proposals`. With one (`SHOAL_LLM_URL`), it decides, and
        what is in doubt becomes a proposal; while it is away, notes wait and the result has an `error`.
        `recheck`: also notes that were compared before.
        """
        if recheck:
            dedup.queue_all(self._context, self.owner)
        with dedup.endpoint_of(self._context.settings, self._context.database) as ask:
            return dedup.dedup(self._context, self.owner, ask)

    def merge(
        self,
        note_ids: Iterable[int],
        *,
        canonical_text: str | None = None,
        confidence: float = 1.0,
        reason: str = "",
        decided_by: str = PERSON,
    ) -> NoteMerge:
        """Merge 2 to 20 notes that say the same, with their evidence (`shoal.notes.merging`).

        The survivor gets the canonical text, by default its own; the others are deprecated. Notes that may
        contradict each other can be merged only with a `canonical_text`. `decided_by`: `person` or `agent`.
        Raises NoteError, and NoteStateError if a note is deprecated or another note has the text.
        """
        request = merge_operations.MergeRequest(
            merge_operations.checked_ids(note_ids),
            _decider(decided_by),
            canonical_text=_canonical(canonical_text),
            is_text_chosen=canonical_text is not None,
            confidence=checked_confidence(confidence),
            reason=drafts.checked_line("reason", reason, drafts.MAX_REASON_CHARS),
        )
        return merge_operations.merge(self._context, self.owner, request)

    def undo_merge(self, merge_id: int) -> NoteMerge:
        """Undo a merge: the absorbed notes are active again, and the survivor is as it was, with the evidence
        since. These notes are not proposed together again.

        Raises NotFoundError, and NoteStateError if it is undone already, if a note of it was purged or
        restored, if the survivor's text was changed, or if a later merge must be undone first.
        """
        return merge_operations.undo(self._context, self.owner, merge_id)

    def merges(self, *, note_id: int | None = None, limit: int = 50, offset: int = 0) -> MergePage:
        """The log of merges, newest first; `note_id`: those with this note."""
        check_page(limit, offset)
        with self._context.database.snapshot() as snapshot:
            if note_id is not None:
                NoteRows(snapshot, self.owner).check(note_id)
            found, total = MergeRows(snapshot, self.owner).merges(limit, offset, note_id=note_id)
        return MergePage(tuple(found), total)

    def proposals(self, *, status: str = "open", limit: int = 50, offset: int = 0) -> ProposalPage:
        """Notes that may say the same and wait for a decision, by id; or proposals with another status."""
        check_page(limit, offset)
        checked = drafts.checked_choice("status", status, PROPOSAL_STATUSES)
        with self._context.database.snapshot() as snapshot:
            found, total = MergeRows(snapshot, self.owner).proposals(checked, limit, offset)
        return ProposalPage(tuple(found), total)

    def decide(
        self,
        proposal_id: int,
        accept: bool,
        *,
        canonical_text: str | None = None,
        decided_by: str = PERSON,
    ) -> MergeProposal:
        """Accept an open proposal, which merges its notes, or reject it: they are not proposed again.

        Raises the errors of `merge`, and NoteStateError for a proposal that is not open.
        """
        if not isinstance(accept, bool):
            raise NoteError("accept", "must be true or false")
        if canonical_text is not None and not accept:
            raise NoteError("canonical_text", "goes with accepted proposals")
        return merge_operations.decide(
            self._context,
            self.owner,
            proposal_id,
            accept=accept,
            canonical_text=_canonical(canonical_text),
            decided_by=_decider(decided_by),
        )


def _canonical(text: object) -> str | None:
    try:
        return None if text is None else drafts.checked_text(text)
    except NoteError as error:
        raise NoteError("canonical_text", error.message) from None


def _decider(decided_by: object) -> str:
    return drafts.checked_choice("decided_by", decided_by, (PERSON, AGENT))
