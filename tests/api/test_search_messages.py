"""A search sends few messages to its database, however many results it has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API

from shoal.engine import Engine
from shoal.settings import Settings
from shoal.storage.sqlite.database import SqliteSnapshot
from shoal_api import create_app

N_DOCUMENTS = 12
TEXT = "The whale swims in the sea, and the volcano erupts {}.\n\nRain falls on the river {}, and the sea is deep."
SEARCH: dict[str, Any] = {"query": "whale sea rain", "top_k": 10, "max_per_document": 2}
BODIES: dict[str, dict[str, Any]] = {
    "search": {},
    "scores": {"include_scores": True},
    "filter": {"filter": "tags = sea"},
    "documents": {"group_by": "document"},
    "facets": {"facets": ["tags", "format"]},
}
MOST = {
    "sqlite": {"search": 9, "scores": 10, "filter": 10, "documents": 9, "facets": 10, "page": 14},
    "postgresql": {"search": 4, "scores": 4, "filter": 4, "documents": 4, "facets": 4, "page": 7},
}
"""Statements to SQLite and messages to PostgreSQL, for ten results and a query with a word that is a tag."""


class Counted:
    """Calls of some methods."""

    def __init__(self) -> None:
        self.n = 0

    def watch(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.n += 1
            return method(*arguments, **options)

        patch.setattr(owner, name, counted)


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, FlaskClient]]:
    """The store of a library, and a client of its service that has answered a search of each kind."""
    url, folder = f"sqlite:///{tmp_path / 'shoal.db'}", str(tmp_path / "data")
    # Whether there are keys is not looked at again.
    settings = Settings(database_url=url, data_dir=folder, key_cache_seconds=60)
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated"), settings.database_path)
    else:
        settings = replace(settings, database_url=request.getfixturevalue("empty_postgres"))
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest_many(
            {"title": f"Text {i}", "content": TEXT.format(i, i), "tags": ["sea"]} for i in range(N_DOCUMENTS)
        )
        client = create_app(settings, engine=engine).test_client()
        engine.start()
        for kind in (*BODIES, "page"):
            ask(client, kind)
        yield request.param, client


def ask(client: FlaskClient, kind: str) -> None:
    if kind == "page":
        assert client.get("/", query_string={"q": SEARCH["query"]}).status_code == 200
        return
    answer = client.post(f"{API}/search", json=SEARCH | BODIES[kind])
    assert answer.status_code == 200
    assert len(answer.get_json()["documents" if kind == "documents" else "results"]) == SEARCH["top_k"]


def test_searches_send_few_messages(
    service: tuple[str, FlaskClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, client = service
    counted = Counted()
    if store == "sqlite":
        for name in ("_execute", "tuples"):
            counted.watch(monkeypatch, SqliteSnapshot, name)
    else:
        counted.watch(monkeypatch, pytest.importorskip("psycopg").Cursor, "execute")
    sent = {}
    for kind in MOST[store]:
        counted.n = 0
        ask(client, kind)
        sent[kind] = counted.n
    assert all(0 < sent[kind] <= most for kind, most in MOST[store].items()), sent
