"""Schemas of search requests."""

from __future__ import annotations

import dataclasses
from typing import Any

from marshmallow import fields, validate

from shoal.declared.search import LIKELY, SEARCH, SHORT_FORMS
from shoal.notes.unit_search import UNITS
from shoal.saved_searches.arguments import DEFAULTS as SAVED
from shoal_api.schemas.answers import selection_in_address, selection_in_body
from shoal_api.schemas.arguments import address_fields, body_field, body_fields, schema_of
from shoal_api.schemas.common import BoundedList, CommaList
from shoal_api.schemas.filters import IN_ADDRESS, FiltersSchema

ABOUT_UNITS = (
    "what to search: passages (`chunk`), notes (`note`), or both, in one order. Of the filters, notes meet "
    "`tags` alone"
)
ABOUT_OWNER = "whose notes to search, with the unit `note`; default `default`"
ABOUT_QUERY = "the query, up to 4,096 characters"

DEFAULTS: dict[str, Any] = {name: argument.default for name, argument in SEARCH.items()}

QUERY = {"query": fields.String(required=True, metadata={"description": ABOUT_QUERY})}
IN_BODY = {
    **QUERY,
    **body_fields({name: argument for name, argument in SEARCH.items() if name not in SHORT_FORMS}),
    "filters": fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={"description": SEARCH["filters"].about},
    ),
}
"""The fields that searches and explanations share."""

SearchSchema = schema_of(
    "Search",
    {
        **IN_BODY,
        **selection_in_body(),
        "units": BoundedList(
            fields.String(validate=validate.OneOf(UNITS)),
            load_default=(UNITS[0],),
            metadata={"description": ABOUT_UNITS},
        ),
        "owner": fields.String(metadata={"description": ABOUT_OWNER}),
    },
)

SearchQuerySchema = schema_of(
    "SearchQuery",
    {
        **IN_ADDRESS,
        "q": fields.String(required=True, metadata={"description": ABOUT_QUERY}),
        **address_fields(
            {name: each for name, each in SEARCH.items() if name not in SHORT_FORMS and name != "filters"}
        ),
        **selection_in_address(),
        "units": CommaList(
            fields.String(validate=validate.OneOf(UNITS)),
            load_default=(UNITS[0],),
            metadata={"description": f"{ABOUT_UNITS}; comma-separated"},
        ),
        "owner": fields.String(metadata={"description": ABOUT_OWNER}),
    },
    "A search as query parameters, with the filters beside `q`.",
)

OF_MATCH = dataclasses.replace(
    SEARCH["min_relevance"], default=LIKELY, about="lowest `relevance` of a match, 0 to 1"
)
SavedArgumentsSchema = schema_of(
    "SavedArguments",
    {
        **{name: field for name, field in IN_BODY.items() if name not in SEARCH or name in SAVED},
        "min_relevance": body_field("min_relevance", OF_MATCH),
    },
    "The arguments of a search, without those that only shape its answer.",
)
