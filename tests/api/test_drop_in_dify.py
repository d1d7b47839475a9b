"""Dify's external knowledge API: its published contract, with every operator, and what it cannot express."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flask
import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from key_service import FOREIGN, MISSING, OWN, key_service
from surface import FLOWER, VOLCANO, prepare

from shoal.access.key_store import KeyStore
from shoal.client import make_token
from shoal.engine import Engine
from shoal.filters.foreign import DIFY_OPERATORS
from shoal.settings import Settings
from shoal.support.search_tokens import new_pair
from shoal_api import create_app
from shoal_api.access import EXTENSION as GATE
from shoal_api.server import Admission
from shoal_api.service import EXTENSION

PATH = "/dify/retrieval"
DOCUMENTS: dict[str, dict[str, Any]] = {
    "old": {"path": "s3://dify/knowledge.txt", "year": 2019, "day": "2019-05-01", "author": "Ada", "a.b": "c"},
    "new": {"path": "s3://dify/introduce.md", "year": 2024, "day": "2024-05-01", "author": "", "tags": ["AI", "x"]},
    "none": {"year": 2021.5, "author": None, "seconds": 1_700_000_000},
}  # fmt: skip
"""The metadata of each document, by its title."""

OPERATORS: list[tuple[str, str, Any, str]] = [
    ("path", "contains", "KNOWLEDGE", "old"),
    ("tags", "contains", "AI", "new"),
    ("shoal:tags", "contains", "AI", "old"),
    ("a.b", "is", "c", "old"),
    ("metadata.year", "=", 2019, ""),
    ("path", "not contains", "knowledge", "new none"),
    ("path", "start with", "s3://dify/k", "old"),
    ("path", "end with", ".md", "new"),
    ("author", "is", "Ada", "old"),
    ("year", "is", "2019", ""),
    ("author", "is not", "Ada", "new none"),
    ("path", "in", ["s3://dify/introduce.md", "x"], "new"),
    ("year", "not in", [2019, 2024], "none"),
    ("author", "empty", None, "new none"),
    ("path", "empty", "ignored", "none"),
    ("author", "not empty", None, "old"),
    ("author", "null", None, "none"),
    ("author", "not null", None, "old new"),
    ("year", "=", "2019", "old"),
    ("year", "=", 2021.5, "none"),
    ("year", "≠", 2019, "new none"),
    ("year", ">", 2019, "new none"),
    ("year", "<", "2024", "old none"),
    ("year", "≥", 2021.5, "new none"),
    ("year", "≤", 2019.0, "old"),
    ("day", "before", "2024-05-01", "old"),
    ("day", "after", "2019-05-01", "new"),
    ("shoal:created", "after", "2019", "old new none"),
    ("seconds", "before", 1_800_000_000, "none"),
    ("seconds", "after", "1600000000", "none"),
    ("title", "is", "old", "old"),
    ("source", "end with", "OLD.md", "old"),
    ("document_id", "=", "1", "old"),
    (["year"], "=", 2019, "old"),
]  # fmt: skip
"""Name, operator, value, and the titles that meet it."""


@pytest.fixture(scope="module")
def dify(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[FlaskClient]:
    """A service with a document for each of DOCUMENTS, whose text is about a volcano."""
    folder = tmp_path_factory.mktemp("dify")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", drop_in="dify")
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for title, metadata in DOCUMENTS.items():
            engine.ingest(
                title=title,
                content=f"{VOLCANO} It is {title}.",
                source_path=f"{title}.md",
                tags=["ai"] * (title == "old"),
                metadata=metadata,
            )
        yield create_app(settings, engine=engine).test_client()


def body(query: str = "lava and ash", condition: Any = None, **changes: Any) -> dict[str, Any]:
    """A request as Dify sends it, which leaves the condition out if there is none."""
    sent = {
        "knowledge_id": "main",
        "query": query,
        "retrieval_setting": {"top_k": 10, "score_threshold": 0.0},
        **changes,
    }
    return sent if condition is None else {**sent, "metadata_condition": condition}


def titles(client: FlaskClient, condition: Any) -> set[str]:
    answer = client.post(PATH, json=body(condition=condition))
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return {record["title"] for record in answer.get_json()["records"]}


def comparison(name: Any, operator: str, value: Any = None) -> dict[str, Any]:
    return {"name": name, "comparison_operator": operator, "value": value}


def test_records_have_the_form_of_the_contract_and_a_reason(dify: FlaskClient) -> None:
    records = dify.post(PATH, json=body()).get_json()["records"]
    assert {record["title"] for record in records} == DOCUMENTS.keys()
    assert [record["score"] for record in records] == sorted((r["score"] for r in records), reverse=True)
    for record in records:
        assert record.keys() == {"content", "score", "title", "metadata"}
        assert 0 < record["score"] <= 1
        assert record["content"] == f"{VOLCANO} It is {record['title']}."
        metadata = record["metadata"]
        assert metadata["why"].startswith("holds *Lava* and *ash*")
        assert (metadata["start_line"], metadata["end_line"]) == (1, 1)
        assert metadata["year"] == DOCUMENTS[record["title"]]["year"]


def test_score_threshold_bounds_the_score_and_top_k_the_number(dify: FlaskClient) -> None:
    def found(top_k: int, threshold: float) -> list[dict[str, Any]]:
        setting = {"top_k": top_k, "score_threshold": threshold}
        answer = dify.post(PATH, json=body(retrieval_setting=setting)).get_json()
        records: list[dict[str, Any]] = answer["records"]
        return records

    scores = [record["score"] for record in found(10, 0)]
    assert len(found(2, 0)) == 2
    assert [record["score"] for record in found(10, max(scores) - 0.001)] == [max(scores)] * scores.count(
        max(scores)
    )
    assert found(10, 1) == []


@pytest.mark.parametrize(("name", "operator", "value", "met"), OPERATORS)
def test_every_operator(dify: FlaskClient, name: Any, operator: str, value: Any, met: str) -> None:
    assert titles(dify, {"conditions": [comparison(name, operator, value)]}) == set(met.split())


def test_every_operator_has_a_case() -> None:
    assert {operator for _, operator, _, _ in OPERATORS} == set(DIFY_OPERATORS)


def test_conditions_are_joined(dify: FlaskClient) -> None:
    both = [comparison("year", "=", 2019), comparison("author", "empty")]
    assert titles(dify, {"logical_operator": "and", "conditions": both}) == set()
    assert titles(dify, {"logical_operator": None, "conditions": both}) == set()
    assert titles(dify, {"logical_operator": "or", "conditions": both}) == set(DOCUMENTS)
    assert titles(dify, {"logical_operator": "or", "conditions": []}) == set(DOCUMENTS)
    without_value = {"name": "author", "comparison_operator": "not empty"}
    assert titles(dify, {"conditions": [without_value]}) == {"old"}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "knowledge_id: missing"),
        (body(other=1), "other: is not known"),
        (body(retrieval_setting={"top_k": 0, "score_threshold": 0}), "top_k"),
        (body(retrieval_setting={"top_k": 1, "score_threshold": 1.5}), "score_threshold"),
        (body(retrieval_setting={"top_k": 1, "score_threshold": 0, "x": 1}), "retrieval_setting.x"),
        (body(" "), "query"),
        (body("x" * 5_000), "query"),
        (body(condition={"logical_operator": "xor", "conditions": [comparison("a", "is", "b")]}), "'xor' is none of"),
        (body(condition={"conditions": [comparison("a", "regex", "b")]}), "conditions[0].comparison_operator: 'regex'"),
        (body(condition={"conditions": [comparison(["a", "b"], "is", "c")]}), "conditions[0].name: must be a text"),
        (body(condition={"conditions": [comparison("year", ">", "many")]}), "conditions[0].value: must be a number"),
        (body(condition={"conditions": [comparison("year", ">", float("1e400"))]}), ""),
        (body(condition={"conditions": [comparison("a", "contains", "")]}), "conditions[0].value: must be a text"),
        (body(condition={"conditions": [comparison("a", "in", "b")]}), "conditions[0].value: must be a list"),
        (body(condition={"conditions": [comparison("day", "before", "soon")]}), "numbers and dates"),
        (body(condition={"conditions": [comparison("shoal:titel", "is", "x")]}), "did you mean title?"),
        (body(condition={"conditions": [comparison("a", "is", "b")] * 300}), "conditions"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_an_error_that_says_so(dify: FlaskClient, sent: Any, message: str) -> None:
    answer = dify.post(PATH, json=sent)
    assert answer.status_code in (400, 422)
    assert answer.content_type == "application/json"
    error = answer.get_json()
    assert error.keys() == {"error_code", "error_msg"}
    assert error["error_code"] == answer.status_code
    assert message in error["error_msg"]


def test_a_probe_without_a_body_is_neither_unknown_nor_refused(dify: FlaskClient) -> None:
    """Dify sends one when the endpoint is entered, and takes 403, 404 and 502 for a wrong address."""
    assert dify.post(PATH).status_code == 415
    assert dify.get(PATH).get_json() == {
        "error_code": 405,
        "error_msg": dify.get(PATH).get_json()["error_msg"],
    }


def test_a_search_waits_for_what_its_sender_wrote(dify: FlaskClient) -> None:
    answer = dify.post(PATH, json=body(), headers={"Shoal-Read-After": "x"})
    asked = dify.post("/api/v1/search", json={"query": "lava"}, headers={"Shoal-Read-After": "x"})
    assert answer.status_code == asked.status_code
    assert answer.status_code in (400, 422)


def test_interface_is_off_until_the_setting_names_it(client: FlaskClient) -> None:
    answer = client.post(PATH, json=body())
    assert answer.status_code == 404
    assert answer.content_type == "application/problem+json"


@dataclass
class Keys:
    """A service with keys, and the header of each caller."""

    app: flask.Flask
    headers: dict[str, str]

    def ask(self, header: str | None, collection: str, status: int) -> dict[str, Any]:
        headers = {} if header is None else {"Authorization": self.headers.get(header, header)}
        sent = body(knowledge_id=collection)
        answer = self.app.test_client().post(PATH, json=sent, headers=headers)
        assert answer.status_code == status, answer.get_data(as_text=True)
        members: dict[str, Any] = answer.get_json()
        return members


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Keys]:
    with key_service(tmp_path_factory.mktemp("keys"), migrated, drop_in="dify") as (app, headers):
        with app.extensions[EXTENSION].collections.engine(OWN) as engine:
            for name, text in (("red", VOLCANO), ("blue", f"{VOLCANO} {FLOWER}")):
                engine.ingest(title=name, content=text, allow=[f"group:{name}"])
        yield Keys(app, headers)


def test_a_key_retrieves_from_its_collections(keys: Keys) -> None:
    for caller in ("own read", "own admin", "all read", "setting read"):
        assert {record["title"] for record in keys.ask(caller, OWN, 200)["records"]} == {"red", "blue"}
    assert keys.ask("all read", "main", 200) == {"records": []}


def test_errors_have_the_codes_of_the_contract(keys: Keys) -> None:
    for header in (None, "", "shoal_x", "Basic x", "Bearer", "Bearer "):
        assert keys.ask(header, OWN, 403)["error_code"] == 1001
    for caller in ("wrong", "expired", "revoked"):
        assert keys.ask(caller, OWN, 403)["error_code"] == 1002
    for caller, name in (
        ("own read", FOREIGN),
        ("own read", MISSING),
        ("own read", "main"),
        ("all read", MISSING),
    ):
        assert keys.ask(caller, name, 404)["error_code"] == 2001
    shown = [keys.ask("own read", name, 404)["error_msg"].replace(name, "") for name in (FOREIGN, MISSING)]
    assert shown[0] == shown[1]
    assert keys.ask("all read", "../keys", 404)["error_code"] == 2001


def test_a_body_is_not_received_without_a_key(keys: Keys) -> None:
    admission = Admission(keys.app.extensions[EXTENSION].settings, keys.app.extensions[GATE])
    refusal = admission.check("POST", PATH, keys.headers["wrong"])
    assert refusal is not None
    assert (refusal.code, (refusal.form or {})["error_code"]) == (403, 1002)
    assert b'"error_code": 1002' in refusal.to_response()[2]
    assert admission.check("POST", PATH, keys.headers["own read"]) is None


def test_a_search_token_sees_what_it_may(keys: Keys) -> None:
    store = KeyStore(keys.app.extensions[EXTENSION].collections.catalog)
    created = store.create("app", [(OWN, "read")])
    private, public = new_pair()
    store.set_public_key(created.details.id, public)
    token = make_token(created.details.id, private, collections=[OWN], principals=["group:red"], seconds=600)
    assert [record["title"] for record in keys.ask(f"Bearer {token}", OWN, 200)["records"]] == ["red"]
    assert keys.ask(f"Bearer {token}", FOREIGN, 404)["error_code"] == 2001
