"""The service about itself: alive, ready, counts, metrics, reefs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from werkzeug.wrappers import Response

from shoal.errors import DatabaseReplacedError, ShoalError
from shoal.storage import migrate
from shoal_api import service
from shoal_api.metrics import CONTENT_TYPE_LATEST
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import RETRY_SECONDS, ProblemError
from shoal_api.schemas.system import HealthSchema, ReadySchema, ReefsSchema, StatusSchema
from shoal_api.service import Service

log = structlog.get_logger("shoal.api")

blueprint = Blueprint("system", __name__, description="The service about itself")


@blueprint.get(f"{API}/status")
@blueprint.answers(200, StatusSchema)
def get_status() -> dict[str, Any]:
    """Counts, versions, jobs and workers"""
    return service.current().engine.status()


@blueprint.get(f"{API}/reefs")
@blueprint.answers(200, ReefsSchema)
def get_reefs() -> dict[str, Any]:
    """The hierarchy of reefs with their typical words and how many chunks each leads"""
    return service.current().engine.reefs()


@blueprint.get("/health")
@blueprint.answers(200, HealthSchema)
def get_health() -> dict[str, str]:
    """Whether the process is alive"""
    return {"status": "ok"}


@blueprint.get("/ready")
@blueprint.answers(200, ReadySchema)
@blueprint.fails(503)
def get_readiness() -> dict[str, Any]:
    """Whether the service can do its work; 503 names what keeps it from it"""
    here = service.current()
    reasons = {name: reason for name, check in CHECKS.items() if (reason := _run(name, check, here))}
    checks = {name: "failed" if name in reasons else "ok" for name in CHECKS}
    if reasons:
        raise ProblemError(
            503,
            "not ready: " + ", ".join(f"{name} ({reason})" for name, reason in reasons.items()),
            errors={name: [reason] for name, reason in reasons.items()},
            headers={"Retry-After": str(RETRY_SECONDS)},
            members={"checks": checks},
        )
    return {"status": "ready", "checks": checks}


def _database(here: Service) -> None:
    migrate.check(here.engine.database)
    here.engine.database.check_files()


def _scorer(here: Service) -> None:
    _ = here.engine.scorer


def _broker(here: Service) -> None:
    with here.celery.connection_for_write() as connection:
        connection.default_channel.queue_declare(here.celery.conf.task_default_queue)


CHECKS: dict[str, Callable[[Service], None]] = {"database": _database, "scorer": _scorer, "broker": _broker}

REASONS = {
    "database": "cannot be read, or is not prepared for this version",
    "scorer": "cannot be loaded",
    "broker": "cannot be reached; jobs are accepted and start when it is back",
}
REPLACED = "its files were removed or replaced, so nothing can be stored; the service has to be restarted"


def _run(name: str, check: Callable[[Service], None], here: Service) -> str | None:
    """Why a check failed, in words without paths; None if it did not."""
    try:
        check(here)
    except Exception as error:
        trace = None if isinstance(error, ShoalError) else error
        log.warning("not ready", check=name, reason=str(error), exc_info=trace)
        return REPLACED if isinstance(error, DatabaseReplacedError) else REASONS[name]
    return None


@blueprint.get("/metrics")
@blueprint.answers(200, {"type": "string"}, content_type="text/plain")
def get_metrics() -> Response:
    """Metrics for Prometheus"""
    return Response(service.current().metrics.text(), content_type=CONTENT_TYPE_LATEST)
