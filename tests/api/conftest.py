"""The service as a client sees it, on a real database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flask
import jinja2
import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, COLLECTIONS, VOLCANO, Store, Worker, prepare

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.service import EXTENSION, Service


@pytest.fixture(scope="session", autouse=True)
def _compiled_templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share compiled templates, which every new application would compile again."""
    cache = jinja2.FileSystemBytecodeCache(str(tmp_path_factory.mktemp("templates")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flask.Flask, "jinja_options", {"bytecode_cache": cache})
        yield


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file that is ready to be copied: quicker than to migrate one for every test."""
    settings = Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('migrated') / 'shoal.db'}")
    Engine(settings=settings, scorer=FakeScorer()).close()
    return settings.database_path


@pytest.fixture
def engine(settings: Settings, migrated: Path) -> Iterator[Engine]:
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


@pytest.fixture
def app(settings: Settings, engine: Engine) -> flask.Flask:
    return create_app(settings, engine=engine)


@pytest.fixture
def client(app: flask.Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture(scope="module")
def empty(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A client of a service that stays empty: for requests that must not store anything."""
    settings = Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('empty') / 'shoal.db'}")
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        yield client
        assert client.get(f"{API}/jobs").get_json()["total"] == 0


@pytest.fixture
def worker(engine: Engine) -> Worker:
    return Worker(engine)


@pytest.fixture
def busy_worker(worker: Worker) -> Iterator[Worker]:
    """A worker beside the service, as there is when it runs."""
    thread = threading.Thread(target=worker.keep_working)
    thread.start()
    yield worker
    worker.stop()
    thread.join()


@pytest.fixture
def store(client: FlaskClient, worker: Worker) -> Store:
    """Stores a document and returns its id."""

    def add(content: str = VOLCANO, **fields: Any) -> int:
        job = client.post(f"{API}/documents", json={"content": content, **fields}).get_json()["job"]
        worker.work()
        item = client.get(f"{API}/jobs/{job['id']}/items").get_json()["items"][0]
        assert item["status"] == "succeeded", item
        return int(item["document_id"])

    return add


@pytest.fixture
def service(app: flask.Flask) -> Service:
    here: Service = app.extensions[EXTENSION]
    return here


@pytest.fixture
def create(client: FlaskClient) -> Callable[[str], str]:
    def create_one(name: str) -> str:
        response = client.post(COLLECTIONS, json={"name": name})
        assert response.status_code == 201, response.get_data(as_text=True)
        assert response.headers["Location"] == f"{COLLECTIONS}/{name}"
        return f"{COLLECTIONS}/{name}"

    return create_one


@pytest.fixture
def add(client: FlaskClient, service: Service) -> Callable[..., dict[str, Any]]:
    """Add a document to a collection, by its prefix, and process its job."""

    def add_one(prefix: str, content: str, **fields: Any) -> dict[str, Any]:
        response = client.post(f"{prefix}/documents", json={"content": content, **fields})
        assert response.status_code == 202, response.get_data(as_text=True)
        with service.collections.engine(prefix.rpartition("/")[2]) as engine:
            Worker(engine).work()
        job: dict[str, Any] = response.get_json()["job"]
        return job

    return add_one
