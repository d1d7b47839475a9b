"""The score stage: score the chunks of a text with the vocabulary version of its wave, and store them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from lagoon.tokens import TokenStream, tokenise
from shoal.chunking.analysis import (
    AnalyzedDraft,
    CutDraft,
    ReadDraft,
    analyze,
    analyze_cut,
    analyze_cuts,
    chunk_starts,
    scored_document,
)
from shoal.errors import LeaseLostError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem, draft_of
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.jobs.stages.discover import (
    SHORT_BYTES,
    AnalysisCache,
    Discovery,
    Seen,
    delete_document,
    rows_to_withdraw,
)
from shoal.learning.scorers import MAX_LOOKED_UP_TEXTS, Vocabularies
from shoal.learning.vocabulary import may_contain_learned_words
from shoal.models import DocumentDraft, ItemStatus, ScoredDocument
from shoal.scorer import LearningScorer, can_learn
from shoal.settings import Settings
from shoal.storage import document_writer, observations
from shoal.storage.database import Database, Snapshot, snapshot_of
from shoal.storage.vocabulary_records import EvidenceRow
from shoal.support.clock import timestamp


class ItemText(NamedTuple):
    """The text of an item, and the offsets of its chunks found by discovery."""

    item: WorkItem
    draft: DocumentDraft
    cuts: Sequence[int]


class ItemScorer(ABC):
    """Scores the text of items."""

    def score_together(self, texts: Sequence[ItemText]) -> None:  # noqa: B027 - optional work
        """Score several texts at once. `score` of each text follows."""

    @abstractmethod
    def score(self, item: WorkItem, draft: DocumentDraft, cuts: Sequence[int] | None) -> ScoredDocument:
        """Score a text. `cuts` are the offsets of its chunks, or None if the discover stage was skipped."""


class VersionedScores(ItemScorer):
    """Scores texts with the vocabulary version of their wave, or the newest if the wave has none.

    Discovery has decided the chunks, so they do not depend on what was learned.
    """

    def __init__(self, vocabularies: Vocabularies, settings: Settings, kept: AnalysisCache) -> None:
        self._vocabularies = vocabularies
        self._settings = settings
        self._kept = kept
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
        self, texts: Sequence[ItemText], scorer: LearningScorer, version: int
    ) -> dict[int, ScoredDocument]:
        if scorer is self._vocabularies.base:
            return {}
        items: list[WorkItem] = []
        drafts: list[CutDraft] = []
        for item, draft, cuts in texts:
            analyzed, read = self._kept.find(item)
            if analyzed is None or may_contain_learned_words(analyzed, scorer):
                items.append(item)
                parsed = analyzed.parsed if analyzed else read.parsed if read and read.text is None else None
                drafts.append(CutDraft(draft, cuts, parsed))
        return {
            item.id: scored_document(analyzed, scorer, vocabulary_version=version)
            for item, analyzed in zip(items, analyze_cuts(drafts, scorer, self._settings), strict=True)
            if analyzed is not None
        }

    def score(self, item: WorkItem, draft: DocumentDraft, cuts: Sequence[int] | None) -> ScoredDocument:
        version = item.vocabulary_version
        if version is None:
            version = self._vocabularies.newest()
        analyzed, read = self._kept.take(item)
        ready = self._expected.pop(item.id, None)
        if ready is not None and ready.vocabulary_version == version:
            return ready
        return self._score(draft, cuts, analyzed, read, version)

    def _score(
        self,
        draft: DocumentDraft,
        cuts: Sequence[int] | None,
        analyzed: AnalyzedDraft | None,
        read: ReadDraft | None,
        version: int,
    ) -> ScoredDocument:
        base, settings = self._vocabularies.base, self._settings
        if analyzed is None or not can_learn(base):
            scorer = self._vocabularies.at(version)
        else:
            scorer = self._vocabularies.reading(version, _tokens_of(analyzed))
        if analyzed is None and (cuts is None or scorer is base):
            analyzed = analyze(draft, base, settings)
        if analyzed is not None and (scorer is base or not may_contain_learned_words(analyzed, scorer)):
            return scored_document(analyzed, base, vocabulary_version=version)
        if cuts is None:
            assert analyzed is not None, "without cuts there was an analysis"
            cuts = chunk_starts(analyzed)
        again = analyze_cut(draft, cuts, scorer, settings, read=read)
        if again is None:
            # Another version of Shoal found these offsets.
            cuts = chunk_starts(analyze(draft, base, settings))
            again = analyze_cut(draft, cuts, scorer, settings)
        assert again is not None, "a text is parsed the same way twice"
        return scored_document(again, scorer, vocabulary_version=version)


def _tokens_of(analyzed: AnalyzedDraft) -> list[TokenStream]:
    """The tokens of a draft's text, and of the titles and headings that are scored with it."""
    text: TokenStream = analyzed.analysis.by_sentence.reading.tokens
    return [text, *(tokenise(context) for context in sorted(set(analyzed.contexts)))]


@dataclass(frozen=True, slots=True)
class Scored:
    """A document to store. `seen`: its observations, if they are missing from the database."""

    document: ScoredDocument
    seen: Seen | None


class Scoring(ItemHandler):
    """The score stage: score and store a document, or detect a duplicate."""

    def __init__(self, database: Database, scorer: ItemScorer, discovery: Discovery | None = None) -> None:
        """With a `discovery`, a stored document always has its observations in the database."""
        self.discovery = discovery
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
        assert item.content_hash is not None, "an accepted document has a hash"
        with self._database.snapshot() as snapshot:
            if document_writer.find_document_id(snapshot, item.content_hash) is not None:
                return None
        return self.scored(item)

    def scored(self, item: WorkItem) -> Scored:
        """The scored text of an item. Raises LeaseLostError once the item has ended."""
        with self._database.snapshot() as snapshot:
            draft = draft_of(snapshot, item)
            cuts = snapshot.value(statements.ITEM_CUTS, {"item_id": item.id})
            is_unseen = self._is_unseen(snapshot, item)
        if draft is None:
            raise LeaseLostError("the item has ended since it was claimed")
        scored = self._scorer.score(item, draft, None if cuts is None else json.loads(cuts))
        seen = self._discovery.look(draft) if is_unseen and self._discovery else None
        return Scored(scored, seen)

    def store(self, connection: sa.Connection, item: WorkItem, prepared: Scored | None) -> Outcome:
        assert item.content_hash is not None, "an accepted document has a hash"
        now = timestamp()
        existing = document_writer.find_by_hash(connection, item.content_hash)
        if existing is not None:
            document_writer.merge_tags(connection, existing, item.head.tags, now=now)
            return Outcome(ItemStatus.duplicate, existing)
        if prepared is None:
            # The original was deleted since `prepare`: this text takes its place.
            raise NotPreparedError
        self.observe(connection, item, prepared.seen)
        document_id = document_writer.insert_document(connection, prepared.document, now=now)
        self.prune(connection, item)
        return Outcome(ItemStatus.succeeded, document_id)

    def store_many(
        self, connection: sa.Connection, group: Sequence[tuple[WorkItem, Scored | None]]
    ) -> list[Outcome]:
        snapshot = snapshot_of(connection)
        hashes = {item.content_hash for item, _ in group}
        if len(hashes) < len(group) or any(
            document_writer.find_document_id(snapshot, one or "") for one in hashes
        ):
            return [self.store(connection, item, prepared) for item, prepared in group]
        new: list[ScoredDocument] = []
        for item, prepared in group:
            if prepared is None:
                raise NotPreparedError
            self.observe(connection, item, prepared.seen)
            new.append(prepared.document)
        ids = document_writer.insert_documents(connection, new, now=timestamp())
        for item, _ in group:
            self.prune(connection, item)
        return [Outcome(ItemStatus.succeeded, document_id) for document_id in ids]

    def observe(self, connection: sa.Connection, item: WorkItem, seen: Seen | None) -> None:
        """Store the observations of an item's text, if they are missing. Raises NotPreparedError."""
        assert item.content_hash is not None, "an accepted document has a hash"
        if self._is_unseen(snapshot_of(connection), item):
            if seen is None:
                raise NotPreparedError
            wave = item.job_id, item.wave
            observations.add(connection, item.content_hash, seen.source, seen.rows, wave=wave)

    def prune(self, connection: sa.Connection, item: WorkItem) -> None:
        """Delete observations that are in the sums, if the settings say not to keep them."""
        if self._prune and item.content_hash is not None:
            observed = observations.find_live(snapshot_of(connection), item.content_hash)
            observations.execute_for(connection, observations.PRUNE, [observed.id] if observed else [])

    def _is_unseen(self, snapshot: Snapshot, item: WorkItem) -> bool:
        """Whether observations are missing: those of an equal text were withdrawn, or its item failed.

        The next learn stage adds them.
        """
        if self._discovery is None or item.vocabulary_version is None:
            return False
        assert item.content_hash is not None, "an accepted document has a hash"
        return not observations.is_live(snapshot, item.content_hash)


class Deleting(ItemHandler):
    """The delete stage: delete a document. A missing document counts as deleted."""

    def __init__(self, database: Database, discovery: Discovery | None = None) -> None:
        self._database = database
        self._discovery = discovery

    def prepare(self, item: WorkItem) -> list[EvidenceRow]:
        assert item.document_id is not None, "an item of a deletion names its document"
        discovery = self._discovery
        if discovery is None:
            return []
        return rows_to_withdraw(self._database, lambda: discovery, item.document_id)

    def store(self, connection: sa.Connection, item: WorkItem, prepared: list[EvidenceRow]) -> Outcome:
        assert item.document_id is not None, "an item of a deletion names its document"
        delete_document(connection, item.document_id, prepared)
        return Outcome(ItemStatus.succeeded, item.document_id)
