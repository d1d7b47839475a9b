"""The console in a collection: its pages keep the prefix, and a page lists the others."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from flask.testing import FlaskClient
from surface import API, VOLCANO, Worker

from shoal.access.key_store import KeyStore
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.service import EXTENSION, Service

PAGES = ("", "library", "verify", "notes", "jobs", "reefs", "vocabulary", "saved-searches", "synonyms")


def test_links_stay_in_the_collection(client: FlaskClient, app: Any) -> None:
    client.post(f"{API}/collections", json={"name": "birds"})
    body = {"content": VOLCANO, "title": "Volcano"}
    assert client.post(f"{API}/collections/birds/documents", json=body).status_code == 202
    service: Service = app.extensions[EXTENSION]
    with service.collections.engine("birds") as engine:
        Worker(engine).work()
    for page in (*PAGES, "documents/1", "jobs/1", "search?q=lava", "?q=lava"):
        response = client.get(f"/collections/birds/{page}")
        if response.status_code == 404:
            continue
        assert response.status_code == 200, page
        text = response.get_data(as_text=True)
        assert 'data-base="/collections/birds"' in text
        addresses = re.findall(r'(?:href|action)="(/[^"#]*)', text)
        assert addresses
        strays = [each for each in addresses if not each.startswith("/collections/birds/")]
        assert set(strays) <= {"/docs", "/collections"}, (page, strays)
    assert "Volcano" in client.get("/collections/birds/library").get_data(as_text=True)
    assert "Volcano" not in client.get("/library").get_data(as_text=True)


def test_an_unknown_collection_is_a_page_for_browsers(client: FlaskClient) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for name in ("unknown", "..%2f..%2fetc", "x" * 200, "a'%20OR%201=1--", "<b>"):
        page = client.get(f"/collections/{name}/library", headers=browser)
        assert (page.status_code, page.mimetype) == (404, "text/html"), name
        text = page.get_data(as_text=True)
        assert "No such collection" in text
        # Its links lead to pages that exist.
        assert 'href="/library"' in text
        assert "/collections/" not in text
    part = client.get("/collections/unknown/library", headers={"Shoal-Part": "main"})
    assert part.get_data(as_text=True).startswith("<main")
    problem = client.get("/collections/unknown/library")
    assert (problem.status_code, problem.mimetype) == (404, "application/problem+json")
    assert client.get(f"{API}/collections/unknown/documents", headers=browser).mimetype == problem.mimetype


def test_the_page_of_a_foreign_collection_is_that_of_a_missing_one(settings: Settings, engine: Any) -> None:
    application = create_app(settings, engine=engine)
    client, service = application.test_client(), application.extensions[EXTENSION]
    for name in ("own", "foreign"):
        service.collections.create(name)
    key = KeyStore(service.collections.catalog).create("k", [("own", "read")]).key
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/html"}
    assert client.get("/collections/own/library", headers=headers).status_code == 200
    pages = [client.get(f"/collections/{name}/library", headers=headers) for name in ("foreign", "missing")]
    assert [page.status_code for page in pages] == [404, 404]
    assert pages[0].data == pages[1].data


def test_the_switch_is_shown_where_there_is_a_choice(client: FlaskClient) -> None:
    switch = 'href="/collections" data-whole aria-label="Collection main; choose another">main</a>'
    assert switch not in client.get("/library").get_data(as_text=True)
    client.post(f"{API}/collections", json={"name": "birds"})
    assert switch in client.get("/library").get_data(as_text=True)
    listed = client.get("/collections").get_data(as_text=True)
    assert 'href="/collections/birds/"' in listed
    assert 'href="/"' in listed


def test_without_a_key_no_name_is_shown(settings: Settings, engine: Any) -> None:
    locked = dataclasses.replace(settings, api_keys="write:writekey-writekey-key")
    client = create_app(locked, engine=engine).test_client()
    headers = {"Authorization": "Bearer writekey-writekey-key"}
    assert client.post(f"{API}/collections", json={"name": "birds"}, headers=headers).status_code == 201
    for path in ("/collections", "/library"):
        page = client.get(path)
        assert page.status_code == 200
        assert "birds" not in page.get_data(as_text=True)
    pages = [client.get(f"/collections/{name}/library").get_data(as_text=True) for name in ("birds", "fishy")]
    assert pages[0].replace("birds", "fishy") == pages[1]
    assert "birds" in client.get("/collections", headers=headers).get_data(as_text=True)
