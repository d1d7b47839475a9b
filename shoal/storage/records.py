"""Documents, sections and chunks as read from the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.models.documents import DocFormat, LeftOut
from shoal.models.files import FilePlace, Removed
from shoal.models.recordings import Modality
from shoal.models.reefs import IslandScore, Label, ReefScore
from shoal.models.search import ContextChunk
from shoal.support.sha256 import sha256_of


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document without its text. `coverage` is known words / words, 0..1; times are in the format of
    `clock`. `chunk_tokens`: what it is cut with: `any`, a range of tokens, or `given` by its
    caller."""

    id: int
    title: str
    format: DocFormat
    source_path: str | None
    tags: tuple[str, ...]
    n_bytes: int
    n_chunks: int
    n_sentences: int
    coverage: float
    content_hash: str
    metadata: Mapping[str, Any]
    created_at: str
    updated_at: str
    chunk_tokens: str


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page of a listing; `total` counts the documents of all pages."""

    documents: tuple[StoredDocument, ...]
    total: int


@dataclass(frozen=True, slots=True)
class StoredSection:
    """A section as in `shoal.models.documents.Section`, with its position and number of chunks."""

    section_index: int
    level: int
    path: tuple[str, ...]
    heading_start: int
    heading_end: int
    start_char: int
    end_char: int
    n_chunks: int


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """The spans that are in no chunk, with reasons, and warnings about the document. `removed`: text of its
    file that is not in the content.

    `left_out` is in order. It has all headings and the first 1,000 other spans; `n_left_out` counts all spans
    by reason.
    """

    left_out: tuple[LeftOut, ...]
    n_left_out: Mapping[str, int]
    warnings: tuple[str, ...]
    removed: tuple[Removed, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """The file that a document was converted from.

    `kind`: such as `pdf`; `name`: without folders, may be empty; `n_bytes` of the file; `file_hash`: SHA-256
    (hex) of it; `is_kept`: whether it can be downloaded.
    """

    kind: str
    name: str
    n_bytes: int
    file_hash: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class DocumentDetail:
    """A document with its sections and report; `file` is None for a document sent as text."""

    document: StoredDocument
    sections: tuple[StoredSection, ...]
    report: DocumentReport
    file: DocumentFile | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with the profile it was scored with.

    `labels`: the reefs that it is about, most probable first; `top_reef_*` are those of the first.
    `awaits_rescore`: whether it was scored with other data of lagoon, so that labels may be missing. `reefs`
    are ordered by z-score. `time_start`, `time_end`: of a passage of a recording, HH:MM:SS.
    """

    id: int
    document_id: int
    chunk_index: int
    section_index: int
    section_path: tuple[str, ...]
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    sentence_count: int
    confidence: float
    coverage: float
    matched_words: int
    arch_scores: tuple[float, float, float, float]
    top_reef_id: int | None
    top_reef_name: str | None
    labels: tuple[Label, ...]
    awaits_rescore: bool
    vocabulary_version: int
    data_checksum: str
    reefs: tuple[ReefScore, ...]
    islands: tuple[IslandScore, ...]
    place: FilePlace | None
    modality: Modality
    time_start: str | None
    time_end: str | None

    @property
    def content_hash(self) -> str:
        """SHA-256 of the text, hex: it changes exactly if the text does."""
        return sha256_of(self.text)


@dataclass(frozen=True, slots=True)
class ChunkDetail:
    """A chunk, its document, and the requested neighbours."""

    chunk: StoredChunk
    document: StoredDocument
    before: tuple[ContextChunk, ...]
    after: tuple[ContextChunk, ...]


@dataclass(frozen=True, slots=True)
class ChunkPage:
    """One page of a document's chunks, in order; `total` counts all chunks of the document."""

    chunks: tuple[StoredChunk, ...]
    total: int
