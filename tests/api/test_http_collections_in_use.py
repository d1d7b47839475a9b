"""Collections that are deleted or swapped while they are used, over HTTP and on both stores."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import flask
import pytest
from flask.testing import FlaskClient
from surface import API, COLLECTIONS, FLOWER, VOLCANO, Worker, assert_problem, titles

from shoal.collections.registry import Registry
from shoal.jobs.queue.submission import Upload
from shoal.settings import Settings
from shoal_api.service import Service

Seen = list[tuple[int, list[str]]]
"""Statuses of searches, and the titles of their results."""


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    folder = str(tmp_path / "data")
    if request.param == "postgres":
        url = request.getfixturevalue("empty_postgres")
        return Settings(database_url=url, data_dir=folder, learning=False, batch_items=1)
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    return Settings(database_url=url, data_dir=folder, learning=False, batch_items=1)


def ndjson(**documents: str) -> bytes:
    """A body of documents, given as title and text."""
    lines = (json.dumps({"title": title, "content": text}) for title, text in documents.items())
    return "\n".join(lines).encode()


@contextlib.contextmanager
def searching(app: flask.Flask, address: str) -> Iterator[Seen]:
    """Search in threads while the block runs, and once more in each when it has ended."""
    seen: Seen = []
    begun, ending = threading.Event(), threading.Event()

    def search() -> None:
        client, is_last = app.test_client(), False
        while not is_last:
            is_last = ending.is_set()
            response = client.get(address)
            seen.append((response.status_code, titles(response) if response.status_code == 200 else []))
            begun.set()

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert begun.wait(60)
        yield seen
    finally:
        ending.set()
        for thread in threads:
            thread.join(60)


def assert_gone(service: Service, collection_id: str) -> None:
    """Check that nothing is left of a deleted collection that nobody uses."""
    service.collections.clean()
    assert not service.collections.has_database(collection_id)
    assert service.collections.catalog.deleted(10) == []


@pytest.mark.parametrize(
    ("owner", "method"), [(Upload, "finish"), (Service, "notify")], ids=["storing", "stored"]
)
def test_deletion_during_an_upload_is_a_404(
    client: FlaskClient,
    create: Callable[[str], str],
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
) -> None:
    prefix, original = create("a"), getattr(owner, method)
    collection_id = service.collections.catalog.find("a").id

    def delete_first(*arguments: Any, **named: Any) -> Any:
        service.collections.delete("a")
        return original(*arguments, **named)

    monkeypatch.setattr(owner, method, delete_first)
    body = ndjson(Volcano=VOLCANO, Flower=FLOWER)
    response = client.post(f"{prefix}/documents/bulk", data=body, content_type="application/x-ndjson")
    problem = assert_problem(response, 404)
    assert problem["code"] == "collection_not_found"
    assert "deleted" in problem["detail"]
    assert_gone(service, collection_id)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0


def test_searches_run_while_their_collection_is_deleted_and_made_anew(
    client: FlaskClient, create: Callable[[str], str], app: flask.Flask, add: Callable[..., dict[str, Any]]
) -> None:
    prefix = create("a")
    add(prefix, VOLCANO, title="Volcano")
    with searching(app, f"{prefix}/search?q=lava") as seen:
        assert client.delete(prefix).status_code == 204
        assert_problem(client.get(f"{prefix}/search?q=lava"), 404)
        create("a")
    assert {status for status, _ in seen} <= {200, 404}
    assert (200, ["Volcano"]) in seen
    assert seen[-1] == (200, [])


def test_deletion_while_a_collection_is_opened_leaves_nothing(
    client: FlaskClient, create: Callable[[str], str], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, keep = create("a"), Registry.keep
    collection_id = service.collections.catalog.find("a").id

    def keep_and_delete(self: Registry, opened: str) -> IO[str] | None:
        kept = keep(self, opened)
        service.collections.delete("a")
        return kept

    monkeypatch.setattr(Registry, "keep", keep_and_delete)
    problem = assert_problem(client.get(f"{prefix}/documents"), 404)
    assert problem["code"] == "collection_not_found"
    assert_gone(service, collection_id)


def test_a_stream_of_events_ends_with_its_collection(
    client: FlaskClient, create: Callable[[str], str], service: Service
) -> None:
    prefix = create("a")
    collection_id = service.collections.catalog.find("a").id
    job = client.post(f"{prefix}/documents", json={"content": VOLCANO}).get_json()["job"]
    response = client.get(job["links"]["events"])
    stream = response.iter_encoded()
    next(stream)
    assert json.loads(next(stream).split(b"data: ")[1])["links"]["self"] == job["links"]["self"]
    # The stream keeps the collection open, also after the request.
    assert service.collections.open_ids()
    service.collections.delete("a")
    assert b"event: end" in next(stream)
    response.close()
    assert_gone(service, collection_id)


def test_a_waiting_request_ends_with_its_collection(
    client: FlaskClient, create: Callable[[str], str], app: flask.Flask
) -> None:
    prefix = create("a")
    job = client.post(f"{prefix}/documents", json={"content": VOLCANO}).get_json()["job"]
    statuses: list[int] = []
    waiting = threading.Thread(
        target=lambda: statuses.append(app.test_client().get(f"{job['links']['self']}?wait=60").status_code)
    )
    waiting.start()
    client.delete(prefix)
    waiting.join(20)
    assert statuses == [404]


def test_a_swap_leaves_running_jobs_where_they_are(
    client: FlaskClient,
    app: flask.Flask,
    create: Callable[[str], str],
    service: Service,
    add: Callable[..., dict[str, Any]],
) -> None:
    live, following = create("live"), create("next")
    add(live, f"{VOLCANO} This is old.", title="old")
    new = {f"new {number}": f"{VOLCANO} This is number {number}." for number in range(4)}
    accepted = client.post(
        f"{following}/documents/bulk", data=ndjson(**new), content_type="application/x-ndjson"
    )
    job = accepted.get_json()["job"]
    with service.collections.engine("next") as engine, searching(app, f"{live}/search?q=lava") as seen:
        worker = Worker(engine)
        assert worker.work_once()
        swapped = client.post(f"{COLLECTIONS}/swap", json={"first": "live", "second": "next"})
        assert swapped.status_code == 200
        worker.work()
    assert client.get(f"{live}/jobs/{job['id']}").get_json()["progress"]["done"] == len(new)
    assert sorted(titles(client.get(f"{live}/search?q=lava&top_k=9"))) == sorted(new)
    assert titles(client.get(f"{following}/search?q=lava")) == ["old"]
    assert_problem(client.get(f"{following}/jobs/{job['id'] + 1}"), 404)
    # Each search is about one of the two.
    assert {status for status, _ in seen} == {200}
    assert not [found for _, found in seen if "old" in found and len(found) > 1]
    assert {"old", *new} >= {title for _, found in seen for title in found}
