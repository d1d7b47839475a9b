"""What a search made of its query: its profile, its words, and what the library adds to them."""

from __future__ import annotations

from dataclasses import dataclass


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
class NearWord:
    """A word of the library that is searched for in place of, or beside, a word of the query.

    `kind` is `typo` if `typed` stands nowhere and is `edits` typing errors away from `word`, or `prefix` if
    it is the beginning of `word`. `weight`, 0..1, multiplies the BM25 of `word`; `n_chunks` contain it.
    `replaces`: whether it takes the place of `typed`, or only adds to the score by words.
    """

    typed: str
    word: str
    kind: str
    edits: int
    weight: float
    n_chunks: int
    replaces: bool


@dataclass(frozen=True, slots=True)
class UsedSynonym:
    """A word or phrase that is searched for as a synonym of words of the query.

    `typed`: these words; `synonym_id`: the entry that says so; `n_chunks`: how many chunks contain `synonym`.
    """

    typed: str
    synonym: str
    synonym_id: int
    n_chunks: int


@dataclass(frozen=True, slots=True)
class UsedPin:
    """A pin that is for the words of a query. `match` is `exact` or `contains`.

    `n_pinned`, `n_hidden`: documents and passages that it names; filters may keep them out anyway.
    """

    pin_id: int
    query: str
    match: str
    n_pinned: int
    n_hidden: int


@dataclass(frozen=True, slots=True)
class ExcludedTerm:
    """A word or phrase that the query excludes, as typed without the minus. `n_removed`: how many passages
    that the query finds and the filters leave have it, and so are no results."""

    term: str
    n_removed: int


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """The profile and the words of a query.

    `top_reefs` are the strongest reefs of the profile used for ranking, which includes `feedback`;
    `confidence` is the lead of the first reef over the second. `missing_terms` are the words and phrases, as
    typed, that are in no chunk, nor a synonym of them; `near_words` say what a typing error or the beginning
    of a word was taken for. `synonyms` are those that were searched for, too; `pins` are those that apply to
    the results, first those that come first. `excluded` is what a minus left out.
    """

    top_reef: str | None
    confidence: float
    coverage: float
    top_reefs: tuple[QueryReef, ...]
    unknown_words: tuple[str, ...]
    missing_terms: tuple[str, ...] = ()
    feedback: tuple[FeedbackChunk, ...] = ()
    near_words: tuple[NearWord, ...] = ()
    synonyms: tuple[UsedSynonym, ...] = ()
    pins: tuple[UsedPin, ...] = ()
    excluded: tuple[ExcludedTerm, ...] = ()
