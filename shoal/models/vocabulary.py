"""Learned words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple


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
    n_occurrences: Annotated[int, "number of occurrences when it was learned"]
    n_documents: Annotated[int, "number of documents it was learned from"]
    specificity: Annotated[int, "-2 (in many reefs) to 2 (in few reefs)"]
    from_version: Annotated[int, "vocabulary version that last changed it"]
    reefs: Annotated[tuple[Association, ...], "strongest first"]
    evidence: Annotated[WordEvidence, "the evidence stored now"]


@dataclass(frozen=True, slots=True)
class WordPage:
    """One page of learned words."""

    words: Annotated[tuple[LearnedWord, ...], "a page of words, most frequent first"]
    total: int
    vocabulary_version: int
    warnings: tuple[str, ...] = ()
