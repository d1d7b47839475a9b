"""Saved searches, which report new matches by webhook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from werkzeug.wrappers import Response

from shoal.errors import FilterError, QueryError
from shoal.saved_searches.saved_searches import SavedSearches
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API, ID
from shoal_api.schemas.common import PageSchema
from shoal_api.schemas.saved_searches import (
    CreatedSavedSearchSchema,
    DeliveryDetailSchema,
    DeliveryListSchema,
    DeliveryQuerySchema,
    NewSavedSearchSchema,
    SavedSearchChangesSchema,
    SavedSearchListSchema,
    SavedSearchSchema,
)

Json = dict[str, Any]

blueprint = Blueprint(
    "saved searches",
    __name__,
    url_prefix=f"{API}/saved-searches",
    description="Searches that report new matches by webhook; a key with the right `admin` is needed",
)

_OWN_FIELDS = frozenset({"name", "url", "secret", "min_score", "is_active", "search"})
ONE = f"/<{ID}:search_id>"
DELIVERY = f"{ONE}/deliveries/<string(minlength=1, maxlength=64):delivery_id>"


def _searches() -> SavedSearches:
    return service.current().engine.saved_searches


@contextlib.contextmanager
def _fields_of_body() -> Iterator[None]:
    """Let errors name the fields as the body has them."""
    try:
        yield
    except FilterError:
        raise
    except QueryError as error:
        field = error.field if error.field in _OWN_FIELDS else f"search.{error.field}"
        raise QueryError(field, str(error)) from None


@blueprint.post("")
@blueprint.body(NewSavedSearchSchema)
@blueprint.responds(201, CreatedSavedSearchSchema, description="Saved; the secret is shown this once")
def create_saved_search(data: Json) -> Any:
    """Save a search that reports new matches

    When a job ends, those of its new passages that match are sent to `url`, signed with the secret.
    """
    with _fields_of_body():
        return _searches().create(data.pop("name"), data.pop("search"), **data)


@blueprint.get("")
@blueprint.parameters(PageSchema)
@blueprint.responds(200, SavedSearchListSchema)
def list_saved_searches(query: Json) -> Any:
    """List saved searches"""
    return _searches().list(**query)


@blueprint.get(ONE)
@blueprint.responds(200, SavedSearchSchema)
@blueprint.fails(404)
def get_saved_search(search_id: int) -> Any:
    """Get a saved search, without its secret"""
    return _searches().get(search_id)


@blueprint.patch(ONE)
@blueprint.body(SavedSearchChangesSchema)
@blueprint.responds(200, SavedSearchSchema)
@blueprint.fails(404)
def change_saved_search(data: Json, search_id: int) -> Any:
    """Change a saved search"""
    with _fields_of_body():
        return _searches().change(search_id, **data)


@blueprint.delete(ONE)
@blueprint.responds(204)
@blueprint.fails(404)
def delete_saved_search(search_id: int) -> Response:
    """Delete a saved search and its webhooks"""
    _searches().delete(search_id)
    return Response(status=204)


@blueprint.post(f"{ONE}/test")
@blueprint.responds(202, DeliveryDetailSchema, description="A worker sends it soon")
@blueprint.fails(404, 503)
def test_saved_search(search_id: int) -> Any:
    """Send a test webhook with the best matches of the library"""
    return _searches().test(search_id)


@blueprint.get(f"{ONE}/deliveries")
@blueprint.parameters(DeliveryQuerySchema)
@blueprint.responds(200, DeliveryListSchema)
@blueprint.fails(404)
def list_webhook_deliveries(query: Json, search_id: int) -> Any:
    """List the webhooks of a saved search, newest first"""
    return _searches().deliveries(search_id, **query)


@blueprint.get(DELIVERY)
@blueprint.responds(200, DeliveryDetailSchema)
@blueprint.fails(404)
def get_webhook_delivery(search_id: int, delivery_id: str) -> Any:
    """Get a webhook with its body"""
    return _searches().delivery(search_id, delivery_id)


@blueprint.post(f"{DELIVERY}/redeliver")
@blueprint.responds(202, DeliveryDetailSchema, description="A worker sends it soon")
@blueprint.fails(404)
def redeliver_webhook(search_id: int, delivery_id: str) -> Any:
    """Send a webhook again, under its id"""
    return _searches().redeliver(search_id, delivery_id)
