"""Results of searches: passages, facets, batches, the form that many agents expect; and presets.

A preset is named weights of the signals of a hybrid search, built in or defined by a setting.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from shoal.errors import ShoalError
from shoal.models.described import Presence
from shoal.models.files import FilePlace
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.queries import QueryInfo
from shoal.models.recordings import EvidenceBundle, Modality
from shoal.models.scores import (
    MatchedTerm,
    NearestSentence,
    Reasons,
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
SortValue = str | float | bool | None
"""A value that results are sorted by; None if a document has none. Times are in ISO 8601."""
DEFAULT_TOP_K = 5
MAX_TOP_K = 50
MAX_SEARCHES = 100
"""Most searches of a batch."""
MAX_RESULTS = 2_000
"""Most results that the searches of a batch ask for together; each may ask for `SHOAL_MAX_TOP_K`."""
MAX_WEIGHT = 1_000_000
MIN_WEIGHT = 1e-6
"""Only the proportion of weights matters. Within these limits, their sums and quotients are finite."""
MAX_DEFINED = 32
RESERVED = frozenset({"lexical", "reef", "dense", "hybrid", "rrf", "blend"})
"""Names of modes and fusions, which `shoal evaluate --way` also takes."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
DEFAULT = "balanced"


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
    other_language: Annotated[
        str | None,
        "with `languages`, of a passage in another language than the query: its language",
        Presence.IF_SET,
    ] = None
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


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage. `metadata`: that of its document, with its place; `similarity`: its relevance, 0 to 1."""

    content: Annotated[str, "text of the passage"]
    metadata: Annotated[
        Mapping[str, Any],
        "that of the document, with `source` (source path, else title), `title`, `section`, `start_line`, "
        "`end_line`, `document_id`, `chunk_id`, `why` it is a result, and of a file `place`, of a PDF `page`",
    ]
    similarity: Annotated[float, "the `relevance` of a search: probability that it answers the query, 0 to 1"]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Passages, pinned ones first and then the most similar, and the same in words."""

    results: Annotated[tuple[Retrieved, ...], "best first"]
    query: Annotated[str, "as it was sent"]
    total_results: Annotated[int, "number of results"]
    message: Annotated[str, "what was found, in words"]
    results_summary: Annotated[
        str, "a line for each result: source, similarity, beginning; one counts weaker results"
    ]


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a field, or an interval."""

    value: Annotated[
        str | float | bool | None,
        "as it is stored, a long text shortened; of an interval its begin: a number, or a date such as "
        "`2026-01`",
    ]
    name: Annotated[str | None, "of a reef, island or archipelago, whose `value` is its id; else null"]
    count: Annotated[int, "documents with a result that has it"]
    n_chunks: Annotated[int, "results that have it"]
    filter: Annotated[str | None, "the condition for `filter` that selects it; null if none can"]
    is_selected: Annotated[bool, "whether `filter` selects it already"]


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field, most frequent first, equal ones in their order; intervals in ascending order."""

    field: Annotated[str, "as a filter names it"]
    interval: Annotated[str | float | None, "of a histogram: `day`, `week`, `month`, `year` or a number"]
    values: Annotated[Sequence[FacetValue], "at most as many as the limit"]
    n_values: Annotated[int, "different values, with those that are not listed"]
    n_other: Annotated[int, "sum of the counts of values that are not listed"]
    n_missing: Annotated[int, "documents without a value"]
    n_documents: Annotated[int, "documents counted: those that meet all filters but those on this field"]
    n_chunks: Annotated[int, "their results"]


@dataclass(frozen=True, slots=True)
class LibraryFacets:
    """The facets of a library, or of what meets a filter in it."""

    facets: Annotated[Sequence[Facet], "in the order of the request"]
    n_documents: Annotated[int, "documents with a passage that meets all filters"]
    n_chunks: Annotated[int, "passages that meet all filters"]
    took_ms: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer to one search of a batch. One of `response` and `error` is None.

    `index`: its place among the searches, from 0; `query`: as it was given, empty if it is not a text.
    """

    index: int
    query: str
    response: SearchResponse | None
    error: ShoalError | None = None


@dataclass(frozen=True, slots=True)
class FoundBy:
    """A search that found a fused result."""

    search: Annotated[int, "its index in `searches`, from 0"]
    query: Annotated[str, "its query"]
    rank: Annotated[int, "of the result in it, from 1"]
    match_score: Annotated[float, "of the result in it"]
    part: Annotated[float, "what it adds to `fused_score`"]


@dataclass(frozen=True, slots=True)
class FusedResult:
    """A result of a fused ranking. `result` is that of the search with the largest part."""

    fused_score: Annotated[float, "0 to 1, the sum of the parts"]
    found_by: Annotated[tuple[FoundBy, ...], "the searches that found it"]
    result: Annotated[SearchResult, "as of a search"]


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """The answers to the searches of a batch, in their order, from one snapshot of the library.

    `fused`: the fused ranking, if requested; the responses of the searches then have no results. `tokens` and
    `prompt` are of the fused results.
    """

    answers: Annotated[Sequence[BatchAnswer], "in the order of `searches`"]
    trace_id: str
    took_ms: float
    fused: Annotated[Sequence[FusedResult] | None, "best first, with `fused`", Presence.IF_SET] = None
    tokens: Annotated[TokenUse | None, "of `fused`, with `max_tokens`", Presence.IF_SET] = None
    prompt: Annotated[Prompt | None, "of `fused`, with `prompt`", Presence.ON_REQUEST] = None
    warnings: tuple[str, ...] = field(default=())


class Weights(NamedTuple):
    """The weight of each signal in a hybrid search. `dense` counts only where a library has vectors."""

    lexical: Annotated[float, "words, by BM25"]
    reef: Annotated[float, "shared reefs"]
    field_boost: Annotated[float, "words in title, headings and tags"]
    dense: Annotated[float, "nearness in meaning, by vectors"] = 0.0

    def normalized(self) -> Weights:
        """Return the weights scaled to add up to 1; all 0 if all are 0."""
        total = sum(self)
        return Weights(*(weight / total for weight in self)) if total else Weights(0.0, 0.0, 0.0)


class Preset(NamedTuple):
    """`is_adaptive`: whether the reef weight counts less for a query without a clear subject, and beside
    vectors (see `shoal.search.signals.choose_weights`). `vectors_take_from_reefs`: whether vectors get most
    of the reef weight, and none beside it. The weights of other presets count as they are."""

    weights: Weights
    is_adaptive: bool = False
    vectors_take_from_reefs: bool = False


BUILT_IN: Mapping[str, Preset] = MappingProxyType(
    {
        "balanced": Preset(Weights(lexical=0.475, reef=0.475, field_boost=0.05, dense=0.4), is_adaptive=True),
        "precise": Preset(Weights(lexical=0.75, reef=0.20, field_boost=0.05, dense=0.2), is_adaptive=True),
        "conceptual": Preset(Weights(lexical=0.20, reef=0.75, field_boost=0.05, dense=0.4), is_adaptive=True),
        "job_matching": Preset(
            Weights(lexical=0.55, reef=0.35, field_boost=0.10), vectors_take_from_reefs=True
        ),
        "corpus": Preset(Weights(lexical=0.35, reef=0.55, field_boost=0.10), vectors_take_from_reefs=True),
    }
)
"""The weights of `balanced` scored best on four collections (docs/search-quality.md), before the trust
factor, which lowers its reef weight by a third for a typical query. `precise` and `conceptual` favour one
signal. Their dense weights count beside the others, which add up to 1: on the same collections 0.4 was best
(benchmarks/dense_blend.py). The last two are fixed blends for matching requirements and for long-lived
writing: words, meaning and field boost have the same weights with and without vectors.
"""


def parse_presets(text: str) -> dict[str, Preset]:
    """Parse `NAME=LEXICAL,REEF,FIELD_BOOST` or `NAME=LEXICAL,REEF,FIELD_BOOST,DENSE`, separated by
    semicolons.

    Raises ValueError, which says what is wrong with the first invalid preset.
    """
    presets: dict[str, Preset] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, numbers = (piece.strip() for piece in part.partition("="))
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not a name: a lower-case letter, then at most 39 letters, digits, - and _"
            )
        if name in BUILT_IN or name in RESERVED or name in presets:
            raise ValueError(f"{name!r} is taken; choose another name")
        presets[name] = Preset(_parse_weights(name, numbers))
    if len(presets) > MAX_DEFINED:
        raise ValueError(f"must have at most {MAX_DEFINED} presets")
    return presets


def all_presets(defined: str) -> dict[str, Preset]:
    """Return the built-in presets and those that the setting `presets` defines, by name."""
    return {**BUILT_IN, **parse_presets(defined)}


def _parse_weights(name: str, text: str) -> Weights:
    try:
        weights = Weights(*map(float, text.split(",")))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be written as {name}=0.55,0.35,0.10: words, reefs, field boost, and if wanted a "
            "fourth number for vectors"
        ) from None
    if not all(math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT for weight in weights):
        raise ValueError(f"{name} must have weights between 0 and {MAX_WEIGHT:,}")
    if max(weights[:3]) < MIN_WEIGHT:
        raise ValueError(f"{name} must give at least one signal a weight above 0, besides that of vectors")
    return weights
