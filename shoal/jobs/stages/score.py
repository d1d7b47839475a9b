"""The score stage scores the chunks of a text with the vocabulary version of its wave, and stores them.

The rescore stage updates the scores of stored chunks, which keep their offsets and ids.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lagoon.tokens import tokenise
from shoal.chunking.analysis import (
    AnalyzedDocument,
    analyze,
    cut,
    rescore,
    rescore_many,
    scored_document,
    scored_documents,
)
from shoal.chunking.packed_documents import unpack
from shoal.errors import DocumentError, LeaseLostError, NotFoundError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem, check_held, draft_of
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.jobs.stages.discover import (
    SHORT_BYTES,
    AnalysisCache,
    Discovered,
    Discovery,
    Withdrawn,
    delete_document,
    prepare_deletion,
)
from shoal.learning.scorers import MAX_LOOKED_UP_TEXTS, Vocabularies
from shoal.learning.vocabulary import may_contain_learned_words
from shoal.models.documents import Chunk, DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus
from shoal.models.stored import StoredChunk
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import document_queries, document_writer, observations
from shoal.storage.chunk_queries import get_chunks, packed_profiles
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.document_queries import get_draft
from shoal.storage.staleness import has_stale_chunks
from shoal.support.clock import timestamp_at


class ItemText(NamedTuple):
    """The text of an item, and the offsets of its chunks found by discovery."""

    item: WorkItem
    draft: DocumentDraft
    cuts: Sequence[int]


class Segments(NamedTuple):
    """What discovery stored about an item: the offsets of its chunks, and its packed document, if any."""

    cuts: Sequence[int]
    document: bytes | None


class ItemScorer(ABC):
    """Scores the text of items."""

    def score_together(self, texts: Sequence[ItemText]) -> None:  # noqa: B027 - optional work
        """Score several texts at once. `score` of each text follows."""

    @abstractmethod
    def score(self, item: WorkItem, draft: DocumentDraft, segments: Segments | None) -> ScoredDocument:
        """Score a text. `segments` is None if the discover stage was skipped."""


class VersionedScores(ItemScorer):
    """Scores texts with the vocabulary version of their wave, or the newest if the wave has none.

    Discovery has decided the chunks, so they do not depend on what was learned.
    """

    def __init__(
        self, vocabularies: Vocabularies, settings: Settings, kept: AnalysisCache, basis: str
    ) -> None:
        """`basis` of the packed documents that this process may use."""
        self._vocabularies = vocabularies
        self._settings = settings
        self._kept = kept
        self._basis = basis
        self._expected: dict[int, ScoredDocument] = {}

    def score_together(self, texts: Sequence[ItemText]) -> None:
        """Score together the texts whose cached analysis cannot be used."""
        ready: dict[int, ScoredDocument] = {}
        by_version: dict[int, list[ItemText]] = defaultdict(list)
        for text in texts:
            if text.item.vocabulary_version:
                by_version[text.item.vocabulary_version].append(text)
        for version, some in by_version.items():
            # For a few texts, looking up their words is cheaper.
            if len(some) > MAX_LOOKED_UP_TEXTS:
                ready |= self._score_version(some, self._vocabularies.at(version), version)
        self._expected = ready

    def _score_version(
        self, texts: Sequence[ItemText], scorer: Scorer, version: int
    ) -> dict[int, ScoredDocument]:
        if scorer is self._vocabularies.base:
            return {}
        documents: dict[int, AnalyzedDocument] = {}
        for item, draft, cuts in texts:
            kept = self._kept.find(item)
            if kept is None or may_contain_learned_words(kept, scorer):
                document = kept or cut(draft, cuts, self._settings)
                if document is not None:
                    documents[item.id] = document
        rescored = rescore_many(list(documents.values()), scorer, self._settings)
        scored = scored_documents(rescored, scorer, vocabulary_version=version)
        return dict(zip(documents, scored, strict=True))

    def score(self, item: WorkItem, draft: DocumentDraft, segments: Segments | None) -> ScoredDocument:
        version = item.vocabulary_version
        if version is None:
            version = self._vocabularies.newest()
        kept = self._kept.take(item)
        ready = self._expected.pop(item.id, None)
        if ready is not None and ready.vocabulary_version == version:
            return ready
        return self._score(draft, segments, kept, version)

    def _score(
        self,
        draft: DocumentDraft,
        segments: Segments | None,
        document: AnalyzedDocument | None,
        version: int,
    ) -> ScoredDocument:
        base, settings = self._vocabularies.base, self._settings
        if document is None or document.analysis is None:
            scorer = self._vocabularies.at(version)
        else:
            tokens = [document.analysis.tokens, *map(tokenise, sorted(set(document.contexts)))]
            scorer = self._vocabularies.reading(version, tokens)
        if document is None and segments is not None:
            if segments.document is not None:
                document = unpack(segments.document, draft, self._basis, settings)
            if document is None and scorer is not base:
                # None if another version of Shoal found these offsets.
                document = cut(draft, segments.cuts, settings)
        is_scored = document is not None and bool(document.topics)
        if document is None or (scorer is base and not is_scored and document.read is None):
            document = analyze(draft, base, settings)
        if document.topics and (scorer is base or not may_contain_learned_words(document, scorer)):
            return scored_document(document, base, vocabulary_version=version)
        return scored_document(rescore(document, scorer, settings), scorer, vocabulary_version=version)


@dataclass(frozen=True, slots=True)
class Scored:
    """A document to store. `discovered`: its observations, if they are missing from the database."""

    document: ScoredDocument
    discovered: Discovered | None


class Scoring(ItemHandler):
    """The score stage: score and store a document, or detect a duplicate."""

    def __init__(
        self,
        database: Database,
        scorer: ItemScorer,
        settings: Settings,
        discovery: Discovery | None = None,
    ) -> None:
        """With a `discovery`, a stored document always has its observations in the database."""
        self.discovery = discovery
        self._settings = settings
        self._database = database
        self._scorer = scorer
        self._discovery = discovery if discovery is not None and discovery.is_possible else None
        self._prune = self._discovery is not None and self._discovery.settings.observations == "prune"

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        texts: list[ItemText] = []
        with self._database.snapshot() as snapshot:
            for item in items:
                if item.n_bytes > SHORT_BYTES:
                    continue
                draft = draft_of(snapshot, item)
                cuts = snapshot.value(statements.ITEM_CUTS, {"item_id": item.id})
                if draft is not None and cuts is not None:
                    texts.append(ItemText(item, draft, json.loads(cuts)))
        self._scorer.score_together(texts)

    def prepare(self, item: WorkItem) -> Scored | None:
        with self._database.snapshot() as snapshot:
            if document_writer.find_by_hash(snapshot, item.head.content_hash) is not None:
                return None
        return self.scored(item)

    def scored(self, item: WorkItem) -> Scored:
        """The scored text of an item. Raises LeaseLostError once the item has ended."""
        with self._database.snapshot() as snapshot:
            draft = draft_of(snapshot, item)
            stored = snapshot.first(statements.ITEM_SEGMENTS, {"item_id": item.id})
            is_unobserved = self._is_unobserved(snapshot, item)
        if draft is None:
            raise LeaseLostError("the item has ended since it was claimed")
        segments = None if stored is None else Segments(json.loads(stored["cuts"]), stored["document"])
        scored = self._scorer.score(item, draft, segments)
        discovered = self._discovery.observe(draft) if is_unobserved and self._discovery else None
        return Scored(scored, discovered)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Scored | None) -> Outcome:
        now = timestamp_at(transaction.now())
        existing = document_writer.find_by_hash(transaction, item.head.content_hash)
        if existing is not None:
            document_writer.merge_tags(transaction, existing, item.head.tags, now=now)
            return Outcome(ItemStatus.duplicate, existing)
        if prepared is None:
            # The original was deleted since `prepare`: this text takes its place.
            raise NotPreparedError
        self.observe(transaction, item, prepared.discovered)
        document_id = document_writer.insert_document(transaction, prepared.document, now=now)
        self.write_file(transaction, item, document_id, prepared.document.draft)
        self.prune(transaction, item)
        return Outcome(ItemStatus.succeeded, document_id)

    def store_many(
        self, transaction: Transaction, group: Sequence[tuple[WorkItem, Scored | None]]
    ) -> list[Outcome]:
        hashes = {item.head.content_hash for item, _ in group}
        if len(hashes) < len(group) or any(document_writer.find_by_hash(transaction, one) for one in hashes):
            return [self.store(transaction, item, prepared) for item, prepared in group]
        new: list[ScoredDocument] = []
        for item, prepared in group:
            if prepared is None:
                raise NotPreparedError
            self.observe(transaction, item, prepared.discovered)
            new.append(prepared.document)
        ids = document_writer.insert_documents(transaction, new, now=timestamp_at(transaction.now()))
        for (item, _), document, document_id in zip(group, new, ids, strict=True):
            self.write_file(transaction, item, document_id, document.draft)
            self.prune(transaction, item)
        return [Outcome(ItemStatus.succeeded, document_id) for document_id in ids]

    def observe(self, transaction: Transaction, item: WorkItem, discovered: Discovered | None) -> None:
        """Store the observations of an item's text, if they are missing. Raises NotPreparedError."""
        if self._is_unobserved(transaction, item):
            if discovered is None:
                raise NotPreparedError
            wave = item.job_id, item.wave
            observations.add(
                transaction, item.head.content_hash, discovered.source, discovered.rows, wave=wave
            )

    def write_file(
        self,
        transaction: Transaction,
        item: WorkItem,
        document_id: int,
        draft: DocumentDraft,
        *,
        is_kept: bool = False,
    ) -> None:
        """Store the file that the document was converted from, with its bytes if they are kept already or the
        settings say so."""
        if draft.file is not None:
            data_of_item = item.id if is_kept or self._settings.keep_originals else None
            document_queries.write_file(transaction, document_id, draft.file, data_of_item=data_of_item)

    def prune(self, transaction: Transaction, item: WorkItem) -> None:
        """Delete observations that are in the sums, if the settings say not to keep them."""
        if self._prune:
            observed = observations.find_live(transaction, item.head.content_hash)
            observations.execute_for(transaction, observations.PRUNE, [observed.id] if observed else [])

    def _is_unobserved(self, snapshot: Snapshot, item: WorkItem) -> bool:
        """Whether observations are missing: those of an equal text were withdrawn, or its item failed.

        The next learn stage adds them.
        """
        if self._discovery is None or item.vocabulary_version is None:
            return False
        return not observations.is_live(snapshot, item.head.content_hash)


class Deleting(ItemHandler):
    """The delete stage: delete a document with its attachments. A missing document counts as deleted."""

    def __init__(self, database: Database, discovery: Discovery | None = None) -> None:
        self._database = database
        self._discovery = discovery

    def prepare(self, item: WorkItem) -> Withdrawn:
        assert item.document_id is not None, "an item of a deletion names its document"
        discovery = self._discovery
        return prepare_deletion(self._database, (lambda: discovery) if discovery else None, item.document_id)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Withdrawn) -> Outcome:
        assert item.document_id is not None, "an item of a deletion names its document"
        delete_document(transaction, item.document_id, prepared)
        return Outcome(ItemStatus.succeeded, item.document_id)


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
    """Whether a document still has the content and language that were scored."""
    draft = scored.draft
    identity = (draft.content_hash, draft.title, draft.format.value, draft.language)
    return document_writer.identity(transaction, document_id) == identity


def _write(transaction: Transaction, document_id: int, document: ScoredDocument, due: Sequence[Due]) -> None:
    if due:
        document_writer.rescore_chunks(transaction, document_id, document, due)


def _same_spans(new: Sequence[Chunk], old: Sequence[StoredChunk]) -> bool:
    return [(c.start_char, c.end_char) for c in new] == [(c.start_char, c.end_char) for c in old]


def _is_other(new: Chunk, old: StoredChunk) -> bool:
    return (new.language, new.confidence, new.coverage, new.matched_words, new.arch_scores) != (
        old.language,
        old.confidence,
        old.coverage,
        old.matched_words,
        old.arch_scores,
    )
