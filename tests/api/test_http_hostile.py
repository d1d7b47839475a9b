"""Malicious requests to a running service: each is refused with a reason."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest
from hostile import CASES, MAX_ITEMS, MIB, post
from running import PATIENCE, Running, environment_of
from surface import API, VOLCANO

from shoal.settings import Settings

SECRETS = ("Traceback", "sqlite", "SELECT ", ".py", "/home", "/usr", "/tmp")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hostile")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", max_upload_items=MAX_ITEMS)
    started = Running(environment_of(settings, folder / "home"), folder)
    try:
        yield started.wait()
    finally:
        started.end()


def send(service: Running, request: bytes) -> tuple[int, str, dict[str, Any]]:
    """Send a request and return the status, content type and JSON of the response."""
    with service.connect() as connection:
        # The service may close the connection before it has read the whole body.
        with contextlib.suppress(OSError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        response = HTTPResponse(connection)
        response.begin()
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        body = response.read().decode()
        return response.status, response.headers["Content-Type"], json.loads(body)


def test_there_are_at_least_sixty_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_hostile_request_is_refused_with_a_reason(service: Running, name: str) -> None:
    hostile = CASES[name]
    status, content_type, response = send(service, hostile.build_request())
    assert status == hostile.status, response
    if status == 202:
        errors = refused_items(service, response["job"])
    else:
        assert content_type == "application/problem+json"
        assert response["status"] == status
        assert response["trace_id"]
        errors = json.dumps([response["detail"], response.get("errors", {})], ensure_ascii=False)
    assert hostile.reason in errors
    assert not [secret for secret in SECRETS if secret in errors and secret not in name], errors


def refused_items(service: Running, job: dict[str, Any]) -> str:
    """Return the errors of the failed items of a job; its other items wait."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        failed = client.get(job["links"]["items"], params={"status": "failed"}).json()["items"]
        assert failed
        assert len(failed) == job["progress"]["failed"]
        return "; ".join(f"{item['title']}: {item['error']}" for item in failed)


def test_text_of_32_mebibytes_without_a_full_stop_is_accepted(service: Running) -> None:
    """The largest document is accepted even if it is a single sentence."""
    text = "lava and ash ".ljust(64) * (32 * MIB // 64)
    status, _, response = send(service, post(f"{API}/documents", {"content": text}))
    assert status == 202
    assert response["job"]["progress"]["bytes_total"] == 32 * MIB


def test_service_still_works_and_logged_no_errors(service: Running) -> None:
    """Runs after all other tests of this file."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert client.get("/ready").status_code == 200
        assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202
        assert client.get(f"{API}/search?q=lava").status_code == 200
    assert [line for line in service.log() if line["level"] in ("error", "critical")] == []
