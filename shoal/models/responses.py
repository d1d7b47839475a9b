"""Values of responses that the library has no class for. The field names are those of the API.

Times are text in UTC, ISO 8601 (`2026-01-31T00:00:00.000Z`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from shoal.models.described import Presence, Time
from shoal.models.files import FilePlace
from shoal.models.jobs import Item, ItemCounts, JobKind, JobStatus, Stage
from shoal.models.recordings import Modality
from shoal.models.search import ContextChunk
from shoal.models.stored import (
    DocumentFile,
    DocumentReport,
    NamedDocument,
    StoredChunk,
    StoredDocument,
    StoredSection,
)
from shoal.models.vocabulary import Label

ENDED = frozenset(JobStatus) - {JobStatus.enqueued, JobStatus.processing}
"""States of a job that has ended."""


@dataclass(frozen=True, slots=True)
class Progress(ItemCounts):
    """The progress of a job."""

    fraction: Annotated[
        float,
        "share of the work done, 0 to 1: items count for the stages that they have passed, and large files "
        "for their share of a conversion",
    ] = 0.0
    items_per_second: Annotated[
        float | None, "rate of the last minute, or of the whole job once it has ended; null before it starts"
    ] = None
    bytes_per_second: Annotated[float | None, "likewise in bytes of text, counted as for `fraction`"] = None
    seconds_left: Annotated[float | None, "estimate at that rate; null while there is none"] = None
    stage_done: Annotated[
        int | None,
        "items that have passed the current stage, or have ended; null in a stage that takes many items at "
        "once, and after the end",
    ] = None


@dataclass(frozen=True, slots=True)
class Job:
    """An accepted job."""

    id: Annotated[int, "id of the job"]
    kind: Annotated[JobKind, "what it does"]
    status: Annotated[JobStatus, "`partial`: some items failed, the others are done"]
    stage: Annotated[Stage | None, "current stage; null before it starts"]
    progress: Annotated[Progress, "progress of the job"]
    created_at: Time
    started_at: Annotated[Time | None, "when a worker started it; null before that"]
    finished_at: Annotated[Time | None, "when it ended, with any status; null before that"]
    error: Annotated[str | None, "the first error and how often it occurred, or null"]
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether every item is stored, or a duplicate of a stored document."""
        return self.status == JobStatus.succeeded


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted job."""

    job: Annotated[Job, "the job, durably stored and to be run"]


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs."""

    jobs: Annotated[tuple[Job, ...], "a page of jobs, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of the items of a job."""

    items: Annotated[tuple[Item, ...], "a page of items, in upload order"]
    total: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document of an upload."""

    id: Annotated[int, "id of the document"]
    title: Annotated[str, "as it is stored"]
    n_chunks: Annotated[int, "number of its chunks"]
    tags: Annotated[tuple[str, ...], "as they are stored, in alphabetical order"]
    duplicate: Annotated[bool, "whether the content was stored already; then this is that document"] = False
    warnings: Annotated[
        tuple[str, ...], "problems of the text, and fields of a duplicate that were not taken over"
    ] = ()


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """A chunk without its text and reefs."""

    id: Annotated[int, "id of the chunk"]
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

    sections: Annotated[tuple[StoredSection, ...], "in text order"]
    report: Annotated[DocumentReport, "why parts of the text are in no chunk, and warnings"]
    file: Annotated[DocumentFile | None, "what it was converted from; null for a document sent as text"] = (
        None
    )
    parents: Annotated[
        tuple[NamedDocument, ...],
        "the mails that it is attached to, the first 1,000; it is deleted with the last",
    ] = ()
    attachments: Annotated[tuple[NamedDocument, ...], "documents attached to it, the first 1,000"] = ()
    chunks: Annotated[
        tuple[ChunkSummary, ...], "the first 100, without text and reefs; `links.chunks` lists all"
    ] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk(StoredChunk):
    """A chunk with its document and the requested neighbours."""

    document: Annotated[StoredDocument, "its document"]
    before: Annotated[tuple[ContextChunk, ...], "with `context`"] = ()
    after: Annotated[tuple[ContextChunk, ...], "with `context`"] = ()


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """What a deletion would delete."""

    n_documents: Annotated[int, "documents that are meant"]
    documents: Annotated[tuple[NamedDocument, ...], "the first of them by id, at most 100"]


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a document."""

    tags: Annotated[tuple[str, ...], "all tags of the document, in place of the old ones"]


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a document."""

    id: Annotated[int, "id of the document"]
    content: Annotated[str, "its text as it is stored"]


@dataclass(frozen=True, slots=True)
class Status:
    """Counts, versions and sizes."""

    status: Annotated[str, "`ok`"]
    n_documents: Annotated[int, "number of documents"]
    n_chunks: Annotated[int, "number of chunks"]
    n_stale_chunks: Annotated[int, "chunks that contain a changed word or were scored with other data"]
    n_custom_words: Annotated[int, "number of learned words"]
    content_bytes: Annotated[int, "size of all documents in UTF-8"]
    vocabulary_version: int
    lagoon_version: Annotated[str, "version of the topic model's data"]
    lagoon_n_reefs: Annotated[int, "number of its reefs"]
    lagoon_checksum: Annotated[str, "checksum of its data"]
    jobs: Annotated[Mapping[str, int], "number of jobs by status"]
    workers: Annotated[int, "worker processes with a recent heartbeat"]
    schema: Annotated[str, "revision of the database schema"]
    db_bytes: Annotated[int, "size of the database, with all of its files"]
    index_bytes: Annotated[int, "size of the files of the search index"] = 0
    n_notes: Annotated[int, "number of active notes"] = 0
    presets: Annotated[Mapping[str, Mapping[str, float]], "weights of each preset of a search, by name"] = (
        field(default_factory=dict)
    )
    n_embedded_chunks: Annotated[int, "chunks that have a vector"] = 0
    n_chunks_to_embed: Annotated[int, "chunks that lack a vector; 0 if the library is not embedded"] = 0
    encoder: Annotated[Mapping[str, str | int] | None, "the encoder of the vectors; null without vectors"] = (
        None
    )
    n_incomplete_documents: Annotated[
        int,
        "documents that lack more than 2 % of the words of their files, besides those left out on purpose",
    ] = 0
    incomplete_documents: Annotated[tuple[int, ...], "ids of the first 20 of them"] = ()
    db_path: Annotated[
        str | None,
        "file of the database, or the address of its server; for the right `admin` alone",
        Presence.IF_SET,
    ] = None

    def __getitem__(self, name: str) -> Any:
        """Return the member of this name, for programs that read the status as the object that it was."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class Archipelago:
    """A group of islands."""

    id: Annotated[int, "id of the archipelago, 0 to 3"]
    name: Annotated[str, "its name"]


@dataclass(frozen=True, slots=True)
class Island:
    """A group of reefs."""

    id: Annotated[int, "id of the island"]
    name: Annotated[str, "its name"]
    archipelago_id: Annotated[int, "id of its archipelago"]


@dataclass(frozen=True, slots=True)
class Reef:
    """A reef of the topic model."""

    id: Annotated[int, "id of the reef"]
    name: Annotated[str, "its name"]
    island_id: Annotated[int, "id of its island"]
    typical_words: Annotated[tuple[str, ...], "its most typical words, strongest first"]
    n_chunks: Annotated[int, "number of chunks whose first label it is"]


@dataclass(frozen=True, slots=True)
class Reefs:
    """The hierarchy of reefs on islands in archipelagos."""

    archipelagos: Annotated[tuple[Archipelago, ...], "the four archipelagos"]
    islands: Annotated[tuple[Island, ...], "by id"]
    reefs: Annotated[tuple[Reef, ...], "by id"]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the index of a machine is behind a library."""

    documents_behind: Annotated[int, "documents whose newest state is in no segment of the index"]
    seconds_behind: Annotated[float, "seconds since the oldest of these changes"]


@dataclass(frozen=True, slots=True)
class CollectionLag(Lag):
    """How far the index of a machine is behind a collection."""

    name: Annotated[str, "name of the collection"]


@dataclass(frozen=True, slots=True)
class IndexLag(Lag):
    """How far the indexes of a machine are behind."""

    collections_behind: Annotated[int, "open collections other than `main` that are behind"]
    collections: Annotated[
        tuple[CollectionLag, ...] | None,
        "up to ten of them, furthest behind first; only without keys, or for a key that may read all "
        "collections",
        Presence.IF_SET,
    ] = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the process is alive."""

    status: Annotated[str, "`ok`"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the service can accept uploads and searches."""

    status: Annotated[str, "`ready`; where the service is not, the reason"]
    checks: Annotated[Mapping[str, str], "`ok` or `failed` for `database`, `scorer`, `broker` and `index`"]
    warnings: Annotated[
        tuple[str, ...], "failed checks that do not make the service unready, such as `broker`"
    ] = ()
    index: Annotated[
        IndexLag | None,
        "how far the index of this machine is behind the library `main`, and the others; only where each "
        "machine has an index of its own",
        Presence.IF_SET,
    ] = None

    @property
    def ready(self) -> bool:
        return self.status == "ready"


@dataclass(frozen=True, slots=True)
class Collection:
    """A library of the service."""

    id: Annotated[str, "never changes, also if the name does"]
    name: Annotated[str, "the name that URLs have"]
    created_at: Annotated[Time | None, "when it was created; null for `main`"]


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """A page of collections."""

    collections: Annotated[tuple[Collection, ...], "a page of collections: `main` first, the others by name"]
    total: int


@dataclass(frozen=True, slots=True)
class CollectionDetails(Collection):
    """A collection and what it holds."""

    n_documents: Annotated[int, "number of documents"]
    n_chunks: Annotated[int, "number of chunks"]
    content_bytes: Annotated[int, "size of all documents in UTF-8"]
    database_bytes: Annotated[int, "size of the database on disk"]
    jobs: Annotated[Mapping[str, int], "number of jobs by status"]


@dataclass(frozen=True, slots=True)
class SwappedCollections:
    """Two collections that have exchanged their names."""

    collections: Annotated[
        tuple[Collection, ...], "the two collections with their names after the swap, as they were given"
    ]
