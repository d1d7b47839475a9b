"""The values that pass between the rooms: what is asked, what is stored, what is answered.

All frozen: computing functions take values and return values. Character offsets are Unicode code points
into `documents.content`, end exclusive; lines are 1-based and inclusive.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.support.columns import Columns


class DocFormat(enum.StrEnum):
    """How a document's text is to be read."""

    markdown = "markdown"
    plaintext = "plaintext"


class SearchMode(enum.StrEnum):
    """Which signals rank a search: words, reefs, or both."""

    hybrid = "hybrid"
    reef = "reef"
    lexical = "lexical"


class TagsMatch(enum.StrEnum):
    """Whether a document must carry all the tags of a filter or any one of them."""

    all = "all"
    any = "any"


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document as it was handed in, validated, not yet parsed.

    `content` is the decoded text with newlines untouched; NUL and control characters are already
    replaced by spaces. `content_hash` is the SHA-256 (hex) of its UTF-8. `warnings` say what is doubtful about
    the text as it came; they end in the document's report.
    """

    title: str
    content: str
    format: DocFormat
    content_hash: str
    n_bytes: int
    tags: tuple[str, ...] = ()
    source_path: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A span of the content that is in no chunk, and why (`front matter`, `heading`, `rule`, `comment`)."""

    start_char: int
    end_char: int
    reason: str


@dataclass(frozen=True, slots=True)
class Section:
    """The text between two headings.

    `path` holds the headings from the outermost to this section's own; empty before the first heading.
    `heading_start` and `heading_end` are equal where there is no heading. `start_char:end_char` is the body.
    """

    path: tuple[str, ...]
    level: int
    heading_start: int
    heading_end: int
    start_char: int
    end_char: int

    @property
    def heading(self) -> str:
        return self.path[-1] if self.path else ""


class SentenceSpan(NamedTuple):
    """A sentence (or a block kept whole) of the content; `section` is an index into the sections."""

    start_char: int
    end_char: int
    section: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The structure of a document.

    `masked` has the length of the content; what must not be scored is blanked with spaces there.
    `sentences` are in order, do not overlap, and together with `left_out` hold every non-space character.
    """

    sections: tuple[Section, ...]
    sentences: tuple[SentenceSpan, ...]
    left_out: tuple[LeftOut, ...]
    masked: str


class ReefScore(NamedTuple):
    """One reef of a chunk. `z_score` and `raw_bm25` are rounded to six digits."""

    reef_id: int
    reef_name: str
    z_score: float
    raw_bm25: float
    n_contributing_words: int


class IslandScore(NamedTuple):
    island_id: int
    island_name: str
    aggregate_z: float
    n_contributing_reefs: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A citation: `content[start_char:end_char] == text`, described by its reefs.

    `norm` is the Euclidean norm of the stored z-scores, 0.0 where there are none.
    """

    chunk_index: int
    section: int
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
    reefs: Columns[ReefScore]
    islands: Columns[IslandScore]
    norm: float

    @property
    def top_reef(self) -> ReefScore | None:
        return self.reefs[0] if self.reefs else None


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document ready to be written in one transaction. `coverage` is over all its words, 0..1."""

    draft: DocumentDraft
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    left_out: tuple[LeftOut, ...]
    n_sentences: int
    coverage: float
    warnings: tuple[str, ...]
    vocabulary_version: int
    data_version: str
    data_checksum: str


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of one document handed to the engine.

    `duplicate` is the id of the document that has the same content already (then `id` is that id too).
    `error` is None, or why the document was not taken; then `id` is None.
    """

    id: int | None
    title: str
    n_chunks: int
    tags: tuple[str, ...]
    duplicate: int | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RescoreResult:
    """`failed`: titles of documents whose chunks could not be brought up to date, each with the reason.
    `vocabulary_version` is the one that the others have now."""

    n_documents: int
    failed: tuple[tuple[str, str], ...]
    vocabulary_version: int


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Conditions a result must meet. `document_ids`, `source_path`: None is no condition, () allows nothing.

    `metadata` holds what a document's own must have at its top level: texts, numbers, truth values or None, equal in
    type and value (1 is 1.0, but neither "1" nor True). `source_path`: any of these, to the letter.
    `created_after` and `created_before` are UTC timestamps in ISO 8601 (`2026-01-31T00:00:00.000Z`).
    """

    tags: tuple[str, ...] = ()
    tags_match: TagsMatch = TagsMatch.all
    min_confidence: float | None = None
    min_coverage: float | None = None
    reef_ids: tuple[int, ...] | None = None
    island_ids: tuple[int, ...] | None = None
    archipelago: int | None = None
    document_ids: tuple[int, ...] | None = None
    format: DocFormat | None = None
    created_after: str | None = None
    created_before: str | None = None
    source_path: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SharedReef:
    """A reef that query and chunk have in common, with both z-scores. `share` is what it adds to the result's
    `match_score`; 0 where reefs took no part in it."""

    reef_id: int
    reef_name: str
    chunk_z: float
    query_z: float
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryReef:
    """A reef of a query. `z_score` is what takes part in a search; `own_z` how much of it the query's own words say, the
    rest being what its company is about."""

    reef_id: int
    reef_name: str
    z_score: float
    own_z: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedbackChunk:
    """A passage whose profile moves a query's. `share`: how much it counts among the companions, 0..1."""

    chunk_id: int
    document_id: int
    document_title: str
    share: float


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A neighbour of a result, on request: a citation like the result itself."""

    chunk_id: int
    chunk_index: int
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Scores:
    """The parts of a result's score; a signal that took no part is None.

    `lexical`, `reef` and `field_boost` are 0..1: of the best in the library for this query, or by rank where rankings were
    fused. Each times its weight (`SearchResponse.weights`) adds up to the `final` score of a hybrid search. `final` is
    what results are ordered by. `lexical_raw` is BM25, `reef_raw` the overlap of the profiles.
    """

    final: float
    reef: float | None = None
    lexical: float | None = None
    field_boost: float = 0.0
    reef_raw: float | None = None
    lexical_raw: float | None = None


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A word, phrase or `title:` term of the query that a chunk holds, and where: `title`, `headings`, `text`, or
    `tag` where its document carries it as one."""

    term: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`term_coverage`: the share of the query's terms that the passage holds in its title, headings or text, each weighed by
    how rare it is in the library, 0..1; None where the query has none. Unlike `match_score`, which is relative to the best
    that was found, it may be compared between queries."""

    text: str
    match_score: float
    n_shared_reefs: int
    document_id: int
    document_title: str
    source_path: str | None
    chunk_id: int
    chunk_index: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    section_path: tuple[str, ...]
    confidence: float
    coverage: float
    top_reef_name: str | None
    tags: tuple[str, ...]
    highlights: tuple[tuple[int, int], ...]
    scores: Scores
    provenance: tuple[str, ...]
    shared_reefs: tuple[SharedReef, ...] | None = None
    matched_terms: tuple[MatchedTerm, ...] | None = None
    term_coverage: float | None = None
    before: tuple[ContextChunk, ...] = ()
    after: tuple[ContextChunk, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """What a query was taken to be about. `top_reefs` are the strongest of the profile that takes part in the search, so
    that of its own words and of its `feedback`; `confidence` is by how much the first of them leads the second.
    `missing_terms` are the words and phrases, as typed, that no passage of the library holds."""

    top_reef: str | None
    confidence: float
    coverage: float
    top_reefs: tuple[QueryReef, ...]
    unknown_words: tuple[str, ...]
    missing_terms: tuple[str, ...] = ()
    feedback: tuple[FeedbackChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """`weights`: what each signal counted in the blend, adding up to 1; all 0 where there was nothing to search by."""

    results: Sequence[SearchResult]
    query_info: QueryInfo
    trace_id: str
    took_ms: float
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)


class JobKind(enum.StrEnum):
    ingest = "ingest"
    replacing = "replace"
    delete = "delete"
    rescore = "rescore"


class JobStatus(enum.StrEnum):
    """What a person sees of a job. An upload that is not complete is not a job yet (see below)."""

    enqueued = "enqueued"
    processing = "processing"
    succeeded = "succeeded"
    partial = "partial"
    failed = "failed"
    canceled = "canceled"


class ItemStatus(enum.StrEnum):
    enqueued = "enqueued"
    discovering = "discovering"
    discovered = "discovered"
    scoring = "scoring"
    succeeded = "succeeded"
    duplicate = "duplicate"
    failed = "failed"
    canceled = "canceled"
