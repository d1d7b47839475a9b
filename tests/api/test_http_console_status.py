"""Console pages about the service itself: its status, its jobs, and addresses without a page."""

from __future__ import annotations

import time

import pytest
from flask.testing import FlaskClient
from surface import VOLCANO, Store

from shoal.engine import Engine
from shoal.jobs.queue.statements import UPSERT_WORKER

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def text(client: FlaskClient, address: str, status: int = 200) -> str:
    response = client.get(address, headers=HTML)
    assert response.status_code == status, address
    return response.get_data(as_text=True)


def add_worker(engine: Engine, name: str, seconds_ago: float) -> None:
    worker = {"name": name, "hostname": "reef-1", "pid": 7, "processes": 2, "version": "9.8.7"}
    seen = {"started_at": "2026-01-02T03:04:05Z", "seen_at": time.time() - seconds_ago}
    with engine.database.write() as transaction:
        transaction.execute(UPSERT_WORKER, worker | seen)


def test_status_page_shows_workers_queue_and_index(client: FlaskClient, engine: Engine, store: Store) -> None:
    assert "No worker has sent a heartbeat" in text(client, "/status")
    store(VOLCANO)
    add_worker(engine, "worker-a", 2)
    add_worker(engine, "worker-b", 3600)
    page = text(client, "/status")
    assert "1 alive" in page
    for shown in ("worker-a", "worker-b", "reef-1", "9.8.7", "2 s ago", "60 min ago", ">silent<"):
        assert shown in page
    assert "<dt>Documents</dt><dd>1</dd>" in page
    assert 'role="alert"' not in page


def test_status_page_warns_of_work_without_a_worker(client: FlaskClient, engine: Engine) -> None:
    add_worker(engine, "worker-b", 3600)
    engine.notes.of("default").add("Bees carry pollen.")
    client.post("/notes/dedup")
    page = text(client, "/status")
    assert "1 waiting item, and no worker" in page.partition('role="alert"')[2]
    assert "Start one with <code>shoal worker</code>" in page


@pytest.mark.parametrize("address", ["/nothing", "/documents/x", "/notes/new/else"])
def test_unknown_address_is_a_page_for_browsers_and_a_problem_for_programs(
    empty: FlaskClient, address: str
) -> None:
    page = empty.get(address, headers=HTML)
    assert (page.status_code, page.content_type) == (404, "text/html; charset=utf-8")
    assert "There is no page at this address" in page.get_data(as_text=True)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    part = empty.get(address, headers={"Shoal-Part": "main"})
    assert part.get_data(as_text=True).startswith("<main")
    for accept in ("*/*", "application/json", ""):
        problem = empty.get(address, headers={"Accept": accept})
        assert (problem.status_code, problem.content_type) == (404, "application/problem+json")
    assert empty.get(f"/api/v1{address}", headers=HTML).content_type == "application/problem+json"


def test_job_that_compares_notes_links_to_the_proposals(client: FlaskClient, engine: Engine) -> None:
    for words in ("Bees carry pollen.", "Bees carry the pollen."):
        engine.notes.of("a team").add(words)
    address = client.post("/notes/dedup?owner=a+team").headers["Location"]
    page = text(client, address)
    assert 'href="/notes/proposals?owner=a+team">Proposals to merge notes of a team</a>' in page


def test_items_are_shown_with_the_work_of_their_stage(client: FlaskClient, engine: Engine) -> None:
    engine.notes.of("default").add("Bees carry pollen.")
    address = client.post("/notes/dedup").headers["Location"]
    with engine.database.write() as transaction:
        transaction.execute("UPDATE job_items SET status = 'scoring'")
    assert '<span class="status scoring">comparing</span>' in text(client, address)
    with engine.database.write() as transaction:
        transaction.execute("UPDATE jobs SET kind = 'embed'")
    assert '<span class="status scoring">embedding</span>' in text(client, address)


def test_results_by_document_are_counted_and_numbered_by_document(
    client: FlaskClient, engine: Engine
) -> None:
    for number in range(11):
        engine.ingest(content=f"{VOLCANO}\n\n# More {number}\n\n{VOLCANO}", title=f"Volcano {number}")
    page = text(client, "/?q=volcano&group_by=document")
    assert "Documents 1 to 10" in page
    assert '<ol class="results" start="1"' in page
    assert page.count('<li class="document"') == 10
    assert page.count('<header class="document-head">') == 10
    last = text(client, "/?q=volcano&group_by=document&page=2")
    assert "Documents 11 to 11" in last
    assert '<ol class="results" start="11"' in last
    none = text(client, "/?q=volcano&group_by=document&min_relevance=1")
    assert '<li class="document"' not in none


def test_typing_errors_and_synonyms_are_switched_off_in_the_address(
    client: FlaskClient, engine: Engine, store: Store
) -> None:
    store(VOLCANO)
    engine.vocabulary.synonyms.add(["volcano", "firemountain"])
    assert "<mark>" in text(client, "/?q=firemountain")
    off = text(client, "/?q=firemountain&synonyms=off")
    assert "<mark>" not in off
    assert 'aria-label="Without: without synonyms"' in off
    assert '<option value="off" selected>leave them out</option>' in off
    typed = text(client, "/?q=vulcano&typos=off")
    assert '<option value="off" selected>search as typed</option>' in typed
    assert "Searched for vulcano" not in typed
    assert "Typing errors: " in text(client, "/?q=vulcano&typos=maybe", 422)
    assert "Synonyms: " in text(client, "/?q=vulcano&synonyms=maybe", 422)
