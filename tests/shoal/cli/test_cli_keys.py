"""Commands with API keys: making keys, sending them, hiding them."""

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
    """A service with the key KEY that answers 429 to the first `busy` requests."""

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


def test_key_comes_from_the_option_or_the_environment(
    service: Guarded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = ["jobs", "--server", service.url]
    assert run(jobs) == 1
    errors = capsys.readouterr().err
    assert "this service needs a key" in errors
    assert "SHOAL_API_KEY or --key" in errors
    assert run([*jobs, "--key", KEY]) == 0
    monkeypatch.setenv("SHOAL_API_KEY", KEY)
    assert run(jobs) == 0
    assert run([*jobs, "--key", "another-0123456789abcdef"]) == 1, "the option wins"
    assert KEY not in "".join(capsys.readouterr())


@pytest.mark.parametrize("key", ["ключ", "a\nb: c", "a\x00b"])
def test_malformed_key_is_refused_before_it_is_sent(service: Guarded, key: str) -> None:
    with pytest.raises(ClientError, match="the API key is invalid") as caught:
        Client(service.url, key=key)
    assert key not in str(caught.value)


def test_waiting_for_a_job_retries_as_long_as_patience_allows(service: Guarded) -> None:
    service.busy = 1
    with Client(service.url, key=KEY) as client:
        assert client.wait_for_job(1).succeeded
    service.busy = 1
    with Client(service.url, key=KEY, patience=0.2) as client, pytest.raises(ClientError) as caught:
        client.wait_for_job(1)
    assert caught.value.status == 429
    assert caught.value.is_away


def test_new_key_is_printed_for_the_client_and_for_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    for options, scope in (([], Scope.write), (["--read"], Scope.read)):
        assert run(["--json", "new-key", *options]) == 0
        new_key = json.loads(capsys.readouterr().out)
        (parsed_key,) = parse_keys(new_key["hashed"])
        assert parsed_key.scope is scope
        assert find_key([parsed_key], new_key["key"]) is parsed_key
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
        output = capsys.readouterr().out
        assert KEY not in output
        assert "opensesame" not in output
        assert "(hidden)" in output
