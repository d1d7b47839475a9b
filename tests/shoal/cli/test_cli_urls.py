"""URLs as arguments of `ingest` and `upload`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from live_service import LiveService, live
from web_server import WebServer, running

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.settings import Settings

TEXT = "The tide follows the moon. The sea rises twice a day. Sailors wait for the water."


@pytest.fixture
def server() -> Iterator[WebServer]:
    with running() as started:
        yield started


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_FETCH_URLS", "127.0.0.1:*")
    monkeypatch.setenv("SHOAL_FETCH_PRIVATE", "127.0.0.1")


@pytest.mark.usefixtures("allowed")
def test_ingest_fetches_a_url_and_reports_one_that_is_unchanged(
    server: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.page("/tides.md", TEXT, ETag='"1"')
    Path("note.txt").write_text("A note about the sea and its tides.")
    assert run(["ingest", url, "note.txt", "--tags", "sea"]) == 0
    assert "document 1: Tides (1 passage) from http://127.0.0.1" in capsys.readouterr().out
    assert run(["ingest", url, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["path"], result["duplicate"], result["tags"]) == (url, 1, ["sea"])
    assert server.requests[-1][1]["if-none-match"] == '"1"'


@pytest.mark.usefixtures("allowed")
def test_ingest_names_what_is_wrong_with_a_url(
    server: WebServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["ingest", server.url("/missing"), "http://example.org/"]) == 1
    failures = capsys.readouterr().err
    assert "answered with status 404" in failures
    assert "SHOAL_FETCH_URLS" in failures
    assert run(["ingest", server.url(), "--format", "markdown"]) == 2
    assert run(["ingest", server.url(), "--replace", "1"]) == 2
    monkeypatch.delenv("SHOAL_FETCH_URLS")
    assert run(["ingest", server.url()]) == 1
    assert "fetching from URLs is off" in capsys.readouterr().err


@pytest.fixture
def service(settings: Settings, migrated_file: Path) -> Iterator[LiveService]:
    settings = dataclasses.replace(settings, fetch_urls="*:*", fetch_private="*")
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as engine, live(engine) as started:
        yield started


def test_upload_has_the_service_fetch_urls(
    service: LiveService, server: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [server.page("/a.md", TEXT), server.url("/missing")]
    with service.working():
        assert run(["upload", *urls, "--tags", "web", "--wait", "--server", service.url]) == 1
    assert f"failed: {urls[1]}: 127.0.0.1 answered with status 404" in capsys.readouterr().err
    (document,) = service.engine.documents.list(tag="web").documents
    assert document.source_path == urls[0]
    assert run(["upload", urls[0], "notes.md", "--server", service.url]) == 2
    assert "upload them alone" in capsys.readouterr().err
