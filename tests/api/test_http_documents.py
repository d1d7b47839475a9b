"""Single documents: adding, reading, tagging, deleting."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

DOCUMENTS = f"{API}/documents"


def test_document_is_accepted_as_a_job_and_stored_by_a_worker(client: FlaskClient, worker: Worker) -> None:
    response = client.post(DOCUMENTS, json={"title": "Fire", "content": VOLCANO, "tags": ["rock"]})
    assert response.status_code == 202
    job = response.get_json()["job"]
    assert response.headers["Location"] == f"{API}/jobs/{job['id']}"
    assert "Retry-After" in response.headers
    assert job["status"] == "enqueued"
    assert job["progress"]["total"] == 1
    assert client.get(DOCUMENTS).get_json() == {"documents": [], "total": 0}

    worker.work()

    assert client.get(response.headers["Location"]).get_json()["status"] == "succeeded"
    listed = client.get(DOCUMENTS).get_json()
    assert listed["total"] == 1
    document = listed["documents"][0]
    assert document["title"] == "Fire"
    assert document["tags"] == ["rock"]
    assert document["content_hash"] == hashlib.sha256(VOLCANO.encode()).hexdigest()


@pytest.mark.usefixtures("busy_worker")
def test_prefer_wait_returns_the_stored_document(client: FlaskClient) -> None:
    response = client.post(
        DOCUMENTS, json={"title": "Fire", "content": VOLCANO, "tags": ["rock"]}, headers={"Prefer": "wait=60"}
    )
    assert response.status_code == 201
    stored = response.get_json()
    assert stored["title"] == "Fire"
    assert stored["tags"] == ["rock"]
    assert stored["n_chunks"] >= 1
    assert stored["duplicate"] is False
    assert response.headers["Preference-Applied"] == "wait=60"
    assert client.get(response.headers["Location"]).get_json()["id"] == stored["id"]


def test_prefer_wait_without_a_worker_returns_202(client: FlaskClient) -> None:
    response = client.post(DOCUMENTS, json={"content": VOLCANO}, headers={"Prefer": "wait=0"})
    assert response.status_code == 202
    assert response.get_json()["job"]["status"] == "enqueued"


@pytest.mark.usefixtures("busy_worker")
def test_prefer_wait_returns_422_if_the_document_fails(client: FlaskClient) -> None:
    markup_alone = {"content": "<!-- nothing to read -->\n\n---\n", "format": "markdown"}
    response = client.post(DOCUMENTS, json=markup_alone, headers={"Prefer": "wait=60"})
    problem = assert_problem(response, 422, "content")
    assert problem["code"] == "empty_document"
    assert client.get(problem["links"]["job"]).get_json()["status"] == "failed"


def test_stored_content_returns_200_and_merges_tags(client: FlaskClient, store: Store) -> None:
    first = store(VOLCANO, title="Fire", tags=["rock"])
    response = client.post(DOCUMENTS, json={"title": "Other", "content": VOLCANO, "tags": ["hot"]})
    assert response.status_code == 200
    assert response.get_json()["id"] == first
    assert response.get_json()["duplicate"] is True
    assert response.get_json()["title"] == "Fire"
    assert sorted(response.get_json()["tags"]) == ["hot", "rock"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_fields_of_a_duplicate_that_are_not_stored_give_warnings(
    client: FlaskClient, store: Store, worker: Worker
) -> None:
    stored = store(VOLCANO, title="Fire", source_path="a.md", metadata={"year": 1830})

    def warnings(key: str | None = None, **fields: Any) -> list[str]:
        headers = {} if key is None else {"Idempotency-Key": key}
        response = client.post(DOCUMENTS, json={"content": VOLCANO, **fields}, headers=headers)
        assert response.status_code == 200
        assert client.get(f"{DOCUMENTS}/{stored}").get_json()["title"] == "Fire"
        reported: list[str] = response.get_json()["warnings"]
        return reported

    before = warnings()
    assert warnings(title=" Fire\n", source_path="a.md", metadata={"year": 1830}, tags=["x"]) == before
    for fields, expected in (
        ({"title": "Other"}, "its title (Other; the document has Fire)"),
        ({"source_path": "b.md"}, "its source path (b.md; the document has a.md)"),
        ({"metadata": {"year": "1830"}}, "its metadata (the document has others)"),
    ):
        (warning,) = [warning for warning in warnings(**fields) if warning not in before]
        assert warning.startswith(f"document {stored} already has this content")
        assert warning.endswith(f"not stored: {expected}")

    for _ in range(2):
        assert warnings("a key of mine") == before, "a generated title is not reported as lost"
        assert len(warnings("another", title="Other")) == len(before) + 1

    lines = [{"content": LAW, "title": "Law"}, {"content": LAW, "title": "Justice", "metadata": {"a": 1}}]
    job = client.post(
        f"{DOCUMENTS}/bulk",
        data="\n".join(map(json.dumps, lines)),
        content_type="application/x-ndjson",
    ).get_json()["job"]
    worker.work()
    first, second = client.get(f"{API}/jobs/{job['id']}/items").get_json()["items"]
    assert (first["status"], first["warnings"]) == ("succeeded", [])
    assert second["status"] == "duplicate"
    (warning,) = second["warnings"]
    assert warning.endswith("not stored: its title (Justice; the document has Law); its metadata")
    assert second["error"] is None


def test_chunk_offsets_give_its_text_in_the_content(client: FlaskClient, store: Store) -> None:
    text = f"# Fire\n\n{VOLCANO}\r\n\n## Growth\n\n{FLOWER} Ünï—çødé 🌋 text.\n"
    document = store(text, format="markdown", title="Two")
    content = client.get(f"{DOCUMENTS}/{document}/content")
    assert content.mimetype == "text/plain"
    assert content.get_data().decode() == text
    as_json = client.get(f"{DOCUMENTS}/{document}/content", headers={"Accept": "application/json"})
    assert as_json.get_json() == {"id": document, "content": text}

    page = client.get(f"{DOCUMENTS}/{document}/chunks").get_json()
    assert page["total"] == len(page["chunks"]) >= 2
    for chunk in page["chunks"]:
        assert text[chunk["start_char"] : chunk["end_char"]] == chunk["text"]
        assert chunk["content_hash"] == hashlib.sha256(chunk["text"].encode()).hexdigest()
        assert chunk["reefs"]
    assert {tuple(chunk["section_path"]) for chunk in page["chunks"]} == {("Fire",), ("Fire", "Growth")}

    detail = client.get(f"{DOCUMENTS}/{document}").get_json()
    assert [section["path"] for section in detail["sections"] if section["path"]] == [
        ["Fire"],
        ["Fire", "Growth"],
    ]
    assert [chunk["id"] for chunk in detail["chunks"]] == [chunk["id"] for chunk in page["chunks"]]
    assert {span["reason"] for span in detail["report"]["left_out"]} == {"heading"}
    assert client.get(detail["links"]["chunks"]).get_json() == page

    second = client.get(f"{DOCUMENTS}/{document}/chunks?limit=1&offset=1").get_json()
    assert [chunk["id"] for chunk in second["chunks"]] == [page["chunks"][1]["id"]]


def test_document_list_has_pages_and_filters_by_tag_and_text(client: FlaskClient, store: Store) -> None:
    fire = store(VOLCANO, title="Fire", tags=["rock", "hot"])
    flower = store(FLOWER, title="Flowers", tags=["plant"])
    law = store(LAW, source_path="court/LAW.txt", tags=["rock"])

    def ids(query: str) -> list[int]:
        return [document["id"] for document in client.get(f"{DOCUMENTS}{query}").get_json()["documents"]]

    assert sorted(ids("")) == [fire, flower, law]
    assert sorted(ids("?tag=rock")) == [fire, law]
    assert ids("?tag=nobody") == []
    assert ids("?q=flow") == [flower]
    assert ids("?q=court") == [law]
    assert ids("?source_path=court/LAW.txt") == [law]
    assert ids("?source_path=court/law.txt") == ids("?source_path=LAW.txt") == []
    assert ids("?source_path=court/LAW.txt&tag=hot") == []
    assert client.get(f"{DOCUMENTS}?limit=1&offset=1").get_json()["total"] == 3
    assert len(ids("?limit=1&offset=1")) == 1
    assert ids("?offset=2147483647") == []
    assert ids("?sort=created") == sorted(ids(""))
    assert ids("?sort=-created&limit=2") == sorted(ids(""), reverse=True)[:2]
    assert ids("?sort=-created&tag=rock&q=a&limit=1&offset=1") == []
    assert client.get(f"{DOCUMENTS}?sort=title").status_code == 422


def test_tags_are_replaced(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, tags=["rock"])
    response = client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": ["b", " a ", "b"]})
    assert response.status_code == 200
    assert sorted(response.get_json()["tags"]) == ["a", "b"]
    assert sorted(client.get(f"{DOCUMENTS}/{document}").get_json()["tags"]) == ["a", "b"]
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": ["x" * 65]}), 422, "tags")
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": [1]}), 422, "tags.0")
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={}), 422, "tags")
    assert_problem(client.put(f"{DOCUMENTS}/4711/tags", json={"tags": []}), 404)
    assert sorted(client.get(f"{DOCUMENTS}/{document}").get_json()["tags"]) == ["a", "b"]


def test_deleted_document_is_gone(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO)
    assert client.delete(f"{DOCUMENTS}/{document}").status_code == 204
    assert_problem(client.delete(f"{DOCUMENTS}/{document}"), 404)
    for address in ("", "/chunks", "/content"):
        assert_problem(client.get(f"{DOCUMENTS}/{document}{address}"), 404)
    assert client.post(f"{API}/search", json={"query": "volcano"}).get_json()["results"] == []


def test_documents_with_a_tag_are_deleted_by_a_job(client: FlaskClient, store: Store, worker: Worker) -> None:
    store(VOLCANO, tags=["old"])
    store(FLOWER, tags=["old"])
    kept = store(LAW, tags=["new"])
    response = client.delete(f"{DOCUMENTS}?tag=old")
    assert response.status_code == 202
    assert response.get_json()["job"]["kind"] == "delete"
    assert response.get_json()["job"]["progress"]["total"] == 2
    worker.work()
    assert client.get(response.headers["Location"]).get_json()["status"] == "succeeded"
    assert [document["id"] for document in client.get(DOCUMENTS).get_json()["documents"]] == [kept]


def test_deletion_by_tag_requires_a_tag_in_use(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, tags=["old"])
    assert_problem(client.delete(DOCUMENTS), 422, "filter")
    assert_problem(client.delete(f"{DOCUMENTS}?tag="), 422, "tag")
    # A misspelt parameter must not delete all documents.
    assert_problem(client.delete(f"{DOCUMENTS}?tag=old&limit=1"), 422, "limit")
    assert_problem(client.delete(f"{DOCUMENTS}?tag=nobody"), 404)
    assert client.get(f"{DOCUMENTS}/{document}").status_code == 200


def test_repeated_idempotency_key_and_body_return_the_same_job(client: FlaskClient) -> None:
    key = {"Idempotency-Key": "a-1"}
    body = {"content": VOLCANO, "tags": ["rock"]}
    first = client.post(DOCUMENTS, json=body, headers=key)
    second = client.post(DOCUMENTS, json=dict(reversed(body.items())), headers=key)
    assert first.status_code == second.status_code == 202
    assert first.get_json()["job"]["id"] == second.get_json()["job"]["id"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_repeated_idempotency_key_returns_the_job_of_a_stored_document(
    client: FlaskClient, worker: Worker
) -> None:
    key = {"Idempotency-Key": "a-1"}
    first = client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    worker.work()
    second = client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    assert second.status_code == 202
    assert second.get_json()["job"]["id"] == first.get_json()["job"]["id"]
    waited = client.post(DOCUMENTS, json={"content": VOLCANO}, headers={**key, "Prefer": "wait=5"})
    assert waited.status_code == 201


def test_idempotency_key_with_another_body_is_a_conflict(client: FlaskClient) -> None:
    key = {"Idempotency-Key": "a-1"}
    client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    assert_problem(client.post(DOCUMENTS, json={"content": FLOWER}, headers=key), 409)
    assert_problem(client.post(f"{DOCUMENTS}/bulk", data={"files": _file("a.txt")}, headers=key), 409)
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tbed"])
def test_idempotency_key_must_be_short_and_printable(empty: FlaskClient, key: str) -> None:
    response = empty.post(DOCUMENTS, json={"content": VOLCANO}, headers={"Idempotency-Key": key})
    assert_problem(response, 422, "Idempotency-Key")


def _file(name: str, content: bytes = VOLCANO.encode()) -> tuple[object, str]:
    import io

    return io.BytesIO(content), name


PASSAGES = [{"text": VOLCANO, "heading": ["Earth", "Fire"], "page": 7}, {"text": FLOWER}]


@pytest.mark.usefixtures("busy_worker")
def test_passages_of_an_upload_are_its_chunks(client: FlaskClient) -> None:
    response = client.post(
        DOCUMENTS, json={"title": "Two", "chunks": PASSAGES}, headers={"Prefer": "wait=60"}
    )
    assert response.status_code == 201
    address = response.headers["Location"]
    assert client.get(address).get_json()["chunk_tokens"] == "given"
    chunks = client.get(f"{address}/chunks").get_json()["chunks"]
    assert [chunk["text"] for chunk in chunks] == [VOLCANO, FLOWER]
    assert chunks[0]["section_path"] == ["Earth", "Fire"]
    assert chunks[0]["place"]["label"] == "page 7"
    again = client.post(DOCUMENTS, json={"chunks": PASSAGES})
    assert (again.status_code, again.get_json()["duplicate"]) == (200, True)
    # The same text cut by Shoal is another document, and one cut otherwise a third.
    content = client.get(f"{address}/content").get_data(as_text=True)
    for fields in ({}, {"chunk_tokens": "300-800"}):
        other = client.post(DOCUMENTS, json={"content": content, **fields}, headers={"Prefer": "wait=60"})
        assert other.status_code == 201


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"chunks": []}, "chunks"),
        ({"chunks": [{"text": ""}]}, "chunks"),
        ({"chunks": [{"txt": "a"}]}, "chunks"),
        ({"chunks": "a"}, "chunks"),
        ({"chunks": [{"text": "a"}], "url": "https://example.org"}, "chunks"),
        ({"chunks": [{"text": "a"}], "content": "b"}, "chunks"),
        ({"chunks": None}, "content"),
        ({"content": "a", "chunk_tokens": "many"}, "chunk_tokens"),
        ({"content": "a", "chunk_tokens": 300}, "chunk_tokens"),
    ],
)
def test_bad_chunks_are_refused_with_their_field(
    client: FlaskClient, fields: dict[str, Any], field: str
) -> None:
    problem = assert_problem(client.post(DOCUMENTS, json=fields), 422)
    assert any(name.split(".")[0] == field for name in problem["errors"]), problem


def test_a_document_of_many_passages_is_accepted(client: FlaskClient) -> None:
    chunks = [{"text": f"{number} {VOLCANO * 4}", "page": number + 1} for number in range(6_000)]
    assert client.post(DOCUMENTS, json={"chunks": chunks}).status_code == 202
