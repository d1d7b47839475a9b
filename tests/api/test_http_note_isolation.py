"""To one owner, the notes of another do not exist, whatever a request asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem

NOTES, USERS = f"{API}/notes", f"{API}/users"
SECRET = "The volcano of user one throws secret lava and ash every winter."
OTHER = "The jury weighs the evidence of the crime before the verdict of the judge."
QUERY = "secret lava of a volcano"


def add(client: FlaskClient, owner: str, text: str, **fields: Any) -> dict[str, Any]:
    response = client.post(NOTES, json={"owner": owner, "text": text, **fields})
    assert response.status_code == 201, response.get_data(as_text=True)
    note: dict[str, Any] = response.get_json()["note"]
    return note


def test_one_user_never_sees_the_notes_of_another(client: FlaskClient) -> None:
    item = {"content": SECRET, "topic": "volcanoes", "confidence": 0.9, "tags": ["private"]}
    remembered = client.post(f"{USERS}/user1/remember", json={"items": [item]}).get_json()
    assert remembered["n_added"] == 1
    note_id = remembered["results"][0]["note_id"]
    client.patch(f"{NOTES}/{note_id}/categories", json={"owner": "user1", "add": ["mine/secret"]})
    add(client, "user2", OTHER)
    recalled = client.post(f"{USERS}/user1/recall", json={"query": QUERY, "threshold": 0}).get_json()
    assert [result["content"] for result in recalled["results"]] == [SECRET]
    for stranger in ("user2", "nobody", "User1", "user1 ", "default", "user1/x", "user1' OR '1'='1", "usеr1"):
        address = f"{USERS}/{quote(stranger, safe='')}/recall"
        answer = client.post(address, json={"query": QUERY, "threshold": 0, "top_k": 50})
        assert answer.status_code == 200
        assert SECRET not in answer.get_data(as_text=True)
        body = {"owner": stranger, "query": QUERY, "top_k": 50}
        seen = [
            client.post(f"{NOTES}/search", json=body),
            client.get(NOTES, query_string={"owner": stranger, "include_deprecated": "true"}),
            client.get(f"{NOTES}/categories", query_string={"owner": stranger}),
            client.get(f"{NOTES}/status", query_string={"owner": stranger}),
        ]
        for response in seen:
            assert response.status_code == 200
            assert not {"secret", "mine", "private"} & set(
                re.findall(r"\w+", response.get_data(as_text=True).replace(QUERY, ""))
            )
        added = client.post(NOTES, json={"owner": stranger, "text": f"{SECRET} Again."}).get_json()
        assert added["similar"] == []
    assert client.get(f"{NOTES}/{note_id}?owner=user1").get_json()["text"] == SECRET


def requests_with_an_id(client: FlaskClient) -> Iterator[tuple[str, str]]:
    """Yield the method and path of every operation on one note."""
    for path, item in client.get("/openapi.json").get_json()["paths"].items():
        for method in item:
            if "{note_id}" in path and method in ("get", "post", "put", "patch", "delete"):
                yield method.upper(), path


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("PATCH", "/notes/{note_id}"): {"text": "overwritten", "tags": ["new"]},
    ("POST", "/notes/{note_id}/deprecate"): {"reason": "mine now"},
    ("POST", "/notes/{note_id}/feedback"): {"applicable": False, "tag_scores": {"a": -1}},
    ("PUT", "/notes/{note_id}/pin"): {"tags": ["a"]},
    ("PATCH", "/notes/{note_id}/categories"): {"add": ["a"]},
    ("POST", "/notes/{note_id}/explain"): {"query": QUERY},
}


def test_foreign_id_is_not_found_and_changes_nothing(client: FlaskClient) -> None:
    note = add(client, "user1", SECRET, tags=["private"])
    operations = list(requests_with_an_id(client))
    assert {(method, path.removeprefix(API)) for method, path in operations} >= set(BODIES)
    for method, path in operations:
        answers = []
        for note_id in (note["id"], 424242):
            body = BODIES.get(
                (method, path.removeprefix(API)), {} if method in ("POST", "PUT", "PATCH") else None
            )
            address = path.replace("{note_id}", str(note_id))
            for owner in ("user2", "default", "User1"):
                response = client.open(address, method=method, json=body, query_string={"owner": owner})
                problem = assert_problem(response, 404)
                del problem["trace_id"]
                answers.append(json.dumps(problem).replace(str(note_id), "ID"))
        assert len(set(answers)) == 1, (method, path, answers)
    shown = client.post(
        f"{NOTES}/shown", json={"owner": "user2", "session_id": "s", "note_ids": [note["id"]]}
    )
    assert_problem(shown, 404)
    assert client.get(f"{NOTES}/{note['id']}?owner=user1").get_json() == note


@pytest.mark.parametrize("owner", ["", " ", "a" * 201, "a\nb", "a\x00", "\x1b[31m", "a\u2028b"])
def test_impossible_owner_is_refused(empty: FlaskClient, owner: str) -> None:
    assert_problem(empty.get(NOTES, query_string={"owner": owner}), 422, "owner")
    assert_problem(empty.post(NOTES, json={"text": SECRET, "owner": owner}), 422, "owner")
    if owner:
        address = f"{USERS}/{quote(owner, safe='')}/recall"
        assert_problem(empty.post(address, json={"query": QUERY}), 422, "user_id")


def test_owner_of_address_and_body_must_agree(client: FlaskClient) -> None:
    both = client.post(f"{NOTES}?owner=user1", json={"owner": "user2", "text": SECRET})
    assert_problem(both, 422, "owner")
    assert client.post(f"{NOTES}?owner=user1", json={"owner": "user1", "text": SECRET}).status_code == 201
    for owner in ("user2", "default"):
        assert client.get(NOTES, query_string={"owner": owner}).get_json()["total"] == 0


@pytest.mark.parametrize("user", ["a/b", "/a", "a//b", "a/", "..", ".", "a/recall", "%", "ü", "a b", "x?y#z"])
def test_every_user_id_can_be_in_the_address_and_stays_itself(client: FlaskClient, user: str) -> None:
    """No form of the id leads to another user."""
    item = {"content": SECRET, "topic": "volcanoes", "confidence": 0.9}
    address = f"{USERS}/{quote(user, safe='').replace('.', '%2E')}"
    assert client.post(f"{address}/remember", json={"items": [item]}).get_json()["n_added"] == 1
    assert client.get(NOTES, query_string={"owner": user}).get_json()["total"] == 1
    for other in ("a", "b", "a/b/", "x", "default"):
        assert client.get(NOTES, query_string={"owner": other}).get_json()["total"] == 0
    assert client.post(f"{address}/recall", json={"query": QUERY, "threshold": 0}).get_json()["count"] == 1


def test_user_id_that_is_not_utf8_is_refused(empty: FlaskClient) -> None:
    """Decoded with replacement characters, two users would become one."""
    path = {"PATH_INFO": f"{USERS}/\xff/recall"}
    response = empty.post(f"{USERS}/x/recall", json={"query": QUERY}, environ_overrides=path)
    assert_problem(response, 400)
