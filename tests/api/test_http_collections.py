"""Collections over HTTP: management, the prefix and isolation."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, COLLECTIONS, FLOWER, LAW, VOLCANO, assert_problem, titles

from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.paths import in_collection, without_collection
from shoal_api.server import Admission
from shoal_api.service import Service

HOSTILE = [
    "..%2f..%2fetc%2fpasswd",
    "a'%20OR%201=1--",
    "a" * 200,
    "A",
    "%00",
    "main%00",
    "%2e%2e",
    "a.db",
    "ä",
    "-",
    "a%0a",
    "{name}",
]


def test_the_life_of_a_collection(client: FlaskClient, create: Callable[[str], str]) -> None:
    assert client.get(COLLECTIONS).get_json() == {
        "collections": [{"id": "main", "name": "main", "created_at": None}],
        "total": 1,
    }
    address = create("birds")
    details = client.get(address).get_json()
    assert (details["name"], details["n_documents"], details["jobs"]["enqueued"]) == ("birds", 0, 0)
    assert details["created_at"].endswith("Z")
    renamed = client.patch(address, json={"name": "fish"}).get_json()
    assert (renamed["id"], renamed["name"]) == (details["id"], "fish")
    assert_problem(client.get(address), 404)
    create("birds")
    page = client.get(COLLECTIONS, query_string={"limit": 2, "offset": 1}).get_json()
    assert ([each["name"] for each in page["collections"]], page["total"]) == (["birds", "fish"], 3)
    swapped = client.post(f"{COLLECTIONS}/swap", json={"first": "birds", "second": "fish"}).get_json()
    assert swapped["collections"][0]["id"] == details["id"]
    assert client.get(address).get_json()["id"] == details["id"]
    assert client.delete(address).status_code == 204
    assert_problem(client.delete(address), 404)
    assert_problem(client.get(f"{address}/documents"), 404)


def test_what_is_refused(client: FlaskClient, create: Callable[[str], str]) -> None:
    create("a")
    assert assert_problem(client.post(COLLECTIONS, json={"name": "a"}), 409)["code"] == "collection_exists"
    for name in (
        "main",
        "swap",
        "A",
        "",
        "a/b",
        "../a",
        "x" * 200,
        "a'; DROP TABLE collections",
        7,
        None,
        "a\n",
    ):
        assert_problem(client.post(COLLECTIONS, json={"name": name}), 422, "name")
    assert_problem(client.post(COLLECTIONS, json={}), 422, "name")
    assert_problem(client.post(COLLECTIONS, json={"name": "b", "size": 1}), 422, "size")
    assert_problem(client.delete(f"{COLLECTIONS}/main"), 409)
    assert_problem(client.patch(f"{COLLECTIONS}/main", json={"name": "b"}), 409)
    assert_problem(client.patch(f"{COLLECTIONS}/a", json={"name": "main"}), 422, "name")
    assert_problem(client.post(f"{COLLECTIONS}/swap", json={"first": "a", "second": "main"}), 409)
    assert_problem(client.post(f"{COLLECTIONS}/swap", json={"first": "a", "second": "a"}), 409)
    assert_problem(client.post(f"{COLLECTIONS}/swap", json={"first": "a", "second": "b"}), 404)


def test_hostile_names_are_not_found(client: FlaskClient) -> None:
    for name in HOSTILE:
        for path in (
            f"{COLLECTIONS}/{name}",
            f"{COLLECTIONS}/{name}/documents",
            f"{COLLECTIONS}/{name}/search?q=a",
        ):
            assert_problem(client.get(path), 404)
        assert_problem(client.post(f"{COLLECTIONS}/{name}/documents", json={"content": VOLCANO}), 404)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0


def test_an_encoded_slash_is_part_of_the_name(client: FlaskClient, create: Callable[[str], str]) -> None:
    create("a")
    for path in (
        f"{COLLECTIONS}/a%2Fdocuments",
        f"{COLLECTIONS}/a%2fsearch",
        f"{COLLECTIONS}/a%2Fdocuments/1",
        f"{COLLECTIONS}/main%2Fdocuments",
        f"{COLLECTIONS}%2Fa/documents",
        "/collections/a%2Flibrary",
    ):
        assert_problem(client.get(path), 404)
    assert_problem(client.delete(f"{COLLECTIONS}/x%2F..%2Fa"), 404)
    assert_problem(client.post(f"{COLLECTIONS}/a%2Fdocuments", json={"content": VOLCANO}), 405)
    assert_problem(client.post(f"{COLLECTIONS}/a%2Fb/documents", json={"content": VOLCANO}), 404)
    for path in (f"{COLLECTIONS}/a/jobs?status=a%2Fb", f"{COLLECTIONS}/a/search?q=a%2Fb"):
        assert client.get(path).status_code in (200, 422)
    assert client.get(f"{COLLECTIONS}/a/jobs").get_json()["total"] == 0


def test_a_prefix_leads_nowhere_else(client: FlaskClient, create: Callable[[str], str]) -> None:
    """Neither to another collection nor, by a redirect, to the same path without the prefix."""
    create("a")
    for path in (
        "/api/v1/collections/a//documents",
        "/api/v1/collections//documents",
        "/api/v1/collections/a/collections",
        "/api/v1/collections/a/collections/main/documents",
        "/api/v1/collections/a/keys",
        "/collections/a/collections/a/search",
        "/collections/a/api/v1/collections/main/documents",
        "/collections/a/api/v1/keys",
        "/collections/a/metrics",
        "/collections/a/ready",
        "/collections/a//",
    ):
        response = client.get(path)
        assert response.status_code == 404, (path, response.status_code, response.headers)


def test_main_has_a_prefix_too(
    client: FlaskClient, create: Callable[[str], str], add: Callable[..., dict[str, Any]]
) -> None:
    job = add(f"{COLLECTIONS}/main", VOLCANO, title="Volcano")
    assert job["links"]["self"] == f"{API}/jobs/{job['id']}"
    assert titles(client.get(f"{API}/search?q=lava")) == ["Volcano"]
    assert titles(client.get(f"{COLLECTIONS}/main/search?q=lava")) == ["Volcano"]


def test_nothing_of_one_collection_is_seen_in_another(
    client: FlaskClient, create: Callable[[str], str], add: Callable[..., dict[str, Any]]
) -> None:
    first, second = create("first"), create("second")
    job = add(first, VOLCANO, title="Volcano", tags=["hot"], metadata={"year": 1})
    assert job["links"]["self"] == f"{first}/jobs/{job['id']}"
    assert client.get(job["links"]["self"]).get_json()["status"] == "succeeded"
    assert client.post(f"{first}/notes", json={"text": "Lava is hot."}).status_code == 201
    synonym = {"root": None, "synonyms": ["lava", "zorblat"]}
    assert client.post(f"{first}/synonyms", json=synonym).status_code == 201
    assert titles(client.get(f"{first}/search?q=zorblat")) == ["Volcano"]
    assert client.get(f"{first}/suggest?q=volc").get_json()["suggestions"]

    for other in (second, API):
        add_other = f"{COLLECTIONS}/main" if other == API else other
        add(add_other, FLOWER, title="Flower")
        assert titles(client.get(f"{other}/search?q=lava&mode=lexical")) == []
        assert titles(client.get(f"{other}/search?q=zorblat&mode=lexical")) == []
        assert not client.get(f"{other}/suggest?q=volc").get_json()["suggestions"]
        assert client.get(f"{other}/facets?facets=tags").get_json()["facets"][0]["values"] == []
        assert client.get(f"{other}/notes").get_json()["total"] == 0
        assert client.get(f"{other}/synonyms").get_json()["total"] == 0
        assert client.get(f"{other}/documents").get_json()["total"] == 1
        assert client.get(f"{other}/documents/1").get_json()["title"] == "Flower"
        assert client.get(f"{other}/jobs").get_json()["total"] == 1
        status = client.get(f"{other}/status").get_json()
        assert (status["n_documents"], status["n_notes"], status["vocabulary_version"]) == (1, 0, 0)


def test_an_idempotency_key_belongs_to_its_collection(
    client: FlaskClient, create: Callable[[str], str]
) -> None:
    headers = {"Idempotency-Key": "once"}
    jobs = []
    for prefix, content in ((create("a"), VOLCANO), (create("b"), FLOWER), (API, LAW)):
        for _ in range(2):
            response = client.post(f"{prefix}/documents", json={"content": content}, headers=headers)
            assert response.status_code == 202, response.get_data(as_text=True)
            jobs.append(response.get_json()["job"]["links"]["self"])
    assert len(set(jobs)) == 3


def test_bulk_uploads_go_to_their_collection(client: FlaskClient, create: Callable[[str], str]) -> None:
    prefix = create("a")
    body = "\n".join(json.dumps({"content": text}) for text in (VOLCANO, FLOWER)).encode()
    response = client.post(
        f"{prefix}/documents/bulk", data=io.BytesIO(body), content_type="application/x-ndjson"
    )
    assert response.status_code == 202, response.get_data(as_text=True)
    assert client.get(f"{prefix}/jobs").get_json()["jobs"][0]["progress"]["total"] == 2
    assert client.get(f"{API}/jobs").get_json()["total"] == 0


def test_the_limit_of_a_body_is_that_of_the_operation(settings: Settings) -> None:
    admission = Admission(settings)
    for path in ("documents", "documents/bulk", "notes/bulk", "search"):
        for prefix in (f"{COLLECTIONS}/a", "/collections/a/api/v1"):
            assert admission.max_body(f"{prefix}/{path}") == admission.max_body(f"{API}/{path}")


def test_a_submission_marks_its_collection(
    client: FlaskClient, create: Callable[[str], str], service: Service
) -> None:
    a, b = create("a"), create("b")
    client.post(f"{a}/documents", json={"content": VOLCANO})
    client.post(f"{b}/search", json={"query": "lava"})
    client.get(f"{b}/documents")
    marked = {collection_id for collection_id, _ in service.collections.catalog.with_work()}
    assert marked == {service.collections.catalog.find("a").id}


def test_metrics_name_a_bounded_number_of_collections(settings: Settings, engine: Any) -> None:
    import dataclasses

    limited = dataclasses.replace(settings, collection_metrics=2)
    engine.settings = limited
    client = create_app(limited, engine=engine).test_client()
    for name in "abcd":
        client.post(COLLECTIONS, json={"name": name})
        client.get(f"{COLLECTIONS}/{name}/documents")
    client.get(f"{COLLECTIONS}/unknown/documents")
    text = client.get("/metrics").get_data(as_text=True)
    lines = [line for line in text.splitlines() if line.startswith("shoal_collection_requests_total")]
    assert {line.partition('collection="')[2].partition('"')[0] for line in lines} == {"a", "b", "(other)"}
    assert 'shoal_collection_documents{collection="a"} 0.0' in text
    assert 'collection="c"' not in text
    assert "shoal_collections 5.0" in text


def test_a_key_is_asked_for_before_a_name_is_looked_up(settings: Settings, engine: Any) -> None:
    import dataclasses

    locked = dataclasses.replace(
        settings, api_keys="read:readkey-readkey-readkey,write:writekey-writekey-key"
    )
    client = create_app(locked, engine=engine).test_client()
    writer = {"Authorization": "Bearer writekey-writekey-key"}
    reader = {"Authorization": "Bearer readkey-readkey-readkey"}
    assert client.post(COLLECTIONS, json={"name": "a"}, headers=writer).status_code == 201
    answers = [client.get(f"{COLLECTIONS}/{name}/documents") for name in ("a", "unknown")]
    assert [each.status_code for each in answers] == [401, 401]
    assert client.get(f"{COLLECTIONS}/a/documents", headers=reader).status_code == 200
    assert client.post(f"{COLLECTIONS}/a/search", json={"query": "a"}, headers=reader).status_code == 200
    for path in ("documents", "notes"):
        body = {"content": VOLCANO, "text": "a"}
        assert client.post(f"{COLLECTIONS}/a/{path}", json=body, headers=reader).status_code == 403
    assert client.delete(f"{COLLECTIONS}/a", headers=reader).status_code == 403
    admission = Admission(locked)
    refusal = admission.check("POST", f"{COLLECTIONS}/a/documents", reader["Authorization"])
    assert refusal is not None
    assert refusal.code == 403
    assert admission.check("POST", f"{COLLECTIONS}/a/search", reader["Authorization"]) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/collections/a/jobs/1", ("a", "/api/v1/jobs/1", "")),
        ("/collections/a/api/v1/jobs/1", ("a", "/api/v1/jobs/1", "/collections/a")),
        ("/collections/a/library", ("a", "/library", "/collections/a")),
        ("/collections/a", ("a", "/", "/collections/a")),
        ("/api/v1/collections/a", None),
        ("/api/v1/collections/a/", None),
        ("/api/v1/collections", None),
        ("/api/v1/documents", None),
        ("/", None),
        ("", None),
    ],
)
def test_paths_are_split(path: str, expected: tuple[str, str, str] | None) -> None:
    assert in_collection(path) == expected
    assert without_collection(path) == (path if expected is None else expected[1])
