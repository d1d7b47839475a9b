"""Collections, keys and the state of the service: what it has beside its libraries."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import heapq
from collections.abc import Callable
from typing import Any

import structlog
from marshmallow import validate
from werkzeug.wrappers import Response

from shoal.access.key_store import KeyStore
from shoal.access.rights import SERVICE
from shoal.collections.catalog import Collection
from shoal.collections.collections import CollectionDetails
from shoal.collections.registry import CollectionPage
from shoal.declared.operations.service import CollectionOperations as Collections
from shoal.declared.operations.service import KeyOperations as Keys
from shoal.declared.operations.service import OtherServiceOperations as Others
from shoal.declared.operations.service import ServiceOperations
from shoal.encoders.encoder import EncoderIdentity
from shoal.errors import DatabaseReplacedError, ShoalError, StorageError
from shoal.jobs.transport.broker import check_broker
from shoal.models.keys import MAX_RATE, MIN_RATE, CreatedKey
from shoal.models.responses import Status
from shoal.storage.index_records import Lag
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN
from shoal_api import access, service
from shoal_api.metrics import CONTENT_TYPE_LATEST
from shoal_api.openapi import Blueprint
from shoal_api.paths import COLLECTIONS
from shoal_api.problems import RETRY_SECONDS, ProblemError
from shoal_api.schemas.common import Record, RecordMap, StrictFloat
from shoal_api.schemas.records import record_schema
from shoal_api.schemas.search import UsedWeightsSchema
from shoal_api.service import Service, current

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


keys.serves_all(
    lambda *_: store(),
    list_keys=(Keys.keys, "page"),
    get_key=(Keys.key_details, "get"),
    revoke_key=(Keys.revoke_key, lambda _: revoke),
    rotate_key=(Keys.rotate_key, lambda _: rotate),
)


@keys.serves(Keys.set_public_key)
def set_public_key(data: Json, key_id: str) -> Any:
    changed = store().set_public_key(key_id, data["public_key"])
    access.gate().authenticator.forget()
    return changed


@keys.serves(Keys.revoke_tokens)
def revoke_tokens(data: Json, key_id: str) -> Any:
    before = data.get("before")
    changed = store().revoke_tokens(
        key_id,
        jti=data.get("jti"),
        before=None if before is None else dt.datetime.fromisoformat(before).timestamp(),
    )
    access.gate().authenticator.forget()
    return changed


SHOWN_COLLECTIONS = 10
"""Most collections whose lag `/ready` lists."""

record_schema(
    Status,
    encoder=functools.partial(Record, record_schema(EncoderIdentity, "Encoder")),
    presets=functools.partial(RecordMap, UsedWeightsSchema),
)

log = structlog.get_logger("shoal.api")

system = Blueprint("system", __name__, description="State of the service")


@system.serves(ServiceOperations.status)
def get_status() -> Any:
    here = service.current()
    status = here.status()
    return status if access.is_administrator(here.settings) else dataclasses.replace(status, db_path=None)


system.serves_all(service.library, get_reefs=(ServiceOperations.reefs, "vocabulary.reefs"))


@system.serves(Others.health)
def get_health() -> dict[str, str]:
    return {"status": "ok"}


@system.serves(Others.ready)
def get_readiness() -> dict[str, Any]:
    here = service.current()
    lag = _lag(here)
    names = [name for name in CHECKS if name != "index" or lag is not None]
    reasons = {name: reason for name in names if (reason := _run(name, CHECKS[name], here))}
    checks = {name: "failed" if name in reasons else "ok" for name in names}
    if not reasons.keys() <= OPTIONAL:
        raise ProblemError(
            503,
            "not ready: " + ", ".join(f"{name} ({reason})" for name, reason in reasons.items()),
            code="not_ready",
            errors={name: [reason] for name, reason in reasons.items()},
            headers={"Retry-After": str(RETRY_SECONDS)},
            members={"checks": checks, **(lag or {})},
        )
    return {
        "status": "ready",
        "checks": checks,
        "warnings": [*(f"{name} {reason}" for name, reason in reasons.items()), *_late_collections(here)],
        **(lag or {}),
    }


def _lag(here: Service) -> dict[str, Any] | None:
    """How far the indexes of this machine are behind; None if they follow nothing, or cannot be read."""
    try:
        lag = here.engine.index_lag()
        if lag is None:
            return None
        lags = {id_: each for id_, each in here.collections.index_lags().items() if each.n_documents}
        shown: dict[str, Any] = {**_shown_lag(lag), "collections_behind": len(lags)}
        if access.may_see_all():
            worst = heapq.nlargest(SHOWN_COLLECTIONS, lags, key=lambda id_: lags[id_].seconds)
            found = ((here.collections.catalog.by_id(id_), lags[id_]) for id_ in worst)
            shown["collections"] = [{"name": each.name, **_shown_lag(lag)} for each, lag in found if each]
    except StorageError:
        # The check of the database says why.
        return None
    return {"index": shown}


def _shown_lag(lag: Lag) -> dict[str, Any]:
    return {"documents_behind": lag.n_documents, "seconds_behind": round(lag.seconds, 3)}


def _late_collections(here: Service) -> list[str]:
    """The warning about collections other than `main` whose searches are refused, if there are any."""
    limit = here.settings.index_lag_seconds
    n = sum(lag.seconds > limit for lag in here.collections.index_lags().values()) if limit else 0
    warning = (
        f"open collections whose index is behind by more than SHOAL_INDEX_LAG_SECONDS: {n:,}; searches in "
        "them return 503"
    )
    return [warning] if n else []


def _database(here: Service) -> None:
    here.engine.check()


def _scorer(here: Service) -> None:
    _ = here.engine.scorer


def _broker(here: Service) -> None:
    check_broker(here.celery)


def _index(here: Service) -> None:
    here.engine.check_index()


CHECKS: dict[str, Callable[[Service], None]] = {
    "database": _database,
    "scorer": _scorer,
    "broker": _broker,
    "index": _index,
}

OPTIONAL = frozenset({"broker"})
"""Checks whose failure only adds a warning."""

REASONS = {
    "database": "cannot be read, or is not migrated to this version",
    "scorer": "cannot be loaded",
    "index": "is behind the library by more than SHOAL_INDEX_LAG_SECONDS",
    "broker": "cannot be reached; jobs are accepted and start when it is back",
}
REPLACED = "its files were removed or replaced, so nothing can be stored; restart the service"


def _run(name: str, check: Callable[[Service], None], here: Service) -> str | None:
    """Run a check. Return the reason if it failed, without paths; None if it passed."""
    try:
        check(here)
    except Exception as error:
        trace = None if isinstance(error, ShoalError) else error
        log.warning("check failed", check=name, reason=str(error), exc_info=trace)
        return REPLACED if isinstance(error, DatabaseReplacedError) else REASONS[name]
    return None


@system.serves(Others.metrics, schema={"type": "string"}, content_type="text/plain")
def get_metrics() -> Response:
    return Response(service.current().metrics.text(), content_type=CONTENT_TYPE_LATEST)
