"""Dify's external knowledge API: a collection is a knowledge, a passage a record."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.operations.drop_in import DifyOperations
from shoal.filters.foreign import of_dify
from shoal.search.retrieval import metadata_of
from shoal_api import request_collection
from shoal_api.drop_in.passages import find
from shoal_api.openapi import Blueprint

blueprint = Blueprint("dify", __name__)


@blueprint.serves(DifyOperations.dify_retrieval)
def dify_retrieval(data: dict[str, Any]) -> Response:
    request_collection.enter(data["knowledge_id"])
    condition = data["metadata_condition"]
    results = find(
        data["query"],
        data["retrieval_setting"]["top_k"],
        data["retrieval_setting"]["score_threshold"],
        None if condition is None else of_dify(condition),
    )
    records = [
        {
            "content": result.text,
            "score": round(result.relevance, 4),
            "title": result.document_title,
            "metadata": metadata_of(result),
        }
        for result in results
    ]
    return flask.jsonify({"records": records})
