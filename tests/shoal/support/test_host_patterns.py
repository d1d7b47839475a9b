"""Lists of hosts in settings."""

from __future__ import annotations

import pytest

from shoal.errors import SettingsError
from shoal.settings import Settings
from shoal.support.patterns import canonical_host, parse_hosts


@pytest.mark.parametrize(
    ("text", "allowed", "not_allowed"),
    [
        ("", [], [("example.org", 80)]),
        (
            "example.org",
            [("example.org", 80), ("example.org", 443)],
            [("example.org", 22), ("a.example.org", 80)],
        ),
        ("*.example.org", [("a.example.org", 80), ("b.a.example.org", 443)], [("example.org", 80)]),
        ("*.example.org", [], [("badexample.org", 80), ("example.org.evil.net", 80)]),
        ("*", [("example.org", 80), ("::1", 443)], [("example.org", 8080)]),
        ("*:*", [("example.org", 8080)], []),
        ("a.org:8080, b.org", [("a.org", 8080), ("b.org", 80)], [("a.org", 80), ("b.org", 8080)]),
        ("[2001:db8:0::7]:81,192.0.2.7", [("2001:db8::7", 81), ("192.0.2.7", 80)], [("2001:db8::7", 80)]),
        ("Bücher.Example.", [("xn--bcher-kva.example", 80)], []),
    ],
)
def test_listed_hosts_and_ports(
    text: str, allowed: list[tuple[str, int]], not_allowed: list[tuple[str, int]]
) -> None:
    patterns = parse_hosts(text)

    def is_allowed(host: str, port: int) -> bool:
        return any(pattern.allows(host, port) for pattern in patterns)

    assert all(is_allowed(*one) for one in allowed)
    assert not any(is_allowed(*one) for one in not_allowed)


@pytest.mark.parametrize(
    "text",
    [
        "http://example.org",
        "example.org/path",
        "a b",
        "*example.org",
        "a.*.org",
        "example.org:http",
        ":80",
        "example.org:0",
        "example.org:65536",
        "[::1",
        "::1",
        "a..b",
        "user@example.org",
        "a" * 64 + ".org",
    ],
)
def test_what_is_no_host_is_an_error_of_the_settings(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_FETCH_URLS", text)
    with pytest.raises(SettingsError, match="SHOAL_FETCH_URLS"):
        Settings.from_environment()


@pytest.mark.parametrize(
    "host", ["", "fe80::1%eth0", "a/b", "a@b", "exa%6dple.org", "１２７.0.0.1", "a" * 300]
)
def test_what_is_no_host_has_no_form(host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_host(host)
