"""What a service answers, where the library in the same process has no such value; the names are those of the
API.

Times are texts as the service writes them, UTC in ISO 8601 (`2026-01-31T00:00:00.000Z`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.models import ContextChunk
from shoal.storage.records import DocumentReport, StoredChunk, StoredDocument, StoredSection

ENDED = frozenset({"succeeded", "partial", "failed", "canceled"})
"""States of a job that has come to its end."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. `done` counts items that have ended, however; `fraction` is of the work, 0 to 1. The
    pace is that of the last minute, None while nothing can be said."""

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


@dataclass(frozen=True, slots=True)
class Job:
    """Accepted work. `status`: `enqueued`, `processing`, `succeeded`, `partial` (some items failed), `failed`
    (all did) or `canceled`; `stage`: what is being done."""

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
        """Whether all of it is done: every item stored, or a duplicate of what is."""
        return self.status == "succeeded"


@dataclass(frozen=True, slots=True)
class Item:
    """One document of a job. `seq`: its place in the upload, from 0; `document_id`: the document that it
    became, or that has its content already; `error`: why it failed; `warnings`: what is doubtful about the
    text, and of a duplicate what that document does not have of it."""

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


@dataclass(frozen=True, slots=True)
class JobPage:
    """`total` counts the jobs on all pages, here as in the other pages."""

    jobs: tuple[Job, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ItemPage:
    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A document that is stored. `duplicate`: its content was stored before, and this is that document."""

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


@dataclass(frozen=True, slots=True)
class Document(StoredDocument):
    """A document with its sections, its report, and the first hundred of its chunks."""

    sections: tuple[StoredSection, ...]
    report: DocumentReport
    chunks: tuple[ChunkSummary, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk(StoredChunk):
    """A chunk with the document it is part of and the neighbours that were asked for."""

    document: StoredDocument
    before: tuple[ContextChunk, ...] = ()
    after: tuple[ContextChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class Tags:
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    id: int
    content: str


@dataclass(frozen=True, slots=True)
class Status:
    """Counts, versions and sizes. `jobs`: how many, by status; `workers`: those that gave a sign of life
    lately."""

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
    postings: Mapping[str, int] = field(default_factory=dict)


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
    """`n_chunks`: how many chunks have it as their strongest."""

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
    """`status`: `ready`, or what the service says it lacks; `checks`: `ok` or `failed`, by the name of what
    was looked at."""

    status: str
    checks: Mapping[str, str]

    @property
    def ready(self) -> bool:
        return self.status == "ready"
