"""Forms of the console that add a note, set its categories and prerequisites and start a comparison, and the
page that shows a search in notes step by step."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from shoal.engine import Engine
from shoal.models.jobs import JobKind
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings
from shoal_api import create_app

LAVA = "Lava and ash pour from the crater of the volcano."
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
READ, WRITE = "reader-0123456789abcdef", "writer-0123456789abcdef"
BLANK = dict.fromkeys(("title", "tags", "categories", "os", "repos", "paths", "mcp_servers"), "") | {
    "kind": "lesson"
}


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("default")


def page(client: FlaskClient, address: str, status: int = 200, **query: str) -> str:
    response = client.get(address, query_string=query or None)
    assert response.status_code == status, address
    return response.get_data(as_text=True)


def shown(text: str) -> str:
    """Return the text of the main element without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text[text.index("<main") :])).split())


def add(client: FlaskClient, text: str, address: str = "/notes/new", **form: str) -> Any:
    return client.post(address, data={**BLANK, "text": text, **form})


def test_form_adds_a_note_with_all_its_fields(client: FlaskClient, notes: OwnerNotes) -> None:
    form = page(client, "/notes/new")
    assert set(re.findall(r'name="(\w+)"', form)) >= {*BLANK, "text", "verified"}
    response = add(
        client, "First line.\r\nSecond, line.", title="Fire", kind="atom", tags="hot, red",
        categories="earth/fire, ash\r\nbuild\r\n", repos="shop\r\nblog", paths="/srv/a, b", verified="yes",
    )  # fmt: skip
    assert (response.status_code, response.headers["Location"]) == (303, "/notes/1")
    note = notes.get(1)
    assert (note.text, note.title, note.kind) == ("First line.\nSecond, line.", "Fire", "atom")
    assert (note.tags, note.categories) == (("hot", "red"), ("build", "earth/fire, ash"))
    assert note.prerequisites["repos"] == ("blog", "shop")
    assert note.prerequisites["paths"] == ("/srv/a, b",)
    assert (note.verified, note.source) == (True, "manual")


def test_new_note_belongs_to_the_owner_of_the_page(client: FlaskClient, engine: Engine) -> None:
    form = page(client, "/notes/new", owner="ann & bob")
    (action,) = re.findall(r'method="post" action="([^"]+)"', form)
    response = add(client, LAVA, html.unescape(action))
    assert response.headers["Location"] == "/notes/1?owner=ann+%26+bob"
    assert engine.notes.of("ann & bob").get(1).text == LAVA
    assert "/notes/new?owner=ann+%26+bob" in html.unescape(page(client, "/notes", owner="ann & bob"))


def test_repeated_and_similar_notes_are_reported(client: FlaskClient, notes: OwnerNotes) -> None:
    add(client, LAVA)
    again = add(client, LAVA)
    assert again.status_code == 200
    assert "had this text already" in shown(again.get_data(as_text=True))
    assert 'data-done-instead="The owner had this note already"' in again.get_data(as_text=True)
    assert notes.get(1).occurrence_count == 2
    similar = add(client, "From the crater of the volcano pour lava and ash.").get_data(as_text=True)
    assert "These notes say nearly the same" in shown(similar)
    assert f"% similar ): {LAVA}" in shown(similar).replace("similar)", "similar )")
    assert 'href="/notes/1"' in similar


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"text": " "}, "text: is empty"),
        ({"text": "x" * 20_001}, "the limit is 20,000"),
        ({"text": LAVA, "kind": "joke"}, "kind: must be one of"),
        ({"text": LAVA, "categories": "a//b"}, "categories: 'a//b'"),
        ({"text": LAVA, "tags": "x" * 101}, "tags: is 101 characters"),
        ({"text": LAVA, "repos": "x" * 201}, "prerequisites.repos"),
    ],
)
def test_refused_note_shows_the_reason_and_the_form_as_sent(
    client: FlaskClient, notes: OwnerNotes, form: dict[str, str], message: str
) -> None:
    response = client.post("/notes/new", data={**BLANK, "title": "Kept title", **form})
    text = html.unescape(response.get_data(as_text=True))
    assert (response.status_code, message in text) == (422, True), text
    assert 'value="Kept title"' in text
    assert form.get("categories", "") + "</textarea>" in text
    assert notes.status().n_active == 0
    assert client.post("/notes/new", data={"text": LAVA}).status_code == 400


def test_categories_and_prerequisites_are_set(client: FlaskClient, notes: OwnerNotes) -> None:
    note = notes.add(LAVA, categories=["a, b", "old"], prerequisites={"os": "linux"}).note
    form = page(client, f"/notes/{note.id}")
    assert 'name="category" value="a, b" checked' in form
    assert "\nlinux</textarea>" in form
    sent = {"category": ["a, b"], "more_categories": "new/one\r\nold/two"}
    assert client.post(f"/notes/{note.id}/categories", data=sent).status_code == 303
    assert notes.get(note.id).categories == ("a, b", "new/one", "old/two")
    gates = {"os": "", "repos": "shop\r\nblog", "paths": "", "mcp_servers": "github"}
    assert client.post(f"/notes/{note.id}/prerequisites", data=gates).status_code == 303
    stored = notes.get(note.id).prerequisites
    assert (stored["os"], stored["repos"], stored["mcp_servers"]) == ((), ("blog", "shop"), ("github",))
    bad = client.post(f"/notes/{note.id}/prerequisites", data={**gates, "repos": "x" * 201})
    assert bad.status_code == 422
    assert "x" * 201 + "</textarea>" in bad.get_data(as_text=True)
    assert client.post(f"/notes/{note.id}/categories", data={}).status_code == 400
    assert client.post(f"/notes/{note.id}/prerequisites", data={"os": "linux"}).status_code == 400
    other = client.post(f"/notes/{note.id}/categories?owner=ann", data={"more_categories": "x"})
    assert other.status_code == 404


def test_comparison_of_notes_is_a_job(client: FlaskClient, engine: Engine) -> None:
    engine.notes.of("ann").add(LAVA)
    (action,) = re.findall(
        r'action="([^"]*/dedup[^"]*)"', html.unescape(page(client, "/notes/proposals", owner="ann"))
    )
    response = client.post(action)
    (job,) = engine.jobs.list()
    assert (response.status_code, response.headers["Location"]) == (303, f"/jobs/{job.id}")
    assert job.kind is JobKind.dedup
    again = client.post(action)
    assert again.headers["Location"] == f"/jobs/{job.id}", "an open job of the owner is joined"
    rechecked = client.post(action, data={"recheck": "yes"})
    assert rechecked.headers["Location"] == f"/jobs/{job.id + 1}", "an open job that compares less is not"
    assert f"Job {job.id}" in shown(page(client, f"/jobs/{job.id}"))


def test_search_is_shown_step_by_step(client: FlaskClient, notes: OwnerNotes) -> None:
    first = notes.add(LAVA, tags=["geology"], title="Fire").note
    gated = notes.add("Lava flows in winter.", prerequisites={"os": "darwin"}).note
    notes.add("The jury weighs the evidence.")
    query = {"q": "lava of a volcano", "os": "linux", "env_tags": "geology"}
    results = html.unescape(page(client, "/notes", **query))
    (address,) = re.findall(r'href="(/notes/explain[^"]*)"', results)
    text = page(client, address)
    steps = notes.search_steps(
        "lava of a volcano", environment={"os": "linux", "tags": ["geology"]}, top_k=20
    )
    assert (steps.n_active, steps.n_words) == (3, 2)
    assert [(step.name, step.n_left_out) for step in steps.steps if step.n_left_out] == [("prerequisites", 1)]
    assert {each.note.id: each.left_out_by for each in steps.notes} == {
        first.id: (), gated.id: ("prerequisites",),
    }  # fmt: skip
    best = steps.notes[0]
    assert (best.note.id, best.signals_place, best.final_place) == (first.id, 1, 1)
    body = shown(text)
    assert "active 3 notes of this owner" in body
    assert "words 2 share a word" in body
    assert "prerequisites 1 leaves out 1 note" in body
    assert f"× {best.scores.affinity:.2f} place 1" in body
    assert "left out by prerequisites" in body
    assert f"/notes/{first.id}?q=lava+of+a+volcano&os=linux&env_tags=geology" in html.unescape(text)
    assert "No active note shares" in shown(page(client, "/notes/explain", q="zebra"))
    assert "How many notes" not in page(client, "/notes/explain")
    assert "Invalid request" in page(client, "/notes/explain", 422, q="lava", kind="odd")


def test_places_follow_the_scores_of_each_step(engine: Engine) -> None:
    notes = engine.notes.of("ann")
    for number in range(12):
        tags = ["web"] if number % 3 else ["cold"]
        note = notes.add(f"Lava {'lava ' * (number % 5)}number {number}.", tags=tags).note
        if number == 7:
            notes.feedback(note.id, applicable=True, environment={"tags": ["web"]})
    steps = notes.search_steps("lava", environment={"tags": ["web"]}, top_k=50)
    for name, key in (
        ("signals_place", lambda scores: scores.signals),
        ("weighed_place", lambda scores: scores.signals * scores.affinity),
        ("final_place", lambda scores: scores.final),
    ):
        expected = sorted(steps.notes, key=lambda each, key=key: (-key(each.scores), each.note.id))
        assert [getattr(each, name) for each in expected] == list(range(1, 13)), name
    shown_ids = [each.note.id for each in steps.notes if not each.left_out_by]
    found = notes.search("lava", environment={"tags": ["web"]}, top_k=50).results
    assert shown_ids == [result.note.id for result in found]


def test_forms_need_a_write_key_and_come_from_this_site(settings: Settings, engine: Engine) -> None:
    guarded = create_app(replace(settings, api_keys=f"read:{READ}, write:{WRITE}"), engine=engine)
    client = guarded.test_client()

    def send(address: str, key: str | None) -> int:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        form = {**BLANK, "text": LAVA}
        return client.post(address, data=form, headers=headers).status_code

    for address in ("/notes/new", "/notes/dedup"):
        assert [send(address, key) for key in (None, "wrong", READ)] == [401, 401, 403]
    assert engine.notes.of("default").status().n_active == engine.jobs.count() == 0
    assert send("/notes/new", WRITE) == 303
    for address in ("/notes/new", "/notes/explain?q=lava"):
        assert "<form class" not in page(client, address).partition("<main")[2].partition("key-form")[0]
    open_client = create_app(settings, engine=engine).test_client()
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        for address in ("/notes/new", "/notes/dedup", "/notes/1/categories"):
            form = {**BLANK, "text": "Foreign.", "more_categories": "x"}
            assert open_client.post(address, data=form, headers=foreign).status_code == 403
    assert engine.notes.of("default").status().n_active == 1


def test_markup_in_forms_and_steps_is_text(client: FlaskClient, engine: Engine) -> None:
    owner = HOSTILE[:60]
    notes = engine.notes.of(owner)
    notes.add(f"Lava {HOSTILE} \u202e", categories=["<img>/x"], prerequisites={"repos": [HOSTILE]})
    responses = [
        page(client, "/notes/new", owner=owner),
        page(client, "/notes/1", owner=owner),
        page(client, "/notes/explain", owner=owner, q=f"lava {HOSTILE}", repo=HOSTILE, tag=HOSTILE),
        page(client, "/notes/explain", owner=owner, q="lava", repo=HOSTILE),
        client.post("/notes/new", data={**BLANK, "text": "", "title": HOSTILE, "repos": HOSTILE}).get_data(
            as_text=True
        ),
    ]
    for text in responses:
        assert "<script>alert" not in text
        assert "<img" not in text
    assert "\u202e" not in responses[3]
