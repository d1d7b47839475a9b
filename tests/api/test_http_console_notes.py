"""Pages of notes in the console: lists, searches with their reasons, evidence, and forms without a script."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from shoal.engine import Engine
from shoal.models.notes import Note
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.console.figures import visible as with_hidden_named
from shoal_api.console.notes import ENTRIES, NOTES

LAVA = "Lava and ash pour from the crater of the volcano."
JURY = "The jury weighs the evidence of the crime before the verdict."
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
READ, WRITE = "reader-0123456789abcdef", "writer-0123456789abcdef"


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("default")


def add(notes: OwnerNotes, text: str = LAVA, **fields: Any) -> Note:
    return notes.add(text, **fields).note


def page(client: FlaskClient, address: str, status: int = 200, **query: str) -> str:
    response = client.get(address, query_string=query or None)
    assert response.status_code == status, address
    assert response.content_type == "text/html; charset=utf-8"
    return response.get_data(as_text=True)


def shown(text: str) -> str:
    """Return the text of the main element without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text[text.index("<main") :])).split())


def links(text: str) -> list[str]:
    return [html.unescape(address) for address in re.findall(r'href="([^"]+)"', text[text.index("<main") :])]


def send(client: FlaskClient, note: Note, action: str, **form: Any) -> str:
    """Send a form of the page of a note; return the page that follows."""
    response = client.post(f"/notes/{note.id}/{action}", data=form)
    assert response.status_code == 303, response.get_data(as_text=True)
    return page(client, response.headers["Location"])


def test_notes_are_listed_by_owner_and_filters(
    client: FlaskClient, engine: Engine, notes: OwnerNotes
) -> None:
    add(notes, "Lava one.", tags=["a"], categories=["build/docker"])
    add(notes, "Lava two.", kind="atom", categories=["build"])
    notes.pin(add(notes, "Lava three.").id)
    notes.deprecate(add(notes, "Lava four.").id)
    add(engine.notes.of("ann"), "Lava of Ann.")

    def listed(**query: str) -> list[str]:
        return re.findall(r"Lava (\w+)", shown(page(client, "/notes", **query)))

    assert listed() == ["one", "two", "three"]
    assert listed(tag="a") == ["one"]
    assert listed(kind="atom") == ["two"]
    assert listed(category="build") == ["one", "two"]
    assert listed(state="pinned") == ["three"]
    assert listed(state="not_pinned") == ["one", "two"]
    assert listed(state="all") == ["one", "two", "three", "four"]
    assert listed(owner="ann") == ["of"]
    assert "No note matches" in page(client, "/notes", tag="b")
    assert "no notes of bob yet" in shown(page(client, "/notes", owner="bob"))


def test_categories_are_a_tree_with_counts(client: FlaskClient, notes: OwnerNotes) -> None:
    add(notes, "Lava one.", categories=["build/docker"])
    add(notes, "Lava two.", categories=["build"])
    listed = page(client, "/notes", category="build/docker", kind="lesson")
    assert 'class="depth-0"><a href="/notes?category=build&amp;kind=lesson">build <small>2</small>' in listed
    assert re.search(r'class="depth-1"><a href="[^"]+" aria-current="true">docker <small>1</small>', listed)


def test_long_lists_have_pages_that_keep_the_filters(client: FlaskClient, notes: OwnerNotes) -> None:
    notes.add_many([{"text": f"Lava number {i} of many.", "tags": ["hot"]} for i in range(NOTES + 1)])
    first = page(client, "/notes", tag="hot")
    assert "/notes?tag=hot&page=2" in links(first)
    assert f"number {NOTES - 1} of" in first
    second = shown(page(client, "/notes", tag="hot", page="2"))
    assert f"number {NOTES} of" in second
    assert "number 0 of" not in second


def test_search_shows_each_step_of_the_score(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes, tags=["geology"], prerequisites={"repos": ["shop"]}, title="Fire")
    notes.feedback(note.id, applicable=True, environment={"tags": ["geology"]})
    add(notes, JURY)
    results = page(client, "/notes", q="lava of a volcano", env_tags="geology", repo="shop")
    [result] = notes.search(
        "lava of a volcano", environment={"tags": ["geology"], "repo": "shop"}, include_scores=True
    ).results
    scores = result.scores
    assert scores is not None
    text = shown(results)
    assert "1 result" in text
    assert "<mark>Lava</mark>" in results
    assert f"words BM25 {scores.bm25:.2f} {scores.words_part:.4f}" in text
    assert f"signals the sum of these {scores.signals:.4f}" in text
    assert f"× {scores.affinity:.2f}" in text
    assert f"+ {scores.relevance_part:.4f}" in text
    assert f"score {scores.final:.4f}" in text
    assert scores.affinity > 1
    assert scores.relevance_part > 0
    assert "prerequisites that hold: repos shop" in text
    assert f"/notes/{note.id}?q=lava+of+a+volcano&repo=shop&env_tags=geology" in links(results)
    assert "No results" in page(client, "/notes", q="lava of a volcano", tag="law")
    gated = shown(page(client, "/notes", q="lava of a volcano", repo="other"))
    assert "No results" in gated
    assert "not checked without an environment" in shown(page(client, "/notes", q="lava"))


def test_page_of_a_note_shows_its_evidence_and_history(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes, tags=["geology"], categories=["earth/fire"], session_id="s1")
    environment = {"repo": "shop", "tags": ["linux", "python"]}
    notes.record_shown("s2", [note.id], event="prompt", environment=environment)
    notes.feedback(
        note.id, applicable=False, reason="Other rock", tag_scores={"python": -0.5}, session_id="s2"
    )
    notes.update(note.id, title="Fire")
    text = shown(page(client, f"/notes/{note.id}"))
    assert LAVA in text
    assert "earth/fire" in text
    assert "repository shop 1" in text
    assert "tags linux, python 1" in text
    assert re.search(r"python -0\.\d\d 0 1", text), "relevance, judgements for and against"
    assert "not applicable : Other rock" in text
    assert "python -0.5" in text
    assert "Submitted by 1 session: s1" in text
    assert re.search(r"updated title .{0,40} before title empty", text)
    assert "shown 1 time" in text


def test_a_note_that_was_shown_outside_a_repository_counts_as_shown(
    client: FlaskClient, notes: OwnerNotes
) -> None:
    note = add(notes)
    assert "neither shown nor judged" in page(client, f"/notes/{note.id}")
    notes.record_shown("s1", [note.id], event="prompt")
    text = page(client, f"/notes/{note.id}")
    assert "It was shown, but not judged yet." in text
    assert "neither shown" not in text


def test_only_the_latest_changes_are_listed(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes)
    for i in range(ENTRIES):
        notes.update(note.id, domain=f"domain {i}.")
    text = shown(page(client, f"/notes/{note.id}"))
    assert f"{ENTRIES + 1} changes, the latest {ENTRIES}" in text
    assert f"domain {ENTRIES - 2}." in text
    assert "added 20" in text
    assert text.count(" before domain ") == ENTRIES


def test_explanation_says_which_step_leaves_a_note_out(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes, prerequisites={"os": "darwin"})
    address = f"/notes/{note.id}"
    assert "Shown , as result 1" in shown(page(client, address, q="lava"))
    gated = shown(page(client, address, q="lava", os="linux"))
    assert "Not shown" in gated
    assert "prerequisites no these do not hold here: os" in gated
    assert "no word of the query" in shown(page(client, address, q="zebra"))


def test_forms_change_a_note_without_a_script(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes, tags=["hot, red", "old"])
    assert "Unpin" in send(client, note, "pin", tags="linux, python")
    assert notes.get(note.id).pin_tags == ("linux", "python")
    send(client, note, "unpin")
    assert not notes.get(note.id).pinned
    judged = send(client, note, "feedback", tags="python", reason="Helped", applicable="yes")
    assert "Helped" in judged
    assert notes.get(note.id).tag_relevance["python"].n_positive == 1
    send(client, note, "edit", title="Fire", text="First line.\r\nSecond line.")
    assert (notes.get(note.id).title, notes.get(note.id).text) == ("Fire", "First line.\nSecond line.")
    send(client, note, "tags", tag="hot, red", more="new, other")
    assert notes.get(note.id).tags == ("hot, red", "new", "other")
    assert "Restore this note" in send(client, note, "deprecate", reason="Wrong")
    assert notes.get(note.id).deprecated_reason == "Wrong"
    assert "Deprecate this note" in send(client, note, "restore")


def test_unchanged_form_changes_nothing(client: FlaskClient, notes: OwnerNotes) -> None:
    note = add(notes, "First line.\n\n  Second line with <b> & more.", title="Fire & ash")
    form = page(client, f"/notes/{note.id}")
    (text,) = re.findall(r'<textarea name="text"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
    (title,) = re.findall(r'name="title" value="([^"]*)"', form)
    send(client, note, "edit", title=html.unescape(title), text=html.unescape(text).replace("\n", "\r\n"))
    assert len(notes.history(note.id)) == 1


def test_refused_form_shows_the_reason_and_what_was_sent(client: FlaskClient, notes: OwnerNotes) -> None:
    note, other = add(notes), add(notes, "Ash falls on the field.")
    refused = client.post(f"/notes/{note.id}/edit", data={"title": "Kept title", "text": " "})
    assert refused.status_code == 422
    assert "text: is empty" in refused.get_data(as_text=True)
    assert 'value="Kept title"' in refused.get_data(as_text=True)
    assert f"{LAVA}</textarea>" not in refused.get_data(as_text=True), "the text as it was sent"
    assert (
        client.post(
            f"/notes/{note.id}/feedback", data={"tags": "", "reason": "", "applicable": "maybe"}
        ).status_code
        == 422
    )
    assert client.post(f"/notes/{note.id}/tags", data={}).status_code == 400, "must not remove all tags"
    notes.deprecate(other.id)
    assert client.post(f"/notes/{other.id}/pin", data={"tags": ""}).status_code == 409
    assert client.post(f"/notes/{note.id}/purge").status_code == 404
    assert client.get(f"/notes/{note.id}/pin").status_code == 405


def test_owner_query_and_environment_go_along(client: FlaskClient, engine: Engine) -> None:
    note = add(engine.notes.of("ann & bob"), tags=["hot"])
    listed = page(client, "/notes", owner="ann & bob", q="lava", os="linux")
    address = f"/notes/{note.id}?owner=ann+%26+bob&q=lava&os=linux"
    assert address in links(listed)
    shown_note = page(client, address)
    assert "/notes?owner=ann+%26+bob&tag=hot" in links(shown_note)
    actions = re.findall(r'<form[^>]*method="post" action="([^"]+)"', shown_note)
    assert actions
    response = client.post(html.unescape(next(a for a in actions if "/pin?" in a)), data={"tags": ""})
    assert response.headers["Location"] == address
    assert engine.notes.of("ann & bob").get(note.id).pinned


def test_notes_of_other_owners_do_not_exist(client: FlaskClient, engine: Engine, notes: OwnerNotes) -> None:
    foreign = add(engine.notes.of("ann"), "A secret of Ann about lava.")
    assert "Not found" in page(client, f"/notes/{foreign.id}", 404)
    assert page(client, "/notes/999", 404).replace("999", "N") == page(
        client, f"/notes/{foreign.id}", 404
    ).replace(f"note {foreign.id}<", "note N<")
    forms: dict[str, dict[str, str]] = {
        "pin": {"tags": ""},
        "unpin": {},
        "deprecate": {"reason": ""},
        "restore": {},
        "feedback": {"tags": "", "reason": "", "applicable": "yes"},
        "edit": {"title": "", "text": "Taken over."},
        "tags": {"more": "x"},
    }
    for action, form in forms.items():
        assert client.post(f"/notes/{foreign.id}/{action}", data=form).status_code == 404, action
    assert engine.notes.of("ann").get(foreign.id) == foreign
    assert "of Ann" not in page(client, "/notes") + page(client, "/notes", q="secret lava")


@pytest.mark.parametrize(
    "query",
    [{"owner": " "}, {"owner": "x" * 201}, {"kind": "odd"}, {"state": "odd"}, {"category": "a//b"},
     {"page": "0"}, {"q": "lava", "env_tags": "x" * 101}, {"q": "lava " * 5000}],
)  # fmt: skip
def test_invalid_parameters_show_an_error_page(empty: FlaskClient, query: dict[str, str]) -> None:
    assert "Invalid request" in page(empty, "/notes", 422, **query)


def test_markup_in_notes_is_text(client: FlaskClient, engine: Engine) -> None:
    owner = HOSTILE[:60]
    notes = engine.notes.of(owner)
    note = add(
        notes,
        f"Lava {HOSTILE} </textarea><script>alert(3)</script>",
        title=HOSTILE,
        domain=HOSTILE,
        tags=[HOSTILE],
        categories=["<img>/x"],
        prerequisites={"repos": [HOSTILE]},
        session_id=HOSTILE,
    )
    notes.record_shown(HOSTILE, [note.id], event="prompt", environment={"repo": HOSTILE, "tags": [HOSTILE]})
    notes.feedback(note.id, applicable=True, reason=HOSTILE, tag_scores={HOSTILE: 1})
    notes.update(note.id, title=f"{HOSTILE} again")
    notes.deprecate(note.id, reason=HOSTILE)
    search = {"q": f"lava {HOSTILE}", "repo": HOSTILE, "env_tags": HOSTILE}
    for address, first in (("/notes", {"state": "all"}), (f"/notes/{note.id}", {})):
        for query in (first, search):
            text = page(client, address, owner=owner, **query)
            assert "<script>alert" not in text
            assert "<img" not in text
            assert not re.search(r'<[^>"]*(?:"[^"]*"[^>"]*)*\sonerror=', text), "no attribute either"
    problem = client.post(f"/notes/{note.id}/pin", query_string={"owner": owner}, data={"tags": HOSTILE})
    assert "<script>alert" not in problem.get_data(as_text=True)
    assert "&lt;script&gt;" in page(client, f"/notes/{note.id}", owner=owner)


def test_hidden_characters_are_named(client: FlaskClient, notes: OwnerNotes) -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    note = add(notes, f"Lava\x1b[31m is \u202esafe\u202c{tags}.", title="Fire\u200b", tags=["a\u200bb"])
    for text in (page(client, "/notes"), page(client, "/notes", q="lava")):
        assert "\u202e" not in text
        assert "Fire[U+200B]" in text
    text = page(client, f"/notes/{note.id}")
    body, _, form = text.partition('<input name="title"')
    assert "[31m is [U+202E]safe[U+202C U+E006F U+E0062 and 2 more hidden characters]." in body
    assert "<title>Fire[U+200B]" in body
    assert not re.search("[\x00-\x08\x1b\u200b\u202c\u202e\U000e0000-\U000e0fff]", body)
    assert "This text has hidden characters" in text
    assert "\u202esafe" in form, "the text to edit is the stored one"


@pytest.mark.parametrize(
    "text",
    ["Zeile\nund\tTab", "👩‍👩‍👧 ❤️ 1️⃣", "می‌خواهم", "日本語 е́ עברית", "[U+202E]"],
)
def test_visible_text_stays(text: str) -> None:
    assert with_hidden_named(text) == text


def test_many_hidden_characters_are_counted() -> None:
    assert (
        with_hidden_named("a" + "\u200b" * 2000 + "b")
        == "a[U+200B U+200B U+200B and 1,997 more hidden characters]b"
    )
    assert with_hidden_named("❤\ufe0f\ufe01\ufe02") == "❤\ufe0f[U+FE01 U+FE02]", "one selector has a meaning"


@pytest.fixture
def guarded(settings: Settings, engine: Engine) -> flask.Flask:
    return create_app(replace(settings, api_keys=f"read:{READ}, write:{WRITE}"), engine=engine)


def test_notes_and_their_forms_need_a_key(guarded: flask.Flask, notes: OwnerNotes) -> None:
    note = add(notes)
    client = guarded.test_client()

    def pin(key: str | None) -> int:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return client.post(f"/notes/{note.id}/pin", data={"tags": ""}, headers=headers).status_code

    for address in ("/notes", f"/notes/{note.id}", "/notes?q=lava"):
        assert "Lava" not in page(client, address)
    assert (pin(None), pin("wrong"), pin(READ)) == (401, 401, 403)
    assert not notes.get(note.id).pinned
    assert pin(WRITE) == 303
    part = client.get(f"/notes/{note.id}", headers={"Authorization": f"Bearer {READ}", "Shoal-Part": "main"})
    assert part.get_data(as_text=True).startswith("<main")
    assert LAVA in part.get_data(as_text=True)


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}],
)
def test_forms_of_other_sites_change_nothing(
    client: FlaskClient, notes: OwnerNotes, headers: dict[str, str]
) -> None:
    note = add(notes)
    response = client.post(f"/notes/{note.id}/deprecate", data={"reason": ""}, headers=headers)
    assert response.status_code == 403
    assert notes.get(note.id).is_active
