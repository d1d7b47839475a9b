"""Chunks by their ids, as results and citations name them."""

from __future__ import annotations

from typing import Any

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import CHUNKS, ID
from shoal_api.schemas.documents import ChunkDetailSchema, NeighboursSchema

blueprint = Blueprint("chunks", __name__, url_prefix=CHUNKS, description="What results and citations name")


@blueprint.get(f"/<{ID}:chunk_id>")
@blueprint.parameters(NeighboursSchema)
@blueprint.answers(200, ChunkDetailSchema)
@blueprint.fails(404)
def get_chunk(query: dict[str, Any], chunk_id: int) -> dict[str, Any]:
    """One chunk with its text, its place, its document and its reefs

    A `chunk_id` that was kept leads to its citation as long as the text is stored: deleting the document, or giving it
    content without that text, ends it, and then the answer is 404.
    """
    found = service.current().engine.chunk(chunk_id, context=query["context"])
    chunk = found.chunk
    return {
        **{name: getattr(chunk, name) for name in chunk.__slots__},
        "document": found.document,
        "before": found.before,
        "after": found.after,
    }
