"""The pages of sources: add, run, pause and remove one, and see what went wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import LAW, VOLCANO, prepare

from shoal import Engine
from shoal.settings import Settings
from shoal_api import create_app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "volcano.txt").write_text(VOLCANO)
    (texts / "<b>law.txt").write_text(LAW)
    (texts / "<i>.pdf").write_bytes(b"%PDF-1.7 nothing")
    return texts


@pytest.fixture
def following(settings: Settings, migrated: Path, folder: Path) -> Iterator[tuple[FlaskClient, Engine]]:
    prepare(settings, migrated)
    settings = dataclasses.replace(settings, sources=str(folder))
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield create_app(settings, engine=engine).test_client(), engine


def test_a_source_is_added_run_and_removed(following: tuple[FlaskClient, Engine], folder: Path) -> None:
    client, engine = following
    form = {"name": "texts", "url": str(folder), "every": "1 day", "include": "", "when_gone": "keep"}
    added = client.post("/sources", data=form)
    assert (added.status_code, added.headers["Location"]) == (303, "/sources/texts")
    assert "It has not run yet" in client.get("/sources/texts").get_data(as_text=True)
    assert client.post("/sources/texts/run").status_code == 303
    assert "Stop the run" in client.get("/sources/texts").get_data(as_text=True)
    engine.sources.run("texts")
    text = client.get("/sources/texts").get_data(as_text=True)
    assert "3 objects" not in text
    assert "&lt;i&gt;.pdf" in text
    assert "<i>" not in text
    assert "succeeded" in text
    listing = client.get("/sources").get_data(as_text=True)
    assert str(folder) in listing
    client.post("/sources/texts/pause")
    assert engine.sources.get("texts").is_paused
    client.post("/sources/texts/resume")
    assert not engine.sources.get("texts").is_paused
    removed = client.post("/sources/texts/remove")
    assert removed.headers["Location"] == "/sources"
    assert engine.documents.list().total == 2


def test_a_refused_source_says_why_with_what_was_sent(following: tuple[FlaskClient, Engine]) -> None:
    client, _ = following
    refused = client.post("/sources", data={"name": "etc", "url": "/etc", "every": "1 day"})
    text = refused.get_data(as_text=True)
    assert refused.status_code == 422
    assert "url: is none of the addresses in SHOAL_SOURCES" in text
    assert 'value="/etc"' in text
    assert client.get("/sources/nothing").status_code == 404


def test_without_the_setting_the_page_names_it(client: FlaskClient) -> None:
    assert "Sources are off: set <code>SHOAL_SOURCES</code>" in client.get("/sources").get_data(as_text=True)


def test_a_run_is_begun_without_a_body(following: tuple[FlaskClient, Engine], folder: Path) -> None:
    client, _ = following
    client.post("/api/v1/sources", json={"name": "texts", "url": str(folder)})
    begun = client.post("/api/v1/sources/texts/run")
    assert (begun.status_code, begun.get_json()["status"]) == (202, "listing")


def test_a_source_is_shown_when_the_setting_is_gone(
    following: tuple[FlaskClient, Engine], folder: Path
) -> None:
    _, engine = following
    engine.sources.add("texts", str(folder))
    engine.sources.run("texts")
    without = dataclasses.replace(engine.settings, sources="")
    with Engine(settings=without, scorer=FakeScorer()) as later:
        shown = create_app(without, engine=later).test_client().get("/sources/texts")
    assert shown.status_code == 200
    assert "&lt;i&gt;.pdf" in shown.get_data(as_text=True)
