"""State of the service: health, readiness, counts, metrics and reefs."""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Callable
from typing import Any

import structlog
from werkzeug.wrappers import Response

from shoal.declared.operations.service import OtherServiceOperations as Others
from shoal.declared.operations.service import ServiceOperations
from shoal.encoders.encoder import EncoderIdentity
from shoal.errors import DatabaseReplacedError, ShoalError, StorageError
from shoal.jobs.transport.broker import check_broker
from shoal.models.responses import Status
from shoal.storage.index_records import Lag
from shoal_api import access, service
from shoal_api.metrics import CONTENT_TYPE_LATEST
from shoal_api.openapi import Blueprint
from shoal_api.problems import RETRY_SECONDS, ProblemError
from shoal_api.schemas.common import Record, RecordMap
from shoal_api.schemas.records import record_schema
from shoal_api.schemas.results import UsedWeightsSchema
from shoal_api.service import Service, engine

SHOWN_COLLECTIONS = 10
"""Most collections whose lag `/ready` lists."""

record_schema(
    Status,
    encoder=functools.partial(Record, record_schema(EncoderIdentity, "Encoder")),
    presets=functools.partial(RecordMap, UsedWeightsSchema),
)

log = structlog.get_logger("shoal.api")

blueprint = Blueprint("system", __name__, description="State of the service")


@blueprint.serves(ServiceOperations.status)
def get_status() -> Any:
    here = service.current()
    status = here.status()
    return status if access.is_administrator(here.settings) else dataclasses.replace(status, db_path=None)


@blueprint.serves(ServiceOperations.reefs)
def get_reefs() -> Any:
    return engine().vocabulary.reefs()


@blueprint.serves(Others.health)
def get_health() -> dict[str, str]:
    return {"status": "ok"}


@blueprint.serves(Others.ready)
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


@blueprint.serves(Others.metrics, schema={"type": "string"}, content_type="text/plain")
def get_metrics() -> Response:
    return Response(service.current().metrics.text(), content_type=CONTENT_TYPE_LATEST)
