"""The blueprint of all views, and how a request is let into the collection that is its vector store."""

from __future__ import annotations

import re

from shoal.errors import CollectionNotFoundError
from shoal.support.collection_names import ID_PATTERN, MAIN
from shoal_api import request_collection
from shoal_api.openapi import Blueprint
from shoal_api.service import Service

blueprint = Blueprint("openai", __name__)

PREFIX = "vs_"
_STORE = re.compile(rf"{PREFIX}({MAIN}|{ID_PATTERN})")


def enter(vector_store_id: str) -> Service:
    """Let the current request into the collection that its path names. Raises 403 and 404 problems."""
    return request_collection.enter_by_id(*collection_of(vector_store_id))


def collection_of(vector_store_id: str) -> tuple[str, str]:
    """Return the id of a collection, and what is wrong if it is not found."""
    detail = f"no vector store {vector_store_id!r} is found"
    match = _STORE.fullmatch(vector_store_id)
    if match is None:
        raise CollectionNotFoundError(detail)
    return match[1], detail
