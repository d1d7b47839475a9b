"""Keys of the catalog, for those who may manage them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from werkzeug.wrappers import Response

from shoal.access.key_store import KeyStore
from shoal.models.keys import CreatedKey
from shoal_api import access
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.keys import (
    CreatedKeySchema,
    KeyListSchema,
    KeyQuerySchema,
    KeySchema,
    NewKeySchema,
    RotateSchema,
)

Json = dict[str, Any]

KEYS = f"{API}/keys"
ONE = "/<string(minlength=1, maxlength=64):key_id>"

blueprint = Blueprint(
    "keys",
    __name__,
    url_prefix=KEYS,
    description="Keys of this service; a key with the right `admin` in all collections is needed",
)


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


@blueprint.post("")
@blueprint.body(NewKeySchema)
@blueprint.responds(201, CreatedKeySchema, description="Created; the key is shown this once")
def create_key(data: Json) -> Any:
    """Create a key

    The service stores only its SHA-256. The first key of a service is made on its machine, with `shoal key
    create`.
    """
    expires_at = data["expires_at"]
    return store().create(
        data["name"],
        [(scope["collection"], scope["right"]) for scope in data["scopes"]],
        owners=data["owners"],
        expires_at=None if expires_at is None else dt.datetime.fromisoformat(expires_at).timestamp(),
        requests_per_second=data["requests_per_second"],
    )


@blueprint.get("")
@blueprint.parameters(KeyQuerySchema)
@blueprint.responds(200, KeyListSchema)
def list_keys(query: Json) -> Any:
    """List keys, without the keys themselves"""
    return store().page(**query)


@blueprint.get(ONE)
@blueprint.responds(200, KeySchema)
@blueprint.fails(404)
def get_key(key_id: str) -> Any:
    """Get a key, without the key itself"""
    return store().get(key_id)


@blueprint.delete(ONE)
@blueprint.responds(204)
@blueprint.fails(404)
def revoke_key(key_id: str) -> Response:
    """Revoke a key for good

    Every process of the API refuses it within `SHOAL_KEY_CACHE_SECONDS`. It stays in the list.
    """
    revoke(key_id)
    return Response(status=204)


@blueprint.post(f"{ONE}/rotate")
@blueprint.body(RotateSchema)
@blueprint.responds(201, CreatedKeySchema, description="Created; the key is shown this once")
@blueprint.fails(404)
def rotate_key(data: Json, key_id: str) -> Any:
    """Replace a key by another with the same name, rights and limits

    The old key ends at once, or after `grace_seconds`. The body may be left out.
    """
    return rotate(key_id, **data)
