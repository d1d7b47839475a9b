"""Texts and checks for tests of replacing documents."""

from __future__ import annotations

from job_parts import rows

from shoal.engine import Engine
from shoal.storage.database import Database

FIRE = "Magma rises through the crust. Lava and ash pour from the crater. The rock is basalt and granite."
PLANT = (
    "A flower grows from a seed. The root and the leaf feed the plant. Pollen travels from petal to petal."
)
COURT = "The judge asked the jury for a verdict. A witness gave evidence in court. The crime went to trial."
TIDE = "The tide rises at the shore. A wave fills the pool on the reef. The harbour smells of salt and sea."


def text_of(*parts: str) -> str:
    """Return a markdown document with a section, and so at least one chunk, for each part."""
    return "".join(f"## Part\n\n{part}\n\n" for part in parts)


def chunks_of(engine: Engine, document_id: int) -> dict[str, int]:
    return {chunk.text: chunk.id for chunk in engine.documents.chunks(document_id).chunks}


def found_chunks(engine: Engine, query: str) -> set[int]:
    return {result.chunk_id for result in engine.search(query, top_k=50, mode="reef").results}


def ranked(engine: Engine, query: str) -> list[tuple[int, float]]:
    """Return chunk ids with their scores, best first."""
    results = engine.search(query, top_k=50, mode="reef").results
    return [(result.chunk_id, result.match_score) for result in results]


def contents(database: Database) -> dict[int, str]:
    return {
        int(str(i)): str(text)
        for i, text in rows(database, "SELECT document_id, content FROM document_texts")
    }
