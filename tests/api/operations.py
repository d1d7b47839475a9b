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
    """Hand so many cases for each operation to `attempt`; how many operations there are.

    Cases are as the document allows, or as it does not with `GenerationMode.NEGATIVE`.
    """
    mode = mode or GenerationMode.POSITIVE
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    tried = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        tried.add((operation.method, operation.path))
        # Where there is no parameter and no body, nothing could be wrong.
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
        def answers(case: schemathesis.Case) -> None:
            case.headers = {**(case.headers or {}), "Host": "localhost"}
            # It may ask for a wait of a minute.
            case.headers.pop("Prefer", None)
            attempt(case)

        answers()
    return len(tried)
