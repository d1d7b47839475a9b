"""Schemas of `POST /retrieve`."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.search import SEARCH
from shoal.search.retrieval import DEFAULT_TOP_K, MAX_TOP_K
from shoal_api.schemas.arguments import body_field
from shoal_api.schemas.common import Records, ResultCount, Schema, StrictFloat, stated


class RetrieveSchema(Schema):
    query = fields.String(required=True, metadata={"description": "up to 4,096 characters"})
    top_k = ResultCount(
        strict=True,
        load_default=DEFAULT_TOP_K,
        metadata=stated(1, MAX_TOP_K, "most results to return"),
    )
    threshold = StrictFloat(load_default=0.0, metadata=stated(0, 1, "lowest `similarity` of a result"))
    filters = fields.Dict(
        keys=fields.String(),
        allow_none=True,
        load_default=None,
        metadata={
            "description": "only passages of documents with these values under these keys of their metadata; "
            "`source` is the source path"
        },
    )
    filter = body_field("filter", SEARCH["filter"])


class RetrievedSchema(Schema):
    content = fields.String(required=True, metadata={"description": "text of the passage"})
    metadata = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={
            "description": "that of the document, with `source` (source path, else title), `title`, "
            "`section`, `start_line`, `end_line`, `document_id`, `chunk_id`, and of a file `place`, of a PDF "
            "`page`"
        },
    )
    similarity = fields.Float(
        required=True,
        metadata={
            "description": "the `relevance` of a search: probability that it answers the query, 0 to 1"
        },
    )


class RetrievalSchema(Schema):
    results = Records(RetrievedSchema, required=True, metadata={"description": "best first"})
    query = fields.String(required=True, metadata={"description": "as it was sent"})
    total_results = fields.Integer(required=True, metadata={"description": "number of results"})
    message = fields.String(required=True, metadata={"description": "what was found, in words"})
    results_summary = fields.String(
        required=True, metadata={"description": "a line for each result: source, similarity, beginning"}
    )
