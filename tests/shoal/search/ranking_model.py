"""The ranking in plain Python: what `shoal.search.ranking` computes, defined chunk by chunk."""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Mapping, Sequence

from index_model import ModelChunk, ModelDocument, ModelIndex

from shoal.index.matching import IndexTerm
from shoal.index.scoring import BM25, OVERLAP_UNIT
from shoal.models.queries import QueryReef
from shoal.models.search import Fusion, SearchMode, Weights
from shoal.search.query_language import Term, parse_query
from shoal.search.ranking import Ranked
from shoal.search.signals import UNIT
from shoal.storage.database import Snapshot
from shoal.words.analysis import stems_of

PAIR_SHARE = 0.2
RRF_K = 60
TITLE = frozenset({"title"})
TEXT = frozenset({"text"})


class ModelRanking:
    """The rankings of the library of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.documents = read_documents(snapshot)
        self.index = ModelIndex(self.documents)
        self.document_of = {
            chunk.chunk_id: document.document_id for document in self.documents for chunk in document.chunks
        }
        self.frequencies = functools.cache(self.index.frequencies)
        self.tags: dict[int, set[str]] = {}
        for document_id, tag in snapshot.tuples("SELECT document_id, tag FROM document_tags"):
            self.tags.setdefault(document_id, set()).add(tag)

    def ranked(
        self,
        text: str,
        reefs: Sequence[QueryReef],
        *,
        mode: SearchMode,
        weights: Weights,
        fusion: Fusion = Fusion.blend,
    ) -> list[Ranked]:
        """All results, best first."""
        parsed = parse_query(text, max_words=64)
        by_words, by_reefs = mode.uses("lexical"), mode.uses("reef")
        lexical_raw = self.lexical(text) if by_words else {}
        shared = self.index.contributions({reef.reef_id: reef.z_score for reef in reefs}) if by_reefs else {}
        shared = {chunk_id: parts for chunk_id, parts in shared.items() if parts}
        reef_raw = {chunk_id: sum(parts.values()) for chunk_id, parts in shared.items()}
        lexical, reef = normalized(lexical_raw, fusion), normalized(reef_raw, fusion)
        boosts = self.field_boosts(parsed.terms) if mode is SearchMode.hybrid and weights.field_boost else {}
        found = []
        for chunk_id in sorted({*lexical_raw, *shared}):
            words, topic, boost = (part.get(chunk_id, 0.0) for part in (lexical, reef, boosts))
            lexical_score, overlap = (
                lexical_raw.get(chunk_id, 0) / UNIT,
                reef_raw.get(chunk_id, 0) / OVERLAP_UNIT,
            )
            score = {
                SearchMode.lexical: lexical_score,
                SearchMode.reef: overlap,
                SearchMode.hybrid: weights.lexical * words
                + weights.reef * topic
                + weights.field_boost * boost,
            }[mode]
            if score <= 0 or (by_words and not self.is_allowed(chunk_id, parsed.required, parsed.excluded)):
                continue
            if not by_words and any(self.contains(chunk_id, term) for term in parsed.excluded):
                continue
            found.append(
                Ranked(
                    chunk_id,
                    self.document_of[chunk_id],
                    score,
                    words,
                    topic,
                    boost,
                    lexical_score,
                    overlap,
                    len(shared.get(chunk_id, {})),
                )
            )
        return sorted(found, key=lambda ranked: (-ranked.score, ranked.chunk_id))

    def lexical(self, text: str) -> dict[int, int]:
        """The score of each chunk that contains a term of a query."""
        parsed = parse_query(text, max_words=64)
        totals: dict[int, int] = {}
        context: dict[int, int] = {}
        for term in parsed.terms:
            weight = math.sqrt(parsed.frequencies[term])
            add(totals, self.index.impacts(index_term(term), weight, BM25))
            add(context, self.index.block_impacts(index_term(term), weight, BM25))
        for pair in parsed.pairs:
            add(totals, self.index.impacts(IndexTerm(stems_of(pair.tokens), TEXT), PAIR_SHARE, BM25))
        return {chunk_id: total + context.get(chunk_id, 0) for chunk_id, total in totals.items()}

    def field_boosts(self, terms: Sequence[Term]) -> dict[int, float]:
        """The share of the terms in headings, title or tags, by chunk."""
        boosts = {}
        for chunk_id, document_id in self.document_of.items():
            tags = self.tags.get(document_id, set())
            n_placed = 0
            for term in terms:
                counts = self.frequencies(index_term(term)).get(chunk_id, {})
                is_placed = counts.get("headings", 0) > 0 or counts.get("title", 0) > 0
                n_placed += is_placed or (not term.in_title and term.text in tags)
            boosts[chunk_id] = n_placed / len(terms) if terms else 0.0
        return boosts

    def is_allowed(self, chunk_id: int, required: Sequence[Term], excluded: Sequence[Term]) -> bool:
        return all(self.contains(chunk_id, term) for term in required) and not any(
            self.contains(chunk_id, term) for term in excluded
        )

    def contains(self, chunk_id: int, term: Term) -> bool:
        return chunk_id in self.frequencies(index_term(term))


def read_documents(snapshot: Snapshot) -> list[ModelDocument]:
    """The documents of a library, from their rows."""
    documents = []
    for document_id, title in list(snapshot.tuples("SELECT id, title FROM documents ORDER BY id")):
        key = {"id": document_id}
        sections = snapshot.tuples("SELECT id, path FROM sections WHERE document_id = :id", key)
        headings = {section_id: "\n".join(json.loads(path)) for section_id, path in sections}
        rows = snapshot.tuples(
            "SELECT id, section_id, text, profile FROM chunks WHERE document_id = :id ORDER BY chunk_index",
            key,
        )
        chunks = [
            ModelChunk(
                chunk_id, section, text, {reef: z for reef, z, *_ in struct.iter_unpack("<BHHBB", profile)}
            )
            for chunk_id, section, text, profile in rows
        ]
        documents.append(ModelDocument(document_id, title, headings, chunks))
    return documents


def index_term(term: Term) -> IndexTerm:
    stems = stems_of(term.tokens)
    return IndexTerm(stems, TITLE) if term.in_title else IndexTerm(stems)


def add(totals: dict[int, int], impacts: Mapping[int, int]) -> None:
    for chunk_id, impact in impacts.items():
        totals[chunk_id] = totals.get(chunk_id, 0) + impact


def normalized(raw: Mapping[int, int], fusion: Fusion) -> dict[int, float]:
    """Raw scores as shares of the best one, or by rank."""
    if fusion is Fusion.rrf:
        return {
            chunk_id: (RRF_K + 1) / (RRF_K + 1 + sum(other > score for other in raw.values()))
            if score
            else 0.0
            for chunk_id, score in raw.items()
        }
    best = max(raw.values(), default=0)
    return {chunk_id: score / best if best else 0.0 for chunk_id, score in raw.items()}
