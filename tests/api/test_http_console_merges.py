"""The console's page of proposals and merges of notes."""

from __future__ import annotations

import html
import re

import pytest
from flask.testing import FlaskClient

from shoal.engine import Engine
from shoal.notes.notes import OwnerNotes

LAVA = "The lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
MAP, CHART = "Use the volcano map, not the season map.", "Use the season map, not the volcano map."
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e"


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("ann")


def propose(notes: OwnerNotes, *texts: str) -> int:
    """Store notes that become a proposal; return its id."""
    for text in texts:
        notes.add(text)
    notes.dedup()
    [proposal] = notes.proposals().proposals
    return proposal.id


def page(client: FlaskClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, address
    return response.get_data(as_text=True)


def shown(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text[text.index("<main") :])).split())


def send(client: FlaskClient, address: str, **form: str) -> str:
    response = client.post(address, data=form)
    assert response.status_code == 303, response.get_data(as_text=True)
    return str(response.headers["Location"])


def test_proposal_is_accepted_and_the_merge_undone(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, LAVA, SAME)
    assert "1 proposal to merge" in shown(page(client, "/notes?owner=ann"))
    listed = page(client, "/notes/proposals?owner=ann")
    assert LAVA in listed
    assert SAME in listed
    (accept,) = re.findall(r'action="([^"]+/accept[^"]*)"', listed)
    after = send(client, html.unescape(accept), canonical_text="Lava cools.\r\nIt becomes basalt.")
    assert after == "/notes/proposals?owner=ann"
    [merge] = notes.merges().merges
    assert notes.get(merge.survivor_id).text == "Lava cools.\nIt becomes basalt."
    assert f"1 note ( {merge.absorbed_ids[0]} ) merged into note {merge.survivor_id}" in shown(
        page(client, after)
    )
    assert f"Proposal {proposal}" in page(client, "/notes/proposals?owner=ann&status=merged")
    absorbed = page(client, f"/notes/{merge.absorbed_ids[0]}?owner=ann")
    assert f"merged into note {merge.survivor_id}" in shown(absorbed)
    survivor = page(client, f"/notes/{merge.survivor_id}?owner=ann&q=lava")
    (undo,) = re.findall(r'action="([^"]+/undo[^"]*)"', survivor)
    back = send(client, html.unescape(undo), note=str(merge.survivor_id))
    assert back == f"/notes/{merge.survivor_id}?owner=ann&q=lava"
    assert "undone" in page(client, back)
    assert [note.is_active for note in notes.list().notes] == [True, True]
    assert client.post(html.unescape(undo), data={}).status_code == 409


def test_empty_text_keeps_that_of_the_survivor(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, LAVA, SAME)
    send(client, f"/notes/proposals/{proposal}/accept?owner=ann", canonical_text="")
    [merge] = notes.merges().merges
    assert notes.get(merge.survivor_id).text in (LAVA, SAME)


def test_rejected_proposal_merges_nothing(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, LAVA, SAME)
    after = send(client, f"/notes/proposals/{proposal}/reject?owner=ann&status=open")
    assert "No proposal is open" in shown(page(client, after))
    assert notes.merges().total == 0
    late = client.post(f"/notes/proposals/{proposal}/accept?owner=ann", data={"canonical_text": ""})
    assert late.status_code == 409
    assert "is rejected" in shown(late.get_data(as_text=True))


def test_notes_that_may_contradict_need_a_text(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, MAP, CHART)
    listed = page(client, "/notes/proposals?owner=ann")
    assert "may contradict each other" in listed
    assert re.search(r"<textarea[^>]* required>", listed)
    refused = client.post(f"/notes/proposals/{proposal}/accept?owner=ann", data={"canonical_text": ""})
    assert refused.status_code in (409, 422)
    assert notes.list().total == 2
    too_long = client.post(
        f"/notes/proposals/{proposal}/accept?owner=ann", data={"canonical_text": "x" * 20_001}
    )
    assert too_long.status_code == 422
    assert "x" * 20_001 in too_long.get_data(as_text=True), "what was typed stays in the form"
    send(client, f"/notes/proposals/{proposal}/accept?owner=ann", canonical_text="Use both maps.")
    assert notes.list().total == 1


def test_proposals_and_merges_of_other_owners_do_not_exist(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, LAVA, SAME)
    assert LAVA not in page(client, "/notes/proposals")
    for decision in ("accept", "reject"):
        response = client.post(f"/notes/proposals/{proposal}/{decision}", data={"canonical_text": ""})
        assert response.status_code == 404
    notes.decide(proposal, True)
    [merge] = notes.merges().merges
    assert client.post(f"/notes/merges/{merge.id}/undo", data={}).status_code == 404
    assert notes.merges().merges == (merge,)
    assert "No notes were merged yet" in page(client, "/notes/proposals")


def test_markup_in_proposals_is_text(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, f"{LAVA} {HOSTILE}", f"{SAME} {HOSTILE}")
    pages = [page(client, "/notes/proposals?owner=ann")]
    sent = {"canonical_text": f"</textarea>{HOSTILE}" * 500}
    pages.append(
        client.post(f"/notes/proposals/{proposal}/accept?owner=ann", data=sent).get_data(as_text=True)
    )
    for text in pages:
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "[U+202E]" in text
        assert text.count("</textarea>") == 1


@pytest.mark.parametrize("query", ["status=odd", "page=0", "owner=%20"])
def test_invalid_parameters_show_an_error_page(empty: FlaskClient, query: str) -> None:
    assert "Invalid request" in page(empty, f"/notes/proposals?{query}", 422)


def test_forms_of_other_sites_decide_nothing(client: FlaskClient, notes: OwnerNotes) -> None:
    proposal = propose(notes, LAVA, SAME)
    for decision in ("accept", "reject"):
        response = client.post(
            f"/notes/proposals/{proposal}/{decision}?owner=ann",
            data={"canonical_text": ""},
            headers={"Origin": "https://evil.example"},
        )
        assert response.status_code == 403
    assert notes.proposals().total == 1
