"""The scores of a result and the evidence for them: shared reefs, matched terms, reranking.

The reasons of a result are those that can be shown, with the sentence that they make.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

Relevance = Annotated[
    float,
    "calibrated probability that it answers the query, 0 to 1, from its words and reefs. Comparable between "
    "queries, and the same in every mode",
]
TermCoverage = Annotated[
    float | None,
    "share of the query's words and phrases that it holds in text, headings or title, weighted by their "
    "rarity in the library, 0 to 1. Comparable between queries, unlike `match_score`. Null for a query of "
    "common words only",
]


@dataclass(frozen=True, slots=True)
class SharedReef:
    """A reef that the query and a chunk share (`shoal.search.why`)."""

    reef_id: int
    reef_name: str
    chunk_z: Annotated[float, "how far the reef stands out in the chunk"]
    query_z: Annotated[float, "how far it stands out in the query"]
    share: Annotated[float, "its share of `match_score`; 0 in mode `lexical`"] = 0.0
    probability: Annotated[float, "that a person would accept the reef as a reason, 0..1"] = 0.0
    is_reason: Annotated[bool, "whether it is a reason; the others are background"] = False
    query_words: Annotated[
        tuple[str, ...], "words of the query that show the reef, of a reason; else empty"
    ] = ()
    passage_words: Annotated[
        tuple[str, ...], "words of the passage that show the reef, of a reason; else empty"
    ] = ()


class FieldBoostParts(NamedTuple):
    """What each field of a chunk or note adds to its field boost, 0..1. A term counts once, for the first
    field that has it: of a note, title, domain and tags."""

    title: Annotated[float, "words in the title"]
    heading_path: Annotated[float, "words in the headings"]
    tag_overlap: Annotated[float, "words that are tags"]
    domain_match: Annotated[float, "of a note: words in its domain"] = 0.0
    pinned: Annotated[float, "of a note with a pin that counts everywhere: the rest of 1"] = 0.0


class BoostPart(NamedTuple):
    """What a boost of the request adds to the score of a result."""

    filter: Annotated[str, "the filter as an expression"]
    weight: Annotated[float, "that of the request"]
    value: Annotated[float, "the weight if the result meets the filter, else 0"]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a result by signal; None for a signal that the search does not use.

    `lexical`, `reef`, `field_boost` and `dense` are relative to the best in the library for this query, or by
    rank if the fusion is `rrf`. Multiplied by their weights (`SearchResponse.weights`), they add up to the
    `final` score of a hybrid search, with what the other fields say that they add.
    """

    final: Annotated[float, "score by which results are ranked, as `match_score`"]
    reef: Annotated[float | None, "0 to 1; null in mode `lexical`"] = None
    lexical: Annotated[float | None, "0 to 1; null in mode `reef`"] = None
    field_boost: Annotated[float, "0 to 1: share of the query's terms in title, headings and tags"] = 0.0
    reef_raw: Annotated[float | None, "overlap of the profiles; null in mode `lexical`"] = None
    lexical_raw: Annotated[float | None, "BM25; null in mode `reef`"] = None
    field_boost_parts: Annotated[
        FieldBoostParts | None, "the parts of `field_boost`; null without `include_scores`"
    ] = None
    dense: Annotated[
        float | None,
        "0 to 1; of a chunk without a vector, estimated from its other scores; null if no vectors are used",
    ] = None
    dense_raw: Annotated[
        float | None, "cosine of the vectors of query and chunk; null for a chunk without one"
    ] = None
    decay: Annotated[float | None, "added by `decay`; null without"] = None
    boosts: Annotated[tuple[BoostPart, ...] | None, "added by `boosts`, in their order; null without"] = None
    exact_name: Annotated[
        float, "added because the title, a heading or the file name is the query; else 0"
    ] = 0.0
    identifiers: Annotated[
        float, "added because the passage has all identifiers and numbers of the query; else 0"
    ] = 0.0


class NearestSentence(NamedTuple):
    """The sentence of a chunk whose vector is nearest to that of the query."""

    start: Annotated[int, "in `text` of the chunk, in code points"]
    end: Annotated[int, "exclusive"]
    similarity: Annotated[float, "cosine of both vectors"]
    description: Annotated[str, "the same in words"]


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A word, phrase or `title:` term of the query that a chunk contains."""

    term: Annotated[str, "as it was typed"]
    places: Annotated[
        tuple[str, ...], "`title`, `headings`, `text`, `tag`; all but `text` count for `field_boost`"
    ]
    same_stem: Annotated[
        str | None,
        "other words that match by their stem alone, such as `experience` for `experiments`; null if a form "
        "of the term itself matches",
    ] = None
    synonyms: Annotated[tuple[str, ...], "synonyms of the term that the chunk holds"] = ()
    translations: Annotated[
        tuple[str, ...],
        "words of other languages for the term that the chunk holds: `rain` for βροχή; a word for several "
        "words of the query names them: `guinea pig → cobaye`",
    ] = ()


class RelevancePart(NamedTuple):
    """What one piece of evidence adds to the log odds of a relevance."""

    name: Annotated[str, "start, term_coverage, adjacent_terms, reef_similarity or must_match"]
    value: Annotated[float, "0 to 1; 1 for `start`"]
    contribution: Annotated[float, "the contributions add up to ln(relevance / (1 - relevance))"]
    description: Annotated[str, "the value in words"]


@dataclass(frozen=True, slots=True)
class RerankParts:
    """What reranking did to a result."""

    blend_rank: Annotated[int, "its rank by `match_score`, from 1"]
    similarity: Annotated[
        float,
        "cosine similarity of query and passage by the encoder, 0 to 1; with a cross-encoder, its score",
    ]
    score: Annotated[float, "orders the reranked results, 0 to 1; the sum of both parts"]
    blend_part: Annotated[float, "half of `match_score` relative to the best of the reranked results"]
    similarity_part: Annotated[float, "half of `similarity` relative to the largest of them"]


class RerankFallback(enum.StrEnum):
    """Why results that were to be reranked have the order of the blend."""

    no_encoder = "no_encoder"
    late = "late"
    unavailable = "unavailable"
    failed = "failed"


@dataclass(frozen=True, slots=True)
class RerankInfo:
    """What reranked the first results of a search."""

    name: Annotated[str, "of the encoder or cross-encoder; empty after a fallback"]
    revision: Annotated[str, "of the model; empty after a fallback"]
    n: Annotated[int, "results that it read, counted from rank 1"]
    ms: Annotated[float, "milliseconds"]
    fallback: Annotated[
        RerankFallback | None, "why the results kept the order of the blend; null if they were reranked"
    ] = None


class ReasonKind(enum.StrEnum):
    """What query and passage have in common."""

    name = "name"
    code = "code"
    phrase = "phrase"
    rare_word = "rare_word"
    word = "word"
    heading = "heading"
    tag = "tag"
    topic = "topic"
    learned = "learned"
    related_words = "related_words"
    meaning = "meaning"
    around = "around"
    feedback = "feedback"
    background = "background"
    pin = "pin"


QUOTED = frozenset((ReasonKind.phrase, ReasonKind.rare_word, ReasonKind.word, ReasonKind.heading))
"""Kinds whose items are words as the passage writes them."""
JOINED_BY_AND = QUOTED | {ReasonKind.name, ReasonKind.code, ReasonKind.tag}


class Reason(NamedTuple):
    """A reason of a result: `lead` and `items` read as a part of a sentence."""

    kind: Annotated[
        ReasonKind,
        "`name`, `code`, `phrase`, `rare_word` and `word` are in the text of the passage, `heading` in its "
        "title, headings or path; a `phrase` has several words side by side; `topic` is a label of query and "
        "passage; `learned` the same, by learned words alone; `related_words` are pairs of a word of the "
        "query and one of the passage",
    ]
    lead: Annotated[str, "what is said of the items, such as `holds`"]
    items: Annotated[tuple[str, ...], "names, words as the passage has them, or topics"] = ()


Reasons = Annotated[tuple[Reason, ...], "the parts of `why`, the surest first"]


def sentence_of(reasons: Iterable[Reason]) -> str:
    """Return the reasons as one sentence, with words of the passage between asterisks."""
    return "".join(f"*{text}*" if is_quoted else text for text, is_quoted in pieces_of(reasons))


def pieces_of(reasons: Iterable[Reason]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the sentence of some reasons, and whether each is a word of the passage."""
    for number, (kind, lead, items) in enumerate(reasons):
        yield f"; {lead}" if number else lead, False
        # Names of topics have an "and" of their own.
        last_joint = " and " if kind in JOINED_BY_AND else ", "
        for place, item in enumerate(items):
            yield " " if not place else last_joint if place == len(items) - 1 else ", ", False
            yield item, kind in QUOTED
