"""Filters and results of searches."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.models.documents import DocFormat
from shoal.models.facets import Facet
from shoal.models.files import FilePlace
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.query_info import QueryInfo
from shoal.models.recordings import EvidenceBundle, Modality
from shoal.models.reefs import Label
from shoal.models.scores import MatchedTerm, NearestSentence, RerankInfo, RerankParts, Scores, SharedReef


class SearchMode(enum.StrEnum):
    """The signals that rank a search: words, reefs, vectors, or all that there are."""

    hybrid = "hybrid"
    reef = "reef"
    lexical = "lexical"
    dense = "dense"

    def uses(self, signal: str) -> bool:
        """Return whether the mode ranks by a signal: `lexical`, `reef` or `dense`."""
        return self is SearchMode.hybrid or self == signal


class Fusion(enum.StrEnum):
    """How a hybrid search combines its signals into one ranking."""

    blend = "blend"
    rrf = "rrf"


class Typos(enum.StrEnum):
    """What a search does with words that stand nowhere: `auto` searches for the nearest words, `off` does
    not."""

    auto = "auto"
    off = "off"


class Syntax(enum.StrEnum):
    """How a query is read: with the operators of the query language, or as plain text."""

    simple = "simple"
    plain = "plain"


class TextMode(enum.StrEnum):
    """What a result has of the text of its chunk."""

    full = "full"
    snippet = "snippet"
    none = "none"


class Expand(enum.StrEnum):
    """What a result brings besides itself: `time`, of a recording, the passages around it."""

    none = "none"
    time = "time"


class Synonyms(enum.StrEnum):
    """Whether a search uses the synonyms of the library."""

    on = "on"
    off = "off"


class Pins(enum.StrEnum):
    """Whether a search applies the pins of the library."""

    on = "on"
    off = "off"


class GroupBy(enum.StrEnum):
    """What a result is."""

    chunk = "chunk"
    document = "document"


class TagsMatch(enum.StrEnum):
    """Whether a document must have all tags of a filter or any of them."""

    all = "all"
    any = "any"


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
class ContextChunk:
    """A neighbour of a result, included on request."""

    chunk_id: int
    chunk_index: int
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


SortValue = str | float | bool | None
"""A value that results are sorted by; None if a document has none. Times are in ISO 8601."""


class FoldedResult(NamedTuple):
    """A near-duplicate that is folded under a result.

    `similarity`: the share of all runs of five words of both texts that are in both, 0..1.
    """

    chunk_id: int
    document_id: int
    document_title: str
    similarity: float


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
    requested. `rerank`: what reranking did to it; None if it was not reranked. `nearest_sentence`: of a
    result that the dense signal found, the sentence that is nearest to the query, with `include_scores`; None
    if there was no time for it, which a warning says. `sort_values`: what `sort` compares, in its order; None
    without `sort`. `text_span`: of a `text` that is only a part of the chunk's, or empty, [start, end) in the
    content of the document; else None. `folded`: the near-duplicates folded under it, best first; None
    without `fold_similar`. `pinned`: whether a pin of the library put it first (`QueryInfo.pins`), whatever
    its score. `further`: whether better passages of its document come before those of all others, so that
    this one comes after them (`max_per_document`), also with a higher score. `lacking`: what the query names
    and the chunk does not contain: identifiers, numbers, names, a negation. Its relevance is low then.
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
    rerank: RerankParts | None = None
    nearest_sentence: NearestSentence | None = None
    sort_values: tuple[SortValue, ...] | None = None
    text_span: tuple[int, int] | None = None
    folded: tuple[FoldedResult, ...] | None = None
    pinned: bool = False
    further: bool = False
    lacking: tuple[str, ...] = ()


class DocumentReef(NamedTuple):
    """A reef that is the first label of `n_chunks` passages of a document."""

    reef_id: int
    reef_name: str
    n_chunks: int


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """A document found by a search with `group_by="document"`.

    match_score    that of its best passage, `best_chunk_id`, whose `scores` explain it; so is `relevance`
    n_matches      its passages that are results
    reefs          what it is about: the first labels of most of its passages
    passages       the best first, then the others in order of their scores, `max_per_document` in all
    folded         documents whose best passage is a near-duplicate of this one's; None without `fold_similar`
    pinned         whether a pin put its first passage, and so the document, first
    """

    document_id: int
    document_title: str
    source_path: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    match_score: float
    relevance: float
    best_chunk_id: int
    n_matches: int
    reefs: tuple[DocumentReef, ...]
    passages: tuple[SearchResult, ...]
    folded: tuple[FoldedResult, ...] | None = None
    sort_values: tuple[SortValue, ...] | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """The response to a search. `weights` add up to 1, or are 0 if there was nothing to search for.

    `rerank` says what reordered the first results; None if nothing on the page was to be reranked. `facets`:
    those that were asked for, in their order; None without any. `now`: the moment from which a decay counts
    the age of documents, ISO 8601; None without a decay. `documents`: the results of a search with
    `group_by="document"`, whose `results` are empty; None otherwise. `next_cursor`: the cursor of the next
    page; None on the last, and always with `group_by="document"` or `fold_similar`. `has_more`: whether
    results follow those of the page; the next page of these is at the `offset` after it. `tokens`: what the
    texts cost of `max_tokens`; `prompt`: the results as numbered passages; both on request.

    `total`: the passages that match and meet the filters, on all pages together. It is exact, and does not
    depend on the page, `max_per_document`, `fold_similar` and `min_relevance`. `total_documents`: their
    documents, with `group_by="document"`; None otherwise.
    """

    results: Sequence[SearchResult]
    query_info: QueryInfo
    trace_id: str
    took_ms: float
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    rerank: RerankInfo | None = None
    facets: tuple[Facet, ...] | None = None
    now: str | None = None
    next_cursor: str | None = None
    has_more: bool = False
    tokens: TokenUse | None = None
    prompt: Prompt | None = None
    documents: Sequence[DocumentResult] | None = None
    total: int = 0
    total_documents: int | None = None
