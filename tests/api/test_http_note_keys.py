"""Idempotency keys of requests that add notes: repeated, used for another request, interrupted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem

LAVA = "Lava and ash pour from the crater of the volcano."
FIELDS = {"topic": "geology", "confidence": 0.9}
KEY = {"Idempotency-Key": "k1"}
NDJSON = {"Content-Type": "application/x-ndjson"}

REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (f"{API}/notes?owner=ann", {"json": {"text": LAVA}}, {"json": {"text": "Rain falls."}}),
    (
        f"{API}/notes/bulk?owner=ann",
        {"data": json.dumps({"text": LAVA}) + "\n{}\n", "headers": NDJSON},
        {"data": json.dumps({"text": LAVA}), "headers": NDJSON},
    ),
    (
        f"{API}/users/ann/remember",
        {"json": {"items": [{"content": LAVA, **FIELDS}, {"content": "short", **FIELDS}]}},
        {"json": {"items": [{"content": LAVA, **FIELDS}]}},
    ),
]


def post(client: FlaskClient, path: str, sent: dict[str, Any], key: dict[str, str]) -> Any:
    return client.post(path, **{**sent, "headers": {**sent.get("headers", {}), **key}})


def occurrences(client: FlaskClient) -> list[int]:
    notes = client.get(f"{API}/notes?owner=ann").get_json()["notes"]
    return [note["occurrence_count"] for note in notes]


@pytest.mark.parametrize(("path", "sent", "other"), REQUESTS)
def test_repeated_request_has_the_same_outcome_and_counts_nothing(
    client: FlaskClient, path: str, sent: dict[str, Any], other: dict[str, Any]
) -> None:
    first, again = post(client, path, sent, KEY), post(client, path, sent, KEY)
    assert first.status_code in (200, 201), first.get_data(as_text=True)
    assert (again.status_code, again.get_json()) == (first.status_code, first.get_json())
    assert occurrences(client) == [1]
    assert_problem(post(client, path, other, KEY), 409)
    assert occurrences(client) == [1]
    post(client, path, sent, {"Idempotency-Key": "k2"})
    assert occurrences(client) == [2]
    assert_problem(post(client, path, sent, {"Idempotency-Key": "ключ"}), 422)


@pytest.mark.parametrize(("path", "sent", "other"), REQUESTS)
def test_key_is_that_of_one_request_of_an_owner(
    client: FlaskClient, path: str, sent: dict[str, Any], other: dict[str, Any]
) -> None:
    document = {"json": {"content": LAVA}}
    assert post(client, f"{API}/documents", document, KEY).status_code == 202
    assert_problem(post(client, path, sent, KEY), 409)
    key = {"Idempotency-Key": "k2"}
    assert post(client, path, sent, key).status_code in (200, 201)
    assert_problem(post(client, f"{API}/documents", document, key), 409)
    assert post(client, path.replace("ann", "bob"), sent, key).status_code in (200, 201)
    assert occurrences(client) == [1]


def test_key_of_a_refused_request_can_be_used_again(client: FlaskClient) -> None:
    assert_problem(post(client, f"{API}/notes", {"json": {"text": ""}}, KEY), 422)
    assert post(client, f"{API}/notes", {"json": {"text": LAVA}}, KEY).status_code == 201
    client.post(f"{API}/notes/1/deprecate")
    client.post(f"{API}/notes/purge")
    assert_problem(post(client, f"{API}/notes", {"json": {"text": LAVA}}, KEY), 404)
