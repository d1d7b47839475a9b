"""Values of responses that the library has no class for. The field names are those of the API.

Times are text in UTC, ISO 8601 (`2026-01-31T00:00:00.000Z`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.models.files import FilePlace
from shoal.models.jobs import JobStatus
from shoal.models.recordings import Modality
from shoal.models.reefs import Label
from shoal.models.search import ContextChunk
from shoal.storage.records import DocumentFile, DocumentReport, StoredChunk, StoredDocument, StoredSection

ENDED = frozenset(JobStatus) - {JobStatus.enqueued, JobStatus.processing}
"""States of a job that has ended."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job. `done`: items that have ended in any state; `stage_done`: those that have passed
    the current stage, None if that is unknown. `fraction`: share of the work, 0 to 1.

    Rates are those of the last minute, None while they are unknown.
    """

    total: int
    done: int
    failed: int
    duplicate: int
    bytes_total: int
    bytes_done: int
    canceled: int = 0
    skipped: int = 0
    fraction: float = 0.0
    items_per_second: float | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    stage_done: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """An accepted job. `status`: `enqueued`, `processing`, `succeeded`, `partial` (some items failed),
    `failed` (all items failed) or `canceled`. `stage`: the current stage."""

    id: int
    kind: str
    status: str
    stage: str | None
    progress: Progress
    created_at: str
    started_at: str | None
    finished_at: str | None
    error: str | None
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether every item is stored, or a duplicate of a stored document."""
        return self.status == JobStatus.succeeded


@dataclass(frozen=True, slots=True)
class Item:
    """One document of a job.

    `seq`: its number in the upload, from 1. `document_id`: the document that it became, or that has its
    content already. `error`: the reason of a failure, `error_code`: its stable code. `warnings`: doubts about
    the text; for a duplicate, also the fields that the stored document lacks. `stage_share`: share of the
    stage, 0 to 1, that a worker has passed with it, None if it is unknown.
    """

    seq: int
    title: str
    source_path: str | None
    bytes: int
    status: str
    stage: str | None
    document_id: int | None
    attempts: int
    error: str | None
    warnings: tuple[str, ...] = ()
    error_code: str | None = None
    stage_share: float | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs. `total` counts the entries on all pages, as in the other page classes."""

    jobs: tuple[Job, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ItemPage:
    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document. `duplicate`: its content was stored before, and this is the earlier document."""

    id: int
    title: str
    n_chunks: int
    tags: tuple[str, ...]
    duplicate: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """A chunk without its text and reefs."""

    id: int
    chunk_index: int
    section_path: tuple[str, ...]
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    confidence: float
    coverage: float
    top_reef_name: str | None
    labels: tuple[Label, ...]
    awaits_rescore: bool
    place: FilePlace | None
    modality: Modality = Modality.text
    time_start: str | None = None
    time_end: str | None = None


@dataclass(frozen=True, slots=True)
class Document(StoredDocument):
    """A document with its sections, its report, and the first hundred of its chunks."""

    sections: tuple[StoredSection, ...]
    report: DocumentReport
    file: DocumentFile | None = None
    chunks: tuple[ChunkSummary, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk(StoredChunk):
    """A chunk with its document and the requested neighbours."""

    document: StoredDocument
    before: tuple[ContextChunk, ...] = ()
    after: tuple[ContextChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedDocument:
    id: int
    title: str
    source_path: str | None


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """What a deletion would delete; `documents`: the first of them by id."""

    n_documents: int
    documents: tuple[NamedDocument, ...]


@dataclass(frozen=True, slots=True)
class Tags:
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    id: int
    content: str


@dataclass(frozen=True, slots=True)
class Status:
    """Counts, versions and sizes.

    `jobs`: number of jobs by status. `workers`: worker processes with a recent heartbeat. `presets`: weights
    by name. `encoder`: name, revision and dimension of the encoder of the vectors; None without vectors.
    `db_path`: the file of the database, or the address of its server; None for a key without the right
    `admin`.
    """

    status: str
    n_documents: int
    n_chunks: int
    n_stale_chunks: int
    n_custom_words: int
    content_bytes: int
    vocabulary_version: int
    lagoon_version: str
    lagoon_n_reefs: int
    lagoon_checksum: str
    jobs: Mapping[str, int]
    workers: int
    schema: str
    db_bytes: int
    index_bytes: int = 0
    n_notes: int = 0
    presets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    n_embedded_chunks: int = 0
    n_chunks_to_embed: int = 0
    encoder: Mapping[str, str | int] | None = None
    db_path: str | None = None


@dataclass(frozen=True, slots=True)
class Archipelago:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Island:
    id: int
    name: str
    archipelago_id: int


@dataclass(frozen=True, slots=True)
class Reef:
    """A reef. `n_chunks`: number of chunks whose first label it is."""

    id: int
    name: str
    island_id: int
    typical_words: tuple[str, ...]
    n_chunks: int


@dataclass(frozen=True, slots=True)
class Reefs:
    archipelagos: tuple[Archipelago, ...]
    islands: tuple[Island, ...]
    reefs: tuple[Reef, ...]


@dataclass(frozen=True, slots=True)
class Readiness:
    """`status`: `ready`, or the reason why the service is not. `checks`: `ok` or `failed` by check."""

    status: str
    checks: Mapping[str, str]

    @property
    def ready(self) -> bool:
        return self.status == "ready"
