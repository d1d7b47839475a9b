"""Responses to valid and invalid requests match the OpenAPI document."""

from __future__ import annotations

from dataclasses import replace

import flask
import pytest
import schemathesis
from examples import examples
from operations import try_everything
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from surface import VOLCANO, Store

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)

WRITE = "writer-0123456789abcdef"
READ = "reader-0123456789abcdef"

SERVICES: dict[str, tuple[str, str | None]] = {
    "without keys": ("", None),
    "with a key": (WRITE, WRITE),
    "with a key that reads": (f"{WRITE},read:{READ}", READ),
    "without the key": (WRITE, None),
}
"""The keys of the service, and the key of the client."""


@pytest.fixture
def app(settings: Settings, engine: Engine) -> flask.Flask:
    """The service with short event streams: without a worker, no job ends."""
    return create_app(replace(settings, event_stream_seconds=0.1), engine=engine)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_responses_of_every_operation_match_the_openapi_document(
    app: flask.Flask, store: Store, mode: GenerationMode
) -> None:
    store(VOLCANO, title="Fire", tags=["rock"])
    assert _validate(app, mode, examples=examples(8), key=None) >= 20


@pytest.mark.parametrize("service", SERVICES)
def test_responses_match_the_openapi_document_with_any_key(
    app: flask.Flask, settings: Settings, engine: Engine, store: Store, service: str
) -> None:
    store(VOLCANO, title="Fire", tags=["rock"])
    keys, key = SERVICES[service]
    locked = create_app(replace(settings, event_stream_seconds=0.1, api_keys=keys), engine=engine)
    assert _validate(locked, GenerationMode.POSITIVE, examples=examples(4), key=key) >= 20


def _validate(app: flask.Flask, mode: GenerationMode, *, examples: int, key: str | None) -> int:
    """Validate `examples` responses of each operation; return the number of operations."""

    def attempt(case: schemathesis.Case) -> None:
        if key is not None:
            case.headers["Authorization"] = f"Bearer {key}"
        # Schemathesis registers its checks when it reads a document.
        case.call_and_validate(checks=[CHECKS.get_one(name) for name in NAMES])

    return try_everything(app, attempt, examples=examples, mode=mode)
