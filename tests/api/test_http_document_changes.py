"""PATCH of a document: title, tags, metadata and rights without its text."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, VOLCANO, Store, Worker, assert_problem

from shoal.engine import Engine
from shoal.errors import VersionConflictError

DOCUMENTS = f"{API}/documents"


def chunks_of(engine: Engine, document_id: int) -> list[tuple[int, Any]]:
    return [(chunk.id, chunk.reefs) for chunk in engine.documents.chunks(document_id).chunks]


def test_fields_are_changed_at_once_and_others_stay(
    client: FlaskClient, store: Store, engine: Engine
) -> None:
    document_id = store(VOLCANO, title="Fire", tags=["a"], metadata={"year": 1}, allow=["group:a"])
    before = chunks_of(engine, document_id)
    address = f"{DOCUMENTS}/{document_id}"
    changed = client.patch(address, json={"tags": ["b"], "metadata": {"year": 2}, "deny": ["user:x"]})
    assert changed.status_code == 200
    document = client.get(address).get_json()
    assert (document["title"], document["tags"], document["metadata"]) == ("Fire", ["b"], {"year": 2})
    assert (document["allow"], document["deny"]) == (["group:a"], ["user:x"])
    assert client.patch(address, json={"allow": None, "tags": None, "metadata": None}).status_code == 200
    document = client.get(address).get_json()
    assert (document["tags"], document["metadata"], document["allow"]) == ([], {}, None)
    assert document["deny"] == ["user:x"]
    assert chunks_of(engine, document_id) == before
    assert client.get(f"{API}/jobs").get_json()["total"] == 1
    assert client.get(f"{DOCUMENTS}?filter=year%20%3D%202").get_json()["total"] == 0


def test_a_corrected_language_is_a_job(
    client: FlaskClient, store: Store, worker: Worker, engine: Engine
) -> None:
    document_id = store(VOLCANO, title="Fire", tags=["a"])
    address = f"{DOCUMENTS}/{document_id}"
    for given, language in (("de", "de"), (None, "en")):
        assert client.patch(address, json={"language": given}).status_code == 202
        worker.work()
        document = client.get(address).get_json()
        assert (document["language"], document["tags"]) == (language, ["a"])
        assert {chunk.language for chunk in engine.documents.chunks(document_id).chunks} == {language}
    assert client.patch(address, json={"language": None}).status_code == 200
    assert_problem(client.patch(address, json={"language": "German"}), 422)


def test_a_new_title_is_scored_and_chunks_keep_their_ids(
    client: FlaskClient, store: Store, worker: Worker, engine: Engine
) -> None:
    document_id = store(VOLCANO, title="Fire", tags=["a"], allow=["group:a"])
    ids = [chunk_id for chunk_id, _ in chunks_of(engine, document_id)]
    address = f"{DOCUMENTS}/{document_id}"
    accepted = client.patch(address, json={"title": "Flower and petal", "tags": ["b"]})
    assert accepted.status_code == 202
    assert client.get(address).get_json()["title"] == "Fire"
    assert_problem(client.patch(address, json={"tags": ["c"]}), 409)
    worker.work()
    document = client.get(address).get_json()
    assert (document["title"], document["tags"], document["allow"]) == (
        "Flower and petal",
        ["b"],
        ["group:a"],
    )
    assert [chunk_id for chunk_id, _ in chunks_of(engine, document_id)] == ids
    assert client.get(f"{address}/content").text == VOLCANO
    # The same title is no new one.
    assert client.patch(address, json={"title": "Flower and petal"}).status_code == 200


def test_a_version_guards_against_lost_changes(client: FlaskClient, store: Store, engine: Engine) -> None:
    document_id = store(VOLCANO)
    address = f"{DOCUMENTS}/{document_id}"
    first = client.get(address).headers["ETag"]
    assert client.get(address).headers["ETag"] == first
    changed = client.patch(address, json={"tags": ["a"]}, headers={"If-Match": first})
    assert changed.status_code == 200
    second = client.get(address).headers["ETag"]
    assert second != first
    refused = client.patch(address, json={"tags": ["b"]}, headers={"If-Match": first})
    assert_problem(refused, 412)
    assert refused.get_json()["code"] == "version_conflict"
    assert client.get(address).get_json()["tags"] == ["a"]
    for either in (f'"x", {second}', "*"):
        assert client.patch(address, json={"tags": ["a"]}, headers={"If-Match": either}).status_code == 200
    engine.documents.set_tags(document_id, ["z"])
    assert_problem(client.patch(address, json={"tags": ["b"]}, headers={"If-Match": second}), 412)
    with pytest.raises(VersionConflictError):
        engine.documents.change(document_id, version=second.strip('"'), tags=["b"])


@pytest.mark.parametrize(
    "body",
    [
        {"title": ""},
        {"title": None},
        {"title": "x" * 600},
        {"tags": "a"},
        {"tags": [""]},
        {"metadata": []},
        {"allow": ["x"]},
        {"deny": [f"user:{n}" for n in range(10_000)]},
        {"content": "x"},
        {"nothing": 1},
    ],
)
def test_bad_changes_are_refused(client: FlaskClient, store: Store, body: dict[str, Any]) -> None:
    document_id = store(VOLCANO, tags=["a"])
    assert_problem(client.patch(f"{DOCUMENTS}/{document_id}", json=body), 422)
    assert client.get(f"{DOCUMENTS}/{document_id}").get_json()["tags"] == ["a"]


def test_a_missing_document_is_not_changed(client: FlaskClient) -> None:
    assert_problem(client.patch(f"{DOCUMENTS}/99", json={"tags": ["a"]}), 404)


def test_the_engine_changes_a_title_at_once(engine: Engine) -> None:
    document_id = engine.ingest(title="Fire", content=VOLCANO).id
    assert document_id is not None
    engine.ingest(content=FLOWER)
    result = engine.documents.change(document_id, title="Ash", metadata={"a": 1})
    document = engine.documents.get(document_id).document
    assert (result.title, document.title, document.metadata) == ("Ash", "Ash", {"a": 1})
