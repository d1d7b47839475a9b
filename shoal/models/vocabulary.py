"""Reefs and islands, what a word means in them, and learned words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol


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
    """A reef of a chunk, as stored: `z_score` in steps of 0.004, `raw_bm25` of 0.1, `probability`
    (`lagoon.results`) of 0.005."""

    reef_id: int
    reef_name: str
    z_score: Annotated[float, "how far the reef stands out from ordinary text of this length"]
    raw_bm25: Annotated[float, "sum of the contributions of the chunk's words to the reef"]
    n_contributing_words: Annotated[int, "number of different words that contribute to it"]
    probability: float


class Label(NamedTuple):
    """A reef that a text is about: its probability is at least `SHOAL_LABEL_THRESHOLD`."""

    reef_id: int
    reef_name: str
    probability: float


class IslandScore(NamedTuple):
    """An island of a chunk. `aggregate_z`: the sum of the z-scores of its reefs in the chunk, over the square
    root of the number of the island's reefs, rounded to three digits."""

    island_id: int
    island_name: str
    aggregate_z: Annotated[float, "how far the island stands out, from its reefs together"]
    n_contributing_reefs: Annotated[int, "number of the chunk's reefs on the island"]


MEANINGS = {
    # Documents
    "document_id": "id of its document",
    "document_title": "title of that document",
    "source_path": "where the text comes from, as given in the upload; a label only",
    "content_hash": "SHA-256 of the content's UTF-8",
    "tags": "tags in alphabetical order",
    "n_bytes": "size of the content in UTF-8",
    "n_sentences": "number of sentences",
    "created_at": "when it was accepted, UTC in ISO 8601",
    "updated_at": "when it, its tags or its content were last changed, UTC in ISO 8601",
    # Chunks and where they are
    "chunk_id": "id of the chunk, for `GET /api/v1/chunks/{chunk_id}`",
    "chunk_index": "position of the chunk in its document, from 0",
    "section_index": "position of the section in its document, from 0",
    "section_path": "headings above it, outermost first",
    "text": "exactly `content[start_char:end_char]`",
    "start_char": "where it begins in the content, in code points",
    "end_char": "where it ends in the content, in code points, exclusive",
    "start_line": "its first line, from 1: in the content, or in the file if its place names lines",
    "end_line": "its last line, inclusive",
    "place": "where it is in the file that its document was converted from; null for a document sent as text",
    "modality": "how it comes to the reader",
    "time_start": "when it begins in its recording, HH:MM:SS; null for a passage without times",
    "time_end": "when it ends in its recording, HH:MM:SS; null for a passage without times",
    "sentence_count": "number of sentences",
    "confidence": "z-score of its strongest reef minus that of the second: how clearly it has one topic",
    "coverage": "share of its words that the topic model knows, 0 to 1",
    "matched_words": "number of words that the topic model knows",
    # Reefs
    "reef_id": "id of the reef, as in `GET /api/v1/reefs`",
    "reef_name": "name of the reef",
    "island_id": "id of the island, as in `GET /api/v1/reefs`",
    "island_name": "name of the island",
    "top_reef_id": "id of the first of `labels`; null without labels",
    "top_reef_name": "name of the first of `labels`; null without labels",
    "labels": "the reefs that it is about, most probable first: those with a `probability` of at least "
    "`SHOAL_LABEL_THRESHOLD`; empty without a clear subject, or until the rescore that it awaits",
    "awaits_rescore": "whether it was scored with other data of the topic model, so that labels may be "
    "missing until a rescore",
    "probability": "probability that a reader would say that it is about the reef, 0 to 1",
    "n_shared_reefs": "number of reefs shared with the query",
    "shared_reefs": "the reefs shared with the query: reasons first, most probable first, then the "
    "background, largest share of the score first",
    # Scores
    "scores": "score of each signal",
    "matched_terms": "words and phrases of the query that it holds, and where",
    "weights": "weight of each signal in the score",
    "query_info": "the analyzed query",
    # Pages
    "total": "on all pages",
    # Versions
    "vocabulary_version": "version of the vocabulary",
    "data_checksum": "checksum of the topic model's data used for scoring",
    # Responses
    "warnings": "warnings as text",
    "trace_id": "id of this request, as in the header `X-Trace-Id` and in the log",
    "took_ms": "duration in milliseconds",
    "links": "URLs of related resources",
    "self": "URL of this resource",
}


class WordUser(NamedTuple):
    """A document that uses a word; `n_occurrences` is None if its observations are not kept."""

    document_id: int
    title: Annotated[str, "title of the document"]
    n_chunks: Annotated[int, "number of chunks that hold the word"]
    n_occurrences: Annotated[int | None, "null where observations are not kept"]


@dataclass(frozen=True, slots=True)
class Association:
    """A reef of a learned word."""

    reef_id: int
    reef_name: Annotated[str | None, "null for a reef of other lagoon data"]
    strength: Annotated[float, "relative to the word's strongest reef, which has 1"]


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """Evidence of a word, regular plurals included."""

    n_occurrences: Annotated[int, "number of occurrences"]
    n_documents: Annotated[int, "number of documents that use it"]
    documents: Annotated[tuple[WordUser, ...], "the three documents that use it in most chunks"]


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound that a library has learned."""

    word: Annotated[str, "the words of a compound joined by spaces"]
    is_compound: Annotated[bool, "whether it has several words"]
    is_name: Annotated[bool, "whether the library writes it with a capital letter; a name is never a subject"]
    n_occurrences: Annotated[int, "number of occurrences when it was learned"]
    n_documents: Annotated[int, "number of documents it was learned from"]
    specificity: Annotated[int, "-2 (in many reefs) to 2 (in few reefs)"]
    from_version: Annotated[int, "vocabulary version that last changed it"]
    reefs: Annotated[tuple[Association, ...], "strongest first; none for a name"]
    evidence: Annotated[WordEvidence, "the evidence stored now"]


@dataclass(frozen=True, slots=True)
class WordPage:
    """One page of learned words."""

    words: Annotated[tuple[LearnedWord, ...], "a page of words, most frequent first"]
    total: int
    vocabulary_version: int
    warnings: tuple[str, ...] = ()
