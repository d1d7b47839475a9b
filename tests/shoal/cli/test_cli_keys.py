"""Commands with API keys: making one, sending it, showing none."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest
from scripted_service import JOB

from shoal.cli.app import run
from shoal.client import Client, ClientError
from shoal.support.api_keys import Scope, find_key, parse_keys

KEY = "writer-0123456789abcdef"


class Guarded(http.server.ThreadingHTTPServer):
    """A service that has KEY, and is asked too often the first `busy` times."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.busy = 0


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Guarded

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._answer(401, {"title": "Unauthorized", "detail": "this service needs a key"})
        elif self.server.busy:
            self.server.busy -= 1
            self._answer(
                429, {"title": "Too Many Requests", "detail": "too many requests"}, {"Retry-After": "1"}
            )
        elif self.path.startswith("/api/v1/jobs/"):
            self._answer(200, {**JOB, "status": "succeeded"})
        else:
            self._answer(200, {"jobs": [], "total": 0})

    def _answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Guarded]:
    server = Guarded()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_key_comes_from_the_option_or_from_the_environment(
    service: Guarded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = ["jobs", "--server", service.url]
    assert run(jobs) == 1
    refused = capsys.readouterr().err
    assert "this service needs a key" in refused
    assert "SHOAL_API_KEY or --key" in refused
    assert run([*jobs, "--key", KEY]) == 0
    monkeypatch.setenv("SHOAL_API_KEY", KEY)
    assert run(jobs) == 0
    assert run([*jobs, "--key", "another-0123456789abcdef"]) == 1, "the option wins"
    assert KEY not in "".join(capsys.readouterr())


@pytest.mark.parametrize("key", ["ключ", "a\nb: c", "a\x00b"])
def test_what_cannot_be_a_key_is_told_before_it_is_sent(service: Guarded, key: str) -> None:
    with pytest.raises(ClientError, match="no API key") as caught:
        Client(service.url, key=key)
    assert key not in str(caught.value)


def test_whoever_follows_a_job_waits_as_long_as_he_is_told(service: Guarded) -> None:
    service.busy = 1
    with Client(service.url, key=KEY) as client:
        assert client.wait_for_job(1).succeeded
    service.busy = 1
    with Client(service.url, key=KEY, patience=0.2) as client, pytest.raises(ClientError) as caught:
        client.wait_for_job(1)
    assert caught.value.status == 429
    assert caught.value.is_away


def test_a_new_key_is_told_as_it_is_set_and_as_it_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    for options, scope in (([], Scope.write), (["--read"], Scope.read)):
        assert run(["--json", "new-key", *options]) == 0
        made = json.loads(capsys.readouterr().out)
        (known,) = parse_keys(made["hashed"])
        assert known.scope is scope
        assert find_key([known], made["key"]) is known
    assert run(["new-key"]) == 0
    printed = capsys.readouterr().out
    assert "in SHOAL_API_KEYS:" in printed
    assert "write:sha256:" in printed


def test_settings_are_listed_without_keys_and_passwords(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_API_KEYS", f"read:{KEY}")
    monkeypatch.setenv("SHOAL_API_KEY", KEY)
    monkeypatch.setenv("SHOAL_BROKER_URL", "redis://:opensesame@127.0.0.1:6379/0")
    for options in (["settings"], ["settings", "--json"]):
        assert run(options) == 0
        told = capsys.readouterr().out
        assert KEY not in told
        assert "opensesame" not in told
        assert "(hidden)" in told
