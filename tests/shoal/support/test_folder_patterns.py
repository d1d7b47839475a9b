"""Patterns of folders match what their table says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.support.patterns import matches, parse_path_tags


@pytest.mark.parametrize(
    ("folder", "pattern", "expected"),
    [
        ("/work/acme", "/work/acme", True),
        ("/work/acme/app/src", "/work/acme", True),
        ("/work/acme2", "/work/acme", False),
        ("/work/acme", "/work/acme/*", False),
        ("/work/acme/app", "/work/acme/*", True),
        ("/work/x/api", "/work/*/api", True),
        ("/work/x/y/api", "/work/*/api", False),
        ("/work/x/y/api", "/work/**/api", True),
        ("/work/api", "/work/**/api", True),
        ("/home/ann/acme/api/src", "acme/api", True),
        ("/home/ann/acme/x/api", "acme/api", False),
        ("/home/ann/code/x", "~/code", True),
        ("/Users/ann/code", "~/code/", True),
        ("/root/code", "~/code", True),
        ("C:\\Users\\ann\\code\\x", "~/code", True),
        ("/srv/home/ann/code", "~/code", False),
        ("C:\\work\\app", "C:/work", True),
        ("C:\\work\\app", "work\\app", True),
        ("/a/[b]", "/a/[b]", True),
        ("/a/b", "/a/[b]", False),
        ("/a/bc", "/a/b?", True),
        ("/a/b", "/", True),
        ("", "/work", False),
    ],
)
def test_patterns_of_the_table(folder: str, pattern: str, expected: bool) -> None:
    assert matches(folder, pattern) == expected


PARTS = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5)
PATTERN_PARTS = st.lists(st.sampled_from(["a", "b", "*", "?", "a*", "**"]), max_size=5)


@given(PARTS, PATTERN_PARTS)
def test_matching_equals_a_regular_expression(parts: list[str], pattern: list[str]) -> None:
    names = {"**": "(?:/[^/]+)*", "*": "/[^/]*", "?": "/[^/]", "a*": "/a[^/]*"}
    expression = "".join(names.get(part, f"/{part}") for part in pattern) + "(?:/.*)?"
    expected = re.fullmatch(expression, "".join(f"/{part}" for part in parts)) is not None
    assert matches("/" + "/".join(parts), "/" + "/".join(pattern)) == expected


def test_hostile_patterns_end() -> None:
    assert not matches("/" + "a" * 4000, "/" + "*a" * 100 + "b")
    assert not matches("/a" * 2000, "/" + "**/a/" * 60 + "b")


def test_path_tags_are_pairs() -> None:
    assert parse_path_tags("") == ()
    assert parse_path_tags(" /work/acme/*=acme, ~/a=b=c ,") == (("/work/acme/*", "acme"), ("~/a=b", "c"))


@pytest.mark.parametrize("text", ["/work", "=x", "/work=", "a" * 301 + "=x"])
def test_wrong_path_tags_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"PATTERN=TAG|limit is 300"):
        parse_path_tags(text)
