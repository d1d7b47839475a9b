"""The library page: order, downloads and the way to the uploads; and searches that the form got wrong."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import FLOWER, LAW, VOLCANO, Store, prepare

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

HOSTILE = '"><img src=x onerror=alert(2)>'


def page(client: FlaskClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, address
    return response.get_data(as_text=True)


def titles(text: str) -> list[str]:
    return re.findall(r'<a class="title"[^>]*>([^<]*)</a>', text)


def test_documents_are_listed_newest_first_or_oldest_first(client: FlaskClient, store: Store) -> None:
    for title, content in (("Volcano", VOLCANO), ("Flower", FLOWER), ("Law", LAW)):
        store(content, title=title, tags=["kept"])
    assert titles(page(client, "/library")) == ["Law", "Flower", "Volcano"]
    oldest_first = page(client, "/library?sort=created")
    assert titles(oldest_first) == ["Volcano", "Flower", "Law"]
    assert '<option value="created" selected>' in oldest_first
    assert "sort=created" in re.findall(r'href="(/library[^"]*tag=kept[^"]*)"', oldest_first)[0]
    assert "sort" in page(client, "/library?sort=size", 422)


def test_order_holds_on_all_pages(client: FlaskClient, engine: Engine) -> None:
    engine.ingest_many({"content": f"Lava number {number}.", "title": f"N{number}"} for number in range(51))
    first = page(client, "/library?sort=created")
    assert titles(first)[0] == "N0"
    (following,) = re.findall(r'rel="next" href="([^"]*)"', first)
    assert titles(page(client, html.unescape(following))) == ["N50"]


def test_text_of_every_document_can_be_downloaded(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, title="Volcano", format="markdown")
    store(FLOWER, title=HOSTILE, format="plaintext")
    for address in ("/library", "/documents/1"):
        text = page(client, address)
        assert "onerror=alert(2)>" not in text
        links = dict(re.findall(r'<a href="([^"]*)" download="([^"]*)"', text))
        assert links["/api/v1/documents/1/content"] == "Volcano.md"
    links = dict(re.findall(r'<a href="([^"]*)" download="([^"]*)"', page(client, "/library")))
    assert html.unescape(links["/api/v1/documents/2/content"]) == f"{HOSTILE}.txt"
    accept = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    assert client.get("/api/v1/documents/1/content", headers=accept).get_data(as_text=True) == VOLCANO


@pytest.mark.parametrize("keep", [True, False])
def test_file_of_a_document_can_be_downloaded_if_it_is_kept(
    settings: Settings, migrated: Path, tmp_path: Path, keep: bool
) -> None:
    prepare(settings, migrated)
    settings = dataclasses.replace(settings, keep_originals=keep)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        file = tmp_path / "page.html"
        file.write_text("<html><body><main><p>Lava on the web page.</p></main></body></html>")
        engine.ingest_file(file)
        text = page(client, "/library")
        address = "/api/v1/documents/1/file"
        assert (f'href="{address}" download' in text) is keep
        assert client.get(address).status_code == (200 if keep else 404)


@pytest.mark.parametrize(
    "address", ["/", "/?q=lava", "/library", "/jobs", "/notes", "/status", "/documents/99"]
)
def test_every_page_leads_to_the_uploads(empty: FlaskClient, address: str) -> None:
    text = empty.get(address).get_data(as_text=True)
    assert text.count(">Upload</a>") == 1
    assert 'href="/library#drop">Upload</a>' in text
    assert 'id="drop"' in page(empty, "/library")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("min_relevance=2", "Lowest relevance: must be between 0 and 1."),
        ("min_confidence=much", "Lowest confidence: must be a number."),
        ("document=x", "Document numbers: must be a whole number."),
        ("boost=0.2:tagz%3Dsea", "Prefer what meets a filter: character 1: there is no field tagz"),
        ("facets=tittle", "Count also by: there is no field tittle; did you mean title?"),
        ("archipelago=9", "Archipelago: must be between"),
        ("page=0", "Page: must be between"),
        ("mode=odd", "Rank by: "),
        ("decay=x", "Prefer documents: must be written as"),
    ],
)
def test_a_refused_search_keeps_the_form_and_names_its_field(
    client: FlaskClient, store: Store, wrong: str, message: str
) -> None:
    store(VOLCANO)
    text = page(client, f"/?q=lava&tags=hot&{wrong}", 422)
    assert message in html.unescape(re.findall(r'role="alert">(.*)</p>', text)[0])
    assert 'value="lava"' in text
    assert 'value="hot"' in text
    assert '<details class="options" open>' in text
    assert '<ol class="results"' not in text


def test_the_order_is_said_as_it_is(client: FlaskClient, store: Store, engine: Engine) -> None:
    store(f"{VOLCANO}\n\n{FLOWER}", title="Both")
    store(f"{LAW} Lava is mentioned.", title="Law")
    assert "In order of their score." in page(client, "/?q=lava")
    assert "In the chosen order; equal ones" in page(client, "/?q=lava&sort=title")
    engine.pins.add("lava", [2])
    pinned = page(client, "/?q=lava")
    assert "Pinned results come first, the others in order of their score." in pinned
    assert pinned.index("pinned</small>") < pinned.index("Both</a>")
    assert "In order of their score." in page(client, "/?q=lava&pins=off")


def test_no_result_is_explained_without_a_wrong_reason(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    for query in ("%22never+this%22", "-lava", "lava&pins=off&min_relevance=1"):
        text = page(client, f"/?q={query}")
        assert "No passage fits this query" in text
        assert "shares a word or a reef" not in text
        assert ("Search without filters" in text) is ("min_relevance" in query)
