"""Hosts and origins of requests: only exact ones count, however a header is written."""

from __future__ import annotations

import pytest

from shoal.service.addresses import Authority, is_for_this_machine, is_same_site, parse_authority

MALFORMED = [
    "",
    " ",
    " localhost",
    "localhost ",
    "localhost\t",
    "localhost\n",
    "localhost\x00",
    "localhost:",
    "localhost:0",
    "localhost:65536",
    "localhost:+80",
    "localhost:-80",
    "localhost:8_0",
    "localhost:٨٠",
    "localhost:80:80",
    "localhost:http",
    "localhost/",
    "localhost?",
    "localhost#",
    "localhost\\",
    "localhost,evil.org",
    "localhost evil.org",
    "localhost@evil.org",
    "user@localhost",
    "user:password@localhost",
    ".localhost",
    "localhost..",
    "a..localhost",
    "-localhost",
    "127.0.0.1@evil.org",
    "127.0.0.1:80@evil.org",
    "http://localhost",
    "evil.org://127.0.0.1",
    "::1",
    "::1:80",
    "[::1",
    "::1]",
    "[]",
    "[::1]evil.org",
    "[::1].evil.org",
    "[::1]:evil.org",
    "[::1]:80evil.org",
    "[::1]80",
    "[::1]:",
    "[[::1]]",
    "[::1]]",
    "[::1%25eth0]",
    "[::1%eth0]",
    "[localhost]",
    "[127.0.0.1]",
    "[::g]",
    "ｌｏｃａｌｈｏｓｔ",
    "127。0。0。1",
    "localhost\u200b",
    "a" * 64,
    "a." * 200,
]
ELSEWHERE = [
    "evil.org",
    "localhost.evil.org",
    "127.0.0.1.evil.org",
    "evil-localhost",
    "evillocalhost",
    "0.0.0.0",
    "127.1",
    "0127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "128.0.0.1",
    "[::2]",
    "[::]",
    "[2001:db8::1]:80",
]
HERE = [
    "localhost",
    "LocalHost:8010",
    "localhost.",
    "shoal.localhost",
    "127.0.0.1",
    "127.8.9.1:65535",
    "[::1]",
    "[::1]:8010",
    "[0:0:0:0:0:0:0:1]",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_not_exactly_a_host_is_of_no_site(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_authority(text)
    assert not is_for_this_machine(text)
    assert not is_same_site(f"http://{text}", text)


@pytest.mark.parametrize("text", ELSEWHERE)
def test_other_hosts_are_not_this_machine(text: str) -> None:
    parse_authority(text)
    assert not is_for_this_machine(text)


@pytest.mark.parametrize("text", HERE)
def test_names_of_this_machine(text: str) -> None:
    assert is_for_this_machine(text)


def test_hosts_have_one_form() -> None:
    assert parse_authority("Search.Example.:443") == Authority("search.example", 443)
    assert parse_authority("[0:0::1]") == Authority("::1", None)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://localhost", "localhost"),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://search.example", "search.example"),
        ("https://search.example", "SEARCH.example:443"),
        ("http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_pages_of_the_same_site(origin: str, host: str) -> None:
    assert is_same_site(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("", "localhost"),
        ("null", "localhost"),
        ("null", "null"),
        ("localhost", "localhost"),
        ("//localhost", "localhost"),
        ("://localhost", "localhost"),
        ("ftp://localhost", "localhost"),
        ("file://localhost", "localhost"),
        ("HTTP://localhost", "localhost"),
        ("http://evil.org", "localhost"),
        ("http://evil.org://127.0.0.1", "127.0.0.1"),
        ("http://evil.org/://127.0.0.1", "127.0.0.1"),
        ("http://evil.org#://127.0.0.1", "127.0.0.1"),
        ("http://evil.org@127.0.0.1", "127.0.0.1"),
        ("http://127.0.0.1@evil.org", "127.0.0.1"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1 http://evil.org", "127.0.0.1"),
        ("http://127.0.0.1,http://evil.org", "127.0.0.1"),
        ("http://127.0.0.1:9999", "127.0.0.1"),
        ("http://127.0.0.1", "127.0.0.1:8000"),
        ("https://127.0.0.1", "127.0.0.1:80"),
        ("http://[::1]evil.org", "[::1]evil.org"),
        ("http://[", "["),
        ("http://", ""),
    ],
)
def test_pages_of_other_sites(origin: str, host: str) -> None:
    assert not is_same_site(origin, host)
