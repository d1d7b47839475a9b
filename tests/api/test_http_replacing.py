"""PUT /documents/{id}: new content under the same id."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

DOCUMENTS = f"{API}/documents"


def sections(*parts: str) -> str:
    return "".join(f"## Part\n\n{part}\n\n" for part in parts)


def chunks(client: FlaskClient, document_id: int) -> dict[str, int]:
    page = client.get(f"{DOCUMENTS}/{document_id}/chunks").get_json()
    return {chunk["text"]: chunk["id"] for chunk in page["chunks"]}


def test_new_content_replaces_the_old_when_its_job_ends(
    client: FlaskClient, store: Store, worker: Worker
) -> None:
    document = store(sections(VOLCANO, FLOWER), format="markdown", title="Notes", tags=["a"])
    before = chunks(client, document)
    response = client.put(f"{DOCUMENTS}/{document}", json={"content": sections(LAW, FLOWER)})
    assert response.status_code == 202
    job = response.get_json()["job"]
    assert job["kind"] == "replace"
    assert response.headers["Location"] == f"{API}/jobs/{job['id']}"
    assert chunks(client, document) == before

    worker.work()

    assert client.get(response.headers["Location"]).get_json()["status"] == "succeeded"
    after = chunks(client, document)
    assert set(after) == {LAW, FLOWER}
    assert after[FLOWER] == before[FLOWER]
    detail = client.get(f"{DOCUMENTS}/{document}").get_json()
    assert (detail["title"], detail["tags"]) == ("Notes", ["a"])
    assert client.get(DOCUMENTS).get_json()["total"] == 1
    item = client.get(f"{API}/jobs/{job['id']}/items").get_json()["items"][0]
    assert item["document_id"] == document


@pytest.mark.usefixtures("busy_worker")
def test_prefer_wait_returns_the_replaced_document(client: FlaskClient) -> None:
    wait = {"Prefer": "wait=60"}
    document = client.post(DOCUMENTS, json={"content": VOLCANO, "title": "Fire"}, headers=wait).get_json()
    response = client.put(
        f"{DOCUMENTS}/{document['id']}", json={"content": LAW, "tags": ["court"]}, headers=wait
    )
    assert response.status_code == 200
    replaced = response.get_json()
    assert (replaced["id"], replaced["title"], replaced["tags"]) == (document["id"], "Fire", ["court"])
    assert replaced["duplicate"] is False
    assert client.get(f"{DOCUMENTS}/{document['id']}/content").get_data(as_text=True) == LAW


def test_same_content_updates_the_fields_without_a_job(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, title="Fire", tags=["a"])
    response = client.put(f"{DOCUMENTS}/{document}", json={"content": VOLCANO, "tags": ["b"], "title": None})
    assert response.status_code == 200
    assert response.get_json()["duplicate"] is True
    assert response.get_json()["tags"] == ["b"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_content_of_another_document_is_a_conflict(client: FlaskClient, store: Store) -> None:
    fire, plant = store(VOLCANO), store(FLOWER)
    problem = assert_problem(client.put(f"{DOCUMENTS}/{plant}", json={"content": VOLCANO}), 409)
    assert f"document {fire}" in problem["detail"]
    assert client.get(f"{DOCUMENTS}/{plant}/content").get_data(as_text=True) == FLOWER


@pytest.mark.parametrize("number", [0, 4711, 2**63 - 1])
def test_replacing_a_missing_document_returns_404(empty: FlaskClient, number: int) -> None:
    assert_problem(empty.put(f"{DOCUMENTS}/{number}", json={"content": VOLCANO}), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "content"),
        ({"content": " "}, "content"),
        ({"content": LAW, "title": "x" * 513}, "title"),
        ({"content": LAW, "tags": [""]}, "tags"),
        ({"content": LAW, "format": "pdf"}, "format"),
        ({"content": LAW, "colour": "red"}, "colour"),
    ],
)
def test_invalid_field_is_named(
    client: FlaskClient, store: Store, body: dict[str, object], field: str
) -> None:
    document = store(VOLCANO)
    assert_problem(client.put(f"{DOCUMENTS}/{document}", json=body), 422, field)


def test_text_under_replacement_is_stored_again(client: FlaskClient, store: Store, worker: Worker) -> None:
    document = store(VOLCANO)
    client.put(f"{DOCUMENTS}/{document}", json={"content": LAW})
    response = client.post(DOCUMENTS, json={"content": VOLCANO})
    assert response.status_code == 202
    worker.work()
    listed = client.get(DOCUMENTS).get_json()["documents"]
    texts = [
        client.get(f"{DOCUMENTS}/{document['id']}/content").get_data(as_text=True) for document in listed
    ]
    assert sorted(texts) == sorted([LAW, VOLCANO])


def test_replacements_are_applied_in_the_order_of_their_requests(
    client: FlaskClient, store: Store, worker: Worker
) -> None:
    first, second = store(VOLCANO), store(FLOWER)
    # A text replaced and restored, and a text that moves from one document to another.
    for document, content in ((second, LAW), (second, FLOWER), (second, LAW), (first, FLOWER)):
        assert client.put(f"{DOCUMENTS}/{document}", json={"content": content}).status_code == 202
    worker.work()
    jobs = client.get(f"{API}/jobs").get_json()["jobs"]
    assert {job["status"] for job in jobs} == {"succeeded"}
    contents = [client.get(f"{DOCUMENTS}/{n}/content").get_data(as_text=True) for n in (first, second)]
    assert contents == [FLOWER, LAW]


def test_idempotency_key_of_a_duplicate_is_remembered(client: FlaskClient, store: Store) -> None:
    stored = store(VOLCANO)
    key = {"Idempotency-Key": "again"}
    for _ in range(2):
        response = client.post(DOCUMENTS, json={"content": VOLCANO, "tags": ["t"]}, headers=key)
        assert (response.status_code, response.get_json()["id"]) == (200, stored)
        assert response.get_json()["duplicate"] is True
    assert client.get(f"{API}/jobs").get_json()["total"] == 2
    assert_problem(client.post(DOCUMENTS, json={"content": LAW}, headers=key), 409)
    # After the deletion of the document, the key still returns its job, and nothing is stored.
    client.delete(f"{DOCUMENTS}/{stored}")
    response = client.post(DOCUMENTS, json={"content": VOLCANO, "tags": ["t"]}, headers=key)
    assert response.status_code == 202
    assert response.get_json()["job"]["status"] == "succeeded"
    assert response.get_json()["job"]["progress"]["duplicate"] == 1
