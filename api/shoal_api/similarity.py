"""Similarity of two texts."""

from __future__ import annotations

from typing import Any

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.similarity import SimilaritySchema, TextPairSchema

blueprint = Blueprint("similarity", __name__, url_prefix=API, description="How similar two short texts are")


@blueprint.post("/similarity")
@blueprint.body(TextPairSchema)
@blueprint.responds(200, SimilaritySchema)
@blueprint.fails(503)
def compare_texts(data: dict[str, Any]) -> Any:
    """Compare two short texts"""
    return service.current().engine.similarity(data["a"], data["b"])
