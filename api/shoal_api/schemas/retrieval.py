"""Schemas of `POST /retrieve`."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.search import SEARCH
from shoal.models.retrieval import Retrieval
from shoal.search.retrieval import DEFAULT_TOP_K, MAX_TOP_K
from shoal_api.schemas.arguments import body_field
from shoal_api.schemas.common import ResultCount, Schema, StrictFloat, stated
from shoal_api.schemas.records import record_schema


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


RetrievalSchema = record_schema(Retrieval)
