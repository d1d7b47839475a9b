"""Filters and results of searches."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from shoal.models.described import Presence
from shoal.models.facets import Facet
from shoal.models.files import FilePlace
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.queries import QueryInfo
from shoal.models.reasons import Reasons
from shoal.models.recordings import EvidenceBundle, Modality
from shoal.models.scores import (
    MatchedTerm,
    NearestSentence,
    Relevance,
    RerankInfo,
    RerankParts,
    Scores,
    SharedReef,
    TermCoverage,
)
from shoal.models.vocabulary import Label

UNITS = ("chunk", "note")
"""What a search finds: passages, and notes."""
MAX_NAMES = 100
"""Most names of fields that select those of results."""


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
    parent = "parent"
    """A document with those that are attached to it, such as a mail with its attachments."""


class TagsMatch(enum.StrEnum):
    """Whether a document must have all tags of a filter or any of them."""

    all = "all"
    any = "any"


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
    """A near-duplicate that is folded under a result."""

    chunk_id: int
    document_id: int
    document_title: str
    similarity: Annotated[float, "share of all runs of five words of both texts that are in both, 0 to 1"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A chunk found by a search, with its citation and scores.

    `relevance` is calibrated as if half of all queries had an answer. It does not depend on the mode; only a
    query without terms, or without reefs, is judged by the other evidence alone.
    """

    text: str
    match_score: Annotated[
        float,
        "score by which results are ranked, relative to the best match in the library; it can be high for a "
        "query that nothing answers, which `relevance` shows",
    ]
    relevance: Relevance
    n_shared_reefs: int
    document_id: int
    document_title: str
    source_path: str | None
    chunk_id: int
    chunk_index: int
    start_char: Annotated[int, "offset in the document's content, in code points"]
    end_char: int
    start_line: Annotated[int, "from 1"]
    end_line: Annotated[int, "inclusive"]
    section_path: tuple[str, ...]
    confidence: Annotated[float, "z-score of the strongest reef minus that of the second"]
    coverage: Annotated[float, "share of the words that the topic model knows, 0 to 1"]
    top_reef_name: str | None
    labels: tuple[Label, ...]
    awaits_rescore: bool
    tags: tuple[str, ...]
    highlights: Annotated[
        tuple[tuple[int, int], ...], "[start, end) of the query's words in `text`, code points"
    ]
    scores: Scores
    provenance: Annotated[tuple[str, ...], "signals that matched it: `lexical`, `reef`, `dense`"]
    why: Annotated[
        str,
        "why it is a result, in one sentence: what query and passage share, words of the passage between "
        "asterisks",
    ]
    reasons: Reasons
    shared_reefs: Annotated[tuple[SharedReef, ...] | None, "with `include_scores`", Presence.IF_SET] = None
    matched_terms: Annotated[tuple[MatchedTerm, ...] | None, "with `include_scores`", Presence.IF_SET] = None
    term_coverage: TermCoverage = None
    before: Annotated[tuple[ContextChunk, ...], "with `context`", Presence.ON_REQUEST] = ()
    after: Annotated[tuple[ContextChunk, ...], "with `context`", Presence.ON_REQUEST] = ()
    metadata: Annotated[
        Mapping[str, Any], "of the document: as it was uploaded, with what its file says of itself"
    ] = field(default_factory=dict)
    place: FilePlace | None = None
    modality: Modality = Modality.text
    time_start: str | None = None
    time_end: str | None = None
    evidence: Annotated[
        EvidenceBundle | None, "with `expand=time`; null for a passage without times", Presence.ON_REQUEST
    ] = None
    rerank: Annotated[RerankParts | None, "of a reranked result", Presence.IF_SET] = None
    nearest_sentence: Annotated[
        NearestSentence | None,
        "with `include_scores`, of a result that the dense signal matched",
        Presence.ON_REQUEST,
    ] = None
    sort_values: Annotated[
        tuple[SortValue, ...] | None,
        "with `sort`: what it compares; null where there is no value",
        Presence.IF_SET,
    ] = None
    text_span: Annotated[
        tuple[int, int] | None,
        "[start, end) of `text` in the document, if it is a part of the passage",
        Presence.IF_SET,
    ] = None
    folded: Annotated[tuple[FoldedResult, ...] | None, "with `fold_similar`, best first", Presence.IF_SET] = (
        None
    )
    pinned: Annotated[
        bool, "whether a pin of the library put it first, whatever its score (`query_info.pins`)"
    ] = False
    further: Annotated[
        bool,
        "whether better passages of its document come before those of all others, so that this one comes "
        "after them, also with a higher score: see `max_per_document`",
    ] = False
    lacking: Annotated[
        tuple[str, ...],
        "what the query names and the passage does not contain: identifiers, numbers, names, a negation; "
        "`relevance` is low then",
    ] = ()


class DocumentReef(NamedTuple):
    """A reef that passages of a document have as their first label."""

    reef_id: int
    reef_name: str
    n_chunks: Annotated[int, "passages of the document whose first label it is"]


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """A document found by a search with `group_by` document, or one with its attachments with `parent`."""

    document_id: int
    document_title: str
    source_path: str | None
    tags: tuple[str, ...]
    metadata: Annotated[
        Mapping[str, Any], "of the document: as it was uploaded, with what its file says of itself"
    ]
    match_score: Annotated[float, "that of its best passage, whose `scores` explain it"]
    relevance: Annotated[float, "of its best passage"]
    best_chunk_id: Annotated[int, "its best passage"]
    n_matches: Annotated[int, "its passages that are results"]
    reefs: Annotated[tuple[DocumentReef, ...], "what it is about"]
    passages: Annotated[tuple[SearchResult, ...], "the best first, then the others in order of their scores"]
    folded: Annotated[
        tuple[FoldedResult, ...] | None,
        "with `fold_similar`: documents whose best passage says nearly the same",
        Presence.IF_SET,
    ] = None
    sort_values: Annotated[tuple[SortValue, ...] | None, "with `sort`", Presence.IF_SET] = None
    pinned: Annotated[
        bool, "whether a pin of the library put it first, whatever its score (`query_info.pins`)"
    ] = False


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """The response to a search. `weights` add up to 1, or are 0 if there was nothing to search for."""

    results: Annotated[
        Sequence[SearchResult], "best first: passages, and with the unit `note` also notes, which have `note`"
    ]
    query_info: QueryInfo
    trace_id: str
    took_ms: float
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    rerank: Annotated[RerankInfo | None, "of a page with results to rerank", Presence.IF_SET] = None
    facets: Annotated[
        tuple[Facet, ...] | None,
        "with `facets`, in their order: counts over the results of all pages",
        Presence.IF_SET,
    ] = None
    now: Annotated[
        str | None,
        "with `decay`: the moment from which ages count; give it for the next page",
        Presence.IF_SET,
    ] = None
    next_cursor: Annotated[
        str | None,
        "cursor of the next page; null on the last, and always with `group_by` or `fold_similar`, whose "
        "pages begin at an `offset`. Not in searches with notes",
        Presence.ON_REQUEST,
    ] = None
    has_more: Annotated[
        bool, "whether results follow those of this page. Not in searches with notes", Presence.ON_REQUEST
    ] = False
    tokens: Annotated[TokenUse | None, "with `max_tokens`", Presence.IF_SET] = None
    prompt: Annotated[Prompt | None, "with `prompt`; null without results", Presence.ON_REQUEST] = None
    documents: Annotated[
        Sequence[DocumentResult] | None,
        "with `group_by` document or parent, best first; `results` are then empty",
        Presence.IF_SET,
    ] = None
    total: Annotated[
        int,
        "passages, and with the unit `note` also notes, that match and meet the filters, on all pages "
        "together. It is exact, and does not depend on the page, `max_per_document`, `fold_similar` and "
        "`min_relevance`",
    ] = 0
    total_documents: Annotated[int | None, "with `group_by`: their documents", Presence.IF_SET] = None
