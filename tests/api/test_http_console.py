"""Server-rendered console pages: complete without scripts, safe for any content, and closed without a key."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, VOLCANO, Store, Worker, prepare

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.models.files import FileAccount, MissingPart, SourceFile
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage import document_queries
from shoal.storage.opening import open_database
from shoal_api import create_app

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
KEY = "write:a-key-that-is-long-enough-to-be-one"
PAGES = (
    "/",
    "/?q=lava",
    "/library",
    "/jobs",
    "/reefs",
    "/reefs/1",
    "/vocabulary",
    "/notes",
    "/notes?q=lava",
    "/notes/proposals",
    "/saved-searches",
    "/sources",
    "/queries",
    "/status",
)


@pytest.fixture
def locked_client(settings: Settings, migrated: Path) -> Iterator[FlaskClient]:
    """A client of a service that requires a key and has one document about a volcano."""
    prepare(settings, migrated)
    settings = dataclasses.replace(settings, api_keys=KEY)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(content=VOLCANO, title="Secret volcano")
        yield create_app(settings, engine=engine).test_client()


def text(client: FlaskClient, address: str, status: int = 200, **headers: str) -> str:
    response = client.get(address, headers=headers)
    assert response.status_code == status, address
    assert response.content_type == "text/html; charset=utf-8"
    return response.get_data(as_text=True)


@pytest.mark.parametrize("address", PAGES)
def test_page_is_complete_and_its_policy_allows_only_own_resources(empty: FlaskClient, address: str) -> None:
    response = empty.get(address)
    page = text(empty, address)
    assert page.count("<main") == page.count("<h1") == 1
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["Referrer-Policy"] == "same-origin", "forms of the page need their origin"
    assert "style=" not in page
    assert not re.search(r"\son\w+=", page)
    for script in re.findall(r"<script([^>]*)>", page):
        assert "src=" in script or 'type="application/json"' in script
    for loaded in re.findall(r"""(?:src|href)=["']([^"'#?]+)""", page):
        assert loaded.startswith("/")
        assert empty.get(loaded).status_code == 200, loaded


def test_scripts_import_only_each_other(empty: FlaskClient) -> None:
    folder = Path(create_app.__globals__["__file__"]).parent / "static" / "console"
    scripts = sorted(folder.glob("*.js"))
    assert scripts
    for script in scripts:
        imported = re.findall(r'from "\./([\w.]+)"', script.read_text())
        assert all((folder / name).is_file() for name in imported)
        assert empty.get(f"/static/console/{script.name}").content_type.startswith("text/javascript")


def test_search_shows_passages_with_highlights_and_reasons(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, title="Volcano")
    page = text(client, "/?q=lava")
    assert "<mark>" in page
    assert "shared reef" in page
    assert "Volcano</a>" in page
    assert "Copy citation" in page
    assert "<span>line 1</span>" in page


def test_result_leads_to_what_one_word_would_change(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, title=HOSTILE)
    store("A volcano. The judge of the volcano and a jury wait.", title="Judge")
    page = text(client, "/?q=lava+in+a+volcano&typos=off&page=1")
    (address, *_) = re.findall(r'href="(/explain\?[^"]+)"', page)
    assert "typos=off" in address
    assert "page" not in address
    explained = text(client, html.unescape(address))
    assert "What one word would change" in explained
    assert "without “lava” in the query, it would be number 2" in explained
    (because, *_) = re.findall('<p class="because">.+?</p>', page)
    assert because in explained
    assert 'href="/?q=lava+in+a+volcano&amp;typos=off"' in explained
    assert "<script>alert" not in text(client, "/explain?q=lava&chunk=1")
    text(client, "/explain?q=lava&chunk=99999", status=404)
    text(client, "/explain?q=lava", status=422)
    text(client, "/explain?q=&chunk=1", status=422)


def test_document_says_what_of_its_file_is_not_in_it(engine: Engine, client: FlaskClient) -> None:
    document = engine.ingest(content=VOLCANO, title="Volcano").id
    assert document is not None
    missing = (
        MissingPart("comment", "slide 2", 12, 0, False, HOSTILE),
        MissingPart("picture", "image1.png", 0, 2048),
        MissingPart("page number", "", 3, 0, True, "1"),
    )
    file = SourceFile("pptx", "a.pptx", "0" * 64, 9, 1, account=FileAccount(100, 85, missing))
    with open_database(engine.settings.database_url).write() as transaction:
        document_queries.write_file(transaction, document, file)
    body = text(client, f"/documents/{document}")
    assert "85 of 100 words of the file are stored" in body
    assert "comment of slide 2: 12 words" in body
    assert "picture of image1.png: 2 KiB" in body
    assert "3 words, left out on purpose" in body
    assert HOSTILE not in body
    stored = client.get(f"{API}/documents/{document}").get_json()["file"]["account"]
    assert (stored["n_words"], stored["n_stored"], len(stored["missing"])) == (100, 85, 3)
    status = client.get(f"{API}/status").get_json()
    assert (status["n_incomplete_documents"], status["incomplete_documents"]) == (1, [document])


def test_form_keeps_the_search_parameters(client: FlaskClient) -> None:
    page = text(client, "/?q=lava&tags=hot&archipelago=1&format=markdown&min_confidence=0.5")
    assert 'value="lava"' in page
    assert 'value="hot"' in page
    assert '<option value="1" selected>' in page
    assert "<option selected>markdown</option>" in page


@pytest.mark.parametrize(
    "address",
    [
        "/jobs?status=odd",
        "/jobs?page=0",
        "/library?sort=odd",
    ],
)
def test_invalid_parameters_show_an_error_page(empty: FlaskClient, address: str) -> None:
    page = text(empty, address, 422)
    assert "Invalid request" in page


@pytest.mark.parametrize("address", ["/documents/99", "/jobs/99", "/reefs/9999"])
def test_missing_resource_returns_404(empty: FlaskClient, address: str) -> None:
    assert "Not found" in text(empty, address, 404) or "there is no" in text(empty, address, 404)


def test_document_content_is_escaped(client: FlaskClient, store: Store) -> None:
    document = store(f"Lava {HOSTILE} and ash. " * 3, title=HOSTILE, tags=[HOSTILE[:60]])
    for address in (
        "/?q=lava",
        f"/?q={HOSTILE}",
        "/library",
        f"/documents/{document}",
        f"/documents/{document}?chunk=0",
    ):
        page = text(client, address)
        assert "<script>alert" not in page
        assert "<img" not in page
    assert "&lt;script&gt;" in text(client, f"/documents/{document}")


def test_document_page_starts_at_the_chosen_chunk(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, title="Volcano")
    page = text(client, f"/documents/{document}?chunk=0")
    assert 'id="chunk-0"' in page
    assert "chunk chosen" in page
    assert "Similar passages in other documents" in page
    assert "Similar passages in other documents" not in text(client, f"/documents/{document}")
    assert text(client, f"/documents/{document}?chunk=999999").count("<h1") == 1


def test_job_page_shows_failed_items_and_their_errors(client: FlaskClient, worker: Worker) -> None:
    response = client.post(
        f"{API}/documents/bulk",
        data=b'{"content": "Lava rose."}\nnot json\n',
        content_type="application/x-ndjson",
    )
    job = response.get_json()["job"]["id"]
    worker.work()
    page = text(client, f"/jobs/{job}")
    assert "Failed items" in page
    failed = page.partition("Failed items")[2].partition("</li>")[0]
    assert "<b>line 2</b><br>is not JSON: " in failed
    assert f"/jobs/{job}" in text(client, "/jobs")


def test_items_refused_at_upload_cannot_be_retried(
    client: FlaskClient, worker: Worker, engine: Engine
) -> None:
    def job_with(content: str) -> int:
        lines = json.dumps({"content": content})
        response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
        return int(response.get_json()["job"]["id"])

    refused = job_with("")
    failed = job_with(VOLCANO)
    batch = claim(engine.database, new_owner(), engine.settings)
    assert batch is not None
    with engine.database.write() as transaction:
        outcome = Outcome(ItemStatus.failed, error="the disk was full")
        finish_items(transaction, [(item, outcome) for item in batch.items], batch.owner)
    assert "Failed items" in text(client, f"/jobs/{refused}")
    assert "Retry failed" not in text(client, f"/jobs/{refused}")
    assert "Retry failed items" in text(client, f"/jobs/{failed}")
    listed = text(client, "/jobs")
    assert f"Retry the failed items of job {failed}" in listed
    assert f"Retry the failed items of job {refused}" not in listed


def test_job_page_shows_source_paths_and_warnings(client: FlaskClient, worker: Worker) -> None:
    response = client.post(
        f"{API}/documents/bulk",
        data=b'{"content": "Lava\\u0007 rises.", "source_path": "notes/DNA.txt"}\n',
        content_type="application/x-ndjson",
    )
    worker.work()
    page = text(client, f"/jobs/{response.get_json()['job']['id']}")
    assert "a control character was replaced by a space" in page
    assert '<small class="path">notes/DNA.txt</small>' in page


def test_part_request_returns_only_the_main_element(client: FlaskClient) -> None:
    part = text(client, "/library", **{"Shoal-Part": "main"})
    assert part.startswith("<main")
    assert "<html" not in part


@pytest.mark.parametrize(
    "address", ["/", "/?q=lava", "/library", "/documents/1", "/jobs", "/reefs", "/vocabulary"]
)
def test_page_without_a_key_shows_no_content(locked_client: FlaskClient, address: str) -> None:
    for headers in ({}, {"Shoal-Part": "main"}):
        page = text(locked_client, address, **headers)
        assert "needs a key" in page
        assert "ecret" not in page
    wrong = {"Shoal-Part": "main", "Authorization": "Bearer wrong"}
    assert locked_client.get(address, headers=wrong).status_code == 401


def test_part_request_with_a_key_returns_content(locked_client: FlaskClient) -> None:
    key = {"Shoal-Part": "main", "Authorization": f"Bearer {KEY.removeprefix('write:')}"}
    assert "Secret volcano" in text(locked_client, "/library", **key)


@pytest.mark.parametrize("path", ["/", "/library", "/jobs", "/vocabulary"])
def test_query_string_that_is_not_utf8_is_refused(empty: FlaskClient, path: str) -> None:
    response = empty.get(path, environ_overrides={"QUERY_STRING": "q=\xff"})
    assert response.status_code == 400
    assert "not UTF-8" in response.get_json()["detail"]


def test_the_page_of_keys_says_how_to_make_the_first_one(client: FlaskClient) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = client.get("/keys", headers=browser)
    assert (page.status_code, page.mimetype) == (403, "text/html")
    assert "shoal key create NAME --scope" in page.get_data(as_text=True)
    assert client.get("/keys").mimetype == "application/problem+json"
    foreign = client.get("/keys", headers={**browser, "Host": "shoal.example"})
    assert (foreign.status_code, foreign.mimetype) == (403, "application/problem+json")


def test_items_have_the_numbers_of_the_api(client: FlaskClient) -> None:
    lines = b'{"content": "Lava and ash."}\n{"content": ""}\n'
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    job = response.get_json()["job"]["id"]
    items = client.get(f"{API}/jobs/{job}/items").get_json()["items"]
    assert [item["seq"] for item in items] == [1, 2]
    assert items[1]["error"].startswith("line 2: ") or items[1]["title"] == "(line 2)"
    shown = re.findall(r'<td class="number">(\d+)</td><th scope="row">', text(client, f"/jobs/{job}"))
    assert shown == ["1", "2"]
