"""What is known of queries: how one was read, suggestions while somebody types, and the log of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from shoal.models.described import Time

MAX_QUERY_CHARS = 200
"""Longest beginning of a query that is completed."""
MAX_SUGGESTIONS = 20
SUGGESTIONS = 8
"""Suggestions that are returned by default."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A query that may be meant."""

    text: Annotated[str, "plain text, in one line; escape it before it becomes part of a page"]
    kind: Annotated[
        str,
        "`title` of a document, `heading`, `learned` word, `compound` of the dictionary or a learned one, "
        "frequent `query` of the log, or `word`: the query with its last word completed",
    ]
    n: Annotated[
        int,
        "passages of the document, documents with the heading or learned word, passages with the compound, "
        "searches for the query, or passages with the word",
    ]


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Suggestions for the beginning of a query."""

    suggestions: Annotated[Sequence[Suggestion], "best first"]


@dataclass(frozen=True, slots=True)
class QueryReef:
    """A reef of a query."""

    reef_id: int
    reef_name: str
    z_score: Annotated[float, "z-score in the profile used for ranking"]
    own_z: Annotated[
        float, "the part from the query's own words; the rest comes from pseudo-relevance feedback"
    ] = 0.0


@dataclass(frozen=True, slots=True)
class FeedbackChunk:
    """A chunk that matches the words of a query best, so that its profile is added to that of the query
    (pseudo-relevance feedback)."""

    chunk_id: int
    document_id: int
    document_title: str
    share: Annotated[float, "its share of the feedback; the shares sum to 1"]


@dataclass(frozen=True, slots=True)
class NearWord:
    """A word of the library that is searched for in place of a word of the query, or beside it."""

    typed: Annotated[str, "the word of the query"]
    word: Annotated[str, "the word of the library"]
    kind: Annotated[str, "`typo`: the typed word stands nowhere; `prefix`: it begins the word"]
    edits: Annotated[int, "letters added, deleted, replaced, and neighbours swapped"]
    weight: Annotated[float, "factor of the BM25 of the word, 0 to 1; of a typed word 1"]
    n_chunks: Annotated[int, "chunks that contain the word"]
    replaces: Annotated[bool, "whether it takes the place of the typed word, or only adds to the score"]


@dataclass(frozen=True, slots=True)
class UsedSynonym:
    """A word or phrase that is searched for as a synonym of words of the query."""

    typed: Annotated[str, "these words"]
    synonym: Annotated[str, "the word or phrase"]
    synonym_id: Annotated[int, "the entry that says so"]
    n_chunks: Annotated[int, "number of chunks that hold it"]


@dataclass(frozen=True, slots=True)
class UsedTranslation:
    """A word or phrase of another language that is searched for as words of the query."""

    typed: Annotated[str, "these words"]
    word: Annotated[str, "the word or phrase, in small letters without diacritics"]
    language: Annotated[str, "its language, a code of ISO 639-1"]
    n_chunks: Annotated[int, "number of chunks that hold it"]


@dataclass(frozen=True, slots=True)
class UsedPin:
    """A pin for the words of a query."""

    pin_id: Annotated[int, "id of the pin"]
    query: Annotated[str, "the words that it is for"]
    match: Annotated[str, "`exact` or `contains`"]
    n_pinned: Annotated[int, "documents and passages that it puts first, unless filters keep them out"]
    n_hidden: Annotated[int, "documents and passages that it hides"]


@dataclass(frozen=True, slots=True)
class ExcludedTerm:
    """A word or phrase that the query excludes."""

    term: Annotated[str, "as typed, without the minus"]
    n_removed: Annotated[int, "passages that the query finds and the filters leave, and that have it"]


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """The profile and the words of a query. The profile is the one used for ranking, which includes
    `feedback`."""

    top_reef: Annotated[
        str | None, "name of the strongest reef; null without any word that the topic model knows"
    ]
    confidence: Annotated[float, "z-score of the first of `top_reefs` minus that of the second"]
    coverage: float
    top_reefs: Annotated[
        tuple[QueryReef, ...], "the ten strongest reefs; their `z_score` is `query_z` in `shared_reefs`"
    ]
    unknown_words: Annotated[tuple[str, ...], "words that the topic model does not know"]
    missing_terms: Annotated[
        tuple[str, ...], "words and phrases of the query that no chunk of the library holds"
    ] = ()
    feedback: Annotated[
        tuple[FeedbackChunk, ...],
        "chunks used for pseudo-relevance feedback: the best matches of the query's words, whose profiles "
        "are added to the query's, best first",
    ] = ()
    near_words: Annotated[
        tuple[NearWord, ...], "words of the library that typing errors or the last word were taken for"
    ] = ()
    synonyms: Annotated[
        tuple[UsedSynonym, ...], "words and phrases that were searched for as synonyms of words of the query"
    ] = ()
    translations: Annotated[
        tuple[UsedTranslation, ...],
        "with `languages`: words of other languages that were searched for as words of the query",
    ] = ()
    pins: Annotated[tuple[UsedPin, ...], "pins that apply to the results, first those that come first"] = ()
    excluded: Annotated[tuple[ExcludedTerm, ...], "words and phrases that a minus left out"] = ()


CLICKS_OF_GRADES = ((10, 3), (3, 2), (1, 1))
"""Fewest clicks of a grade, as (clicks, grade)."""
_FEWEST = {grade: fewest for fewest, grade in CLICKS_OF_GRADES}
MAX_FREQUENT = 1_000
"""Most frequent queries of a list."""
MAX_PREFIX_CHARS = 200


@dataclass(frozen=True, slots=True)
class QueryClick:
    """A result that somebody opened."""

    document_id: Annotated[int, "the document that was opened"]
    chunk_id: Annotated[int | None, "null: the document as a whole"]
    rank: Annotated[int | None, "from 1; null beyond the logged results"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A search."""

    trace_id: Annotated[str, "of the search"]
    query: Annotated[str, "as it was sent"]
    arguments: Annotated[Mapping[str, Any], "those that differ from the defaults, long values cut"]
    n_results: Annotated[int, "results on the page"]
    best_relevance: Annotated[float | None, "of the most relevant result; null without"]
    took_ms: Annotated[float, "time of the search, milliseconds"]
    results: Annotated[
        tuple[tuple[int, int], ...],
        "[chunk, document] of the first 100 results, of each passage if they are documents",
    ]
    clicks: Annotated[tuple[QueryClick, ...], "results that were opened"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class LoggedQueryPage:
    """A page of logged queries."""

    queries: Annotated[tuple[LoggedQuery, ...], "a page, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class FrequentQuery:
    """A query and how often it was searched, without regard to case and spaces."""

    query: Annotated[str, "one of its spellings"]
    n_searches: Annotated[int, "how often it was searched"]
    n_empty: Annotated[int, "of them, without results"]
    n_clicks: Annotated[int, "clicks on its results"]
    last_at: Annotated[Time, "the last search, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class FrequentQueries:
    """Frequent queries."""

    queries: Annotated[tuple[FrequentQuery, ...], "most frequent first"]


@dataclass(frozen=True, slots=True)
class ClickedQuery:
    """A query and the documents that were clicked for it."""

    query: Annotated[str, "one of its spellings"]
    relevant: Annotated[
        Mapping[str, int],
        f"grade by source path, or by title: 1, 2 from {_FEWEST[2]} clicks and 3 from {_FEWEST[3]}",
    ]


@dataclass(frozen=True, slots=True)
class ClickedQueries:
    """Judged queries made from clicks."""

    queries: Annotated[tuple[ClickedQuery, ...], "at most 10,000, by text"]


@dataclass(frozen=True, slots=True)
class ClearedQueries:
    """What a deletion of the query log did."""

    n_deleted: Annotated[int, "queries that were deleted"]
