"""What a search made of its query: its profile, its words, and what the library adds to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


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
    pins: Annotated[tuple[UsedPin, ...], "pins that apply to the results, first those that come first"] = ()
    excluded: Annotated[tuple[ExcludedTerm, ...], "words and phrases that a minus left out"] = ()
