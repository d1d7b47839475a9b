"""What the tools read: a library in this process, or a running service. Both raise ShoalError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.errors import NotFoundError
from shoal.models.notes import (
    AddedNote,
    CategoryCount,
    ForgottenNotes,
    MergeProposal,
    Note,
    NoteOutcomes,
    NotePage,
    NoteResponse,
    NoteStatus,
    ProposalPage,
    Recall,
)
from shoal.models.stored import ChunkDetail, DocumentDetail, DocumentPage
from shoal.notes.drafts import checked_owner

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.engine import Engine
    from shoal.models.explanations import Explanation
    from shoal.models.search import BatchResponse, SearchResponse
    from shoal.models.synonyms import SynonymPage
    from shoal.notes.notes import OwnerNotes


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

    def forget(self, note_id: int) -> ForgottenNotes:
        return self._client.forget_note(note_id, owner=self._owner)

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


if TYPE_CHECKING:
    AgentNotes = OwnerNotes | ClientNotes
    """The notes of one owner."""


SCHEME = "shoal://"


def resource_uri(document_id: int, chunk_index: int | None = None) -> str:
    """Return the address of a document, or of one of its chunks, as a resource of this server."""
    document = f"{SCHEME}documents/{document_id}"
    return document if chunk_index is None else f"{document}/chunks/{chunk_index}"


class EngineBackend:
    """A library in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(self) -> None:
        """Prepare for the first request."""
        self._engine.start()

    def search(self, query: str, **arguments: Any) -> SearchResponse:
        """The arguments and the result of `Engine.search`."""
        return self._engine.search(query, **arguments)

    def search_many(self, searches: Sequence[Mapping[str, Any]], **arguments: Any) -> BatchResponse:
        """The arguments and the result of `Engine.search_many`."""
        return self._engine.search_many(searches, **arguments)

    def synonyms(self, **arguments: Any) -> SynonymPage:
        """The arguments and the result of `Engine.vocabulary.synonyms.list`."""
        return self._engine.vocabulary.synonyms.list(**arguments)

    def explain(self, query: str, **arguments: Any) -> Explanation:
        """The arguments and the result of `Engine.explain`."""
        return self._engine.explain(query, **arguments)

    def documents(self, **arguments: Any) -> DocumentPage:
        """The arguments and the result of `Engine.documents.list`."""
        return self._engine.documents.list(**arguments)

    def document(self, document_id: int) -> DocumentDetail:
        """A document with its sections."""
        return self._engine.documents.get(document_id)

    def content(self, document_id: int) -> str:
        """The text of a document."""
        return self._engine.documents.content(document_id)

    def chunk(self, chunk_id: int, *, context: int = 0) -> ChunkDetail:
        """A chunk with its document and `context` neighbours on each side."""
        return self._engine.documents.chunk(chunk_id, context=context)

    def chunk_id(self, document_id: int, chunk_index: int) -> int:
        """The id of a document's chunk, counted from 0. Raises NotFoundError."""
        chunk_id = self._engine.documents.chunk_id(document_id, chunk_index)
        if chunk_id is None:
            raise no_chunk(document_id, chunk_index)
        return chunk_id

    def address(self, document_id: int, chunk_index: int | None = None) -> str:
        """An address of a document or chunk for people, or for a client of this server."""
        return resource_uri(document_id, chunk_index)

    def notes(self, owner: str) -> OwnerNotes:
        """The notes of an owner. Raises NoteError for an invalid name."""
        return self._engine.notes.of(owner)

    def remember(self, user_id: str, items: Sequence[Mapping[str, Any]]) -> NoteOutcomes:
        """Store what was learned for a user; one result for each item, in order."""
        return NoteOutcomes.of(self._engine.notes.of(user_id).remember(items))


class ClientBackend:
    """A running service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self) -> None:
        """Nothing: the service is running."""

    def search(self, query: str, **arguments: Any) -> SearchResponse:
        return self._client.search(query, **arguments)

    def search_many(self, searches: Sequence[Mapping[str, Any]], **arguments: Any) -> BatchResponse:
        return self._client.search_many(searches, **arguments)

    def synonyms(self, **arguments: Any) -> SynonymPage:
        return self._client.synonyms(**arguments)

    def explain(self, query: str, **arguments: Any) -> Explanation:
        return self._client.explain(query, **arguments)

    def documents(self, **arguments: Any) -> DocumentPage:
        return self._client.documents(**arguments)

    def document(self, document_id: int) -> DocumentDetail:
        document = self._client.document(document_id)
        return DocumentDetail(
            document,
            document.sections,
            document.report,
            document.file,
            document.parents,
            document.attachments,
        )

    def content(self, document_id: int) -> str:
        return self._client.content(document_id)

    def chunk(self, chunk_id: int, *, context: int = 0) -> ChunkDetail:
        chunk = self._client.chunk(chunk_id, context=context)
        return ChunkDetail(chunk, chunk.document, chunk.before, chunk.after)

    def chunk_id(self, document_id: int, chunk_index: int) -> int:
        chunks = self._client.chunks(document_id, limit=1, offset=chunk_index).chunks
        if not chunks:
            raise no_chunk(document_id, chunk_index)
        return chunks[0].id

    def address(self, document_id: int, chunk_index: int | None = None) -> str:
        """The page of the console."""
        page = f"{self._client.server}/documents/{document_id}"
        return page if chunk_index is None else f"{page}?chunk={chunk_index}"

    def notes(self, owner: str) -> ClientNotes:
        return ClientNotes(self._client, owner)

    def remember(self, user_id: str, items: Sequence[Mapping[str, Any]]) -> NoteOutcomes:
        return self._client.remember(checked_owner(user_id), items)


Backend: TypeAlias = EngineBackend | ClientBackend
"""The operations that the tools need. May be shared between threads."""


def no_chunk(document_id: int, chunk_index: int) -> NotFoundError:
    """The error for a chunk that does not exist."""
    return NotFoundError(f"document {document_id} has no chunk {chunk_index}")
