"""The API document against the service: whatever it allows to be sent is answered as it says."""

from __future__ import annotations

import flask
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as given_settings
from schemathesis.checks import CHECKS
from surface import VOLCANO, Store

NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def test_every_operation_answers_as_documented(app: flask.Flask, store: Store) -> None:
    store(VOLCANO, title="Fire", tags=["rock"])
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    checks = [CHECKS.get_one(name) for name in NAMES]
    tried = set()

    for result in schema.get_all_operations():
        operation = result.ok()
        tried.add((operation.method, operation.path))

        @given(case=operation.as_strategy())
        @given_settings(
            max_examples=8,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def answers(case: schemathesis.Case) -> None:
            case.headers = {**(case.headers or {}), "Host": "localhost"}
            case.headers.pop("Prefer", None)
            case.call_and_validate(checks=checks)

        answers()
    assert len(tried) >= 20
