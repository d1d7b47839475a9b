"""The similarity of two texts over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem


def compare(client: FlaskClient, a: Any, b: Any) -> Any:
    return client.post(f"{API}/similarity", json={"a": a, "b": b})


def test_a_comparison_says_why(client: FlaskClient) -> None:
    body = compare(client, "The lava is hot, not cold.", "The lava is cold, not hot.").get_json()
    assert set(body) == {"value", "is_opposite", "is_duplicate", "parts", "signs"}
    assert body["is_opposite"]
    assert not body["is_duplicate"]
    assert {part["name"] for part in body["parts"]} == {"profile", "words", "missing", "exchanged"}
    assert max(body["signs"].values()) > 0
    equal = compare(client, "The lava is hot.", "the lava is HOT").get_json()
    assert (equal["value"], equal["is_duplicate"], equal["is_opposite"]) == (1.0, True, False)


@pytest.mark.parametrize("text", ["", " ", "...", "x" * 20_001])
def test_texts_that_cannot_be_compared_are_named(client: FlaskClient, text: str) -> None:
    problem = assert_problem(compare(client, "lava", text), 422)
    assert set(problem["errors"]) == {"b"}


def test_other_bodies_are_refused(client: FlaskClient) -> None:
    for a in (None, 3, ["lava"], {"text": "lava"}):
        assert set(assert_problem(compare(client, a, "lava"), 422)["errors"]) == {"a"}
    assert "b" in assert_problem(client.post(f"{API}/similarity", json={"a": "lava"}), 422)["errors"]
    unknown = client.post(f"{API}/similarity", json={"a": "x", "b": "y", "c": "z"})
    assert "c" in assert_problem(unknown, 422)["errors"]


def test_markup_and_control_characters_are_only_text(client: FlaskClient) -> None:
    body = compare(client, "<b>lava</b> \x1b[31m\u202e hot", "lava hot").get_json()
    assert 0 < body["value"] <= 1
