"""Synonyms and acronyms over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API

from shoal.engine import Engine


@pytest.fixture(autouse=True)
def _library(engine: Engine) -> None:
    engine.ingest(content="The volcano of the World Health Organization (WHO).", title="Report")
    engine.ingest(content="A mountain of fire.", title="Mountain")


def test_entries_are_added_listed_replaced_and_deleted(client: FlaskClient) -> None:
    added = client.post(f"{API}/synonyms", json={"synonyms": ["mountain"], "root": "volcano"})
    assert added.status_code == 201
    entry = added.get_json()
    assert (entry["root"], entry["synonyms"]) == ("volcano", ["mountain"])
    found = client.get(f"{API}/search?q=volcano&mode=lexical&include_scores=true").get_json()
    assert {each["document_title"] for each in found["results"]} == {"Report", "Mountain"}
    assert found["query_info"]["synonyms"][0]["synonym_id"] == entry["id"]
    by_title = {each["document_title"]: each for each in found["results"]}
    assert by_title["Mountain"]["matched_terms"][0]["synonyms"] == ["mountain"]
    off = client.get(f"{API}/search?q=volcano&mode=lexical&synonyms=off").get_json()
    assert len(off["results"]) == 1
    path = f"{API}/synonyms/{entry['id']}"
    assert client.get(path).get_json() == entry
    replaced = client.put(path, json={"synonyms": ["volcano", "mountain"]})
    assert replaced.get_json()["root"] is None
    assert client.get(f"{API}/synonyms?q=mount&limit=1").get_json()["total"] == 1
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404
    assert client.get(path).status_code == 404
    assert client.put(path, json={"synonyms": ["volcano", "mountain"]}).status_code == 404


def test_entries_are_exported_and_imported(client: FlaskClient) -> None:
    body = {"synonyms": [{"synonyms": ["sea", "ocean"]}, {"root": "insect", "synonyms": ["bee"]}]}
    done = client.post(f"{API}/synonyms/import", json=body).get_json()
    assert done == {"stored": 2, "duplicates": 0, "refused": []}
    assert client.get(f"{API}/synonyms/export").get_json() == body
    again = client.post(f"{API}/synonyms/import", json={**body, "replace": True}).get_json()
    assert again["stored"] == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "synonyms"),
        ({"synonyms": "car"}, "synonyms"),
        ({"synonyms": ["car"]}, "synonyms"),
        ({"synonyms": ["car", "CAR"]}, "synonyms"),
        ({"synonyms": ["car", 1]}, "synonyms.1"),
        ({"synonyms": [f"w{n}" for n in range(40)]}, "synonyms"),
        ({"synonyms": ["car"], "root": "the"}, "root"),
        ({"synonyms": ["car"], "roots": "auto"}, "roots"),
        ({"synonyms": ["car", "x" * 10_000]}, "synonyms"),
    ],
)
def test_invalid_entries_name_the_field(client: FlaskClient, body: dict[str, Any], field: str) -> None:
    response = client.post(f"{API}/synonyms", json=body)
    assert response.status_code == 422
    assert list(response.get_json()["errors"]) == [field]


def test_errors_have_codes(client: FlaskClient) -> None:
    first = {"synonyms": ["car", "automobile"]}
    assert client.post(f"{API}/synonyms", json=first).status_code == 201
    conflict = client.post(f"{API}/synonyms", json=first)
    assert (conflict.status_code, conflict.get_json()["code"]) == (409, "synonym_conflict")
    invalid = client.post(f"{API}/synonyms/import", json={"synonyms": [first, {"synonyms": ["x"]}]})
    assert (invalid.status_code, invalid.get_json()["code"]) == (422, "invalid_synonym")
    assert list(invalid.get_json()["errors"]) == ["synonyms.1.synonyms"]
    wrong = client.get(f"{API}/search?q=car&synonyms=maybe")
    assert (wrong.status_code, list(wrong.get_json()["errors"])) == (422, ["synonyms"])
    assert client.get(f"{API}/acronyms?status=open").status_code == 422
    assert client.post(f"{API}/acronyms/scan", json={"max_seconds": 1000}).status_code == 422


def test_acronyms_are_scanned_and_decided_on(client: FlaskClient) -> None:
    assert client.get(f"{API}/acronyms").get_json()["n_unscanned"] == 2
    assert client.post(f"{API}/acronyms/scan").get_json() == {"scanned": 2, "new": 1, "n_unscanned": 0}
    (found,) = client.get(f"{API}/acronyms").get_json()["acronyms"]
    path = f"{API}/acronyms/{found['id']}"
    assert client.get(path).get_json() == found
    assert client.post(f"{path}/confirm").get_json()["status"] == "confirmed"
    assert client.post(f"{path}/confirm").status_code == 409
    assert client.get(f"{API}/synonyms").get_json()["total"] == 1
    assert client.post(f"{path}/reject").get_json()["status"] == "rejected"
    assert client.get(f"{API}/synonyms").get_json()["total"] == 0
    assert client.get(f"{API}/acronyms?status=rejected&acronym=who").get_json()["total"] == 1
    assert client.post(f"{API}/acronyms/99/confirm").status_code == 404
