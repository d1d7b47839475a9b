"""The discover stage: observations of words that the base vocabulary lacks, and the offsets of the chunks.

It uses the base vocabulary alone, so its result does not depend on what was learned before.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.chunking.analysis import AnalyzedDocument, analyze, analyze_many
from shoal.chunking.packed_documents import pack
from shoal.errors import LeaseLostError, NotFoundError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem, draft_of
from shoal.jobs.queue.job_items import basis_of, observed_settings, source_of
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError, Report, no_report
from shoal.learning.observations import discover, discover_many
from shoal.learning.scorers import MAX_LOOKED_UP_TEXTS
from shoal.models.documents import DocumentDraft
from shoal.models.jobs import ItemStatus
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import attachments, document_writer, observations
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.document_queries import get_draft
from shoal.storage.observations import Observed, Source
from shoal.storage.staleness import mark_whole
from shoal.storage.vocabulary import EvidenceRow
from shoal.support.byte_units import KIB, MIB

PARSED_SHARE, ANALYZED_SHARE = 0.25, 0.6
"""Shares of the discovery of a long text that are done after these steps."""

ANALYSES_BYTES = MIB
"""Bytes of text whose analyses a process keeps from discover to score; an analysis takes a hundred times as
much. A small job uses all of them again. In a large one most texts hold a learned word, and then they are of
no use."""
SHORT_BYTES = 32 * KIB
"""Texts up to this size are analyzed and scored together: array calls cost more than words in a short
text."""
LONGEST_ANALYSED = 256 * KIB
"""Largest text, in bytes, whose analysis is kept."""
PARSED_BYTES = 32 * MIB
"""Bytes of short texts whose parsing a process keeps likewise, at about four times the size. Longer texts are
packed into the database (`shoal.chunking.packed_documents`), where any process finds them."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """An analyzed text and its observations. `source`: everything that they depend on. `packed`: the document
    for the score stage, None for a short text."""

    document: AnalyzedDocument
    rows: list[EvidenceRow]
    source: Source
    packed: bytes | None = None


class Discovery:
    """Analyzes texts with the base scorer of this process."""

    def __init__(self, scorer: Scorer, settings: Settings) -> None:
        """`scorer` has no learned words. `is_possible` is False for a scorer that cannot learn."""
        self.scorer = scorer
        self.settings = settings
        self.learner = scorer if scorer.can_learn else None
        self.basis = basis_of(scorer.data_checksum)
        self.observed_settings = observed_settings(settings)
        self.decided_with = source_of(settings, self.basis)

    @property
    def is_possible(self) -> bool:
        return self.learner is not None

    def source_of(self, draft: DocumentDraft) -> Source:
        """Everything that the observations of a draft depend on."""
        return Source(self.basis, draft.title, draft.format, self.observed_settings)

    def observe(self, draft: DocumentDraft, report: Report = no_report) -> Discovered:
        """Analyze and observe one draft. Raises EmptyDocumentError if it has no text."""
        document = analyze(draft, self.scorer, self.settings, parsed_now=lambda: report(PARSED_SHARE))
        report(ANALYZED_SHARE)
        return Discovered(document, discover(document, self.settings), self.source_of(draft))

    def observe_many(self, drafts: Sequence[DocumentDraft]) -> dict[str, Discovered]:
        """The results of `observe` for several drafts, by content hash; drafts without text are left out."""
        assert self.learner is not None, "only a scorer that can learn observes texts together"
        return {
            document.draft.content_hash: Discovered(document, rows, self.source_of(document.draft))
            for documents, analysis in analyze_many(drafts, self.learner, self.settings)
            for document, rows in zip(documents, discover_many(analysis, self.settings), strict=True)
        }

    def observe_again(self, draft: DocumentDraft, source: Source) -> list[EvidenceRow] | None:
        """The observations that `source` describes; None if they came from another build of the data."""
        if source.basis != self.basis:
            return None
        settings = dataclasses.replace(self.settings, **source.settings)
        draft = dataclasses.replace(draft, title=source.title, format=source.format)
        return discover(analyze(draft, self.scorer, settings), settings)


Item = TypeVar("Item")


class _ItemCache(Generic[Item]):
    """Values by item id, up to a total size of the items' texts."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[int, tuple[WorkItem, Item]] = {}
        self._n_bytes = 0

    def keep(self, item: WorkItem, value: Item) -> bool:
        """Store a value if there is room. Values of other waves are evicted first: they may be done
        elsewhere."""
        self.take(item)
        while self._n_bytes + item.n_bytes > self._max_bytes:
            oldest = next((kept for kept, _ in self._kept.values()), item)
            if (oldest.job_id, oldest.wave) == (item.job_id, item.wave):
                return False
            self.take(oldest)
        self._kept[item.id] = item, value
        self._n_bytes += item.n_bytes
        return True

    def find(self, item: WorkItem) -> Item | None:
        """The value of an item."""
        found = self._kept.get(item.id)
        return None if found is None else found[1]

    def take(self, item: WorkItem) -> Item | None:
        """Remove and return the value of an item."""
        found = self._kept.pop(item.id, None)
        if found is None:
            return None
        self._n_bytes -= found[0].n_bytes
        return found[1]


class AnalysisCache:
    """Analyzed documents that scoring may use again: some short ones whole, others only parsed.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._analyses = _ItemCache[AnalyzedDocument](ANALYSES_BYTES)
        self._parsed = _ItemCache[AnalyzedDocument](PARSED_BYTES)

    def keep(self, item: WorkItem, document: AnalyzedDocument) -> None:
        with self._lock:
            # Analyzing short texts together again is cheaper than checking each for learned words.
            is_alone = document.analysis is not None and item.n_bytes <= LONGEST_ANALYSED
            is_kept = is_alone and self._analyses.keep(item, document)
            if not is_kept and document.read is None:
                self._parsed.keep(item, document.without_topics())

    def find(self, item: WorkItem) -> AnalyzedDocument | None:
        """The document of an item."""
        with self._lock:
            return self._analyses.find(item) or self._parsed.find(item)

    def take(self, item: WorkItem) -> AnalyzedDocument | None:
        """Remove and return the same."""
        with self._lock:
            return self._analyses.take(item) or self._parsed.take(item)


class Discovering(ItemHandler):
    """The discover stage: observe a new text, unless its observations are stored already."""

    def __init__(self, database: Database, discovery: Discovery, kept: AnalysisCache) -> None:
        self._database = database
        self._discovery = discovery
        self._kept = kept
        self._expected: dict[int, Discovered | None] = {}

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._expected = {}
        short = [item for item in items if item.n_bytes <= SHORT_BYTES]
        # The analyses of a few texts are worth keeping, and keeping needs single analyses.
        if not self._discovery.is_possible or len(short) <= MAX_LOOKED_UP_TEXTS:
            return
        drafts: dict[int, DocumentDraft] = {}
        ready: dict[int, Discovered | None] = {}
        with self._database.snapshot() as snapshot:
            for item in short:
                if self._standing(snapshot, item)[0]:
                    ready[item.id] = None
                elif (draft := draft_of(snapshot, item)) is not None:
                    drafts[item.id] = draft
        discovered = self._discovery.observe_many(list(drafts.values()))
        for item in short:
            found = discovered.get(item.head.content_hash)
            if found is not None and found.document.draft is drafts.get(item.id):
                ready[item.id] = found
                self._kept.keep(item, found.document)
        self._expected = ready

    def prepare(self, item: WorkItem) -> Discovered | None:
        return self.prepare_reporting(item, no_report)

    def prepare_reporting(self, item: WorkItem, report: Report) -> Discovered | None:
        if not self._discovery.is_possible:
            return None
        if item.id in self._expected:
            return self._expected.pop(item.id)
        with self._database.snapshot() as snapshot:
            if self._standing(snapshot, item)[0]:
                return None
            draft = draft_of(snapshot, item)
        if draft is None:
            raise LeaseLostError("the item has ended since it was claimed")
        discovered = self._discovery.observe(draft, report)
        self._kept.keep(item, discovered.document)
        return dataclasses.replace(discovered, packed=pack(discovered.document, self._discovery.basis))

    def store(self, transaction: Transaction, item: WorkItem, prepared: Discovered | None) -> Outcome:
        if prepared is not None:
            transaction.write_many(statements.INSERT_CUTS, [_segments_row(item, prepared)])
        if not self._discovery.is_possible:
            return Outcome(ItemStatus.discovered)
        is_known, observed = self._standing(transaction, item)
        if not is_known:
            if prepared is None:
                # `prepare` relied on observations that were deleted since.
                raise NotPreparedError
            if observed is not None:
                observations.withdraw(transaction, observed)
            wave = item.job_id, item.wave
            observations.add(transaction, item.head.content_hash, prepared.source, prepared.rows, wave=wave)
        return Outcome(ItemStatus.discovered)

    def store_many(
        self, transaction: Transaction, group: Sequence[tuple[WorkItem, Discovered | None]]
    ) -> list[Outcome]:
        waves = {(item.job_id, item.wave) for item, _ in group}
        is_new = len({item.head.content_hash for item, _ in group}) == len(group) and len(waves) == 1
        if not is_new or any(
            one is None or self._standing(transaction, item) != (False, None) for item, one in group
        ):
            return [self.store(transaction, item, prepared) for item, prepared in group]
        found = [(item, one) for item, one in group if one is not None]
        transaction.write_many(statements.INSERT_CUTS, [_segments_row(item, one) for item, one in found])
        rows = ((item.head.content_hash, one.source, one.rows) for item, one in found)
        observations.add_many(transaction, rows, wave=waves.pop())
        return [Outcome(ItemStatus.discovered) for _ in group]

    def _standing(self, snapshot: Snapshot, item: WorkItem) -> tuple[bool, Observed | None]:
        """Whether the observations of an item's text are stored already, and what is stored.

        They are if a document or another open item has the same text, or if a deleted document or failed item
        left the same observations in the sums."""
        observed = observations.find_live(snapshot, item.head.content_hash, item_id=item.id)
        if document_writer.find_by_hash(snapshot, item.head.content_hash) is not None:
            return True, observed
        if observed is None:
            return False, None
        same = observed.source == self._discovery.source_of(item.head)
        return observed.counts or (observed.is_learned and same), observed


def _segments_row(item: WorkItem, discovered: Discovered) -> tuple[int, str, bytes | None]:
    return item.id, json.dumps(discovered.document.cuts, separators=(",", ":")), discovered.packed


@dataclass(frozen=True, slots=True)
class Rediscovered:
    """A stored document observed again. `before`: observations in the sums whose rows were not kept."""

    draft: DocumentDraft
    discovered: Discovered
    before: list[EvidenceRow] | None


class Rediscovering(ItemHandler):
    """The rediscover stage: observe a stored document again, unless its observations are current."""

    def __init__(self, database: Database, discovery: Discovery) -> None:
        self._database = database
        self._discovery = discovery

    def prepare(self, item: WorkItem) -> Rediscovered | None:
        assert item.document_id is not None, "an item of a rescore names its document"
        if not self._discovery.is_possible:
            return None
        with self._database.snapshot() as snapshot:
            try:
                draft = get_draft(snapshot, item.document_id)
            except NotFoundError:
                return None
            observed = observations.find_live(snapshot, draft.content_hash)
            if self._is_known(observed, draft):
                return None
            is_lost = observed is not None and _is_lost(snapshot, observed)
        before = self._discovery.observe_again(draft, observed.source) or [] if observed and is_lost else None
        return Rediscovered(draft, self._discovery.observe(draft), before)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Rediscovered | None) -> Outcome:
        if prepared is None:
            return Outcome(ItemStatus.discovered)
        draft, discovered = prepared.draft, prepared.discovered
        observed = observations.find_live(transaction, draft.content_hash)
        is_there = document_writer.find_by_hash(transaction, draft.content_hash) == item.document_id
        if is_there and not self._is_known(observed, draft):
            if observed is not None:
                if _is_lost(transaction, observed):
                    if prepared.before is None:
                        raise NotPreparedError
                    observations.write_rows(transaction, observed.id, prepared.before)
                observations.withdraw(transaction, observed)
            wave = item.job_id, item.wave
            rows = discovered.rows
            observations.add(transaction, draft.content_hash, discovered.source, rows, wave=wave, stored=True)
            # What its observations depend on, its scores depend on too.
            assert item.document_id is not None, "an item of a rescore names its document"
            mark_whole(transaction, item.document_id)
        return Outcome(ItemStatus.discovered)

    def _is_known(self, observed: Observed | None, draft: DocumentDraft) -> bool:
        return observed is not None and observed.source == self._discovery.source_of(draft)


def _is_lost(snapshot: Snapshot, observed: Observed) -> bool:
    """Whether the sums hold observations of a text whose rows were not kept."""
    return observed.is_learned and not observations.has_rows(snapshot, observed.id)


def rows_to_withdraw(
    database: Database, discovery: Callable[[], Discovery], document_id: int
) -> list[EvidenceRow]:
    """The observations of a document to delete, if they are in the sums but their rows were not kept.

    Once the text is gone, only these rows can take them out of the sums. `discovery` is called only if
    needed."""
    with database.snapshot() as snapshot:
        content_hash = snapshot.value(document_writer.HASH_OF, {"document_id": document_id})
        observed = content_hash and observations.find_live(snapshot, content_hash)
        if not observed or not _is_lost(snapshot, observed):
            return []
        draft = get_draft(snapshot, document_id)
    return discovery().observe_again(draft, observed.source) or []


def keep_rows(transaction: Transaction, document_id: int, rows: list[EvidenceRow]) -> None:
    """Store `rows_to_withdraw` of a document before its text is removed."""
    if rows:
        content_hash = document_writer.content_hash_of(transaction, document_id)
        observed = content_hash and observations.find_live(transaction, content_hash)
        if observed and _is_lost(transaction, observed):
            observations.write_rows(transaction, observed.id, rows)


Withdrawn = Mapping[int, list[EvidenceRow]]
"""`rows_to_withdraw` of documents, by their ids."""


def withdrawals(
    database: Database, discovery: Callable[[], Discovery] | None, document_ids: Iterable[int]
) -> Withdrawn:
    """Return what deleting documents needs; no rows without a `discovery`."""
    return {
        document_id: rows_to_withdraw(database, discovery, document_id) if discovery else []
        for document_id in document_ids
    }


def prepare_deletion(
    database: Database, discovery: Callable[[], Discovery] | None, document_id: int
) -> Withdrawn:
    """Return what `delete_document` needs."""
    with database.snapshot() as snapshot:
        held = attachments.held_by(snapshot, document_id)
    return withdrawals(database, discovery, [document_id, *held])


def delete_document(transaction: Transaction, document_id: int, prepared: Withdrawn) -> bool:
    """Delete a document with the attachments that it alone has; False if there is none.

    Raises NotPreparedError if it has other ones than when it was prepared.
    """
    delete_documents(transaction, attachments.held_by(transaction, document_id), prepared)
    keep_rows(transaction, document_id, prepared[document_id])
    return document_writer.delete_document(transaction, document_id)


def delete_documents(transaction: Transaction, document_ids: Sequence[int], prepared: Withdrawn) -> None:
    """Delete documents. Raises NotPreparedError unless all of them are prepared."""
    if not prepared.keys() >= set(document_ids):
        raise NotPreparedError
    for document_id in document_ids:
        keep_rows(transaction, document_id, prepared[document_id])
        document_writer.delete_document(transaction, document_id)
