"""Learned words of the library."""

from __future__ import annotations

from typing import Any

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.vocabulary import VocabularyQuerySchema, VocabularySchema

blueprint = Blueprint("vocabulary", __name__, url_prefix=API, description="Words learned from the documents")


@blueprint.get("/vocabulary")
@blueprint.parameters(VocabularyQuerySchema)
@blueprint.responds(200, VocabularySchema)
def get_vocabulary(query: dict[str, Any]) -> Any:
    """List learned words with their reefs and evidence, most frequent first"""
    return service.current().engine.vocabulary.list(**query)
