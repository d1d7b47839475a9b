"""Deletion of documents by tag and filter."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from surface import API

from shoal.engine import Engine


@pytest.fixture(autouse=True)
def _library(engine: Engine) -> None:
    for number in range(3):
        engine.ingest(content=f"Volcano {number}.", title=f"V{number}", tags=["draft"] if number else [])


def test_a_dry_run_names_what_a_filter_would_delete(client: FlaskClient) -> None:
    planned = client.delete(f"{API}/documents?filter=tags = draft AND title != V2&dry_run=true")
    assert planned.status_code == 200
    assert planned.get_json() == {
        "n_documents": 1,
        "documents": [{"id": 2, "title": "V1", "source_path": None}],
    }
    assert client.get(f"{API}/documents").get_json()["total"] == 3
    accepted = client.delete(f"{API}/documents?filter=tags = draft AND title != V2")
    assert accepted.status_code == 202
    assert accepted.get_json()["job"]["kind"] == "delete"


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("", 422, "filter"),
        ("filter=", 422, "filter"),
        ("filter=tags =", 422, "filter"),
        ("filter=page > 1", 422, "filter"),
        ("tag=", 422, "tag"),
        ("filter=tags = nothing", 404, None),
        ("tag=draft&filter=title = V0", 404, None),
    ],
)
def test_without_a_condition_or_a_document_nothing_is_deleted(
    client: FlaskClient, query: str, status: int, field: str | None
) -> None:
    response = client.delete(f"{API}/documents?{query}")
    assert response.status_code == status
    if field is not None:
        assert list(response.get_json()["errors"]) == [field]
    assert client.get(f"{API}/documents").get_json()["total"] == 3
