"""Failures of the database, the disk or the broker give problem responses without internals."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
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
from postgres_schemas import sqlite_only
from surface import API, FLOWER, VOLCANO, assert_problem
from waiting import until

from shoal.access.key_store import KeyStore
from shoal.engine import Engine
from shoal.errors import DamagedDatabaseError, DatabaseUnavailableError
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.sqlite.database import SqliteDatabase
from shoal_api import create_app, damage

LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|sqlite|sqlalchemy|OperationalError|Error:|\bSELECT\b|\bINSERT\b|\bUPDATE [a-z]|"
    r"\bFROM [a-z]|/tmp|/home|/usr|\.db\b|no such table|line \d+, in",
)
"""Text of internals that no response may contain."""


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
    """Overwrite all pages but the first two."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))


def _removed(path: Path) -> None:
    shutil.rmtree(path.parent)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a folder in its place": _replaced_by_a_folder,
    "something else in its place": _replaced_by_something_else,
    "its tables gone": _emptied,
    "its pages damaged": _damaged,
    "its folder gone": _removed,
}


@pytest.fixture
def damaged_service(migrated: Path, tmp_path: Path) -> Iterator[Callable[[str], flask.Flask]]:
    """A function that starts a service, damages its database as named, and returns the app."""
    opened: list[Engine] = []

    def start_damaged(damage: str) -> flask.Flask:
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
        DAMAGES[damage](settings.database_path)
        return app

    yield start_damaged
    for engine in opened:
        engine.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_database_returns_503_without_internals(
    damaged_service: Callable[[str], flask.Flask], damage: str
) -> None:
    app = damaged_service(damage)
    client = app.test_client()
    assert client.get("/health").status_code == 200
    if damage != "its tables gone":
        assert_problem(client.get("/ready"), 503, "database")
    for response in (
        client.get(f"{API}/jobs"),
        client.get(f"{API}/documents"),
        client.post(f"{API}/documents", json={"content": FLOWER}),
        client.post(
            f"{API}/documents/bulk", data=b'{"content": "Ash and lava."}', content_type="application/x-ndjson"
        ),
    ):
        problem = assert_problem(response, 503)
        assert response.headers["Retry-After"]
        assert not LEAKS.search(problem["detail"]), problem
    statuses = set()

    def attempt(case: schemathesis.Case) -> None:
        response = case.call()
        statuses.add(response.status_code)
        if response.status_code >= 400:
            assert response.headers["content-type"][0] == "application/problem+json"
            assert response.status_code != 500, response.text
            assert not LEAKS.search(response.text), response.text

    with structlog.testing.capture_logs():
        assert try_everything(app, attempt, examples=1) >= 20
    assert 503 in statuses


def test_health_does_not_depend_on_the_keys_of_the_catalog(
    settings: Settings, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise DatabaseUnavailableError("away")

    client = create_app(replace(settings, key_cache_seconds=0.0), engine=engine).test_client()
    monkeypatch.setattr(KeyStore, "has_any", fail)
    monkeypatch.setattr(type(engine.database), "snapshot", fail)
    assert client.get("/health").status_code == 200
    problem = assert_problem(client.get("/ready"), 503, "database")
    assert problem["code"] == "not_ready"
    assert_problem(client.get(f"{API}/documents"), 503)


def test_writes_are_refused_after_the_wal_is_removed(client: FlaskClient, engine: Engine) -> None:
    stored = client.post(f"{API}/documents", json={"content": FLOWER})
    assert stored.status_code == 202
    assert client.get("/ready").status_code == 200
    engine.start()
    Path(f"{engine.database.path}-wal").unlink()
    for response in (
        client.post(f"{API}/documents", json={"content": VOLCANO}),
        client.post(
            f"{API}/documents/bulk", data=b'{"content": "Ash and lava."}', content_type="application/x-ndjson"
        ),
        client.delete(f"{API}/documents/1"),
    ):
        problem = assert_problem(response, 503)
        assert "removed or replaced" in problem["detail"]
        assert not LEAKS.search(problem["detail"]), problem
    ready = assert_problem(client.get("/ready"), 503, "database")
    assert "restart the service" in str(ready["errors"])

    def is_in_the_file() -> bool:
        with closing(sqlite3.connect(f"{engine.database.path.as_uri()}?immutable=1", uri=True)) as connection:
            return bool(connection.execute("SELECT COUNT(*) FROM job_items").fetchone() == (1,))

    # Each check saves the document that was accepted before the removal, once no thread uses the connection.
    until(lambda: client.get("/ready").status_code == 503 and is_in_the_file())


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
def test_slow_read_is_stopped_and_returns_503(client: FlaskClient, engine: Engine, address: str) -> None:
    engine.ingest(content=VOLCANO, title="Fire")
    assert client.get(address).status_code in (200, 404)
    engine.database.read_timeout = 1e-6
    response = client.get(address)
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    assert "seconds and was stopped; use fewer words" in response.text


def test_slow_search_and_explanation_return_503(client: FlaskClient, engine: Engine) -> None:
    engine.database.read_timeout = 1e-6
    for path in ("search", "explain"):
        problem = assert_problem(client.post(f"{API}/{path}", json={"query": "lava"}), 503)
        assert "use fewer words" in problem["detail"]


def test_search_timeout_sets_the_time_limit_of_reads(settings: Settings, engine: Engine) -> None:
    create_app(settings, engine=engine)
    assert engine.database.read_timeout == 10
    create_app(replace(settings, search_timeout=0.0), engine=engine)
    assert engine.database.read_timeout is None


INTERNAL_ERRORS = (
    RuntimeError("secret: /srv/shoal.py, SELECT content FROM documents"),
    sqlite3.OperationalError("secret: near SELECT content FROM documents"),
    OSError(5, "secret", "/srv/shoal.db"),
    MemoryError("secret"),
    RecursionError("secret"),
    UnicodeDecodeError("utf-8", b"secret", 0, 1, "secret"),
    KeyError("secret"),
)


# On PostgreSQL even the request for the schema reads the database, which has the keys.
@sqlite_only
def test_internal_error_returns_500_without_internals(
    client: FlaskClient, app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    error: Exception = INTERNAL_ERRORS[0]

    def fail(*_: object, **__: object) -> Any:
        # A new exception each time, because an exception collects the tracebacks of all its raises.
        raise type(error)(*error.args)

    for method in ("write", "snapshot"):
        monkeypatch.setattr(SqliteDatabase, method, fail)
    n_failed = Counter[type[Exception]]()

    def attempt(case: schemathesis.Case) -> None:
        nonlocal error
        # To make a case takes longer than to send it.
        for error in INTERNAL_ERRORS:
            response = case.call()
            n_failed[type(error)] += response.status_code >= 500
            if response.status_code >= 400:
                assert response.headers["content-type"][0] == "application/problem+json", error
                assert "secret" not in response.text, error
                assert not LEAKS.search(response.text), response.text

    # The log may contain internals. Capturing it saves the time to format tracebacks.
    with structlog.testing.capture_logs():
        try_everything(app, attempt, examples=1)
    assert all(n_failed[type(error)] >= 10 for error in INTERNAL_ERRORS), n_failed
    # The service recovers.
    monkeypatch.undo()
    assert client.get(f"{API}/jobs").status_code == 200


def test_full_disk_returns_507_and_stores_nothing(
    settings: Settings, migrated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(migrated, settings.database_path)
    pages = sqlite3.connect(settings.database_path).execute("PRAGMA page_count").fetchone()[0]
    monkeypatch.setattr(
        "shoal.storage.sqlite.database._PRAGMAS",
        (f"PRAGMA max_page_count = {pages}", "PRAGMA foreign_keys = ON"),
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        long = {"content": f"{VOLCANO} " * 20_000}
        for response in (
            client.post(f"{API}/documents", json=long),
            client.post(
                f"{API}/documents/bulk",
                data=flask.json.dumps(long).encode(),
                content_type="application/x-ndjson",
            ),
        ):
            problem = assert_problem(response, 507)
            assert not LEAKS.search(problem["detail"])
        assert client.get(f"{API}/jobs").get_json()["total"] == 0
        assert client.get(f"{API}/documents").get_json()["total"] == 0


def test_document_accepted_without_a_broker_is_enqueued(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, broker_url="redis://127.0.0.1:1/0"), engine=engine).test_client()
    response = client.post(f"{API}/documents", json={"content": VOLCANO})
    assert response.status_code == 202
    assert client.get(response.headers["Location"]).get_json()["status"] == "enqueued"
    readiness = client.get("/ready")
    assert readiness.status_code == 200
    assert readiness.get_json()["checks"]["broker"] == "failed"
    assert "127.0.0.1" not in readiness.get_data(as_text=True)


@sqlite_only
def test_damaged_value_is_named_as_damage_and_looked_for_once(
    client: FlaskClient, engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(content=VOLCANO, title="Fire")
    diagnoses: list[BaseException] = []
    diagnose = damage.damage_behind

    def counted(error: BaseException, database: Database) -> DamagedDatabaseError | None:
        diagnoses.append(error)
        return diagnose(error, database)

    monkeypatch.setattr(damage, "damage_behind", counted)
    with engine.database.write() as transaction:
        transaction.execute("UPDATE documents SET title = x'ff41'")
    for _ in range(3):
        problem = assert_problem(client.get(f"{API}/search?q=lava"), 503)
        assert problem["code"] == "database_damaged"
    assert len(diagnoses) == 1


def test_bug_of_an_intact_library_stays_an_internal_error(
    client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TypeError("secret")

    monkeypatch.setattr(Engine, "search", fail)
    problem = assert_problem(client.get(f"{API}/search?q=lava"), 500)
    assert problem["code"] == "internal_error"
