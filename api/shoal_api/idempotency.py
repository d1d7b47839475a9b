"""`Idempotency-Key`: a client that got no answer may ask again without doing the work twice."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import flask

from shoal.errors import IdempotencyError
from shoal.jobs.queue import queries
from shoal_api.problems import field_problem
from shoal_api.service import Service

MAX_KEY_CHARS = 255

PARAMETER = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS},
    "description": "any text of the client's; the same key and body give the same job, another body gives 409",
}


def key(request: flask.Request) -> str | None:
    """The key of a request, None where it has none. Raises a 422 problem for one that cannot be a key."""
    value = request.headers.get("Idempotency-Key")
    if value is None:
        return None
    if not 1 <= len(value) <= MAX_KEY_CHARS or not value.isascii() or not value.isprintable():
        raise field_problem("Idempotency-Key", f"must be 1 to {MAX_KEY_CHARS} printable ASCII characters")
    return value


def fingerprint(operation: str, value: Any) -> str:
    """SHA-256 (hex) of what a request asks for, whatever its spelling: JSON with sorted keys."""
    text = json.dumps([operation, value], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def earlier_job(service: Service, idempotency_key: str | None, request_hash: str) -> queries.Job | None:
    """The job this key was accepted for. Raises IdempotencyError if that was for another request."""
    if idempotency_key is None:
        return None
    found = queries.find_by_key(service.engine.database, idempotency_key)
    if found is None:
        return None
    job_id, accepted_hash = found
    if accepted_hash != request_hash:
        raise IdempotencyError(idempotency_key)
    return queries.get_job(service.engine.database, job_id)
