"""Health, readiness, status and documentation of the service, and headers of all responses."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
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
from shoal.storage.opening import open_database
from shoal_api import create_app
from shoal_api.installation import CHECKS
from shoal_api.pages import bundle, groups

UNDOCUMENTED = ("/docs", "/redoc", "/redoc/bundle.js", "/openapi.json", "/static/{filename}")


def test_health_returns_ok_on_an_empty_library(empty: FlaskClient) -> None:
    assert empty.get("/health").get_json() == {"status": "ok"}


def checks(settings: Settings, **failed: str) -> dict[str, str]:
    """The checks of /ready, with those that failed. The index of a file never lags."""
    names = ("database", "scorer", "broker") if settings.is_sqlite else CHECKS
    return dict.fromkeys(names, "ok") | failed


def test_ready_lists_all_checks(client: FlaskClient, settings: Settings) -> None:
    response = client.get("/ready")
    assert response.status_code == 200
    assert response.get_json()["checks"] == checks(settings)
    assert response.get_json()["warnings"] == []


def test_ready_without_the_database_is_503(client: FlaskClient, engine: Engine, settings: Settings) -> None:
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
    response = client.get("/ready")
    assert response.status_code == 200
    body = response.get_json()
    assert body["status"] == "ready"
    assert body["checks"] == checks(settings, broker="failed")
    [warning] = body["warnings"]
    assert "broker cannot be reached" in warning
    assert str(settings.data_path) not in warning
    # The service still accepts and searches.
    assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202
    assert client.get(f"{API}/search?q=lava").status_code == 200


def test_ready_with_an_unreachable_redis_is_200_with_a_warning(settings: Settings, engine: Engine) -> None:
    unreachable = replace(settings, broker_url="redis://127.0.0.1:1/0")
    client = create_app(unreachable, engine=engine).test_client()
    response = client.get("/ready")
    assert response.status_code == 200
    assert response.get_json()["checks"]["broker"] == "failed"
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


def test_ready_without_the_scorer_is_503(settings: Settings, tmp_path: Any) -> None:
    with Engine(settings=settings, lagoon_data_dir=tmp_path / "nowhere") as engine:
        client = create_app(settings, engine=engine).test_client()
        problem = assert_problem(client.get("/ready"), 503, "scorer")
        assert str(tmp_path) not in json.dumps(problem)
        assert client.get("/health").status_code == 200


def test_status_counts_documents_and_jobs(client: FlaskClient, store: Store) -> None:
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


def test_status_counts_the_processes_of_workers(client: FlaskClient, engine: Engine) -> None:
    with engine.database.write() as transaction:
        for name, processes, seen_at in (
            ("a", 2, transaction.now()),
            ("b", 3, transaction.now()),
            ("c", 9, 0.0),
        ):
            transaction.execute(
                "INSERT INTO workers VALUES (:name, 'host', 1, :processes, '1', 'then', :seen_at)",
                {"name": name, "processes": processes, "seen_at": seen_at},
            )
    assert client.get(f"{API}/status").get_json()["workers"] == 5
    assert engine.status().workers == 5


def test_responses_contain_no_path_of_the_server(client: FlaskClient, settings: Settings) -> None:
    for path in ("/metrics", "/ready", "/openapi.json", "/", "/status", "/docs"):
        assert str(settings.database_path.parent) not in client.get(path).get_data(as_text=True), path


def test_path_of_the_database_is_for_administrators_alone(settings: Settings, engine: Engine) -> None:
    def status(key: str | None = None, **changed: Any) -> dict[str, Any]:
        client = create_app(replace(settings, **changed), engine=engine).test_client()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        found: dict[str, Any] = client.get(f"{API}/status", headers=headers).get_json()
        return found

    names = {right: f"{right}-0123456789abcdef" for right in ("admin", "read")}
    keys = ",".join(f"{right}:{key}" for right, key in names.items())
    assert status(names["admin"], api_keys=keys)["db_path"] == engine.status().db_path
    assert status()["db_path"] == engine.status().db_path, "on this machine"
    for other in (status(names["read"], api_keys=keys), status(allow_anonymous=True)):
        assert "db_path" not in other
        assert str(settings.database_path.parent) not in json.dumps(other)


def test_reefs_response_names_the_reefs(client: FlaskClient, store: Store) -> None:
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


def test_openapi_document_lists_every_route(app: flask.Flask, client: FlaskClient) -> None:
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
    undocumented = {("GET", path) for path in UNDOCUMENTED}
    assert documented == routes - undocumented
    for path, item in spec["paths"].items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "delete"):
                assert operation["summary"], path
                assert "application/problem+json" in json.dumps(
                    spec["components"]["responses"]["DEFAULT_ERROR"]
                )
                assert "default" in operation["responses"]


def test_docs_page_loads_only_own_resources(empty: FlaskClient) -> None:
    response = empty.get("/docs")
    assert response.status_code == 200
    page = response.get_data(as_text=True)
    assert "/api/v1/documents/bulk" in page
    assert page.count("<script") == page.count('<script type="module" src="/static/docs.js"></script>') == 1
    assert "style=" not in page
    loaded = re.findall(r"""(?:src|href)=["']([^"'#]+)["']""", page)
    assert loaded
    for address in loaded:
        assert address.startswith("/")
        assert empty.get(address).status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_docs_page_has_marked_code_and_ordered_statuses(empty: FlaskClient) -> None:
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


def test_openapi_document_lists_the_errors_of_operations(empty: FlaskClient) -> None:
    paths = empty.get("/openapi.json").get_json()["paths"]

    def errors(method: str, path: str) -> set[str]:
        return {status for status in paths[path][method]["responses"] if status[0] in "45"}

    assert errors("post", f"{API}/documents") == {"400", "409", "413", "415", "422"}
    assert errors("post", f"{API}/documents/bulk") == {"400", "409", "413", "415", "422"}
    assert errors("get", f"{API}/documents/{{document_id}}") == {"404", "422"}
    assert errors("get", f"{API}/jobs/{{job_id}}/items") == {"404", "422"}
    assert errors("post", f"{API}/search") == {"400", "413", "415", "422", "503"}
    assert errors("post", f"{API}/explain") == {"400", "404", "413", "415", "422", "503"}


def test_every_search_parameter_is_described(empty: FlaskClient) -> None:
    spec = empty.get("/openapi.json").get_json()
    for parameter in spec["paths"][f"{API}/search"]["get"]["parameters"]:
        assert parameter["description"], parameter["name"]
    for schema in ("Search", "Filters", "Explain"):
        for name, member in spec["components"]["schemas"][schema]["properties"].items():
            assert member.get("description"), name


def test_search_example_has_the_form_of_a_response(client: FlaskClient, store: Store) -> None:
    def form(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: form(inner) for name, inner in value.items()}
        return [form(value[0])] if isinstance(value, list) and value else type(value).__name__

    store(VOLCANO, title="Fire", tags=["rock"], source_path="a/b.md")
    content = client.get("/openapi.json").get_json()["paths"][f"{API}/search"]["get"]["responses"]["200"][
        "content"
    ]
    [example] = content["application/json"]["examples"].values()
    response = client.get(f"{API}/search?q=lava+and+ash").get_json()
    expected = form(response)
    # A text without headings has no section path.
    expected["results"][0]["section_path"] = ["str"]
    # A library that learns nothing has no feedback.
    expected["query_info"]["feedback"] = [
        {"chunk_id": "int", "document_id": "int", "document_title": "str", "share": "float"}
    ]
    assert form(example["value"]) == expected


def test_forms_of_the_docs_page_begin_with_a_usable_body(empty: FlaskClient) -> None:
    spec = empty.get("/openapi.json").get_json()
    samples = {each.summary: each.sample for _, _, operations in groups(spec) for each in operations}
    assert json.loads(samples["Search"]) == {"query": ""}
    assert json.loads(samples["Add many notes"]) == [{"text": ""}]
    assert samples["Get a document with its sections, its report and summaries of its chunks"] == ""
    for sample in filter(None, samples.values()):
        assert isinstance(json.loads(sample), dict | list)


@pytest.mark.skipif(importlib.util.find_spec("offapi") is None, reason="the package offapi is not installed")
def test_redoc_page_loads_only_own_resources(empty: FlaskClient) -> None:
    page = empty.get("/redoc")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    script = empty.get("/redoc/bundle.js")
    assert script.content_type == "text/javascript; charset=utf-8"
    assert b"cdn.redoc.ly" not in script.get_data()
    again = empty.get("/redoc/bundle.js", headers={"If-None-Match": script.headers["ETag"]})
    assert (again.status_code, again.get_data()) == (304, b"")
    assert "offapi" not in sys.modules, "it would load 20 MB"


def test_redoc_page_names_what_is_missing(empty: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal_api.pages.importlib.util.find_spec", lambda name: None)
    bundle.cache_clear()
    assert "offapi" in assert_problem(empty.get("/redoc"), 404)["detail"]


@pytest.mark.parametrize(
    "address", ["/health", "/docs", f"{API}/status", "/nothing", f"{API}/documents/1", "/static/docs.css"]
)
def test_every_response_has_a_trace_id_and_security_headers(empty: FlaskClient, address: str) -> None:
    response = empty.get(address)
    assert re.fullmatch(r"[0-9a-f]{32}", response.headers["X-Trace-Id"])
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert empty.get(address).headers["X-Trace-Id"] != response.headers["X-Trace-Id"]


def test_request_is_logged_in_one_line(empty: FlaskClient) -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        response = empty.get(f"{API}/documents/1%0Ainjected")
        empty.get("/health")
    line = lines[0]
    assert line["event"] == "request"
    assert line["method"] == "GET"
    assert line["status"] == 404
    assert line["ms"] >= 0
    assert line["trace_id"] == response.headers["X-Trace-Id"]
    assert "\n" not in line["path"]
    assert lines[1]["log_level"] == "debug", "health checks are too frequent for the info level"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("secret /srv/path and SELECT 1"), 500),
        (StorageError("the database refused an operation"), 500),
        (DiskFullError("secret /srv/path"), 507),
    ],
)
def test_error_response_contains_no_internals(
    client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(engine, "status", fail)
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        response = client.get(f"{API}/status")
    problem = assert_problem(response, status)
    assert "secret" not in response.get_data(as_text=True)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert errors
    assert errors[0]["trace_id"] == problem["trace_id"]


def test_busy_database_returns_503_with_retry_after(
    client: FlaskClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.storage.sqlite.database.BUSY_TIMEOUT_MS", 100)
    monkeypatch.setattr("shoal.storage.sqlite.database._PRAGMA_OF_WAITING", "PRAGMA busy_timeout = 100")
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        client = create_app(settings, engine=engine).test_client()
        writer = open_database(settings.database_url)
        with writer.write():
            response = client.post(f"{API}/documents", json={"content": VOLCANO})
        writer.close()
        assert_problem(response, 503)
        assert response.headers["Retry-After"]
        assert client.get(f"{API}/jobs").get_json()["total"] == 0
