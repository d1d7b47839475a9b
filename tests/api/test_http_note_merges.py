"""Duplicates among notes over HTTP: jobs, proposals, merges, undo, foreign owners, bad input."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem

from shoal.engine import Engine

NOTES = f"{API}/notes"
LAVA = "Lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
MAP, CHART = "Use the volcano map, not the season map.", "Use the season map, not the volcano map."


def add(client: FlaskClient, *texts: str, owner: str = "default") -> list[int]:
    return [
        client.post(NOTES, json={"text": text, "owner": owner}).get_json()["note"]["id"] for text in texts
    ]


def proposals(client: FlaskClient, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{NOTES}/proposals", query_string=query).get_json()["proposals"]
    return found


def test_job_is_accepted_and_an_open_one_is_returned(client: FlaskClient) -> None:
    add(client, LAVA, SAME)
    response = client.post(f"{NOTES}/dedup")
    assert response.status_code == 202
    job = response.get_json()["job"]
    assert (job["kind"], job["progress"]["total"]) == ("dedup", 1)
    assert response.headers["Location"] == f"{API}/jobs/{job['id']}"
    assert client.post(f"{NOTES}/dedup", json={"owner": "default"}).get_json()["job"]["id"] == job["id"]
    keyed = {"Idempotency-Key": "k"}
    first = client.post(f"{NOTES}/dedup", json={"recheck": True}, headers=keyed).get_json()["job"]["id"]
    again = client.post(f"{NOTES}/dedup", json={"recheck": True}, headers=keyed).get_json()["job"]["id"]
    assert first == again != job["id"]
    assert_problem(client.post(f"{NOTES}/dedup", json={"recheck": False}, headers=keyed), 409)
    listed = client.get(f"{API}/jobs", query_string={"kind": "dedup"}).get_json()
    assert [each["id"] for each in listed["jobs"]] == [first, job["id"]]
    assert client.post(f"{API}/jobs/{job['id']}/cancel").status_code == 202


def test_proposal_is_accepted_and_the_merge_undone(client: FlaskClient, engine: Engine) -> None:
    first, second = add(client, LAVA, SAME)
    engine.notes.of("default").dedup()
    [proposal] = proposals(client)
    assert [note["id"] for note in proposal["notes"]] == [first, second]
    assert [note["text"] for note in proposal["notes"]] == [LAVA, SAME]
    accepted = client.post(f"{NOTES}/proposals/{proposal['id']}/accept")
    assert accepted.status_code == 200
    assert accepted.get_json()["status"] == "merged"
    assert_problem(client.post(f"{NOTES}/proposals/{proposal['id']}/reject"), 409)
    listed = client.get(f"{NOTES}/merges", query_string={"note_id": second}).get_json()
    [merge] = listed["merges"]
    assert (listed["total"], merge["survivor_id"], merge["absorbed_ids"]) == (1, first, [second])
    assert (merge["decided_by"], merge["canonical_text"]) == ("person", LAVA)
    assert client.get(f"{NOTES}/{second}").get_json()["merged_into"] == first
    undone = client.post(f"{NOTES}/merges/{merge['id']}/undo").get_json()
    assert undone["undone_at"]
    assert client.get(f"{NOTES}/{second}").get_json()["deprecated_at"] is None
    assert_problem(client.post(f"{NOTES}/merges/{merge['id']}/undo"), 409)


def test_contradicting_notes_need_a_text(client: FlaskClient, engine: Engine) -> None:
    first, second = add(client, MAP, CHART)
    engine.notes.of("default").dedup()
    [proposal] = proposals(client)
    assert proposal["is_opposite"]
    address = f"{NOTES}/proposals/{proposal['id']}/accept"
    problem = assert_problem(client.post(address), 422)
    assert problem["errors"] == {"canonical_text": [f"notes {first} and {second} may contradict each other; give the text that holds"]}  # fmt: skip
    given = {"canonical_text": "Use both maps.", "decided_by": "agent"}
    assert client.post(address, json=given).get_json()["status"] == "merged"
    [merge] = client.get(f"{NOTES}/merges").get_json()["merges"]
    assert merge["decided_by"] == "agent"


def test_notes_are_merged_by_their_ids(client: FlaskClient) -> None:
    ids = add(client, LAVA, SAME)
    response = client.post(
        f"{NOTES}/merges", json={"note_ids": ids, "canonical_text": "Lava cools.", "confidence": 0.8}
    )
    assert response.status_code == 201
    assert response.get_json()["confidence"] == 0.8
    assert_problem(client.post(f"{NOTES}/merges", json={"note_ids": ids}), 409)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("merges", {"note_ids": [1]}, "note_ids"),
        ("merges", {"note_ids": [1, "2"]}, "note_ids"),
        ("merges", {}, "note_ids"),
        ("merges", {"note_ids": [1, 2], "decided_by": "endpoint"}, "decided_by"),
        ("merges", {"note_ids": [1, 2], "confidence": 7}, "confidence"),
        ("merges", {"note_ids": [1, 2], "canonical_text": ""}, "canonical_text"),
        ("merges", {"note_ids": [1, 2], "extra": 1}, "extra"),
        ("dedup", {"recheck": "yes"}, "recheck"),
        ("dedup", {"owner": "\n"}, "owner"),
        ("proposals/1/accept", {"decided_by": "endpoint"}, "decided_by"),
        ("proposals/1/reject", {"canonical_text": "x"}, "canonical_text"),
    ],
)
def test_bad_bodies_name_the_field(client: FlaskClient, path: str, body: Any, field: str) -> None:
    add(client, LAVA, SAME)
    problem = assert_problem(client.post(f"{NOTES}/{path}", json=body), 422)
    assert any(name.startswith(field) for name in problem["errors"])


def test_other_owners_see_nothing(client: FlaskClient, engine: Engine) -> None:
    ids = add(client, LAVA, SAME, owner="ann")
    engine.notes.of("ann").dedup()
    [proposal] = proposals(client, owner="ann")
    merge = engine.notes.of("ann").merge(ids)
    assert proposals(client) == []
    assert client.get(f"{NOTES}/merges").get_json()["total"] == 0
    for path in (f"proposals/{proposal['id']}/accept", f"merges/{merge.id}/undo"):
        assert_problem(client.post(f"{NOTES}/{path}"), 404)
        assert_problem(client.post(f"{NOTES}/{path}", query_string={"owner": "ben"}), 404)
    assert_problem(client.post(f"{NOTES}/merges", json={"note_ids": ids}), 404)
    assert_problem(client.get(f"{NOTES}/merges", query_string={"note_id": ids[0]}), 404)
    assert_problem(client.get(f"{NOTES}/proposals", query_string={"status": "new"}), 422)
