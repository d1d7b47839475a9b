"""Cases for every operation of the API document, the same in every run."""

from __future__ import annotations

from collections.abc import Callable

import flask
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as given_settings
from schemathesis import GenerationMode

Try = Callable[[schemathesis.Case], None]


def try_everything(
    app: flask.Flask, attempt: Try, *, examples: int, mode: GenerationMode | None = None
) -> int:
    """Pass `examples` cases of each operation to `attempt`; return the number of operations.

    Cases are valid by the OpenAPI document; with `GenerationMode.NEGATIVE` they are invalid.
    """
    mode = mode or GenerationMode.POSITIVE
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    tried = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        tried.add((operation.method, operation.path))
        # Operations without parameters and body have no invalid requests.
        places = (operation.path_parameters, operation.query, operation.headers, operation.body)
        if mode is GenerationMode.NEGATIVE and not any(places):
            continue

        @given(case=operation.as_strategy(generation_mode=mode))
        @given_settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def run_case(case: schemathesis.Case) -> None:
            case.headers = {**(case.headers or {}), "Host": "localhost"}
            # The header can request a wait of a minute.
            case.headers.pop("Prefer", None)
            attempt(case)

        run_case()
    return len(tried)
