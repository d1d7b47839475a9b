"""The first look at a text: what it says of words the vocabulary lacks, and where its chunks begin.

It uses the base vocabulary alone, so it may happen at any time and whatever was learned meanwhile.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from shoal.chunking.analysis import AnalyzedDraft, ReadDraft, analyze, analyze_many, cuts_of
from shoal.errors import LeaseLostError, NotFoundError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem, draft_of
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.learning.observations import DISCOVERY_VERSION, discover, discover_many
from shoal.learning.scorers import TEXTS_LOOKED_UP, can_learn
from shoal.models import DocumentDraft, ItemStatus, ParsedDocument
from shoal.settings import KIB, MIB, Settings
from shoal.storage import document_writer, observations
from shoal.storage.database import Database, Snapshot, snapshot_of
from shoal.storage.document_queries import get_draft
from shoal.storage.driver_rows import write_many
from shoal.storage.observations import Observed, Source
from shoal.storage.vocabulary_records import EvidenceRow

SETTINGS = (
    "sensitivity",
    "smooth_window",
    "min_chunk_sentences",
    "max_chunk_sentences",
    "max_chunk_chars",
    "heading_weight",
    "context_confidence",
    "context_sentence_weight",
    "short_document_words",
    "reefs_per_observation",
)
"""What observations depend on besides the document and lagoon's data."""

ANALYSES_BYTES = MIB
"""Text of the analyses that a process keeps from the first look to the score, which take a hundred times as much: a
small job comes back to all of them, and in a large one most texts hold a learned word, so that they are of no use."""
SHORT_BYTES = 32 * KIB
"""Texts up to this size are looked at together, and scored together: the time of a longer one goes into its words, and
not into the many calls for arrays that each text takes."""
LONGEST_ANALYSED = 256 * KIB
"""Bytes of a text whose analysis is kept."""
READ_BYTES = 32 * MIB
"""Text of which a process keeps likewise how it is parsed and read, which takes some three times as much. Parsing and
reading are a seventh of the work."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the first look found in a text."""

    analyzed: AnalyzedDraft
    rows: list[EvidenceRow]
    source: Source


class Discovery:
    """Looks at texts with the scorer of this process."""

    def __init__(self, scorer: Any, settings: Settings) -> None:
        """`scorer` has learned nothing. One that is not lagoon's own can't be learned with: `is_possible` tells."""
        self.scorer = scorer
        self.settings = settings
        self.is_possible = can_learn(scorer)
        self.basis = f"{scorer.data_checksum}/{DISCOVERY_VERSION}"
        self.told = {name: getattr(settings, name) for name in SETTINGS}

    def source_of(self, draft: DocumentDraft) -> Source:
        """What a look at a draft depends on."""
        return Source(self.basis, draft.title, draft.format, self.told)

    def look(self, draft: DocumentDraft) -> Seen:
        """Raises EmptyDocumentError where there is no text to learn from, and none to store."""
        analyzed = analyze(draft, self.scorer, self.settings)
        return Seen(analyzed, discover(analyzed, self.settings), self.source_of(draft))

    def look_at_many(self, drafts: Sequence[DocumentDraft]) -> dict[str, Seen]:
        """As `look` at each draft, by the hash of its content; those without text are left out."""
        analyzed = analyze_many(drafts, self.scorer, self.settings)
        return {
            one.draft.content_hash: Seen(one, rows, self.source_of(one.draft))
            for one, rows in zip(analyzed.drafts, discover_many(analyzed, self.settings), strict=True)
        }

    def look_again(self, draft: DocumentDraft, source: Source) -> list[EvidenceRow] | None:
        """What a look with another title or settings found before; None if it was another build's."""
        if source.basis != self.basis:
            return None
        settings = dataclasses.replace(self.settings, **source.settings)
        told = dataclasses.replace(draft, title=source.title, format=source.format)
        return discover(analyze(told, self.scorer, settings), settings)


Item = TypeVar("Item")


class _Kept(Generic[Item]):
    """Things that belong to items on their way, by the id of the item, as far as there is room."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[int, tuple[WorkItem, Item]] = {}
        self._n_bytes = 0

    def keep(self, item: WorkItem, thing: Item) -> bool:
        """Keep it if there is room. Those of other waves make room: another process may have done with them."""
        self.take(item)
        while self._n_bytes + item.n_bytes > self._max_bytes:
            oldest = next((kept for kept, _ in self._kept.values()), item)
            if (oldest.job_id, oldest.wave) == (item.job_id, item.wave):
                return False
            self.take(oldest)
        self._kept[item.id] = item, thing
        self._n_bytes += item.n_bytes
        return True

    def find(self, item: WorkItem) -> Item | None:
        """What is kept for an item."""
        found = self._kept.get(item.id)
        return None if found is None else found[1]

    def take(self, item: WorkItem) -> Item | None:
        """What was kept for an item; it is not kept any longer."""
        found = self._kept.pop(item.id, None)
        if found is None:
            return None
        self._n_bytes -= found[0].n_bytes
        return found[1]


class AnalysisCache:
    """What a process has seen in its first look at texts that it may come to score: analyses of some short ones, and
    how others are parsed and read. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._analyses = _Kept[AnalyzedDraft](ANALYSES_BYTES)
        self._read = _Kept[ReadDraft](READ_BYTES)

    def keep(self, item: WorkItem, analyzed: AnalyzedDraft) -> None:
        with self._lock:
            if item.n_bytes > LONGEST_ANALYSED or not self._analyses.keep(item, analyzed):
                self._read.keep(item, ReadDraft.of(analyzed))

    def keep_parsed(self, item: WorkItem, parsed: ParsedDocument) -> None:
        """Of texts that are analysed together the analyses are not kept: reading them together again takes less than
        looking for learned words in each."""
        with self._lock:
            self._read.keep(item, ReadDraft(parsed, None))

    def find(self, item: WorkItem) -> tuple[AnalyzedDraft | None, ReadDraft | None]:
        """What is kept of a text: its analysis, and how it is parsed and read."""
        with self._lock:
            return _told(self._analyses.find(item), self._read.find(item))

    def take(self, item: WorkItem) -> tuple[AnalyzedDraft | None, ReadDraft | None]:
        """The same; it is not kept any longer."""
        with self._lock:
            return _told(self._analyses.take(item), self._read.take(item))


def _told(
    analyzed: AnalyzedDraft | None, read: ReadDraft | None
) -> tuple[AnalyzedDraft | None, ReadDraft | None]:
    return analyzed, read if analyzed is None else ReadDraft.of(analyzed)


class Discovering(ItemHandler):
    """Look at a text that is to be stored, unless what it says is known already."""

    def __init__(self, database: Database, discovery: Discovery, kept: AnalysisCache) -> None:
        self._database = database
        self._discovery = discovery
        self._kept = kept
        self._expected: dict[int, Seen | None] = {}

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._expected = {}
        short = [item for item in items if item.n_bytes <= SHORT_BYTES]
        # Of a few, the analyses are kept.
        if not self._discovery.is_possible or len(short) <= TEXTS_LOOKED_UP:
            return
        drafts: dict[int, DocumentDraft] = {}
        ready: dict[int, Seen | None] = {}
        with self._database.snapshot() as snapshot:
            for item in short:
                if self._standing(snapshot, item)[0]:
                    ready[item.id] = None
                elif (draft := draft_of(snapshot, item)) is not None:
                    drafts[item.id] = draft
        seen = self._discovery.look_at_many(list(drafts.values()))
        for item in short:
            found = seen.get(item.content_hash or "") if item.id in drafts else None
            if found is not None:
                ready[item.id] = found
                self._kept.keep_parsed(item, found.analyzed.parsed)
        self._expected = ready

    def prepare(self, item: WorkItem) -> Seen | None:
        if not self._discovery.is_possible:
            return None
        if item.id in self._expected:
            return self._expected.pop(item.id)
        with self._database.snapshot() as snapshot:
            if self._standing(snapshot, item)[0]:
                return None
            draft = draft_of(snapshot, item)
        if draft is None:
            raise LeaseLostError("the item has ended meanwhile")
        seen = self._discovery.look(draft)
        self._kept.keep(item, seen.analyzed)
        return seen

    def store(self, connection: sa.Connection, item: WorkItem, prepared: Seen | None) -> Outcome:
        assert item.content_hash is not None, "an accepted document has a hash"
        if prepared is not None:
            write_many(connection, statements.INSERT_CUTS, [_cuts_row(item, prepared)])
        if not self._discovery.is_possible:
            return Outcome(ItemStatus.discovered)
        is_known, observed = self._standing(snapshot_of(connection), item)
        if not is_known:
            if prepared is None:
                # What was known when `prepare` looked has been deleted since.
                raise NotPreparedError
            if observed is not None:
                observations.withdraw(connection, observed)
            wave = item.job_id, item.wave
            observations.add(connection, item.content_hash, prepared.source, prepared.rows, wave=wave)
        return Outcome(ItemStatus.discovered)

    def store_many(
        self, connection: sa.Connection, group: Sequence[tuple[WorkItem, Seen | None]]
    ) -> list[Outcome]:
        snapshot = snapshot_of(connection)
        waves = {(item.job_id, item.wave) for item, _ in group}
        is_new = len({item.content_hash for item, _ in group}) == len(group) and len(waves) == 1
        if not is_new or any(
            one is None or self._standing(snapshot, item) != (False, None) for item, one in group
        ):
            return [self.store(connection, item, prepared) for item, prepared in group]
        seen = [(item, one) for item, one in group if one is not None]
        write_many(connection, statements.INSERT_CUTS, [_cuts_row(item, one) for item, one in seen])
        rows = ((item.content_hash or "", one.source, one.rows) for item, one in seen)
        observations.add_many(connection, rows, wave=waves.pop())
        return [Outcome(ItemStatus.discovered) for _ in group]

    def _standing(self, snapshot: Snapshot, item: WorkItem) -> tuple[bool, Observed | None]:
        """Whether nothing needs to be noted of an item's text, and what is noted of it.

        That is so where its document is stored, or another open item has the same text; and where what a deleted
        document or a failed item has left in the sums is just what would be noted.
        """
        assert item.content_hash is not None, "an accepted document has a hash"
        observed = observations.find_live(snapshot, item.content_hash, item_id=item.id)
        if document_writer.document_with(snapshot, item.content_hash) is not None:
            return True, observed
        if observed is None:
            return False, None
        head = item.head
        source = Source(self._discovery.basis, head.title, head.format, self._discovery.told)
        same = observed.source == source
        return observed.counts or (observed.is_learned and same), observed


def _cuts_row(item: WorkItem, seen: Seen) -> tuple[int, str]:
    return item.id, json.dumps(cuts_of(seen.analyzed), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Rediscovered:
    """A stored document looked at again. `before`: what is in the sums of it but was not kept."""

    draft: DocumentDraft
    seen: Seen
    before: list[EvidenceRow] | None


class Rediscovering(ItemHandler):
    """Look at a document that is stored, unless what it says is known as this process would find it."""

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
        before = self._discovery.look_again(draft, observed.source) or [] if observed and is_lost else None
        return Rediscovered(draft, self._discovery.look(draft), before)

    def store(self, connection: sa.Connection, item: WorkItem, prepared: Rediscovered | None) -> Outcome:
        if prepared is None:
            return Outcome(ItemStatus.discovered)
        draft, seen, snapshot = prepared.draft, prepared.seen, snapshot_of(connection)
        observed = observations.find_live(snapshot, draft.content_hash)
        is_there = document_writer.find_by_hash(connection, draft.content_hash) == item.document_id
        if is_there and not self._is_known(observed, draft):
            if observed is not None:
                if _is_lost(snapshot, observed):
                    if prepared.before is None:
                        raise NotPreparedError
                    observations.write_rows(connection, observed.id, prepared.before)
                observations.withdraw(connection, observed)
            wave = item.job_id, item.wave
            observations.add(connection, draft.content_hash, seen.source, seen.rows, wave=wave, stored=True)
        return Outcome(ItemStatus.discovered)

    def _is_known(self, observed: Observed | None, draft: DocumentDraft) -> bool:
        return observed is not None and observed.source == self._discovery.source_of(draft)


def _is_lost(snapshot: Snapshot, observed: Observed) -> bool:
    """Whether what is in the sums of a text was not kept, so that nobody could take it out."""
    return observed.is_learned and not observations.has_rows(snapshot, observed.id)


def rows_to_withdraw(
    database: Database, discovery: Callable[[], Discovery], document_id: int
) -> list[EvidenceRow]:
    """The observations of a document that is to be deleted, where they are not kept but are in the sums.

    Without them nobody could take them out of the sums once the text is gone. `discovery` is called only then.
    """
    with database.snapshot() as snapshot:
        content_hash = snapshot.value(document_writer.HASH_OF, {"document_id": document_id})
        observed = content_hash and observations.find_live(snapshot, content_hash)
        if not observed or not _is_lost(snapshot, observed):
            return []
        draft = get_draft(snapshot, document_id)
    return discovery().look_again(draft, observed.source) or []


def keep_rows(connection: sa.Connection, document_id: int, rows: list[EvidenceRow]) -> None:
    """Keep `rows_to_withdraw` of a document whose text is about to go."""
    if rows:
        snapshot = snapshot_of(connection)
        content_hash = document_writer.hash_of(connection, document_id)
        observed = content_hash and observations.find_live(snapshot, content_hash)
        if observed and _is_lost(snapshot, observed):
            observations.write_rows(connection, observed.id, rows)


def delete_document(connection: sa.Connection, document_id: int, rows: list[EvidenceRow]) -> bool:
    """Delete a document, once `rows_to_withdraw` are kept; False if there is none."""
    keep_rows(connection, document_id, rows)
    return document_writer.delete_document(connection, document_id)
