"""Documents, sections and chunks as read from the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from shoal.models.described import Time
from shoal.models.documents import DocFormat, LeftOut
from shoal.models.files import FileAccount, FilePlace, Removed
from shoal.models.recordings import Modality
from shoal.models.rights import Rights
from shoal.models.search import ContextChunk
from shoal.models.vocabulary import IslandScore, Label, ReefScore
from shoal.support.sha256 import sha256_of


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document without its text."""

    id: Annotated[int, "id of the document"]
    title: Annotated[str, "given, or derived from its path or text"]
    format: Annotated[DocFormat, "how its text is read"]
    source_path: str | None
    tags: tuple[str, ...]
    n_bytes: int
    n_chunks: Annotated[int, "number of its chunks"]
    n_sentences: int
    coverage: Annotated[float, "known words / words, 0 to 1"]
    content_hash: Annotated[
        str, "SHA-256 of the content's UTF-8; unless `chunk_tokens` is `any`, also of how it is cut"
    ]
    metadata: Annotated[Mapping[str, Any], "as it was uploaded, with what its file says of itself"]
    created_at: Time
    updated_at: Time
    chunk_tokens: Annotated[str, "what it is cut with: `any`, a range of tokens, or `given` by its caller"]
    allow: Annotated[
        tuple[str, ...] | None,
        "who may see it with a search token; null: what the collection says of documents without rights",
    ]
    deny: Annotated[tuple[str, ...], "who may not, whatever `allow` says"]
    language: Annotated[str, "code of its language (ISO 639-1), that of most of its text"]
    is_language_given: Annotated[bool, "whether its caller said the language; otherwise it was detected"]

    @property
    def rights(self) -> Rights | None:
        """None for a document without rights."""
        rights = Rights(self.allow, self.deny)
        return None if rights == Rights() else rights


class NamedDocument(NamedTuple):
    """A document by its names."""

    id: Annotated[int, "id of the document"]
    title: Annotated[str, "its title"]
    source_path: Annotated[str | None, "where it came from; null if unknown"]


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page of a listing of documents."""

    documents: Annotated[tuple[StoredDocument, ...], "a page of documents, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class StoredSection:
    """A section as in `shoal.models.documents.Section`, with its position and number of chunks."""

    section_index: int
    level: Annotated[int, "0 before the first heading"]
    path: Annotated[tuple[str, ...], "headings, outermost first"]
    heading_start: Annotated[
        int, "where its heading begins in the content; equal to `heading_end` without a heading"
    ]
    heading_end: Annotated[int, "where its heading ends"]
    start_char: int
    end_char: int
    n_chunks: Annotated[int, "chunks in it"]


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """The spans of a document that are in no chunk, and warnings about it."""

    left_out: Annotated[
        tuple[LeftOut, ...], "spans of the text that are in no chunk: all headings and the first 1,000 others"
    ]
    n_left_out: Annotated[Mapping[str, int], "number of all such spans, by reason"]
    warnings: Annotated[tuple[str, ...], "problems of the text, such as a guessed encoding"]
    removed: Annotated[tuple[Removed, ...], "text of its file that is not in the content"] = ()


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """The file that a document was converted from."""

    kind: Annotated[str, "such as `pdf`"]
    name: Annotated[str, "without folders; may be empty"]
    n_bytes: Annotated[int, "size of the file"]
    file_hash: Annotated[str, "SHA-256 of the file"]
    is_kept: Annotated[bool, "whether `GET /documents/{document_id}/file` returns it"]
    account: Annotated[
        FileAccount | None, "its visible words, and what of them is not in the document; null if not counted"
    ] = None


@dataclass(frozen=True, slots=True)
class DocumentDetail:
    """A document with its sections and report; `file` is None for a document sent as text.

    `parents` and `attachments`: at most 1,000 documents that it is attached to, or that are attached to it.
    """

    document: StoredDocument
    sections: tuple[StoredSection, ...]
    report: DocumentReport
    file: DocumentFile | None = None
    parents: tuple[NamedDocument, ...] = ()
    attachments: tuple[NamedDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with the profile it was scored with."""

    id: Annotated[int, "id of the chunk"]
    document_id: int
    chunk_index: int
    section_index: int
    section_path: tuple[str, ...]
    text: Annotated[str, "content[start_char:end_char]"]
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    sentence_count: int
    confidence: float
    coverage: float
    matched_words: int
    arch_scores: Annotated[tuple[float, float, float, float], "scores of the four archipelagos, by id"]
    top_reef_id: int | None
    top_reef_name: str | None
    labels: tuple[Label, ...]
    awaits_rescore: bool
    vocabulary_version: int
    data_checksum: str
    reefs: Annotated[tuple[ReefScore, ...], "by z-score, highest first"]
    islands: Annotated[tuple[IslandScore, ...], "strongest first"]
    place: FilePlace | None
    modality: Modality
    time_start: str | None
    time_end: str | None
    language: Annotated[str, "code of the language of its text (ISO 639-1)"]

    @property
    def content_hash(self) -> Annotated[str, "SHA-256 of the UTF-8 of `text`, in hex"]:
        """It changes exactly if the text does."""
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
    """One page of a document's chunks."""

    chunks: Annotated[tuple[StoredChunk, ...], "a page of chunks, in text order"]
    total: int
