"""The scores of a result and the evidence for them: shared reefs, matched terms, reranking."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


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


class FieldBoostParts(NamedTuple):
    """What the fields of a chunk add to its field boost, 0..1 each: its title, its headings, the tags of its
    document."""

    title: float
    heading_path: float
    tag_overlap: float


class BoostPart(NamedTuple):
    """A boost of the request: what it adds to the score of a result.

    filter   its filter as an expression
    weight   that of the request
    value    the weight if the result meets the filter, else 0
    """

    filter: str
    weight: float
    value: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a result by signal; None for a signal that the search does not use.

    `lexical`, `reef`, `field_boost` and `dense` are 0..1: relative to the best in the library for this query,
    or by rank if the fusion is `rrf`. Multiplied by their weights (`SearchResponse.weights`), they add up to
    the `final` score of a hybrid search. Results are ordered by `final`. `lexical_raw` is BM25, `reef_raw`
    the overlap of the profiles, `dense_raw` the cosine of the vectors of query and chunk, 0..1. A chunk
    without a vector has None there, and `dense` is estimated from its other signals.

    `field_boost_parts`, on request, add up to `field_boost`. `decay` and the values of `boosts` are what the
    decay and the boosts of the request add to the `final` score; None without them. `exact_name` and
    `identifiers` are what is added to it, also in a lexical search, because the title, a heading or the file
    name is the query, and because the chunk has all identifiers and numbers of the query; else 0.
    """

    final: float
    reef: float | None = None
    lexical: float | None = None
    field_boost: float = 0.0
    reef_raw: float | None = None
    lexical_raw: float | None = None
    field_boost_parts: FieldBoostParts | None = None
    dense: float | None = None
    dense_raw: float | None = None
    decay: float | None = None
    boosts: tuple[BoostPart, ...] | None = None
    exact_name: float = 0.0
    identifiers: float = 0.0


class NearestSentence(NamedTuple):
    """The sentence of a chunk whose vector is nearest to that of the query.

    `start`, `end`: its place in the text of the chunk, in code points; `similarity`: the cosine, -1..1;
    `description`: the same in words.
    """

    start: int
    end: int
    similarity: float
    description: str


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A word, phrase or `title:` term of the query that a chunk contains.

    `places`: `title`, `headings`, `text`, or `tag` if it is a tag of the document. `same_stem`: the other
    words that match only by their stem, such as "experience" for "experiments", if title, headings and text
    have no form of the term itself; else None. `synonyms`: the synonyms of the term that the chunk contains.
    """

    term: str
    places: tuple[str, ...]
    same_stem: str | None = None
    synonyms: tuple[str, ...] = ()


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
class RerankParts:
    """What reranking did to a result.

    blend_rank       its rank by `match_score`, from 1
    similarity       cosine similarity of query and passage by the encoder, 0..1 (negative ones are 0); with a
                     cross-encoder, its score
    score            orders the reranked results, 0..1: `blend_part` + `similarity_part`
    blend_part       half of `match_score` relative to the best of the reranked results
    similarity_part  half of `similarity` relative to the largest of them
    """

    blend_rank: int
    similarity: float
    score: float
    blend_part: float
    similarity_part: float


class RerankFallback(enum.StrEnum):
    """Why results that were to be reranked have the order of the blend."""

    no_encoder = "no_encoder"
    late = "late"
    unavailable = "unavailable"
    failed = "failed"


@dataclass(frozen=True, slots=True)
class RerankInfo:
    """What reranked the first results of a search.

    `name` and `revision` are those of the encoder or cross-encoder; empty after a fallback. `n`: results that
    it read, counted from rank 1; `ms`: milliseconds. `fallback`: why the results kept the order of the blend;
    None if they were reranked.
    """

    name: str
    revision: str
    n: int
    ms: float
    fallback: RerankFallback | None = None
