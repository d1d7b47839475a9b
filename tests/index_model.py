"""The index in plain Python: what `shoal.index` computes, defined chunk by chunk."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from shoal.index import kernels
from shoal.index.building import NEXT, IndexedDocument, Profiles, Words
from shoal.index.matching import IndexTerm
from shoal.index.scoring import REEF_UNIT, SHORTEST, SMALLEST_NORM, UNIT, Z_UNIT, Bm25
from shoal.index.segment import BLOCK
from shoal.words.analysis import terms_of, words_of
from shoal.words.terms import Terms

TERMS = Terms()


@dataclass(frozen=True)
class ModelChunk:
    chunk_id: int
    section: int
    text: str
    reefs: Mapping[int, int]


@dataclass(frozen=True)
class ModelDocument:
    document_id: int
    title: str
    headings: Mapping[int, str]
    chunks: Sequence[ModelChunk]

    def indexed(self) -> IndexedDocument:
        reefs = [list(chunk.reefs.items()) for chunk in self.chunks]
        return IndexedDocument(
            document_id=self.document_id,
            chunk_ids=np.array([chunk.chunk_id for chunk in self.chunks]),
            words=words_in([chunk.text for chunk in self.chunks]),
            title=words_in([self.title]),
            sections=np.array([chunk.section for chunk in self.chunks]),
            headings={key: words_in([text]) for key, text in self.headings.items()},
            profiles=Profiles(
                np.cumsum([0, *map(len, reefs)]),
                np.array([reef for chunk in reefs for reef, _ in chunk], dtype=np.uint8),
                np.array([z for chunk in reefs for _, z in chunk], dtype=np.uint16),
            ),
            confidence=np.array([0.25 for _ in self.chunks]),
        )


def words_in(texts: Sequence[str]) -> Words:
    """The words of units that advance."""
    units = [[word.form for word in words_of(text) if word.advances] for text in texts]
    forms = list(dict.fromkeys(form for unit in units for form in unit))
    numbers = {form: number for number, form in enumerate(forms)}
    ids = np.array([numbers[form] for unit in units for form in unit], dtype=np.int32)
    return Words(
        [*forms, "beyond"],
        ids,
        np.full(len(ids), NEXT, dtype=np.uint8),
        np.cumsum([0, *map(len, units)]),
        np.zeros(len(ids), dtype=np.bool_),
    )


@contextlib.contextmanager
def kernels_of(name: str) -> Iterator[None]:
    """Rank with "numpy" or "compiled" kernels; skips the test where numba is not installed."""
    if name == "compiled" and not kernels.use_compiled():
        pytest.skip("numba is not installed")
    try:
        yield
    finally:
        kernels.use_numpy()


class ModelIndex:
    def __init__(self, documents: Sequence[ModelDocument]) -> None:
        self.fields = {
            chunk.chunk_id: {
                "text": terms_of(chunk.text),
                "headings": terms_of(document.headings.get(chunk.section, "")),
                "title": terms_of(document.title),
            }
            for document in documents
            for chunk in document.chunks
        }
        self.blocks: dict[int, tuple[int, ...]] = {}
        for document in documents:
            ids = [chunk.chunk_id for chunk in document.chunks]
            n_blocks = -(-len(ids) // BLOCK)
            block_of = [i * n_blocks // len(ids) for i in range(len(ids))]
            for i, chunk_id in enumerate(ids):
                self.blocks[chunk_id] = tuple(
                    other for other, block in zip(ids, block_of, strict=True) if block == block_of[i]
                )
        self.reefs = {chunk.chunk_id: chunk.reefs for document in documents for chunk in document.chunks}

    def frequencies(self, term: IndexTerm) -> dict[int, dict[str, int]]:
        """Occurrences by field, for each chunk that has any."""
        return {chunk_id: counts for chunk_id, counts in self._counts(term) if any(counts.values())}

    def impacts(self, term: IndexTerm, weight: float, bm25: Bm25) -> dict[int, int]:
        """What a term adds in each chunk that contains it."""
        matches = self.frequencies(term)
        means = {
            name: sum(len(fields[name]) for fields in self.fields.values()) / max(len(self.fields), 1)
            for name in ("text", "headings", "title")
        }
        return {
            chunk_id: self._impact(
                counts, self._factors(chunk_id, means, bm25), self._scale(matches, weight, bm25)
            )
            for chunk_id, counts in matches.items()
        }

    def block_impacts(self, term: IndexTerm, weight: float, bm25: Bm25) -> dict[int, int]:
        """What a term adds to each chunk by being in its block."""
        matches = self.frequencies(term)
        scale = self._scale(matches, weight, bm25)[0] * bm25.context, bm25.k1
        length = {
            chunk_id: sum(len(self.fields[other]["text"]) for other in block)
            for chunk_id, block in self.blocks.items()
        }
        n_blocks = len(set(self.blocks.values()))
        mean = sum(len(fields["text"]) for fields in self.fields.values()) / max(n_blocks, 1)
        titles = sum(len(fields["title"]) for fields in self.fields.values()) / max(len(self.fields), 1)
        impacts = {}
        for chunk_id, block in self.blocks.items():
            counts = {
                "text": sum(matches.get(other, {}).get("text", 0) for other in block),
                "title": matches.get(chunk_id, {}).get("title", 0),
            }
            if any(counts.values()):
                factors = {
                    "text": self._factor(bm25.weights.text, length[chunk_id], mean, bm25),
                    "title": self._factor(
                        bm25.weights.title, len(self.fields[chunk_id]["title"]), titles, bm25
                    ),
                }
                impacts[chunk_id] = self._impact(counts, factors, scale)
        return impacts

    def _scale(self, matches: Mapping[int, object], weight: float, bm25: Bm25) -> tuple[float, float]:
        n = len(self.fields)
        idf = math.log1p((n - len(matches) + 0.5) / (len(matches) + 0.5))
        return UNIT * (bm25.k1 + 1) * weight * idf, bm25.k1

    def _factors(self, chunk_id: int, means: Mapping[str, float], bm25: Bm25) -> dict[str, float]:
        return {
            name: self._factor(weight, len(self.fields[chunk_id][name]), means[name], bm25)
            for name, weight in bm25.weights._asdict().items()
        }

    @staticmethod
    def _factor(weight: float, length: int, mean: float, bm25: Bm25) -> float:
        norm = max(1 - bm25.b + bm25.b * max(length / (mean or 1.0), SHORTEST), SMALLEST_NORM)
        return float(np.float32(weight / norm))

    @staticmethod
    def _impact(counts: Mapping[str, int], factors: Mapping[str, float], scale: tuple[float, float]) -> int:
        tf = 0.0
        for name in ("text", "headings", "title"):
            tf += counts.get(name, 0) * factors.get(name, 0.0)
        return max(1, round(tf * scale[0] / (tf + scale[1])))

    def contributions(self, query_z: Mapping[int, float]) -> dict[int, dict[int, int]]:
        """What each shared reef adds, for each chunk."""
        contributions = {}
        for chunk_id, reefs in self.reefs.items():
            norm = math.sqrt(sum(z * z for z in reefs.values())) or 1.0
            contributions[chunk_id] = {
                reef: round(query_z[reef] * Z_UNIT) * round(z * REEF_UNIT / norm)
                for reef, z in reefs.items()
                if reef in query_z
            }
        return contributions

    def _counts(self, term: IndexTerm) -> Iterator[tuple[int, dict[str, int]]]:
        n, stems = len(term.stems), list(term.stems)
        for chunk_id, fields in self.fields.items():
            yield (
                chunk_id,
                {
                    name: min(255, sum(words[i : i + n] == stems for i in range(len(words))))
                    if name in term.fields
                    else 0
                    for name, words in fields.items()
                },
            )
