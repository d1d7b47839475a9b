"""Collections and keys: what a service has beside its libraries."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from typing import Any

from marshmallow import validate

from shoal.access.key_store import KeyStore
from shoal.access.rights import SERVICE
from shoal.collections.catalog import Collection
from shoal.collections.collections import CollectionDetails
from shoal.collections.registry import CollectionPage
from shoal.declared.operations.service import CollectionOperations as Collections
from shoal.declared.operations.service import KeyOperations as Keys
from shoal.models.keys import MAX_RATE, MIN_RATE, CreatedKey
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN
from shoal_api import access
from shoal_api.openapi import Blueprint
from shoal_api.paths import COLLECTIONS
from shoal_api.schemas.common import StrictFloat
from shoal_api.service import current

Json = dict[str, Any]

collections = Blueprint(
    "collections",
    __name__,
    description="Libraries of their own: each has its documents, learned words, index, notes and jobs. "
    "`/api/v1/collections/{name}/…` is `/api/v1/…` in a collection, for every operation below `/api/v1` "
    "except these; without it, `main` is meant",
)
keys = Blueprint(
    "keys",
    __name__,
    description="Keys of this service; a key with the right `admin` in all collections is needed",
)

_rate = functools.partial(
    StrictFloat,
    allow_none=True,
    load_default=None,
    validate=validate.Range(MIN_RATE, MAX_RATE, error=f"must be from {MIN_RATE:g} to {MAX_RATE:,.0f}"),
)


@collections.serves(Collections.collections)
def list_collections(query: Json) -> Json:
    page = visible(query["limit"], query["offset"])
    return {"collections": list(map(represent, page.collections)), "total": page.total}


def visible(limit: int, offset: int) -> CollectionPage:
    """Return a page of the collections that the key of the request opens."""
    caller, collections = access.current(), current().collections
    if caller.right_in(SERVICE) is not None:
        return collections.list(limit, offset)
    own = [found for each in caller.own_collections() if (found := collections.catalog.by_id(each))]
    own.sort(key=lambda found: (found.id != MAIN, found.name))
    return CollectionPage(own[offset : offset + limit], len(own))


@collections.serves(Collections.create_collection)
def create_collection(data: Json) -> Any:
    created = current().collections.create(data["name"])
    return represent(created), 201, {"Location": f"{COLLECTIONS}/{created.name}"}


@collections.serves(Collections.describe_collection)
def get_collection(name: str) -> Json:
    return represent(current().collections.describe(name, access.current().owners))


@collections.serves(Collections.rename_collection)
def rename_collection(data: Json, name: str) -> Json:
    return represent(current().collections.rename(name, data["name"]))


@collections.serves(Collections.delete_collection)
def delete_collection(name: str) -> None:
    current().collections.delete(name)


@collections.serves(Collections.swap_collections)
def swap_collections(data: Json) -> Json:
    swapped = current().collections.swap(**data)
    return {"collections": list(map(represent, swapped))}


def represent(collection: Collection | CollectionDetails) -> Json:
    """Return the values of a schema of collections."""
    values = dataclasses.asdict(collection)
    moment = collection.created_at
    values["created_at"] = None if moment is None else timestamp(dt.datetime.fromtimestamp(moment, dt.UTC))
    return values


def store() -> KeyStore:
    """Return the keys of the service."""
    return access.gate().authenticator.store


def revoke(key_id: str) -> None:
    """Revoke a key; this process refuses it from now on. Raises NotFoundError."""
    store().revoke(key_id)
    access.gate().authenticator.forget()


def rotate(key_id: str, grace_seconds: float = 0.0) -> CreatedKey:
    """Replace a key. Raises NotFoundError, InvalidFieldError."""
    created = store().rotate(key_id, grace_seconds=grace_seconds)
    access.gate().authenticator.forget()
    return created


@keys.serves(Keys.create_key, special={"requests_per_second": _rate})
def create_key(data: Json) -> Any:
    expires_at = data["expires_at"]
    return store().create(
        data["name"],
        [(scope["collection"], scope["right"]) for scope in data["scopes"]],
        owners=data["owners"],
        expires_at=None if expires_at is None else dt.datetime.fromisoformat(expires_at).timestamp(),
        requests_per_second=data["requests_per_second"],
    )


@keys.serves(Keys.keys)
def list_keys(query: Json) -> Any:
    return store().page(**query)


@keys.serves(Keys.key_details)
def get_key(key_id: str) -> Any:
    return store().get(key_id)


@keys.serves(Keys.revoke_key)
def revoke_key(key_id: str) -> None:
    revoke(key_id)


@keys.serves(Keys.rotate_key)
def rotate_key(data: Json, key_id: str) -> Any:
    return rotate(key_id, **data)
