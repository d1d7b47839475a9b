"""`Idempotency-Key`: a client without a response can repeat a request safely."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import flask

from shoal.declared.operations.operation import SAME_JOB
from shoal.errors import IdempotencyError
from shoal.jobs.queue.queries import Job
from shoal_api.problems import field_problem
from shoal_api.service import Service

MAX_KEY_CHARS = 255

PARAMETER = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS},
    "description": SAME_JOB,
}


def key(request: flask.Request) -> str | None:
    """Return the idempotency key of a request, None if absent. Raises a 422 problem for an invalid one."""
    value = request.headers.get("Idempotency-Key")
    if value is None:
        return None
    if not 1 <= len(value) <= MAX_KEY_CHARS or not value.isascii() or not value.isprintable():
        raise field_problem("Idempotency-Key", f"must be 1 to {MAX_KEY_CHARS} printable ASCII characters")
    return value


def fingerprint(operation: str, value: Any) -> str:
    """Return the SHA-256 (hex) of a request as JSON with sorted keys, independent of its formatting."""
    text = json.dumps([operation, value], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def earlier_job(service: Service, idempotency_key: str | None, request_hash: str) -> Job | None:
    """Return the job accepted under this key, if any. Raises IdempotencyError if it was for another
    request."""
    if idempotency_key is None:
        return None
    match = service.engine.jobs.by_key(idempotency_key)
    if match is None:
        return None
    job_id, accepted_hash = match
    if accepted_hash != request_hash:
        raise IdempotencyError(idempotency_key)
    return service.engine.jobs.get(job_id)
