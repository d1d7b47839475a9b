"""Chunks by id, as results and citations refer to them."""

from __future__ import annotations

from typing import Any

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import CHUNKS, ID
from shoal_api.schemas.documents import ChunkDetailSchema, ChunkSchema, NeighboursSchema

_FIELDS = tuple(ChunkSchema().fields)

blueprint = Blueprint("chunks", __name__, url_prefix=CHUNKS, description="Single chunks, as cited in results")


@blueprint.get(f"/<{ID}:chunk_id>")
@blueprint.parameters(NeighboursSchema)
@blueprint.responds(200, ChunkDetailSchema)
@blueprint.fails(404)
def get_chunk(query: dict[str, Any], chunk_id: int) -> dict[str, Any]:
    """Get a chunk with its text, position, document and reefs

    A `chunk_id` stays valid as long as its text is stored. It returns 404 once the document is deleted or its
    content is replaced by content without that text.
    """
    detail = service.current().engine.documents.chunk(chunk_id, context=query["context"])
    chunk = detail.chunk
    return {
        **{name: getattr(chunk, name) for name in _FIELDS},
        "document": detail.document,
        "before": detail.before,
        "after": detail.after,
    }
