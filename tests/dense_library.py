"""A library whose vectors a test double holds, for tests of rankings and of what shows them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import Floats, TextKind
from shoal.engine import Engine
from shoal.search.library_index import DenseScores, LibraryIndex
from shoal.settings import Settings

TEXTS = {
    "Heart": "Coronary occlusion damages tissue. The patient needs care at once.",
    "Rain": "Rain and storm. Wind and rain. Snow in the cold season.",
    "Courts": "A judge and a jury. The court weighs evidence.",
    "Gardens": "Roses need sun. Prune them after winter.",
}
SAME = {"infarction": "occlusion", "myocardial": "coronary"}
QUERY = "myocardial infarction"
"""Shares no word and no reef with any text."""


class Vectors:
    """Stands for the stored vectors: those of the texts of chunks, without those in `missing`."""

    def __init__(self, encoder: FakeEncoder) -> None:
        self.encoder = encoder
        self.missing: set[str] = set()
        self.texts: dict[int, str] = {}

    def dense(self, library: LibraryIndex, vector: Floats) -> DenseScores | None:
        chunk_ids = library.index.chunk_ids(np.arange(len(library))).tolist()
        texts = [self.texts.get(chunk_id, "") for chunk_id in chunk_ids]  # notes have none
        has_vector = np.array([text not in {*self.missing, ""} for text in texts], dtype=np.bool_)
        cosines = self.encoder.embed(texts, TextKind.query) @ vector
        raw = np.rint(np.maximum(cosines, 0.0) * 1e6).astype(np.int64) * has_vector
        return DenseScores(raw, has_vector) if has_vector.any() else None


def opened(settings: Settings, encoder: Any, **changed: Any) -> Engine:
    return Engine(
        settings=dataclasses.replace(settings, **{"embed": True, **changed}),
        scorer=FakeScorer(),
        encoder=encoder,
    )


def ingest(engine: Engine, vectors: Vectors) -> None:
    for title, text in TEXTS.items():
        engine.ingest(title=title, content=text)
    with engine.database.snapshot() as snapshot:
        vectors.texts = dict(snapshot.tuples("SELECT id, text FROM chunks"))
