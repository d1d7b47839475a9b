"""The page that verifies a text: verdicts, passages and what is missing, without a script and with hostile input."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import flask
import pytest
from flask.testing import FlaskClient
from surface import API, LAW, VOLCANO, Store

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.console.verification import MAX_CHARS, STATEMENTS

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
READ = "reader-0123456789abcdef"


@pytest.fixture
def chunk_id(client: FlaskClient, store: Store) -> int:
    """The chunk of the text about a volcano."""
    store(LAW, title="Courts")
    document_id = store(VOLCANO, title="Volcano")
    return int(client.get(f"{API}/documents/{document_id}/chunks").get_json()["chunks"][0]["id"])


def send(
    client: FlaskClient, text: str, references: str = "", min_coverage: str = "0.7", *, status: int = 200
) -> str:
    form = {"text": text, "references": references, "min_coverage": min_coverage}
    response = client.post("/verify", data=form)
    assert response.status_code == status, response.get_data(as_text=True)
    assert response.content_type == "text/html; charset=utf-8"
    return response.get_data(as_text=True)


def shown(text: str) -> str:
    """Return the text of the main element without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text[text.index("<main") :])).split())


def statements(page: str) -> list[str]:
    return [shown(f"<main{part}") for part in page.split('<li class="statement ')[1:]]


def test_each_statement_has_its_verdict_passages_and_what_is_missing(
    client: FlaskClient, chunk_id: int
) -> None:
    text = "# Fire\r\n\r\nLava pours from the crater [1]. It has 12 craters [1]. The judge was late."
    page = send(client, text, f"\r\nchunk {chunk_id}\r\n")
    assert "Rejected 3 claims: 1 supported, 1 not supported, 0 unclear, 1 without a citation" in shown(page)
    heading, supported, unsupported, unreferenced = statements(page)
    assert "no claim" in heading
    assert "heading" in heading
    assert "line 3" in supported
    assert "[1] Volcano" in supported
    assert "supports it best" in supported
    assert re.search(r"<mark>[Ll]ava</mark>", page)
    assert "do not have the number there: '12'" in unsupported
    assert "comes closest" in unsupported
    assert '<mark class="missing">12</mark>' in page
    assert "it cites nothing" in unreferenced
    assert f'chunk={0}#chunk-0"' in page, "the passage is linked"
    assert html.escape(text.replace("\r\n", "\n"), quote=False) in page, "the text can be corrected"


def test_accepted_text_cites_the_library_by_number(client: FlaskClient, chunk_id: int) -> None:
    page = send(client, f"Lava pours from the crater [chunk {chunk_id}].")
    assert "Accepted 1 claim: 1 supported" in shown(page)
    assert "[chunk" in statements(page)[0]
    missing = send(client, "Lava pours from the crater [chunk 99999].")
    assert "which is not among the references or does not exist" in shown(missing)


def test_address_fills_the_references(client: FlaskClient) -> None:
    page = client.get("/verify", query_string={"references": "chunk 1\nchunk 2"}).get_data(as_text=True)
    assert "\nchunk 1\nchunk 2</textarea>" in page


def test_results_of_a_search_are_references(client: FlaskClient, chunk_id: int) -> None:
    results = client.get("/", query_string={"q": "lava"}).get_data(as_text=True)
    (address,) = re.findall(r'href="(/verify\?references=[^"]*)"', results)
    assert f"\nchunk {chunk_id}</textarea>" in client.get(html.unescape(address)).get_data(as_text=True)


@pytest.mark.parametrize(
    ("text", "references", "coverage", "message"),
    [
        (" ", "", "0.7", "text: is empty"),
        ("x" * (MAX_CHARS + 1), "", "0.7", "the limit of this page is"),
        ("Lava [1].", "chunk 1\nlava", "0.7", "references: line 2 is not like chunk 12"),
        ("Lava [1].", "1", "0.7", "references: line 1 is not like chunk 12"),
        ("Lava [1].", "document 3:9-2", "0.7", "must be above start_char"),
        ("Lava [1].", "", "much", "min_coverage: 'much' is not a number"),
        ("Lava [1].", "", "nan", "min_coverage"),
        ("Lava [1].", "", "2", "min_coverage"),
    ],
)
def test_refused_form_shows_the_reason_and_what_was_sent(
    empty: FlaskClient, text: str, references: str, coverage: str, message: str
) -> None:
    page = send(empty, text, references, coverage, status=422)
    assert message in html.unescape(page)
    assert f'name="min_coverage" inputmode="decimal" value="{coverage}"' in page
    assert f"\n{references}</textarea>" in page


def test_form_without_its_fields_is_refused(empty: FlaskClient) -> None:
    assert empty.post("/verify", data={"text": "Lava."}).status_code == 400
    assert empty.post("/verify", data={"text": "a" * 2_000_000}).status_code == 413


def test_markup_is_text_and_hidden_characters_are_named(client: FlaskClient, store: Store) -> None:
    document_id = store(f"{VOLCANO} {HOSTILE} Lava \u202esafe.", title=HOSTILE)
    page = send(
        client, f"Lava {HOSTILE} \u202epours [document {document_id}].", f"document {document_id}", status=200
    )
    body = page.partition('id="verdict"')[2]
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in body
    assert "U+202E" in body
    assert "<script>alert" not in send(client, HOSTILE, HOSTILE, HOSTILE, status=422)


def test_long_text_shows_rejected_statements_first(client: FlaskClient, chunk_id: int) -> None:
    good = f"Lava pours from the crater [chunk {chunk_id}].\n\n"
    page = send(client, good * STATEMENTS + "The judge was late.")
    assert f"{STATEMENTS} of {STATEMENTS + 1} statements are shown" in shown(page)
    assert "The judge was late" in statements(page)[-1]
    assert len(statements(page)) == STATEMENTS


def test_read_key_may_verify_and_other_sites_may_not(settings: Settings, engine: Engine) -> None:
    guarded: flask.Flask = create_app(replace(settings, api_keys=f"read:{READ}"), engine=engine)
    form = {"text": "Lava.", "references": "", "min_coverage": ""}
    client = guarded.test_client()
    assert client.post("/verify", data=form).status_code == 401
    headers = {"Authorization": f"Bearer {READ}", "Shoal-Part": "main"}
    assert client.post("/verify", data=form, headers=headers).get_data(as_text=True).startswith("<main")
    assert "Verify" not in shown(client.get("/verify").get_data(as_text=True))
    open_client = create_app(settings, engine=engine).test_client()
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert open_client.post("/verify", data=form, headers=foreign).status_code == 403
