"""Schemas of answers for programs: fields, texts, token budgets and prompts."""

from __future__ import annotations

from marshmallow import fields

from shoal.search.selected_fields import MAX_NAMES
from shoal_api.schemas.arguments import Fields
from shoal_api.schemas.common import BoundedList, CommaList

ABOUT_INCLUDE = "names of the fields that a result has; by default all"
ABOUT_EXCLUDE = "names of fields that a result lacks"


def selection_in_body() -> Fields:
    """Return the fields of a body that select those of results."""

    def names(about: str) -> BoundedList:
        return BoundedList(
            fields.String(),
            max_items=MAX_NAMES,
            allow_none=True,
            load_default=None,
            metadata={"description": about},
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}


def selection_in_address() -> Fields:
    """Return the query parameters that select the fields of results."""

    def names(about: str) -> CommaList:
        return CommaList(
            fields.String(), load_default=None, metadata={"description": f"{about}; comma-separated"}
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}
