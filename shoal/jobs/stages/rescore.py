"""The rescore stage: update the scores of stored chunks. Chunks keep their offsets and ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.chunking.analysis import cut, rescore, scored_document
from shoal.errors import DocumentError, NotFoundError
from shoal.jobs.queue.claims import WorkItem, check_held
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.learning.scorers import Vocabularies
from shoal.models.documents import Chunk, ScoredDocument
from shoal.models.jobs import ItemStatus
from shoal.models.stored import StoredChunk
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.chunk_queries import get_chunks, packed_profiles
from shoal.storage.database import Database, Transaction
from shoal.storage.document_queries import get_draft
from shoal.storage.staleness import has_stale_chunks

CHUNKS_WRITTEN = 300
"""Chunks written in one transaction: about a quarter of a second with 38 reefs each."""

Due = tuple[int, Chunk, bool]
"""The id of a chunk, its new scores, and whether they differ from the stored ones."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """The chunks of a document that are still to be written."""

    document: ScoredDocument
    due: list[Due]


class Rescoring(ItemHandler):
    """The rescore stage: score the documents that have stale chunks with a vocabulary version.

    Only chunks whose scores differ are written, which may be neighbours of the stale ones: the words of a
    chunk count for the labels of those around it."""

    def __init__(self, database: Database, vocabularies: Vocabularies, settings: Settings) -> None:
        self._database = database
        self._vocabularies = vocabularies
        self._settings = settings

    def prepare(self, item: WorkItem) -> Rescored | None:
        """Score the chunks, and write all but the last CHUNKS_WRITTEN of a long document in own transactions.

        A chunk may be newer than its neighbour for a while; a repeated run finds less to do. Raises
        LeaseLostError.
        """
        assert item.document_id is not None, "an item of a rescore names its document"
        version = item.vocabulary_version
        if version is None:
            version = self._vocabularies.newest()
        rescored = self._rescore(item.document_id, version)
        while rescored is not None and len(rescored.due) > CHUNKS_WRITTEN:
            group, rescored.due[:] = rescored.due[:CHUNKS_WRITTEN], rescored.due[CHUNKS_WRITTEN:]
            with self._database.write() as transaction:
                check_held(transaction, item)
                is_still = _is_still(transaction, item.document_id, rescored.document)
                if is_still:
                    _write(transaction, item.document_id, rescored.document, group)
            if not is_still:
                rescored = self._rescore(item.document_id, version)
        return rescored

    def store(self, transaction: Transaction, item: WorkItem, prepared: Rescored | None) -> Outcome:
        assert item.document_id is not None, "an item of a rescore names its document"
        if prepared is not None and document_writer.exists(transaction, item.document_id):
            if not _is_still(transaction, item.document_id, prepared.document):
                # Its content was replaced since.
                raise NotPreparedError
            _write(transaction, item.document_id, prepared.document, prepared.due)
            document_writer.finish_rescore(transaction, item.document_id, prepared.document)
        return Outcome(ItemStatus.succeeded, item.document_id)

    def _rescore(self, document_id: int, version: int) -> Rescored | None:
        """The chunks whose scores differ; None if the document has no stale chunks."""
        base, scorer = self._vocabularies.base, self._vocabularies.at(version)
        with self._database.snapshot() as snapshot:
            try:
                if not has_stale_chunks(snapshot, document_id, base.data_checksum):
                    return None
                stored = get_chunks(snapshot, document_id).chunks
                draft = get_draft(snapshot, document_id)
                profiles = packed_profiles(snapshot, document_id)
            except NotFoundError:
                return None
        cuts = [chunk.start_char for chunk in stored]
        # Earlier versions left boilerplate in the chunks.
        for keep_boilerplate in (False, True):
            document = cut(draft, cuts, self._settings, keep_boilerplate=keep_boilerplate)
            if document is None:
                continue
            document = rescore(document, scorer, self._settings)
            scored = scored_document(document, scorer, vocabulary_version=version)
            if _same_spans(scored.chunks, stored):
                break
        else:
            raise DocumentError(
                "this version of Shoal splits the text differently; delete the document and ingest it again"
            )
        due = [
            (old.id, new, is_other)
            for new, old, profile in zip(scored.chunks, stored, profiles, strict=True)
            for is_other in [new.profile != profile or _is_other(new, old)]
            if is_other or old.data_checksum != base.data_checksum
        ]
        return Rescored(scored, due)


def _is_still(transaction: Transaction, document_id: int, scored: ScoredDocument) -> bool:
    """Whether a document still has the content that was scored."""
    draft = scored.draft
    identity = (draft.content_hash, draft.title, draft.format.value)
    return document_writer.identity(transaction, document_id) == identity


def _write(transaction: Transaction, document_id: int, document: ScoredDocument, due: Sequence[Due]) -> None:
    if due:
        document_writer.rescore_chunks(transaction, document_id, document, due)


def _same_spans(new: Sequence[Chunk], old: Sequence[StoredChunk]) -> bool:
    return [(c.start_char, c.end_char) for c in new] == [(c.start_char, c.end_char) for c in old]


def _is_other(new: Chunk, old: StoredChunk) -> bool:
    return (new.confidence, new.coverage, new.matched_words, new.arch_scores) != (
        old.confidence,
        old.coverage,
        old.matched_words,
        old.arch_scores,
    )
