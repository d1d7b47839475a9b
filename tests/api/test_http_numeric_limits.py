"""Every number that a request may have: the API document states its limits, and they are what is accepted."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, prepare
from test_http_openapi import operations

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

KEY = "admin-0123456789abcdef"
BODIES: Mapping[str, dict[str, Any]] = {
    "searchBatch": {"searches": ["lava"], "fused": True},
    "mergeNotes": {"note_ids": [1, 2]},
    "createSavedSearch": {"name": "a", "search": {"query": "lava"}, "url": "https://example.org/"},
}
"""What a body needs besides the required members of its schema."""
BESIDE: Mapping[str, dict[str, Any]] = {
    "half_life_days": {"field": "date", "weight": 0.2},
    "weight": {"field": "date", "half_life_days": 30},
    "rerank": {},
}
"""What stands beside a number in its object."""
WITHOUT_MAXIMUM = {"min_confidence", "wait"}
"""A z-score has no largest value, and a longer wait ends at its limit."""
ID_OF_A_NOTE = "supersedes"
"""A number that must also be the id of a stored note."""
CHECKED_LATER = {"changeSavedSearch"}
"""Operations that look for a thing first. Their schemas are those of others."""
STEP = {"integer": 1, "number": 1e-6}


@dataclass(frozen=True)
class Number:
    """A number of a request. `path`: of its names in the body; one name in the query string."""

    operation: str
    method: str
    url: str
    place: str
    path: tuple[str, ...]
    schema: Mapping[str, Any]
    body: Any
    query: Mapping[str, str]

    @property
    def kind(self) -> str:
        return "integer" if "integer" in _kinds(self.schema) else "number"

    def send(self, client: FlaskClient, value: float) -> Any:
        body, query = copy.deepcopy(self.body), dict(self.query)
        if self.place == "query":
            query[self.path[0]] = str(value)
        else:
            at = body
            for name in self.path[:-1]:
                at = at.setdefault(name, {})
            at |= {**BESIDE.get(self.path[-1], {}), self.path[-1]: value}
        return client.open(self.url, method=self.method, query_string=query, json=body)

    def is_accepted(self, client: FlaskClient, value: float) -> bool:
        response = self.send(client, value)
        if response.status_code not in (413, 422):
            return True
        name = ".".join(self.path)
        # A retrieval and a saved search name the argument without its place.
        named = response.get_json(force=True).get("errors", {})
        return not any(field in (name, self.path[-1]) for field in named)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type", ())
    return {kind} if isinstance(kind, str) else set(kind)


class Spec:
    """The OpenAPI document of a service."""

    def __init__(self, client: FlaskClient) -> None:
        self._spec: dict[str, Any] = client.get("/openapi.json").get_json()

    def resolve(self, node: Any) -> dict[str, Any]:
        while "$ref" in node:
            target: Any = self._spec
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            node = target
        found: dict[str, Any] = node
        return found

    def sample(self, node: Any) -> Any:
        schema = self.resolve(node)
        for member in ("anyOf", "allOf"):
            if member in schema:
                return self.sample(next(each for each in schema[member] if each.get("type") != "null"))
        kinds = _kinds(schema)
        if "array" in kinds:
            return []
        if "object" in kinds or "properties" in schema:
            return {name: self.sample(schema["properties"][name]) for name in schema.get("required", ())}
        if "enum" in schema:
            return schema["enum"][0]
        return 1 if kinds & {"integer", "number"} else False if "boolean" in kinds else "a"

    def numbers_in(
        self, node: Any, path: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
        schema = self.resolve(node)
        for member in ("anyOf", "allOf"):
            for each in schema.get(member, ()):
                yield from self.numbers_in(each, path)
        if _kinds(schema) & {"integer", "number"}:
            yield path, schema
        for name, inner in schema.get("properties", {}).items():
            yield from self.numbers_in(inner, (*path, name))

    def numbers(self) -> Iterator[Number]:
        for name, operation in operations(self._spec):
            method, url = name.split()
            item = self._spec["paths"][url]
            parameters = [
                self.resolve(each) for each in (*item.get("parameters", ()), *operation.get("parameters", ()))
            ]
            for each in parameters:
                if each["in"] == "path":
                    url = url.replace(f"{{{each['name']}}}", str(each["schema"].get("enum", [1])[0]))
            queries = [each for each in parameters if each["in"] == "query"]
            query = {each["name"]: "a" for each in queries if each.get("required")}
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            is_object = content is not None and "array" not in _kinds(self.resolve(content["schema"]))
            operation_id = operation["operationId"]
            body: Any = None
            if is_object:
                body = {**self.sample(content["schema"]), **BODIES.get(operation_id, {})}
            rows = [("query", (each["name"],), each["schema"]) for each in queries]
            rows = [row for row in rows if _kinds(row[2]) & {"integer", "number"}]
            if is_object:
                rows += [("body", path, schema) for path, schema in self.numbers_in(content["schema"])]
            for place, path, schema in rows:
                yield Number(operation_id, method, url, place, path, schema, body, query)


def client_of(folder: Path, migrated: Path, **changed: Any) -> Iterator[FlaskClient]:
    settings = replace(
        Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", api_keys=f"admin:{KEY}"), **changed
    )
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {KEY}"
        yield client


@pytest.fixture(scope="module")
def client(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    yield from client_of(tmp_path_factory.mktemp("limits"), migrated)


def test_every_number_has_stated_limits(client: FlaskClient) -> None:
    numbers = list(Spec(client).numbers())
    assert len(numbers) > 100
    for number in numbers:
        about = f"{number.operation} {number.path}"
        assert {"minimum", "exclusiveMinimum"} & number.schema.keys(), about
        assert "maximum" in number.schema or number.path[-1] in WITHOUT_MAXIMUM, about


def test_stated_limits_are_those_that_are_accepted(client: FlaskClient) -> None:
    for number in Spec(client).numbers():
        if number.operation in CHECKED_LATER or number.path[-1] == ID_OF_A_NOTE:
            continue
        about, schema, step = f"{number.operation} {number.path}", number.schema, STEP[number.kind]
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is None:
            assert not number.is_accepted(client, schema["exclusiveMinimum"]), about
        else:
            assert number.is_accepted(client, low), about
            assert not number.is_accepted(client, low - step), about
        if high is not None:
            # JSON has no integers in query strings; a step must change a number of this size.
            assert number.is_accepted(client, high), about
            assert not number.is_accepted(
                client, high + max(step, high * 1e-6 if number.kind == "number" else 1)
            ), about


@pytest.mark.parametrize("most", [20, 300])
def test_number_of_results_has_the_limit_of_the_setting(migrated: Path, tmp_path: Path, most: int) -> None:
    for client in client_of(tmp_path, migrated, max_top_k=most):
        spec = client.get("/openapi.json").get_json()
        for path in ("search", "search/batch", "explain"):
            schema = spec["paths"][f"{API}/{path}"]["post"]["requestBody"]["content"]["application/json"][
                "schema"
            ]
            name = schema["$ref"].rpartition("/")[2]
            assert spec["components"]["schemas"][name]["properties"]["top_k"]["maximum"] == most
            query: dict[str, Any] = {"searches": ["lava"]} if "batch" in path else {"query": "lava"}
            for n, status in ((most, 200), (most + 1, 422)):
                assert client.post(f"{API}/{path}", json={**query, "top_k": n}).status_code == status
        retrieval = spec["components"]["schemas"]["RetrieveRequest"]["properties"]["top_k"]
        assert retrieval["maximum"] == min(most, 50)
        assert f"1 to {most}" in client.get("/docs").get_data(as_text=True)
