"""Who may do what: every operation, with every kind of key, in the own, a foreign and a missing collection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
from key_service import FOREIGN, MISSING, OWN, address_of, key_service
from werkzeug.test import TestResponse

from shoal.access.operations import OPERATIONS, Operation, needed_by_path, path_of_rule
from shoal.declared.operations.drop_in import OPENAI
from shoal.models.keys import Needed
from shoal.settings.checks import INTERFACES
from shoal_api import access, create_app
from shoal_api.access import EXTENSION, Gate
from shoal_api.paths import without_collection
from shoal_api.server import Admission

API = "/api/v1"
ALL = ",".join(INTERFACES)
REACHED = 418
"""Status of a request that would have reached its view."""
FRAME = 298
"""Status of a page of the console that would have shown its frame, which asks for a key."""

CALLERS = (
    "none", "wrong", "expired", "revoked", "own read", "own write", "own admin", "all read", "all write",
    "all admin", "setting read", "setting write", "setting admin",
)  # fmt: skip

IN_OWN = """
    public    ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok
    any_key   401 401 401 401 ok  ok  ok  ok  ok  ok  ok  ok  ok
    read      401 401 401 401 ok  ok  ok  ok  ok  ok  ok  ok  ok
    write     401 401 401 401 403 ok  ok  403 ok  ok  403 ok  ok
    admin     401 401 401 401 403 403 ok  403 403 ok  403 ok  ok
    overview  401 401 401 401 403 403 403 ok  ok  ok  ok  ok  ok
    manage    401 401 401 401 403 403 403 403 403 ok  403 ok  ok
    grant     401 401 401 401 403 403 403 403 403 ok  403 403 ok
"""
"""The statuses by need and caller, in the collection of the keys `own …`."""

IN_FOREIGN = """
    public    ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok  ok
    read      401 401 401 401 404 404 404 ok  ok  ok  ok  ok  ok
    write     401 401 401 401 404 404 404 403 ok  ok  403 ok  ok
    admin     401 401 401 401 404 404 404 403 403 ok  403 ok  ok
    manage    401 401 401 401 404 404 404 403 403 ok  403 ok  ok
"""
"""The same in another collection, for operations that name one."""


def table(text: str) -> dict[tuple[str, str], int]:
    cells = {}
    for line in text.strip().split("\n"):
        needed, *statuses = line.split()
        for caller, status in zip(CALLERS, statuses, strict=True):
            cells[needed, caller] = REACHED if status == "ok" else int(status)
    return cells


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[tuple[flask.Flask, dict[str, str]]]:
    """A service whose requests end where their views would begin."""
    with key_service(tmp_path_factory.mktemp("keys"), migrated, drop_in=ALL) as (app, headers):

        @app.before_request
        def reach() -> flask.Response:
            is_frame = access.shows_frame_only() and not access.is_public(flask.request)
            return flask.Response(status=FRAME if is_frame else REACHED)

        yield app, headers


def send(
    service: tuple[flask.Flask, dict[str, str]], method: str, path: str, caller: str
) -> tuple[TestResponse, int | None]:
    """Return the response of the application, and the status with which a body would not be received."""
    app, headers = service
    given = {} if caller == "none" else {"Authorization": headers[caller]}
    gate: Gate = app.extensions[EXTENSION]
    refusal = Admission(access_settings(app), gate).check(method, path, given.get("Authorization"))
    return app.test_client().open(path, method=method, headers=given), refusal.code if refusal else None


def access_settings(app: flask.Flask) -> Any:
    return app.extensions["shoal"].settings


def is_page(operation: Operation) -> bool:
    return operation.method == "GET" and not operation.path.startswith((API, "/metrics", OPENAI))


def test_every_route_has_an_entry_and_every_entry_a_route(settings: Any, engine: Any) -> None:
    routes = {
        (method, path_of_rule(rule.rule))
        for rule in create_app(replace(settings, drop_in=ALL), engine=engine).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    entries = [(operation.method, operation.path) for operation in OPERATIONS]
    assert len(entries) == len(set(entries)), "an operation has one need"
    assert routes == set(entries)


@pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}"
)
def test_every_cell(service: tuple[flask.Flask, dict[str, str]], operation: Operation) -> None:
    own, foreign = table(IN_OWN), table(IN_FOREIGN)
    address = address_of(operation, OWN)
    names_one = OWN in address.split("/")
    needed = operation.needed_first
    for caller in CALLERS:
        for path, cells in (
            (address, own),
            (address_of(operation, FOREIGN), foreign if names_one else own),
            # Without a prefix, `main` is meant, which the keys `own …` do not open.
            (address_of(operation, None), foreign if names_one else own),
        ):
            if (needed, caller) not in cells:
                assert needed in (Needed.overview, Needed.any_key, Needed.grant)
                continue
            expected = cells[needed, caller]
            response, refused = send(service, operation.method, path, caller)
            if operation.path.startswith("/dify") and expected == 401:
                # Its contract has no 401.
                expected = 403
            assert refused == (None if expected == REACHED else expected), (path, caller)
            if expected == 401 and caller == "none" and is_page(operation):
                expected = FRAME
            assert response.status_code == expected, (path, caller, response.get_data(as_text=True))


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    "rest", ["", "/", "/documents", "/documents/1", "/search", "/nothing", "/keys", "//", "/x/y", "/swap"]
)
def test_a_foreign_collection_is_like_one_that_does_not_exist(
    service: tuple[flask.Flask, dict[str, str]], method: str, rest: str
) -> None:
    for prefix in (f"{API}/collections", "/collections"):
        for caller in ("own read", "own admin", "wrong", "none"):
            shown = []
            for name in (FOREIGN, MISSING):
                response, refused = send(service, method, f"{prefix}/{name}{rest}", caller)
                body = response.get_data(as_text=True).replace(name, "NAME")
                if response.content_type == "application/problem+json" and body:
                    body = {**json.loads(body), "trace_id": ""}
                headers = sorted(
                    (key, value.replace(name, "NAME"))
                    for key, value in response.headers
                    if key not in ("X-Trace-Id", "Content-Length")
                )
                shown.append((response.status_code, body, headers, refused))
                if caller.startswith("own") and prefix.startswith(API):
                    assert response.status_code == 404
                    assert refused == 404
            assert shown[0] == shown[1]


def test_no_statement_reads_a_foreign_or_missing_collection(
    service: tuple[flask.Flask, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time cannot differ then: only rows that the key names are read."""
    app, _ = service
    catalog = app.extensions["shoal"].collections.catalog
    for method in ("find", "by_id"):
        monkeypatch.setattr(catalog, method, lambda *_: pytest.fail("a name was looked up"))
    for name in (FOREIGN, MISSING):
        response, _refused = send(service, "GET", f"{API}/collections/{name}/documents", "own admin")
        assert response.status_code == 404


@pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}"
)
def test_path_alone_leads_to_the_same_need(operation: Operation) -> None:
    for name in (None, OWN):
        path = without_collection(address_of(operation, name))
        assert needed_by_path(operation.method, path) is operation.needed_first
        assert needed_by_path(operation.method, f"{path}/") is operation.needed_first


@pytest.mark.parametrize("needed", list(Needed))
def test_without_keys_only_keys_cannot_be_made(settings: Any, engine: Any, needed: Needed) -> None:
    app = create_app(settings, engine=engine)
    app.before_request(lambda: flask.Response(status=REACHED))
    for operation in OPERATIONS:
        if operation.needed is needed:
            response = app.test_client().open(address_of(operation, None), method=operation.method)
            expected = 403 if needed is Needed.grant else REACHED
            assert response.status_code == expected, operation
            if expected == 403:
                assert "shoal key create" in response.get_json(force=True)["detail"]
