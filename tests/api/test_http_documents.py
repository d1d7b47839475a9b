"""One document at a time: in, shown, tagged, out."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

DOCUMENTS = f"{API}/documents"


def test_a_document_is_accepted_as_a_job_and_then_stored(client: FlaskClient, worker: Worker) -> None:
    answer = client.post(DOCUMENTS, json={"title": "Fire", "content": VOLCANO, "tags": ["rock"]})
    assert answer.status_code == 202
    job = answer.get_json()["job"]
    assert answer.headers["Location"] == f"{API}/jobs/{job['id']}"
    assert "Retry-After" in answer.headers
    assert job["status"] == "enqueued"
    assert job["progress"]["total"] == 1
    assert client.get(DOCUMENTS).get_json() == {"documents": [], "total": 0}

    worker.work()

    assert client.get(answer.headers["Location"]).get_json()["status"] == "succeeded"
    listed = client.get(DOCUMENTS).get_json()
    assert listed["total"] == 1
    document = listed["documents"][0]
    assert document["title"] == "Fire"
    assert document["tags"] == ["rock"]
    assert document["content_hash"] == hashlib.sha256(VOLCANO.encode()).hexdigest()


@pytest.mark.usefixtures("busy_worker")
def test_prefer_wait_answers_with_the_stored_document(client: FlaskClient) -> None:
    answer = client.post(
        DOCUMENTS, json={"title": "Fire", "content": VOLCANO, "tags": ["rock"]}, headers={"Prefer": "wait=60"}
    )
    assert answer.status_code == 201
    stored = answer.get_json()
    assert stored["title"] == "Fire"
    assert stored["tags"] == ["rock"]
    assert stored["n_chunks"] >= 1
    assert stored["duplicate"] is False
    assert answer.headers["Preference-Applied"] == "wait=60"
    assert client.get(answer.headers["Location"]).get_json()["id"] == stored["id"]


def test_prefer_wait_without_a_worker_answers_202_after_the_wait(client: FlaskClient) -> None:
    answer = client.post(DOCUMENTS, json={"content": VOLCANO}, headers={"Prefer": "wait=0"})
    assert answer.status_code == 202
    assert answer.get_json()["job"]["status"] == "enqueued"


@pytest.mark.usefixtures("busy_worker")
def test_a_document_that_fails_while_waited_for_answers_422(client: FlaskClient) -> None:
    markup_alone = {"content": "<!-- nothing to read -->\n\n---\n", "format": "markdown"}
    answer = client.post(DOCUMENTS, json=markup_alone, headers={"Prefer": "wait=60"})
    problem = assert_problem(answer, 422, "content")
    assert problem["code"] == "empty_document"
    assert client.get(problem["links"]["job"]).get_json()["status"] == "failed"


def test_content_that_is_stored_already_answers_200_and_merges_tags(
    client: FlaskClient, store: Store
) -> None:
    first = store(VOLCANO, title="Fire", tags=["rock"])
    answer = client.post(DOCUMENTS, json={"title": "Other", "content": VOLCANO, "tags": ["hot"]})
    assert answer.status_code == 200
    assert answer.get_json()["id"] == first
    assert answer.get_json()["duplicate"] is True
    assert answer.get_json()["title"] == "Fire"
    assert sorted(answer.get_json()["tags"]) == ["hot", "rock"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_what_is_not_taken_over_from_a_duplicate_is_told(
    client: FlaskClient, store: Store, worker: Worker
) -> None:
    stored = store(VOLCANO, title="Fire", source_path="a.md", metadata={"year": 1830})

    def warnings(key: str | None = None, **fields: Any) -> list[str]:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = client.post(DOCUMENTS, json={"content": VOLCANO, **fields}, headers=headers)
        assert answer.status_code == 200
        assert client.get(f"{DOCUMENTS}/{stored}").get_json()["title"] == "Fire"
        found: list[str] = answer.get_json()["warnings"]
        return found

    before = warnings()
    assert warnings(title=" Fire\n", source_path="a.md", metadata={"year": 1830}, tags=["x"]) == before
    for fields, said in (
        ({"title": "Other"}, "its title (Other; the document has Fire)"),
        ({"source_path": "b.md"}, "its source path (b.md; the document has a.md)"),
        ({"metadata": {"year": "1830"}}, "its metadata (the document has others)"),
    ):
        (told,) = [warning for warning in warnings(**fields) if warning not in before]
        assert told.startswith(f"document {stored} already has this content")
        assert told.endswith(f"not stored: {said}")

    for _ in range(2):
        assert warnings("a key of mine") == before, "a title that was made up is none that is lost"
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
    (told,) = second["warnings"]
    assert told.endswith("not stored: its title (Justice; the document has Law); its metadata")
    assert second["error"] is None


def test_every_chunk_is_a_citation_of_the_content(client: FlaskClient, store: Store) -> None:
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


def test_documents_are_listed_by_tag_and_words_page_by_page(client: FlaskClient, store: Store) -> None:
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


def test_tags_are_replaced(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, tags=["rock"])
    answer = client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": ["b", " a ", "b"]})
    assert answer.status_code == 200
    assert sorted(answer.get_json()["tags"]) == ["a", "b"]
    assert sorted(client.get(f"{DOCUMENTS}/{document}").get_json()["tags"]) == ["a", "b"]
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": ["x" * 65]}), 422, "tags")
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={"tags": [1]}), 422, "tags.0")
    assert_problem(client.put(f"{DOCUMENTS}/{document}/tags", json={}), 422, "tags")
    assert_problem(client.put(f"{DOCUMENTS}/4711/tags", json={"tags": []}), 404)
    assert sorted(client.get(f"{DOCUMENTS}/{document}").get_json()["tags"]) == ["a", "b"]


def test_a_deleted_document_is_gone(client: FlaskClient, store: Store) -> None:
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
    answer = client.delete(f"{DOCUMENTS}?tag=old")
    assert answer.status_code == 202
    assert answer.get_json()["job"]["kind"] == "delete"
    assert answer.get_json()["job"]["progress"]["total"] == 2
    worker.work()
    assert client.get(answer.headers["Location"]).get_json()["status"] == "succeeded"
    assert [document["id"] for document in client.get(DOCUMENTS).get_json()["documents"]] == [kept]


def test_deleting_by_tag_needs_a_tag_that_is_used(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, tags=["old"])
    assert_problem(client.delete(DOCUMENTS), 422, "tag")
    assert_problem(client.delete(f"{DOCUMENTS}?tag="), 422, "tag")
    # A misspelt parameter must not become "all of them".
    assert_problem(client.delete(f"{DOCUMENTS}?tag=old&limit=1"), 422, "limit")
    assert_problem(client.delete(f"{DOCUMENTS}?tag=nobody"), 404)
    assert client.get(f"{DOCUMENTS}/{document}").status_code == 200


def test_an_idempotency_key_gives_the_same_job_for_the_same_body(client: FlaskClient) -> None:
    key = {"Idempotency-Key": "a-1"}
    body = {"content": VOLCANO, "tags": ["rock"]}
    first = client.post(DOCUMENTS, json=body, headers=key)
    again = client.post(DOCUMENTS, json=dict(reversed(body.items())), headers=key)
    assert first.status_code == again.status_code == 202
    assert first.get_json()["job"]["id"] == again.get_json()["job"]["id"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_an_idempotency_key_gives_the_job_also_once_the_document_is_stored(
    client: FlaskClient, worker: Worker
) -> None:
    key = {"Idempotency-Key": "a-1"}
    first = client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    worker.work()
    again = client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    assert again.status_code == 202
    assert again.get_json()["job"]["id"] == first.get_json()["job"]["id"]
    waited = client.post(DOCUMENTS, json={"content": VOLCANO}, headers={**key, "Prefer": "wait=5"})
    assert waited.status_code == 201


def test_an_idempotency_key_with_another_body_is_a_conflict(client: FlaskClient) -> None:
    key = {"Idempotency-Key": "a-1"}
    client.post(DOCUMENTS, json={"content": VOLCANO}, headers=key)
    assert_problem(client.post(DOCUMENTS, json={"content": FLOWER}, headers=key), 409)
    assert_problem(client.post(f"{DOCUMENTS}/bulk", data={"files": _file("a.txt")}, headers=key), 409)
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tbed"])
def test_an_idempotency_key_must_be_short_and_printable(empty: FlaskClient, key: str) -> None:
    answer = empty.post(DOCUMENTS, json={"content": VOLCANO}, headers={"Idempotency-Key": key})
    assert_problem(answer, 422, "Idempotency-Key")


def _file(name: str, content: bytes = VOLCANO.encode()) -> tuple[object, str]:
    import io

    return io.BytesIO(content), name
