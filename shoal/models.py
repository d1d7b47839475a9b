"""The values that pass between packages: documents, chunks, requests, results and job states.

All dataclasses are frozen. Character offsets are Unicode code points into `documents.content`, end exclusive;
lines count from 1, end inclusive.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict

from shoal.file_models import FilePlace, SourceFile


class DocFormat(enum.StrEnum):
    """How a document's text is parsed."""

    markdown = "markdown"
    plaintext = "plaintext"


class SearchMode(enum.StrEnum):
    """The signals that rank a search: words, reefs, or both."""

    hybrid = "hybrid"
    reef = "reef"
    lexical = "lexical"


class TagsMatch(enum.StrEnum):
    """Whether a document must have all tags of a filter or any of them."""

    all = "all"
    any = "any"


class DocumentFields(TypedDict, total=False):
    """What a document is given besides its content. A field that is missing or None gets the default.

    title        by default from the front matter, the file's name, the first heading or the first line
    format       by default from the suffix of `source_path`, else plain text
    tags         stripped and unique, in the given order; by default from the front matter
    metadata     an object that JSON can express; by default empty
    source_path  where the text comes from, a label only; of a file, by default its path
    """

    title: str | None
    format: DocFormat | str | None
    tags: Iterable[str] | None
    metadata: Mapping[str, Any] | None
    source_path: str | None


class Modality(enum.StrEnum):
    """What a passage is: read, said in a recording, or seen in a picture or a video."""

    text = "text"
    ocr = "ocr"
    image_caption = "image_caption"
    audio_transcript = "audio_transcript"
    video_transcript = "video_transcript"
    video_frame = "video_frame"


@dataclass(frozen=True, slots=True)
class UrlDraft:
    """A page or file that a worker fetches. `url`: normalized (`shoal.conversion.web_addresses`); it becomes
    the source path. `title` is None if none was given."""

    url: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Nothing is fetched yet."""
        return 0


class Validators(NamedTuple):
    """What a server said of a version of a page, so that it can be asked for a newer one (RFC 9110, 8.8)."""

    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A validated document that is not yet parsed.

    `content` is the decoded text with its original newlines; NUL and control characters are replaced by
    spaces. `content_hash` is the SHA-256 (hex) of its UTF-8. `warnings` describe problems of the submitted
    text; they become part of the document's report. `file`: what it was converted from, None for a text.
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
    file: SourceFile | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A span of the content that is in no chunk.

    `reason`: `heading`, `front matter`, `rule`, `comment`, `link definition` or `boilerplate`.
    """

    start_char: int
    end_char: int
    reason: str


@dataclass(frozen=True, slots=True)
class Section:
    """The text between two headings.

    `path` has the headings from the outermost to this section's own; it is empty before the first heading.
    `heading_start` and `heading_end` are equal if there is no heading. `start_char:end_char` is the body.
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
    """A sentence, or a block that is not split; `section` is an index into the sections."""

    start_char: int
    end_char: int
    section: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The structure of a document.

    `masked` is the content with spaces in place of text that must not be scored; it has the same length.
    `sentences` are in order, do not overlap, and cover, together with `left_out`, every non-space character.
    """

    sections: tuple[Section, ...]
    sentences: tuple[SentenceSpan, ...]
    left_out: tuple[LeftOut, ...]
    masked: str


class Reef(Protocol):
    """A named semantic neighbourhood."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def island_id(self) -> int: ...
    @property
    def typical_words(self) -> Sequence[str]: ...


class Island(Protocol):
    """A group of reefs."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def archipelago_id(self) -> int: ...


class ReefScore(NamedTuple):
    """One reef of a chunk, as stored: `z_score` in steps of 0.004, `raw_bm25` in steps of 0.1; `probability`,
    0..1, that a reader would say that the chunk is about the reef (`lagoon.labels`), in steps of 0.005."""

    reef_id: int
    reef_name: str
    z_score: float
    raw_bm25: float
    n_contributing_words: int
    probability: float


class Label(NamedTuple):
    """A reef that a text is about: its probability is at least `SHOAL_LABEL_THRESHOLD`."""

    reef_id: int
    reef_name: str
    probability: float


class IslandScore(NamedTuple):
    """An island of a chunk. `aggregate_z`: the sum of the z-scores of the chunk's reefs that belong to the
    island, over the square root of the number of the island's reefs, rounded to three digits."""

    island_id: int
    island_name: str
    aggregate_z: float
    n_contributing_reefs: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that can be cited, with its profile: `content[start_char:end_char] == text`.

    `profile` holds the reefs as stored (`shoal.storage.profiles`), and the fields after it follow from it.
    `norm` is the Euclidean norm of the stored z-scores, 0.0 if there are none. The top reef is the most
    probable one; of equally probable ones the strongest; None without reefs.
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
    profile: bytes
    norm: float
    top_reef_id: int | None
    top_reef_name: str | None
    top_reef_probability: float
    place: FilePlace | None = None


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document ready to be stored in one transaction.

    `left_out`: the first spans without headings; `n_left_out` counts all of them by reason. `coverage` is
    over all its words, 0..1. `reefs` and `islands` are those of the scorer's data. `unknown_words` tells
    which learned words may occur in which chunk (`shoal.storage.staleness`); None if the scorer cannot learn.
    """

    draft: DocumentDraft
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    left_out: tuple[LeftOut, ...]
    n_left_out: Mapping[str, int]
    n_sentences: int
    coverage: float
    warnings: tuple[str, ...]
    vocabulary_version: int
    data_version: str
    data_checksum: str
    reefs: Sequence[Reef]
    islands: Sequence[Island]
    unknown_words: bytes | None = None


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The outcome of ingesting one document.

    `duplicate` is the id of an existing document with the same content; `id` is then that id too. `error` is
    the reason why the document was rejected, and `error_code` its stable code; `id` is then None.
    """

    id: int | None
    title: str
    n_chunks: int
    tags: tuple[str, ...]
    duplicate: int | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class RescoreResult:
    """The outcome of a rescore.

    `failed`: titles of documents whose chunks were not rescored, each with the reason. `vocabulary_version`
    is that of the other documents now. `n_notes`: notes whose words or profile changed.
    """

    n_documents: int
    failed: tuple[tuple[str, str], ...]
    vocabulary_version: int
    n_notes: int = 0


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Conditions that a result must meet. `document_ids`, `source_path`: None is no condition, () matches
    nothing.

    `metadata` has keys that a document's metadata must have at the top level: strings, numbers, booleans or
    None, equal in type and value (1 equals 1.0, but neither "1" nor True). `source_path`: any of these,
    compared exactly. `name_contains`: a text in the title or the source path of the document. `file_type`: a
    type of `shoal.storage.file_types`, such as `pdf`, `video` or `.py`. `created_after` and `created_before`
    are UTC timestamps in ISO 8601 (`2026-01-31T00:00:00.000Z`).
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
    name_contains: str | None = None
    file_type: str | None = None


@dataclass(frozen=True, slots=True)
class SharedReef:
    """A reef that the query and a chunk share.

    share          its part of the result's `match_score`, 0 in mode `lexical`
    probability    that a person would accept the reef as a reason, 0..1 (`shoal.search.reasons`)
    is_reason      whether the probability reaches the setting `label_threshold`; the others are background
    query_words, passage_words   of a reason: the words that show it, strongest first
    """

    reef_id: int
    reef_name: str
    chunk_z: float
    query_z: float
    share: float = 0.0
    probability: float = 0.0
    is_reason: bool = False
    query_words: tuple[str, ...] = ()
    passage_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryReef:
    """A reef of a query. `own_z` is the part of `z_score` from the query's own words, without feedback."""

    reef_id: int
    reef_name: str
    z_score: float
    own_z: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedbackChunk:
    """A chunk used for pseudo-relevance feedback. `share` is its weight among the feedback chunks, 0..1."""

    chunk_id: int
    document_id: int
    document_title: str
    share: float


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A neighbour of a result, included on request."""

    chunk_id: int
    chunk_index: int
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class EvidenceChunk:
    """A passage of a recording near a result. Times are HH:MM:SS."""

    chunk_id: int
    chunk_index: int
    modality: Modality
    time_start: str
    time_end: str
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    is_anchor: bool = False

    @property
    def line(self) -> str:
        """The passage in one line, as `00:01:05–00:01:18 (Audio): "Every wave has a crest."`."""
        return evidence_line(self.modality, self.time_start, self.time_end, self.text)


def evidence_line(modality: str, time_start: str, time_end: str, text: str) -> str:
    """Return a passage of a recording in one line, with its times and whether it is heard or seen."""
    times = time_start if time_end == time_start else f"{time_start}–{time_end}"
    is_seen = modality in (Modality.video_frame, Modality.image_caption, Modality.ocr)
    return f'{times} ({"Screen" if is_seen else "Audio"}): "{" ".join(text.split())}"'


@dataclass(frozen=True, slots=True)
class EvidenceBundle:
    """The passages of a recording around a result, in time order; the result itself is one of them.

    `time_start` and `time_end`, HH:MM:SS: the time of the result with 15 seconds before and after it, 10 for
    a frame, within the recording. The passages overlap it.
    """

    time_start: str
    time_end: str
    chunks: tuple[EvidenceChunk, ...]

    @property
    def text(self) -> str:
        """The passages, one a line."""
        return "\n".join(chunk.line for chunk in self.chunks)


class FieldBoostParts(NamedTuple):
    """What the fields of a chunk add to its field boost, 0..1 each: its title, its headings, the tags of its
    document."""

    title: float
    heading_path: float
    tag_overlap: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a result by signal; None for a signal that the mode does not use.

    `lexical`, `reef` and `field_boost` are 0..1: relative to the best in the library for this query, or by
    rank if the fusion is `rrf`. Multiplied by their weights (`SearchResponse.weights`), they add up to the
    `final` score of a hybrid search. Results are ordered by `final`. `lexical_raw` is BM25, `reef_raw` the
    overlap of the profiles.

    `field_boost_parts`, on request, add up to `field_boost`.
    """

    final: float
    reef: float | None = None
    lexical: float | None = None
    field_boost: float = 0.0
    reef_raw: float | None = None
    lexical_raw: float | None = None
    field_boost_parts: FieldBoostParts | None = None


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A word, phrase or `title:` term of the query that a chunk contains.

    `places`: `title`, `headings`, `text`, or `tag` if it is a tag of the document. `same_stem`: the other
    words that match only by their stem, such as "experience" for "experiments", if title, headings and text
    have no form of the term itself; else None.
    """

    term: str
    places: tuple[str, ...]
    same_stem: str | None = None


class RelevancePart(NamedTuple):
    """What one piece of evidence adds to the log odds of a relevance.

    `name`: `start`, `term_coverage`, `adjacent_terms` or `reef_similarity`; `value`: 0..1; `description`: the
    value in words.
    """

    name: str
    value: float
    contribution: float
    description: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A chunk found by a search, with its citation and scores.

    `relevance`: the calibrated probability, 0..1, that the chunk answers the query, if half of all queries
    have an answer. It uses the words and the reefs of the query in every mode, so it does not depend on the
    mode; only a query without terms, or without reefs, is judged by the other evidence alone.
    `term_coverage`: the share of the query's terms in the chunk's title, headings or text, each weighted by
    its rarity in the library, 0..1; None for a query without terms. Unlike `match_score`, which is relative
    to the best match, it can be compared between queries.

    `labels`: the reefs that the chunk is about, most probable first; `top_reef_name` is the first of them.
    `awaits_rescore`: whether the chunk was scored with other data of lagoon, so that labels may be missing.
    `place`: its place in the file that the document was converted from; None for a document sent as text.
    `time_start`, `time_end`: of a passage of a recording, HH:MM:SS. `evidence`: the passages around it, if
    requested.
    """

    text: str
    match_score: float
    relevance: float
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
    labels: tuple[Label, ...]
    awaits_rescore: bool
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
    place: FilePlace | None = None
    modality: Modality = Modality.text
    time_start: str | None = None
    time_end: str | None = None
    evidence: EvidenceBundle | None = None


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """The profile and the words of a query.

    `top_reefs` are the strongest reefs of the profile used for ranking, which includes `feedback`;
    `confidence` is the lead of the first reef over the second. `missing_terms` are the words and phrases, as
    typed, that are in no chunk.
    """

    top_reef: str | None
    confidence: float
    coverage: float
    top_reefs: tuple[QueryReef, ...]
    unknown_words: tuple[str, ...]
    missing_terms: tuple[str, ...] = ()
    feedback: tuple[FeedbackChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """The response to a search. `weights` add up to 1, or are 0 if there was nothing to search for."""

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
    dedup = "dedup"


class JobStatus(enum.StrEnum):
    """The status of a job as users see it. An incomplete upload is not a job yet."""

    enqueued = "enqueued"
    processing = "processing"
    succeeded = "succeeded"
    partial = "partial"
    failed = "failed"
    canceled = "canceled"


class OnConflict(enum.StrEnum):
    """What happens to an uploaded document whose source path a stored document has."""

    keep = "keep"
    """It becomes another document, unless its content is stored already."""
    replacing = "replace"
    """It replaces the content of the stored document, which keeps its id."""


class ItemStatus(enum.StrEnum):
    enqueued = "enqueued"
    converting = "converting"
    converted = "converted"
    discovering = "discovering"
    discovered = "discovered"
    scoring = "scoring"
    succeeded = "succeeded"
    duplicate = "duplicate"
    failed = "failed"
    canceled = "canceled"
