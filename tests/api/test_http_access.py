"""Access to a service without keys: listen addresses, hosts and origins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from surface import API, VOLCANO, assert_problem

from shoal.engine import Engine
from shoal.errors import SettingsError
from shoal.service.addresses import check_listen_address
from shoal.settings import Settings
from shoal_api import create_app


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "shoal.localhost"])
def test_loopback_addresses_are_allowed_without_keys(settings: Settings, host: str) -> None:
    check_listen_address(replace(settings, host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "", "example.org"])
def test_other_addresses_need_allow_anonymous(settings: Settings, host: str) -> None:
    with pytest.raises(SettingsError, match="SHOAL_ALLOW_ANONYMOUS"):
        check_listen_address(replace(settings, host=host))
    check_listen_address(replace(settings, host=host, allow_anonymous=True))


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_local_hosts_are_accepted(empty: FlaskClient, host: str) -> None:
    assert empty.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[2001:db8::1]"]
)
def test_foreign_host_returns_403(client: FlaskClient, settings: Settings, engine: Engine, host: str) -> None:
    assert_problem(client.get(f"{API}/status", headers={"Host": host}), 403)
    behind_a_proxy = create_app(replace(settings, allow_anonymous=True), engine=engine).test_client()
    assert behind_a_proxy.get(f"{API}/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["[::1]evil.org", "[::1].evil.org", "127.0.0.1:80@evil.org", "localhost:"])
def test_host_that_only_begins_like_a_local_one_is_refused(client: FlaskClient, host: str) -> None:
    response = client.get(f"{API}/status", environ_overrides={"HTTP_HOST": host})
    assert_problem(response, 403 if response.status_code == 403 else 400)


@pytest.mark.parametrize("host", ["a b", "x" * 300, "[::", "a/b", "\u00e9"])
def test_malformed_host_returns_a_problem_response(empty: FlaskClient, host: str) -> None:
    response = empty.get("/health", environ_overrides={"HTTP_HOST": host})
    assert_problem(response, 403 if response.status_code == 403 else 400)


def test_requests_from_other_origins_cannot_change_anything(client: FlaskClient) -> None:
    for origin in (
        "https://evil.example",
        "null",
        "",
        "http://localhost:9999",
        "http://evil.org://localhost",
        "http://evil.org#://localhost",
        "http://localhost, http://evil.org",
        "ftp://localhost",
    ):
        headers = {"Origin": origin}
        assert_problem(client.post(f"{API}/documents", json={"content": VOLCANO}, headers=headers), 403)
        assert_problem(client.delete(f"{API}/documents?tag=a", headers=headers), 403)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0
    own = client.post(f"{API}/documents", json={"content": VOLCANO}, headers={"Origin": "http://localhost"})
    assert own.status_code == 202
