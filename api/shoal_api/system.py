"""State of the service: health, readiness, counts, metrics and reefs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from werkzeug.wrappers import Response

from shoal.errors import DatabaseReplacedError, ShoalError
from shoal_api import service
from shoal_api.metrics import CONTENT_TYPE_LATEST
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import RETRY_SECONDS, ProblemError
from shoal_api.schemas.system import HealthSchema, ReadySchema, ReefsSchema, StatusSchema
from shoal_api.service import Service

log = structlog.get_logger("shoal.api")

blueprint = Blueprint("system", __name__, description="State of the service")


@blueprint.get(f"{API}/status")
@blueprint.responds(200, StatusSchema)
def get_status() -> dict[str, Any]:
    """Get counts, versions, jobs and workers"""
    return service.current().engine.status()


@blueprint.get(f"{API}/reefs")
@blueprint.responds(200, ReefsSchema)
def get_reefs() -> dict[str, Any]:
    """Get the hierarchy of reefs, with typical words and the number of chunks led by each reef"""
    return service.current().engine.vocabulary.reefs()


@blueprint.get("/health")
@blueprint.responds(200, HealthSchema)
def get_health() -> dict[str, str]:
    """Check that the process is alive"""
    return {"status": "ok"}


@blueprint.get("/ready")
@blueprint.responds(200, ReadySchema)
@blueprint.fails(503)
def get_readiness() -> dict[str, Any]:
    """Check that the service can accept uploads and searches

    Returns 503 with the reasons if the database or the scorer fails. Without the broker the service still
    accepts and searches, so it returns 200 with the check `broker` as `failed` and a warning. Accepted jobs
    start when the broker is back or a worker next polls the database.
    """
    here = service.current()
    reasons = {name: reason for name, check in CHECKS.items() if (reason := _run(name, check, here))}
    checks = {name: "failed" if name in reasons else "ok" for name in CHECKS}
    if not reasons.keys() <= OPTIONAL:
        raise ProblemError(
            503,
            "not ready: " + ", ".join(f"{name} ({reason})" for name, reason in reasons.items()),
            code="not_ready",
            errors={name: [reason] for name, reason in reasons.items()},
            headers={"Retry-After": str(RETRY_SECONDS)},
            members={"checks": checks},
        )
    return {
        "status": "ready",
        "checks": checks,
        "warnings": [f"{name} {reason}" for name, reason in reasons.items()],
    }


def _database(here: Service) -> None:
    here.engine.check()


def _scorer(here: Service) -> None:
    _ = here.engine.scorer


def _broker(here: Service) -> None:
    with here.celery.connection_for_write() as connection:
        connection.default_channel.queue_declare(here.celery.conf.task_default_queue)


CHECKS: dict[str, Callable[[Service], None]] = {"database": _database, "scorer": _scorer, "broker": _broker}

OPTIONAL = frozenset({"broker"})
"""Checks whose failure only adds a warning."""

REASONS = {
    "database": "cannot be read, or is not migrated to this version",
    "scorer": "cannot be loaded",
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


@blueprint.get("/metrics")
@blueprint.responds(200, {"type": "string"}, content_type="text/plain")
def get_metrics() -> Response:
    """Get metrics for Prometheus"""
    return Response(service.current().metrics.text(), content_type=CONTENT_TYPE_LATEST)
