"""The console's page of synonyms and acronyms."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from shoal.engine import Engine

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _library(engine: Engine) -> None:
    engine.ingest(content="The World Health Organization (WHO) met.", title="Report")


def shown(client: FlaskClient, status: int = 200) -> str:
    response = client.get("/synonyms")
    assert response.status_code == status
    return response.get_data(as_text=True)


def test_entries_are_added_and_deleted(client: FlaskClient, engine: Engine) -> None:
    assert "This library has no synonyms" in shown(client)
    added = client.post("/synonyms", data={"words": "automobile,\r\nmotor car", "root": "car"})
    assert (added.status_code, added.headers["Location"]) == (303, "/synonyms")
    (entry,) = engine.vocabulary.synonyms.list().synonyms
    assert (entry.root, entry.synonyms) == ("car", ("automobile", "motor car"))
    assert "<b>car</b> also finds automobile, motor car" in shown(client)
    assert client.post(f"/synonyms/{entry.id}/delete").status_code == 303
    assert client.post(f"/synonyms/{entry.id}/delete").status_code == 404
    assert engine.vocabulary.synonyms.list().total == 0


def test_refused_entries_are_shown_with_what_was_typed(client: FlaskClient, engine: Engine) -> None:
    refused = client.post("/synonyms", data={"words": HOSTILE})
    assert refused.status_code == 422
    text = refused.get_data(as_text=True)
    assert "needs at least two" in text
    assert HOSTILE not in text
    engine.vocabulary.synonyms.add(["ship", "vessel"])
    again = client.post("/synonyms", data={"words": "ship, vessel"})
    assert again.status_code == 409
    assert "together in entry 1" in again.get_data(as_text=True)
    engine.vocabulary.synonyms.add([HOSTILE, "lantern"])
    assert HOSTILE not in shown(client)


def test_acronyms_are_scanned_and_decided_on(client: FlaskClient, engine: Engine) -> None:
    assert "1 document not scanned yet" in shown(client)
    assert client.post("/synonyms/scan").status_code == 303
    text = shown(client)
    assert "World Health Organization" in text
    assert 'aria-label="Confirm WHO"' in text
    assert client.post("/synonyms/acronyms/1/confirm").status_code == 303
    assert client.post("/synonyms/acronyms/1/confirm").status_code == 409
    assert engine.vocabulary.synonyms.list().total == 1
    assert client.post("/synonyms/acronyms/1/reject").status_code == 303
    assert engine.vocabulary.synonyms.list().total == 0
    assert client.post("/synonyms/acronyms/9/reject").status_code == 404
