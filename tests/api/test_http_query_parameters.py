"""Query parameters of every operation and page: what is not declared is refused, with a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from key_service import address_of
from surface import API, assert_problem, prepare
from test_http_openapi import OPERATIONS, operations

from shoal.access.operations import OPERATIONS as ROUTES
from shoal.access.operations import Operation
from shoal.declared.operations.drop_in import DIFY, OPENAI
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

UNKNOWN = "colour"
KEY = "admin-0123456789abcdef"


@pytest.fixture(scope="module")
def admin(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A client with a key for every operation."""
    database = tmp_path_factory.mktemp("admin") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{database}", api_keys=f"admin:{KEY}")
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {KEY}"
        yield client


@pytest.fixture(scope="module")
def requests(empty: FlaskClient) -> dict[str, tuple[str, str, list[str]]]:
    """Method, path and query parameters by operation id."""
    spec = empty.get("/openapi.json").get_json()
    found = {}
    for name, operation in operations(spec):
        method, path = name.split()
        declared = [*spec["paths"][path].get("parameters", ()), *operation.get("parameters", ())]
        for parameter in declared:
            if parameter["in"] == "path":
                value = parameter["schema"].get("enum", [1])[0]
                path = path.replace(f"{{{parameter['name']}}}", str(value))
        queries = [parameter["name"] for parameter in declared if parameter["in"] == "query"]
        found[operation["operationId"]] = (method, path, queries)
    return found


def _errors(client: FlaskClient, method: str, path: str, *names: str) -> dict[str, Any]:
    response = client.open(path, method=method, query_string=dict.fromkeys(names, "1"))
    problem = assert_problem(response, 422)
    assert problem["code"] == "invalid_field"
    errors: dict[str, Any] = problem["errors"]
    return errors


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_refuses_what_it_does_not_declare(
    admin: FlaskClient, requests: dict[str, tuple[str, str, list[str]]], operation: str
) -> None:
    method, path, queries = requests[operation]
    [message] = _errors(admin, method, path, UNKNOWN)[UNKNOWN]
    assert message.startswith("is not known")
    assert all(name in message for name in queries)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_misspelt_parameter_is_recognized(
    admin: FlaskClient, requests: dict[str, tuple[str, str, list[str]]], operation: str
) -> None:
    method, path, queries = requests[operation]
    for name in queries:
        errors = _errors(admin, method, path, f"{name}x")
        assert errors == {f"{name}x": [f"is not known; did you mean `{name}`?"]}


def test_field_of_the_body_is_recognized(empty: FlaskClient) -> None:
    [message] = _errors(empty, "POST", f"{API}/search", "top_k")["top_k"]
    assert message == "is a field of the body, not a query parameter"
    [message] = _errors(empty, "POST", f"{API}/search", "topk")["topk"]
    assert message == "is not known; did you mean the field `top_k` of the body?"


def test_parameter_of_one_other_operation_is_recognized(empty: FlaskClient) -> None:
    [message] = _errors(empty, "POST", f"{API}/documents", "on_conflict")["on_conflict"]
    assert message == "is not known here; `POST /api/v1/documents/bulk` takes it"


def test_unknown_parameter_is_refused_before_the_body_is_read(empty: FlaskClient) -> None:
    response = empty.post(f"{API}/documents?on_conflict=replace", data=b"{")
    assert set(assert_problem(response, 422)["errors"]) == {"on_conflict"}


def test_number_of_messages_is_limited(empty: FlaskClient) -> None:
    names = [f"{UNKNOWN}{n}" for n in range(500)]
    response = empty.delete(f"{API}/documents/1?" + "&".join(names))
    problem = assert_problem(response, 422)
    assert len(problem["errors"]) == 20
    assert "480 more errors" in problem["detail"]


@pytest.mark.parametrize("path", [f"{API}/status", f"{API}/documents/1", f"{API}/search"])
def test_query_string_must_be_utf_8(empty: FlaskClient, path: str) -> None:
    assert_problem(empty.get(f"{path}?q=%ff"), 400)


PAGES = [
    operation
    for operation in ROUTES
    if not operation.path.startswith(
        (API, "/health", "/ready", "/metrics", "/static", "/docs", "/redoc", "/openapi", DIFY, OPENAI)
    )
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.method} {page.path}")
def test_every_page_of_the_console_refuses_what_it_would_ignore(admin: FlaskClient, page: Operation) -> None:
    response = admin.open(address_of(page, None), method=page.method, query_string={UNKNOWN: "red"})
    assert response.status_code == 422
    assert f"{UNKNOWN}: is not known" in response.get_data(as_text=True)


def test_misspelt_parameter_of_a_page_is_recognized(admin: FlaskClient) -> None:
    response = admin.get("/library?tags=sea")
    assert "tags: is not known; did you mean `tag`?" in response.get_data(as_text=True)
