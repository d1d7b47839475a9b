"""The service about itself, and what every answer carries."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from typing import Any

import flask
import pytest
import structlog
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, VOLCANO, Store, assert_problem

from shoal.engine import Engine
from shoal.errors import DiskFullError, StorageError
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_api import create_app


def test_health_needs_nothing(empty: FlaskClient) -> None:
    assert empty.get("/health").get_json() == {"status": "ok"}


def test_ready_names_every_check(client: FlaskClient) -> None:
    answer = client.get("/ready")
    assert answer.status_code == 200
    assert answer.get_json()["checks"] == {"database": "ok", "scorer": "ok", "broker": "ok"}
    assert answer.get_json()["warnings"] == []


def test_not_ready_without_the_database(client: FlaskClient, engine: Engine, settings: Settings) -> None:
    engine.database.close()
    for file in settings.database_path.parent.glob("shoal.db*"):
        if file.is_file():
            file.unlink()
    problem = assert_problem(client.get("/ready"), 503, "database")
    assert problem["checks"] == {"database": "failed", "scorer": "ok", "broker": "ok"}
    assert str(settings.database_path.parent) not in json.dumps(problem)


def break_broker(settings: Settings) -> None:
    """Replace the folder of the filesystem broker with a file."""
    shutil.rmtree(settings.data_path / "broker")
    (settings.data_path / "broker").write_text("not a folder")


def test_ready_without_the_broker_is_200_with_a_warning(client: FlaskClient, settings: Settings) -> None:
    break_broker(settings)
    answer = client.get("/ready")
    assert answer.status_code == 200
    body = answer.get_json()
    assert body["status"] == "ready"
    assert body["checks"] == {"database": "ok", "scorer": "ok", "broker": "failed"}
    [warning] = body["warnings"]
    assert "broker cannot be reached" in warning
    assert str(settings.data_path) not in warning
    # The service still accepts and searches.
    assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202
    assert client.get(f"{API}/search?q=lava").status_code == 200


def test_ready_with_an_unreachable_redis_is_200_with_a_warning(settings: Settings, engine: Engine) -> None:
    unreachable = replace(settings, broker_url="redis://127.0.0.1:1/0")
    client = create_app(unreachable, engine=engine).test_client()
    answer = client.get("/ready")
    assert answer.status_code == 200
    assert answer.get_json()["checks"]["broker"] == "failed"
    assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202


def test_ready_without_broker_and_database_is_503(
    client: FlaskClient, engine: Engine, settings: Settings
) -> None:
    break_broker(settings)
    engine.database.close()
    for file in settings.database_path.parent.glob("shoal.db*"):
        if file.is_file():
            file.unlink()
    problem = assert_problem(client.get("/ready"), 503, "database")
    assert problem["checks"] == {"database": "failed", "scorer": "ok", "broker": "failed"}


def test_not_ready_without_the_scorer(settings: Settings, tmp_path: Any) -> None:
    with Engine(settings=settings, lagoon_data_dir=tmp_path / "nowhere") as engine:
        client = create_app(settings, engine=engine).test_client()
        problem = assert_problem(client.get("/ready"), 503, "scorer")
        assert str(tmp_path) not in json.dumps(problem)
        assert client.get("/health").status_code == 200


def test_status_counts(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    client.post(f"{API}/documents", json={"content": "More about lava. And ash."})
    status = client.get(f"{API}/status").get_json()
    assert status["status"] == "ok"
    assert status["n_documents"] == 1
    assert status["n_chunks"] >= 1
    assert status["lagoon_n_reefs"] == FakeScorer().n_reefs
    assert status["jobs"]["succeeded"] == 1
    assert status["jobs"]["enqueued"] == 1
    assert {"vocabulary_version", "n_stale_chunks", "n_custom_words", "workers", "db_bytes"} <= set(status)


def test_no_answer_names_a_file_of_the_server(client: FlaskClient, settings: Settings) -> None:
    for path in (f"{API}/status", "/metrics", "/ready", "/openapi.json", "/"):
        assert str(settings.database_path.parent) not in client.get(path).get_data(as_text=True), path


def test_reefs_show_the_hierarchy(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    reefs = client.get(f"{API}/reefs")
    assert reefs.status_code == 200
    assert "volcanoes and rocks" in reefs.get_data(as_text=True)


def test_metrics_count_requests_by_route(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO)
    client.get(f"{API}/documents/{document}")
    client.get(f"{API}/documents/4711")
    client.get("/no/such/address")
    text = client.get("/metrics").get_data(as_text=True)
    route = f"{API}/documents/<int(max={2**63 - 1}):document_id>"
    assert f'shoal_http_requests_total{{method="GET",route="{route}",status="200"}} 1.0' in text
    assert f'shoal_http_requests_total{{method="GET",route="{route}",status="404"}} 1.0' in text
    assert 'route="(none)",status="404"' in text
    assert "shoal_documents 1.0" in text
    assert 'shoal_jobs{status="succeeded"} 1.0' in text


def test_the_document_of_the_api_names_every_route(app: flask.Flask, client: FlaskClient) -> None:
    spec = client.get("/openapi.json").get_json()
    documented = {
        (method.upper(), path)
        for path, item in spec["paths"].items()
        for method in item
        if method in ("get", "post", "put", "delete")
    }
    routes = {
        (method, re.sub(r"<(?:[^:>]+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        if not rule.endpoint.startswith("console.")
        for method in rule.methods or ()
        if method in ("GET", "POST", "PUT", "DELETE")
    }
    undocumented = {("GET", path) for path in ("/docs", "/openapi.json", "/static/{filename}")}
    assert documented == routes - undocumented
    for path, item in spec["paths"].items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "delete"):
                assert operation["summary"], path
                assert "application/problem+json" in json.dumps(
                    spec["components"]["responses"]["DEFAULT_ERROR"]
                )
                assert "default" in operation["responses"]


def test_the_docs_page_needs_nothing_from_elsewhere(empty: FlaskClient) -> None:
    answer = empty.get("/docs")
    assert answer.status_code == 200
    page = answer.get_data(as_text=True)
    assert "/api/v1/documents/bulk" in page
    assert "<script" not in page
    assert "style=" not in page
    loaded = re.findall(r"""(?:src|href)=["']([^"'#]+)["']""", page)
    assert loaded
    for address in loaded:
        assert address.startswith("/")
        assert empty.get(address).status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_docs_page_is_fit_to_read(empty: FlaskClient) -> None:
    page = empty.get("/docs").get_data(as_text=True)
    assert "`" not in page, "code is marked as code"
    assert "<code>wait=abc</code>" in page
    assert "<th></th>" not in page
    for operation in page.split("<details>")[1:]:
        numbers = re.findall(r"<h3>Response (\d+): \S", operation)
        assert numbers == sorted(numbers)
        rows = re.findall(r"<tr><td>(\d{3}|other)</td><td>(.)", operation)
        statuses = [status for status, _ in rows]
        assert statuses == sorted(statuses)
        assert statuses[-1] == "other"
    assert "pre-wrap" in empty.get("/static/docs.css").get_data(as_text=True)


def test_the_document_of_the_api_says_which_errors_occur(empty: FlaskClient) -> None:
    paths = empty.get("/openapi.json").get_json()["paths"]

    def errors(method: str, path: str) -> set[str]:
        return {status for status in paths[path][method]["responses"] if status[0] in "45"}

    assert errors("post", f"{API}/documents") == {"400", "409", "413", "415", "422"}
    assert errors("post", f"{API}/documents/bulk") == {"400", "409", "413", "415", "422"}
    assert errors("get", f"{API}/documents/{{document_id}}") == {"404"}
    assert errors("get", f"{API}/jobs/{{job_id}}/items") == {"404", "422"}
    assert errors("post", f"{API}/search") == {"400", "413", "415", "422", "503"}
    assert errors("post", f"{API}/explain") == {"400", "404", "413", "415", "422", "503"}


def test_every_parameter_of_a_search_is_described(empty: FlaskClient) -> None:
    spec = empty.get("/openapi.json").get_json()
    for parameter in spec["paths"][f"{API}/search"]["get"]["parameters"]:
        assert parameter["description"], parameter["name"]
    for schema in ("Search", "Filters", "Explain"):
        for name, member in spec["components"]["schemas"][schema]["properties"].items():
            assert member.get("description"), name


def test_the_example_of_a_search_has_the_form_of_an_answer(client: FlaskClient, store: Store) -> None:
    def form(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: form(inner) for name, inner in value.items()}
        return [form(value[0])] if isinstance(value, list) and value else type(value).__name__

    store(VOLCANO, title="Fire", tags=["rock"], source_path="a/b.md")
    content = client.get("/openapi.json").get_json()["paths"][f"{API}/search"]["get"]["responses"]["200"][
        "content"
    ]
    [example] = content["application/json"]["examples"].values()
    answer = client.get(f"{API}/search?q=lava+and+ash").get_json()
    expected = form(answer)
    # A text without headings has no section path.
    expected["results"][0]["section_path"] = ["str"]
    # A library that learns nothing keeps no company.
    expected["query_info"]["feedback"] = [
        {"chunk_id": "int", "document_id": "int", "document_title": "str", "share": "float"}
    ]
    assert form(example["value"]) == expected


@pytest.mark.parametrize(
    "address", ["/health", "/docs", f"{API}/status", "/nothing", f"{API}/documents/1", "/static/docs.css"]
)
def test_every_answer_has_its_trace_and_guards(empty: FlaskClient, address: str) -> None:
    answer = empty.get(address)
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Trace-Id"])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert empty.get(address).headers["X-Trace-Id"] != answer.headers["X-Trace-Id"]


def test_a_request_leaves_a_line_in_the_log(empty: FlaskClient) -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        answer = empty.get(f"{API}/documents/1%0Ainjected")
        empty.get("/health")
    line = lines[0]
    assert line["event"] == "request"
    assert line["method"] == "GET"
    assert line["status"] == 404
    assert line["ms"] >= 0
    assert line["trace_id"] == answer.headers["X-Trace-Id"]
    assert "\n" not in line["path"]
    assert lines[1]["log_level"] == "debug", "health checks would drown everything else"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("secret /srv/path and SELECT 1"), 500),
        (StorageError("the database refused an operation"), 500),
        (DiskFullError("secret /srv/path"), 507),
    ],
)
def test_a_failure_of_the_service_tells_no_secrets(
    client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(engine, "status", fail)
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        answer = client.get(f"{API}/status")
    problem = assert_problem(answer, status)
    assert "secret" not in answer.get_data(as_text=True)
    told = [line for line in lines if line["log_level"] == "error"]
    assert told
    assert told[0]["trace_id"] == problem["trace_id"]


def test_a_busy_database_answers_503_and_when_to_come_back(
    client: FlaskClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.storage.database.BUSY_TIMEOUT_MS", 100)
    monkeypatch.setattr("shoal.storage.database._PRAGMAS", ("PRAGMA busy_timeout = 100",))
    with Engine(settings=settings, scorer=FakeScorer()) as impatient:
        client = create_app(settings, engine=impatient).test_client()
        other = Database(settings.database_url)
        with other.write():
            answer = client.post(f"{API}/documents", json={"content": VOLCANO})
        other.close()
        assert_problem(answer, 503)
        assert answer.headers["Retry-After"]
        assert client.get(f"{API}/jobs").get_json()["total"] == 0
