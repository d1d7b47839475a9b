"""Collections: create, list, describe, rename, swap and delete libraries of the service."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.access.rights import SERVICE
from shoal.collections.catalog import Collection
from shoal.collections.collections import CollectionDetails
from shoal.collections.registry import CollectionPage
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN, MAX_NAME_CHARS, PATTERN
from shoal_api import access, service
from shoal_api.openapi import Blueprint
from shoal_api.paths import COLLECTIONS
from shoal_api.schemas.collections import (
    CollectionChangeSchema,
    CollectionDetailsSchema,
    CollectionListSchema,
    CollectionQuerySchema,
    CollectionSchema,
    NewCollectionSchema,
    SwappedSchema,
    SwapSchema,
)

Json = dict[str, Any]

blueprint = Blueprint(
    "collections",
    __name__,
    url_prefix=COLLECTIONS,
    description="Libraries of their own: each has its documents, learned words, index, notes and jobs. "
    "`/api/v1/collections/{name}/…` is `/api/v1/…` in a collection, for every operation below `/api/v1` "
    "except these; without it, `main` is meant",
)

NAME_IN_PATH = {
    "in": "path",
    "name": "name",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{PATTERN}$", "maxLength": MAX_NAME_CHARS},
    "description": "name of the collection",
}
TAKEN = "Another collection has the name"
FIXED = "It is `main`, which stays what it is, or the same collection twice"


@blueprint.get("")
@blueprint.parameters(CollectionQuerySchema)
@blueprint.responds(200, CollectionListSchema)
def list_collections(query: Json) -> Json:
    """List the collections, `main` first and the others by name

    Only those that the key of the request opens.
    """
    page = visible(query["limit"], query["offset"])
    return {"collections": list(map(represent, page.collections)), "total": page.total}


def visible(limit: int, offset: int) -> CollectionPage:
    """Return a page of the collections that the key of the request opens."""
    caller, collections = access.current(), service.current().collections
    if caller.right_in(SERVICE) is not None:
        return collections.list(limit, offset)
    own = [found for each in caller.own_collections() if (found := collections.catalog.by_id(each))]
    own.sort(key=lambda found: (found.id != MAIN, found.name))
    return CollectionPage(own[offset : offset + limit], len(own))


@blueprint.post("")
@blueprint.body(NewCollectionSchema)
@blueprint.responds(201, CollectionSchema, description="Created; it is empty")
@blueprint.conflicts(TAKEN)
def create_collection(data: Json) -> Any:
    """Create an empty collection"""
    created = service.current().collections.create(data["name"])
    return represent(created), 201, {"Location": f"{COLLECTIONS}/{created.name}"}


@blueprint.get("/<name>", parameters=[NAME_IN_PATH])
@blueprint.responds(200, CollectionDetailsSchema)
@blueprint.fails(404)
def get_collection(name: str) -> Json:
    """Show a collection and what it holds"""
    return represent(service.current().collections.describe(name, access.current().owners))


@blueprint.patch("/<name>", parameters=[NAME_IN_PATH])
@blueprint.body(CollectionChangeSchema)
@blueprint.responds(200, CollectionSchema)
@blueprint.conflicts(f"{TAKEN}, or it is `main`")
@blueprint.fails(404)
def rename_collection(data: Json, name: str) -> Json:
    """Rename a collection

    Its id stays, and running requests and jobs go on in it. URLs with the former name return 404.
    """
    return represent(service.current().collections.rename(name, data["name"]))


@blueprint.delete("/<name>", parameters=[NAME_IN_PATH])
@blueprint.responds(204, description="Deleted with all it held")
@blueprint.conflicts("It is `main`")
@blueprint.fails(404)
def delete_collection(name: str) -> Response:
    """Delete a collection with all it holds

    Its name is free at once. Running uploads end with 404, its jobs are dropped, and its files go as soon as
    no request or worker uses them. Only a backup can bring it back.
    """
    service.current().collections.delete(name)
    return flask.Response(status=204)


@blueprint.post("/swap")
@blueprint.body(SwapSchema)
@blueprint.responds(200, SwappedSchema)
@blueprint.conflicts(FIXED)
@blueprint.fails(404)
def swap_collections(data: Json) -> Json:
    """Let two collections exchange their names, at one moment

    To rebuild a library without a pause: fill another collection, then swap the two. Requests that run go on
    in the collection in which they began, and so do jobs.
    """
    swapped = service.current().collections.swap(data["first"], data["second"])
    return {"collections": list(map(represent, swapped))}


def represent(collection: Collection | CollectionDetails) -> Json:
    """Return the values of a schema of collections."""
    values = dataclasses.asdict(collection)
    moment = collection.created_at
    values["created_at"] = None if moment is None else timestamp(datetime.fromtimestamp(moment, UTC))
    return values
