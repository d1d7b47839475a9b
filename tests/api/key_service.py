"""A service with collections and keys of every kind, for the tests of rights."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import flask
import structlog
from fake_scorer import FakeScorer

from shoal.access.key_store import KeyStore
from shoal.access.operations import Operation
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.service import EXTENSION, Service

API = "/api/v1"
OWN, FOREIGN, MISSING = "own", "foreign", "missing"
"""Names of collections; the last one does not exist."""

OF_SERVICE = (
    f"{API}/collections",
    f"{API}/keys",
    "/keys",
    "/collections",
    "/metrics",
    "/health",
    "/ready",
    "/docs",
    "/redoc",
    "/openapi",
    "/dify",
    "/openai",
)
"""Beginnings of paths that no collection has."""

SETTING_KEYS = {scope: f"{scope}-key-of-the-settings-0123456789" for scope in ("read", "write", "admin")}
WRONG = "shoal_" + "0" * 48

VALUES = {
    "event": "prompt",
    "action": "pin",
    "filename": "docs.css",
    "user_id": "ann/x",
    "word": "lava",
    "key_id": "0123456789abcdef",
    "delivery_id": "d",
    "trace_id": "t",
}
"""Values of parameters that are no numbers."""
CHOICES = {
    "/notes/proposals": "accept",
    "/synonyms/acronyms": "confirm",
    "/keys": "revoke",
    "/saved-searches": "pause",
    "/sources": "pause",
}
"""Values of `{change}` and `{decision}` by the beginning of the path."""


def address_of(operation: Operation, name: str | None) -> str:
    """Return a URL of an operation in a collection, None for one without a prefix."""
    choice = next((value for start, value in CHOICES.items() if operation.path.startswith(start)), "")
    path = re.sub(
        r"{(\w+)}",
        lambda found: (
            (name or "main")
            if found[1] == "name"
            else choice
            if found[1] in ("change", "decision")
            else VALUES.get(found[1], "1")
        ),
        operation.path,
    )
    if name is None or operation.path.startswith(OF_SERVICE):
        return path
    if not path.startswith(API):
        return f"/collections/{name}{path}"
    return f"{API}/collections/{name}{path.removeprefix(API)}"


@contextmanager
def key_service(
    folder: Path, migrated: Path, **changes: object
) -> Iterator[tuple[flask.Flask, dict[str, str]]]:
    """Build a service with the collections OWN and FOREIGN, and keys; yields the application and the header
    `Authorization` by the name of the caller."""
    # Thousands of requests: most of their time would go into lines that nobody reads.
    configuration = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with _service(folder, migrated, **changes) as built:
            yield built
    finally:
        structlog.configure(**configuration)


@contextmanager
def _service(folder: Path, migrated: Path, **changes: object) -> Iterator[tuple[flask.Flask, dict[str, str]]]:
    path = folder / "shoal.db"
    path.write_bytes(migrated.read_bytes())
    keys = ",".join(f"{scope}:{key}" for scope, key in SETTING_KEYS.items())
    settings = replace(
        Settings(database_url=f"sqlite:///{path}", learning=False, api_keys=keys, key_cache_seconds=60.0),
        **changes,  # type: ignore[arg-type]
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        app = create_app(settings, engine=engine)
        service: Service = app.extensions[EXTENSION]
        for name in (OWN, FOREIGN):
            service.collections.create(name)
        store = KeyStore(service.collections.catalog)
        callers = {f"setting {scope}": key for scope, key in SETTING_KEYS.items()}
        for right in ("read", "write", "admin"):
            callers[f"own {right}"] = store.create(right, [(OWN, right)]).key
            callers[f"all {right}"] = store.create(right, [("*", right)]).key
        expired = KeyStore(service.collections.catalog, clock=lambda: time.time() - 10)
        callers["expired"] = expired.create("x", [("*", "admin")], expires_at=time.time() - 5).key
        revoked = store.create("x", [("*", "admin")])
        store.revoke(revoked.details.id)
        callers |= {"revoked": revoked.key, "wrong": WRONG}
        yield app, {name: f"Bearer {key}" for name, key in callers.items()}
        service.collections.close()
