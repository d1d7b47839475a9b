"""Labels over HTTP and on the console: what a passage is about, or that it has no clear subject."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from surface import API
from teaching_texts import about

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

DEFAULT, UNREACHABLE = Settings().label_threshold, 1.0
Clients = Mapping[float, FlaskClient]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Clients of services for one library, by their threshold; no probability reaches the second."""
    path = tmp_path_factory.mktemp("labels") / "shoal.db"
    settings = dataclasses.replace(Settings(), database_url=f"sqlite:///{path}", learning=True)
    engines = [
        Engine(settings=dataclasses.replace(settings, label_threshold=threshold))
        for threshold in (DEFAULT, UNREACHABLE)
    ]
    engines[0].ingest(title="Fire", content=about("fire", "zorblat", 6))
    yield {
        engine.settings.label_threshold: create_app(engine.settings, engine=engine).test_client()
        for engine in engines
    }
    for engine in engines:
        engine.close()


def visible(client: FlaskClient, address: str) -> str:
    """Return the text of the main element without markup."""
    text = client.get(address).get_data(as_text=True)
    main = re.sub(r"<script.*?</script>|<[^>]+>", " ", text[text.index("<main") :], flags=re.DOTALL)
    return " ".join(html.unescape(main).split())


def test_chunks_and_results_have_the_same_labels(clients: Clients) -> None:
    client = clients[DEFAULT]
    chunks = client.get(f"{API}/documents/1/chunks").get_json()["chunks"]
    summaries = client.get(f"{API}/documents/1").get_json()["chunks"]
    results = client.get(f"{API}/search?q=zorblat&max_per_document=20").get_json()["results"]
    by_id = {result["chunk_id"]: result for result in results}
    assert len(chunks) == len(summaries) == len(by_id) > 1
    for chunk, summary in zip(chunks, summaries, strict=True):
        expected = [
            {name: reef[name] for name in ("reef_id", "reef_name", "probability")}
            for reef in sorted(chunk["reefs"], key=lambda reef: -reef["probability"])
            if reef["probability"] >= DEFAULT
        ]
        assert len(chunk["reefs"]) > len(expected) >= 1
        detail = client.get(f"{API}/chunks/{chunk['id']}").get_json()
        for record in (chunk, summary, detail, by_id[chunk["id"]]):
            assert record["labels"] == expected
            assert record["top_reef_name"] == expected[0]["reef_name"]
        assert chunk["top_reef_id"] == detail["top_reef_id"] == expected[0]["reef_id"]


def test_chunks_and_results_below_the_threshold_have_no_label(clients: Clients) -> None:
    client = clients[UNREACHABLE]
    chunks = client.get(f"{API}/documents/1/chunks").get_json()["chunks"]
    results = client.get(f"{API}/search?q=zorblat").get_json()["results"]
    assert chunks
    assert results
    for record in (*chunks, *results):
        assert (record["labels"], record["top_reef_name"]) == ([], None)
    assert all(chunk["reefs"] and chunk["top_reef_id"] is None for chunk in chunks)
    reefs = client.get(f"{API}/reefs").get_json()["reefs"]
    assert not any(reef["n_chunks"] for reef in reefs)


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("/documents/1", "about "),
        ("/vocabulary/zorblat", "about "),
        ("/library", ""),
    ],
)
def test_page_names_labels_or_says_that_there_is_no_clear_subject(
    clients: Clients, address: str, prefix: str
) -> None:
    chunk = clients[DEFAULT].get(f"{API}/documents/1/chunks").get_json()["chunks"][0]
    clear, unclear = (visible(clients[threshold], address) for threshold in (DEFAULT, UNREACHABLE))
    assert f"{prefix}{chunk['top_reef_name']}" in clear
    assert "no clear subject" not in clear
    assert "no clear subject" in unclear
    assert "about " not in unclear


def test_results_name_labels_or_say_that_there_is_no_clear_subject(clients: Clients) -> None:
    name = clients[DEFAULT].get(f"{API}/documents/1/chunks").get_json()["chunks"][0]["top_reef_name"]
    clear, unclear = (visible(clients[threshold], "/?q=zorblat") for threshold in (DEFAULT, UNREACHABLE))
    assert f"about {name}" in clear
    assert "no clear subject" not in clear
    assert "no clear subject" in unclear
    assert f"about {name}" not in unclear


def test_reef_page_lists_the_passages_about_it(clients: Clients) -> None:
    label = clients[DEFAULT].get(f"{API}/documents/1/chunks").get_json()["chunks"][0]["labels"][0]
    address = f"/reefs/{label['reef_id']}"
    assert f"with a probability of {label['probability'] * 100:.0f} %" in visible(clients[DEFAULT], address)
    assert "No passage in this library has it as its first label." in visible(clients[UNREACHABLE], address)
    assert "No passage has a clear subject yet" in visible(clients[UNREACHABLE], "/reefs")


def test_ribbon_marks_passages_without_a_label(clients: Clients) -> None:
    names = {}
    for threshold, client in clients.items():
        text = client.get("/documents/1").get_data(as_text=True)
        pieces = re.search(
            r'<script type="application/json" id="chunk-pieces">(.*?)</script>', text, re.DOTALL
        )
        assert pieces is not None
        shown = json.loads(pieces.group(1))
        names[threshold] = {shown["names"][place] for place in shown["name"]}
    assert "no clear subject" not in names[DEFAULT]
    assert names[UNREACHABLE] == {"no clear subject"}


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[FlaskClient]:
    """Client of a service for a library of labels that other data computed, all of them too improbable."""
    path = tmp_path / "shoal.db"
    settings = dataclasses.replace(
        Settings(), database_url=f"sqlite:///{path}", learning=True, label_threshold=UNREACHABLE
    )
    with Engine(settings=settings) as engine:
        engine.ingest(title="Fire", content=about("fire", "zorblat", 6))
        with engine.database.write() as transaction:
            transaction.execute("UPDATE chunks SET data_checksum = 'other'", {})
        yield create_app(settings, engine=engine).test_client()


def test_a_passage_that_waits_for_a_rescore_says_so(waiting: FlaskClient, clients: Clients) -> None:
    for address in ("/documents/1", "/?q=zorblat", "/vocabulary/zorblat", "/library"):
        text = visible(waiting, address)
        assert "not scored yet" in text, address
        assert "no clear subject" not in text, address
    for address in ("documents/1/chunks", "documents/1", "chunks/1", "search?q=zorblat"):
        for client, expected in ((waiting, True), (clients[UNREACHABLE], False)):
            answer = client.get(f"{API}/{address}").get_json()
            records = answer.get("chunks") or answer.get("results") or [answer]
            assert [record["awaits_rescore"] for record in records] == [expected] * len(records)


def test_a_ribbon_tells_unscored_passages_from_those_without_a_subject(
    waiting: FlaskClient, clients: Clients
) -> None:
    legend = visible(waiting, "/documents/1")
    assert re.search(r"not scored yet \d", legend)
    assert not re.search(r"not scored yet \d", visible(clients[UNREACHABLE], "/documents/1"))
