"""Explanations of a query and of the rank of a passage."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from shoal.models.queries import FeedbackChunk, QueryInfo, QueryReef
from shoal.models.scores import (
    MatchedTerm,
    NearestSentence,
    Reasons,
    Relevance,
    RelevancePart,
    RerankInfo,
    RerankParts,
    Scores,
    SharedReef,
    TermCoverage,
)
from shoal.models.search import SortValue
from shoal.models.vocabulary import LearnedWord

LEARNED = "learned"
WORD_STATUSES = ("known", LEARNED, "unknown", "stop", "number")

Why = Annotated[str, "why it is a result, as in a search; empty if nothing found it"]

MAX_LOOKED_UP = 64
"""Different words of a query that are looked up in the library; without a limit, a query of a whole page
takes seconds."""


@dataclass(frozen=True, slots=True)
class WordReef:
    """The contribution of a word to a reef; comparable within one query."""

    reef_id: int
    reef_name: str
    contribution: Annotated[float, "contribution of the word to the reef"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query: `query[start_char:end_char] == text`."""

    text: Annotated[str, "the word as it was typed"]
    start_char: Annotated[int, "where it begins in the query, in code points"]
    end_char: Annotated[int, "where it ends, exclusive"]
    status: Annotated[str, "status in the topic model; `stop`: too common to carry meaning", WORD_STATUSES]
    word: Annotated[str | None, "form under which the topic model knows it"]
    reefs: Annotated[tuple[WordReef, ...], "its reefs, strongest first; none for a learned name"]
    learned: Annotated[LearnedWord | None, "details of a learned word; null for others"] = None
    n_chunks: Annotated[
        int | None,
        "number of chunks that hold it, in any inflection; null for stop words, and after the first "
        f"{MAX_LOOKED_UP} words",
    ] = None
    suggestions: Annotated[tuple[str, ...], "similar words of the library, for a word that is unknown"] = ()
    searched_as: Annotated[str | None, "the word that takes its place in the search, if any"] = None


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Why a chunk is not among the results."""

    reason: Annotated[
        str,
        "no match, no shared reef, no vector, not near, other data, filter, phrase, title, excluded, hidden, "
        "max_per_document, grouped, folded, top_k or min_relevance",
    ]
    message: Annotated[str, "the reason in words"]


@dataclass(frozen=True, slots=True)
class NearWordPart:
    """What a near word of the query adds to a chunk."""

    typed: Annotated[str, "the word of the query"]
    word: Annotated[str, "the word of the library"]
    lexical_raw: Annotated[float, "its part of `lexical_raw`, without pairs of neighbouring words"]


@dataclass(frozen=True, slots=True)
class Target:
    """The chunk that an explanation is about, or the best chunk of the document that it is about."""

    document_id: int
    document_title: str
    chunk_id: int
    rank: Annotated[int | None, "from 1, on whatever page"]
    score: Annotated[float, "score by which it is ranked; 0 without a match"]
    why: Why
    reasons: Reasons
    n_shared_reefs: int
    shared_reefs: tuple[SharedReef, ...]
    kept_out: Annotated[tuple[KeptOut, ...], "reasons why it is not among the results; empty if it is"]
    scores: Scores
    matched_terms: tuple[MatchedTerm, ...]
    would_rank: Annotated[
        int | None,
        "its rank in the same search without filters, phrases and exclusions if one of them kept it out, or "
        "without the limit per document",
    ]
    relevance: Relevance
    relevance_parts: Annotated[
        tuple[RelevancePart, ...], "what each piece of evidence adds to the log odds of `relevance`"
    ]
    term_coverage: TermCoverage = None
    rerank: Annotated[
        RerankParts | None, "what reranking did to it; `rank` is that afterwards. Null without"
    ] = None
    nearest_sentence: Annotated[
        NearestSentence | None, "if the dense signal was used and the chunk has a vector"
    ] = None
    near_words: Annotated[tuple[NearWordPart, ...], "what words that were not typed add to its BM25"] = ()
    sort_values: Annotated[tuple[SortValue, ...] | None, "null without `sort`"] = None
    pinned_by: Annotated[int | None, "the pin that put it first, whatever its score; null if none did"] = None


class WordChange(enum.StrEnum):
    """A change of one word, in any inflection."""

    query_without = "query_without"
    passage_without = "passage_without"
    query_with = "query_with"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What a change of one word would do to the rank of a chunk, found by running the search again."""

    change: Annotated[
        WordChange, "a word less in the query or in the text of the chunk, or one more in the query"
    ]
    word: Annotated[str, "as the query or the chunk has it"]
    rank: Annotated[int | None, "of the chunk then, from 1; null: no result"]
    first_chunk_id: Annotated[int | None, "the first result then; null without results"]
    first_document_title: Annotated[str | None, "the title of its document"]
    message: Annotated[str, "the same in words"]


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """The changes of one word that move a chunk, or give the search another first result.

    The search runs again for each: with other weights, feedback and best scores, and for a word less in the
    text with its other length, frequencies and reefs. Title, headings, labels, vectors and learned words stay
    as they are. Ranks are those of the blend, before results are folded or reranked. Of long queries and
    texts, the words are tried that add most to the score.
    """

    chunk_id: Annotated[int, "the chunk of `target`; without one, the first result"]
    document_title: str
    why: Why
    reasons: Reasons
    rank: Annotated[int | None, "of the chunk as it is, from 1; null: no result"]
    changes: Annotated[
        tuple[Counterfactual, ...], "those that bring a missing chunk onto the page, then the largest first"
    ]
    n_searches: Annotated[int, "searches that were run"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The analysis of a query."""

    query: Annotated[str, "as it was sent"]
    mode: Annotated[str, "which signals rank"]
    weights: Mapping[str, float]
    terms: Annotated[tuple[str, ...], "words and phrases used by the lexical signal"]
    required: Annotated[
        tuple[str, ...], "phrases and title words that a result must hold; ignored in mode `reef`"
    ]
    excluded: Annotated[tuple[str, ...], "words and phrases that no result may hold"]
    words: Annotated[tuple[Word, ...], "the words of the query, in order"]
    query_info: QueryInfo
    reefs: Annotated[
        tuple[QueryReef, ...],
        "the whole profile used for ranking, strongest first; `query_info` holds its beginning",
    ]
    feedback: Annotated[tuple[FeedbackChunk, ...], "as in `query_info`, closest first"]
    warnings: tuple[str, ...]
    target: Annotated[Target | None, "the chunk to explain, if requested"]
    trace_id: str
    took_ms: float
    rerank: Annotated[
        RerankInfo | None, "what reranked the results before the target's rank was found; else null"
    ] = None
    counterfactuals: Annotated[
        Counterfactuals | None,
        "changes of one word that would change the result; null in mode `dense` and without results",
    ] = None
