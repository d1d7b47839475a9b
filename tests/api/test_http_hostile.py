"""The worst that can be sent, to a service as it runs: each is refused, and says why."""

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


def send(service: Running, sent: bytes) -> tuple[int, str, dict[str, Any]]:
    """Status, content type and JSON of the answer."""
    with service.connect() as connection:
        # A body that nobody wants is not read to its end.
        with contextlib.suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        answer = HTTPResponse(connection)
        answer.begin()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        body = answer.read().decode()
        return answer.status, answer.headers["Content-Type"], json.loads(body)


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_whatever_is_sent_is_refused_with_a_reason(service: Running, name: str) -> None:
    hostile = CASES[name]
    status, content_type, answer = send(service, hostile.sent())
    assert status == hostile.status, answer
    if status == 202:
        told = refused_items(service, answer["job"])
    else:
        assert content_type == "application/problem+json"
        assert answer["status"] == status
        assert answer["trace_id"]
        told = json.dumps([answer["detail"], answer.get("errors", {})], ensure_ascii=False)
    assert hostile.says in told
    assert not [secret for secret in SECRETS if secret in told and secret not in name], told


def refused_items(service: Running, job: dict[str, Any]) -> str:
    """The reasons why items of a job were refused; the others of it wait."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        failed = client.get(job["links"]["items"], params={"status": "failed"}).json()["items"]
        assert failed
        assert len(failed) == job["progress"]["failed"]
        return "; ".join(f"{item['title']}: {item['error']}" for item in failed)


def test_a_text_of_32_megabytes_without_a_full_stop_is_taken(service: Running) -> None:
    """Many citations, as `tests/lagoon/test_sentences.py` has it."""
    text = "lava and ash ".ljust(64) * (32 * MIB // 64)
    status, _, answer = send(service, post(f"{API}/documents", {"content": text}))
    assert status == 202
    assert answer["job"]["progress"]["bytes_total"] == 32 * MIB


def test_the_service_goes_on_as_if_nothing_had_been(service: Running) -> None:
    """Runs after all the others."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert client.get("/ready").status_code == 200
        assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202
        assert client.get(f"{API}/search?q=lava").status_code == 200
    assert [line for line in service.log() if line["level"] in ("error", "critical")] == []
