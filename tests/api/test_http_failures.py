"""Whatever breaks under the service, its answers say what that means to the caller and nothing else."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
import schemathesis
import structlog
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from operations import try_everything
from surface import API, FLOWER, VOLCANO, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_api import create_app

LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|sqlite|sqlalchemy|OperationalError|Error:|\bSELECT\b|\bINSERT\b|\bUPDATE [a-z]|"
    r"\bFROM [a-z]|/tmp|/home|/usr|\.db\b|no such table|line \d+, in",
)
"""What only the inside of the service knows."""


def _replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replaced_by_something_else(path: Path) -> None:
    path.write_bytes(b"this is no database, but a diary\n" * 1000)


def _emptied(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        tables = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('documents', 'chunks', 'jobs')"
        )
        for (name,) in connection.execute(tables).fetchall():
            connection.execute(f"DROP TABLE {name}")


def _damaged(path: Path) -> None:
    """Pages in the middle overwritten, the head in order."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))


def _removed(path: Path) -> None:
    shutil.rmtree(path.parent)


DISASTERS: dict[str, Callable[[Path], None]] = {
    "a folder in its place": _replaced_by_a_folder,
    "something else in its place": _replaced_by_something_else,
    "its tables gone": _emptied,
    "its pages damaged": _damaged,
    "its folder gone": _removed,
}


@pytest.fixture
def broken_into(migrated: Path, tmp_path: Path) -> Iterator[Callable[[str], flask.Flask]]:
    """A service whose database is struck by a disaster after the start."""
    opened: list[Engine] = []

    def strike(disaster: str) -> flask.Flask:
        folder = tmp_path / "library"
        folder.mkdir()
        settings = Settings(
            database_url=f"sqlite:///{folder / 'shoal.db'}", learning=False, event_stream_seconds=0.1
        )
        shutil.copy(migrated, settings.database_path)
        engine = Engine(settings=settings, scorer=FakeScorer())
        opened.append(engine)
        app = create_app(settings, engine=engine)
        engine.ingest(content=VOLCANO, title="Fire")
        app.test_client().get(f"{API}/search?q=lava")
        engine.database.close()
        engine.close()
        for log in folder.glob("shoal.db-*"):
            if log.is_file():
                log.unlink()
        DISASTERS[disaster](settings.database_path)
        return app

    yield strike
    for engine in opened:
        engine.close()


@pytest.mark.parametrize("disaster", DISASTERS)
def test_a_lost_database_is_told_by_503_and_nothing_more(
    broken_into: Callable[[str], flask.Flask], disaster: str
) -> None:
    app = broken_into(disaster)
    client = app.test_client()
    assert client.get("/health").status_code == 200
    if disaster != "its tables gone":
        assert_problem(client.get("/ready"), 503, "database")
    for answer in (
        client.get(f"{API}/jobs"),
        client.get(f"{API}/documents"),
        client.post(f"{API}/documents", json={"content": FLOWER}),
        client.post(
            f"{API}/documents/bulk", data=b'{"content": "Ash and lava."}', content_type="application/x-ndjson"
        ),
    ):
        problem = assert_problem(answer, 503)
        assert answer.headers["Retry-After"]
        assert not LEAKS.search(problem["detail"]), problem
    statuses = set()

    def attempt(case: schemathesis.Case) -> None:
        answer = case.call()
        statuses.add(answer.status_code)
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0] == "application/problem+json"
            assert answer.status_code != 500, answer.text
            assert not LEAKS.search(answer.text), answer.text

    with structlog.testing.capture_logs():
        assert try_everything(app, attempt, examples=2) >= 20
    assert 503 in statuses


def test_what_would_be_lost_with_the_log_is_not_accepted(client: FlaskClient, engine: Engine) -> None:
    stored = client.post(f"{API}/documents", json={"content": FLOWER})
    assert stored.status_code == 202
    assert client.get("/ready").status_code == 200
    engine.start()
    Path(f"{engine.database.path}-wal").unlink()
    for answer in (
        client.post(f"{API}/documents", json={"content": VOLCANO}),
        client.post(
            f"{API}/documents/bulk", data=b'{"content": "Ash and lava."}', content_type="application/x-ndjson"
        ),
        client.delete(f"{API}/documents/1"),
    ):
        problem = assert_problem(answer, 503)
        assert "removed or replaced" in problem["detail"]
        assert not LEAKS.search(problem["detail"]), problem
    ready = assert_problem(client.get("/ready"), 503, "database")
    assert "restart the service" in str(ready["errors"])
    # What was accepted before is in the file that has a name.
    with sqlite3.connect(f"{engine.database.path.as_uri()}?immutable=1", uri=True) as connection:
        assert connection.execute("SELECT COUNT(*) FROM job_items").fetchone() == (1,)
    connection.close()


READS = (
    f"{API}/search?q=lava",
    f"{API}/documents",
    f"{API}/documents?q=fire",
    f"{API}/documents/1",
    f"{API}/documents/1/chunks",
    f"{API}/chunks/1",
    f"{API}/vocabulary",
    f"{API}/reefs",
    f"{API}/status",
    "/?q=lava",
    "/library",
)


@pytest.mark.parametrize("address", READS)
def test_a_read_that_takes_too_long_is_stopped(client: FlaskClient, engine: Engine, address: str) -> None:
    engine.ingest(content=VOLCANO, title="Fire")
    assert client.get(address).status_code in (200, 404)
    engine.database.read_timeout = 1e-6
    answer = client.get(address)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert "seconds and was stopped; use fewer words" in answer.text


def test_a_search_and_an_explanation_that_take_too_long_are_stopped(
    client: FlaskClient, engine: Engine
) -> None:
    engine.database.read_timeout = 1e-6
    for path in ("search", "explain"):
        problem = assert_problem(client.post(f"{API}/{path}", json={"query": "lava"}), 503)
        assert "use fewer words" in problem["detail"]


def test_the_time_of_reads_is_a_setting(settings: Settings, engine: Engine) -> None:
    create_app(settings, engine=engine)
    assert engine.database.read_timeout == 10
    create_app(replace(settings, search_timeout=0.0), engine=engine)
    assert engine.database.read_timeout is None


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("secret: /srv/shoal.py, SELECT content FROM documents"),
        sqlite3.OperationalError("secret: near SELECT content FROM documents"),
        OSError(5, "secret", "/srv/shoal.db"),
        MemoryError("secret"),
        RecursionError("secret"),
        UnicodeDecodeError("utf-8", b"secret", 0, 1, "secret"),
        KeyError("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_mistake_of_the_service_is_told_by_500_and_nothing_more(
    client: FlaskClient, app: flask.Flask, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> Any:
        # Another one each time: an exception gathers the traces of all the places it was raised at.
        raise type(error)(*error.args)

    for method in ("read", "write", "snapshot"):
        monkeypatch.setattr(Database, method, fail)
    failed = 0

    def attempt(case: schemathesis.Case) -> None:
        nonlocal failed
        answer = case.call()
        failed += answer.status_code >= 500
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0] == "application/problem+json"
            assert "secret" not in answer.text
            assert not LEAKS.search(answer.text), answer.text

    # What goes to the log may tell everything, but to draw it takes time.
    with structlog.testing.capture_logs():
        try_everything(app, attempt, examples=1)
    assert failed >= 10
    # The next request finds everything in order.
    monkeypatch.undo()
    assert client.get(f"{API}/jobs").status_code == 200


def test_a_full_disk_stores_nothing_and_says_so(
    settings: Settings, migrated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(migrated, settings.database_path)
    pages = sqlite3.connect(settings.database_path).execute("PRAGMA page_count").fetchone()[0]
    monkeypatch.setattr(
        "shoal.storage.database._PRAGMAS", (f"PRAGMA max_page_count = {pages}", "PRAGMA foreign_keys = ON")
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        long = {"content": f"{VOLCANO} " * 20_000}
        for answer in (
            client.post(f"{API}/documents", json=long),
            client.post(
                f"{API}/documents/bulk",
                data=flask.json.dumps(long).encode(),
                content_type="application/x-ndjson",
            ),
        ):
            problem = assert_problem(answer, 507)
            assert not LEAKS.search(problem["detail"])
        assert client.get(f"{API}/jobs").get_json()["total"] == 0
        assert client.get(f"{API}/documents").get_json()["total"] == 0


def test_what_is_accepted_without_a_broker_is_safe(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, broker_url="redis://127.0.0.1:1/0"), engine=engine).test_client()
    answer = client.post(f"{API}/documents", json={"content": VOLCANO})
    assert answer.status_code == 202
    assert client.get(answer.headers["Location"]).get_json()["status"] == "enqueued"
    readiness = client.get("/ready")
    assert readiness.status_code == 200
    assert readiness.get_json()["checks"]["broker"] == "failed"
    assert "127.0.0.1" not in readiness.get_data(as_text=True)
