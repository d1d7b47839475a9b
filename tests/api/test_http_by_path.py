"""Bulk uploads with `on_conflict=replace`: documents replace the stored ones with their paths."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Worker, assert_problem

BULK = f"{API}/documents/bulk"
NDJSON = "application/x-ndjson"
REPLACE = {"on_conflict": "replace"}


def lines(**texts: str) -> dict[str, Any]:
    records = [{"content": text, "source_path": f"{name}.txt"} for name, text in texts.items()]
    return {"data": "\n".join(map(json.dumps, records)), "content_type": NDJSON}


def form(**texts: str) -> dict[str, Any]:
    return {"data": {"files": [(io.BytesIO(text.encode()), f"{name}.txt") for name, text in texts.items()]}}


def archive(**texts: str) -> dict[str, Any]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in texts.items():
            file.writestr(f"{name}.txt", text)
    return {"data": packed.getvalue(), "content_type": "application/zip"}


def contents(client: FlaskClient) -> dict[str, str]:
    documents = client.get(f"{API}/documents").get_json()["documents"]
    return {
        document["source_path"]: client.get(f"{API}/documents/{document['id']}/content").get_data(
            as_text=True
        )
        for document in documents
    }


@pytest.mark.parametrize("body", [lines, form, archive])
def test_changed_documents_are_replaced_and_unchanged_ones_are_duplicates(
    client: FlaskClient, worker: Worker, body: Any
) -> None:
    for texts in ({"a": VOLCANO, "b": FLOWER}, {"a": LAW, "b": FLOWER}):
        response = client.post(BULK, query_string=REPLACE, **body(**texts))
        assert response.status_code == 202, response.get_data(as_text=True)
        worker.work()
    assert contents(client) == {"a.txt": LAW, "b.txt": FLOWER}
    items = client.get(f"{response.headers['Location']}/items").get_json()["items"]
    assert [item["status"] for item in items] == ["succeeded", "duplicate"]


def test_documents_are_kept_by_default(client: FlaskClient, worker: Worker) -> None:
    for query in ({}, {"on_conflict": "keep"}):
        client.post(BULK, query_string=query, **lines(a=LAW if query else VOLCANO))
        worker.work()
    assert client.get(f"{API}/documents").get_json()["total"] == 2


@pytest.mark.parametrize("query", ["on_conflict=merge", "on_conflict=", "on_conflict=keep&on_conflict=keep"])
def test_unknown_value_is_refused(empty: FlaskClient, query: str) -> None:
    assert_problem(empty.post(f"{BULK}?{query}", **lines(a=LAW)), 422, "on_conflict")


def test_form_field_says_where_the_parameter_belongs(empty: FlaskClient) -> None:
    body = form(a=LAW)
    body["data"] |= REPLACE
    problem = assert_problem(empty.post(BULK, **body), 422, "on_conflict")
    assert "query parameter" in json.dumps(problem)


@pytest.mark.parametrize("body", [lines, form, archive])
def test_key_of_an_upload_covers_the_parameter(client: FlaskClient, body: Any) -> None:
    key = {"Idempotency-Key": "once"}
    first = client.post(BULK, query_string=REPLACE, headers=key, **body(a=LAW))
    again = client.post(BULK, query_string=REPLACE, headers=key, **body(a=LAW))
    if body is not form:
        assert again.headers["Location"] == first.headers["Location"]
    assert_problem(client.post(BULK, headers=key, **body(a=LAW)), 409)
