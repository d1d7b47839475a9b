"""Invalid requests return a problem and store nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from surface import API, VOLCANO, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

JSON_POSTS = (f"{API}/documents", f"{API}/search", f"{API}/explain", f"{API}/verify")


def post(client: FlaskClient, address: str, body: dict[str, Any]) -> Any:
    """Post JSON, which may contain lone surrogates."""
    return client.post(address, data=json.dumps(body), content_type="application/json")


NOT_JSON = {
    "empty": b"",
    "blank": b" \n ",
    "cut off": b'{"content": "a',
    "trailing comma": b'{"content": "a",}',
    "two values": b'{"content": "a"} {}',
    "not utf-8": b'{"content": "\xff\xfe"}',
    "utf-16": '{"content": "a"}'.encode("utf-16"),
    "nan": b'{"content": NaN}',
    "infinity": b'{"content": -Infinity}',
    "infinite number": b'{"metadata": {"n": 1e999}}',
    "endless integer": b'{"metadata": {"n": ' + b"9" * 10_000 + b"}}",
    "duplicate key": b'{"content": "a", "content": "b"}',
    "duplicate key inside": b'{"metadata": {"a": 1, "a": 1}}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"metadata":' * 200 + b"1" + b"}" * 200,
    "control character": b'{"content": "a\x00b"}',
    "single quotes": b"{'content': 'a'}",
}


@pytest.mark.parametrize("address", JSON_POSTS)
@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_body_that_is_not_json_is_malformed(empty: FlaskClient, address: str, body: bytes) -> None:
    assert_problem(empty.post(address, data=body, content_type="application/json"), 400)


@pytest.mark.parametrize("address", JSON_POSTS)
@pytest.mark.parametrize("body", [b"null", b"[]", b'"text"', b"1", b"true"])
def test_body_that_is_not_an_object_is_refused(empty: FlaskClient, address: str, body: bytes) -> None:
    assert_problem(empty.post(address, data=body, content_type="application/json"), 422, "body")


@pytest.mark.parametrize("address", JSON_POSTS)
@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/json; charset=latin-1", "nonsense"],
)  # fmt: skip
def test_body_of_another_content_type_is_refused(
    empty: FlaskClient, address: str, content_type: str | None
) -> None:
    assert_problem(empty.post(address, data=b'{"content": "a"}', content_type=content_type), 415)


@pytest.mark.parametrize("content_type", ["application/json; charset=UTF-8", "application/vnd.x+json"])
def test_json_content_types_are_accepted(client: FlaskClient, content_type: str) -> None:
    body = "\ufeff" + json.dumps({"content": VOLCANO})
    response = client.post(f"{API}/documents", data=body.encode(), content_type=content_type)
    assert response.status_code == 202


WRONG_DOCUMENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "content"),
    ({"content": None}, "content"),
    ({"content": 5}, "content"),
    ({"content": ["a"]}, "content"),
    ({"content": ""}, "content"),
    ({"content": " \n\t "}, "content"),
    ({"content": "\x00\x01"}, "content"),
    ({"content": "a", "title": 5}, "title"),
    ({"content": "a", "title": "x" * 513}, "title"),
    ({"content": "a", "title": "\ud800"}, "title"),
    ({"content": "a", "format": "pdf"}, "format"),
    ({"content": "a", "format": 1}, "format"),
    ({"content": "a", "tags": "one"}, "tags"),
    ({"content": "a", "tags": [1]}, "tags.0"),
    ({"content": "a", "tags": [""]}, "tags"),
    ({"content": "a", "tags": ["x" * 65]}, "tags"),
    ({"content": "a", "tags": [str(n) for n in range(65)]}, "tags"),
    ({"content": "a", "tags": ["\udfff"]}, "tags"),
    ({"content": "a", "metadata": []}, "metadata"),
    ({"content": "a", "metadata": {"a": "x" * 70_000}}, "metadata"),
    ({"content": "a", "metadata": {"\ud800": 1}}, "metadata"),
    ({"content": "a", "source_path": {}}, "source_path"),
    ({"content": "a", "source_path": "x" * 1025}, "source_path"),
    ({"content": "a", "colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("body", "field"), WRONG_DOCUMENTS)
def test_invalid_document_field_is_named(empty: FlaskClient, body: dict[str, Any], field: str) -> None:
    assert_problem(post(empty, f"{API}/documents", body), 422, field)
    assert empty.get(f"{API}/jobs").get_json()["total"] == 0


def test_content_with_control_characters_and_lone_surrogates_is_accepted(client: FlaskClient) -> None:
    response = post(client, f"{API}/documents", {"content": "lava \x00 and \ud800 ash"})
    assert response.status_code == 202


def test_large_document_is_accepted(client: FlaskClient) -> None:
    response = client.post(f"{API}/documents", json={"content": VOLCANO * 30_000})
    assert response.status_code == 202, "three megabytes are a book"


def test_document_over_the_limit_returns_413(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_document_bytes=100), engine=engine).test_client()
    assert_problem(client.post(f"{API}/documents", json={"content": "x" * 101}), 413)
    assert_problem(client.post(f"{API}/documents", json={"content": "é" * 51}), 413)
    assert client.post(f"{API}/documents", json={"content": "é" * 50}).status_code == 202
    # This body is refused before it is read.
    assert_problem(client.post(f"{API}/documents", json={"content": "x" * 1_000_000}), 413)


@pytest.mark.parametrize("address", [f"{API}/search", f"{API}/explain"])
def test_body_limit_of_searches_is_small(empty: FlaskClient, address: str) -> None:
    assert_problem(empty.post(address, json={"query": "x" * 2_000_000}), 413)


WRONG_SEARCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "query"),
    ({"query": None}, "query"),
    ({"query": 5}, "query"),
    ({"query": ""}, "query"),
    ({"query": "  "}, "query"),
    ({"query": "x" * 4097}, "query"),
    ({"query": "\ud800"}, "query"),
    ({"query": "a", "top_k": 0}, "top_k"),
    ({"query": "a", "top_k": 101}, "top_k"),
    ({"query": "a", "top_k": -1}, "top_k"),
    ({"query": "a", "top_k": 10**30}, "top_k"),
    ({"query": "a", "top_k": 1.5}, "top_k"),
    ({"query": "a", "top_k": "10"}, "top_k"),
    ({"query": "a", "top_k": True}, "top_k"),
    ({"query": "a", "top_k": None}, "top_k"),
    ({"query": "a", "mode": "magic"}, "mode"),
    ({"query": "a", "preset": "wild"}, "preset"),
    ({"query": "a", "fusion": "cold"}, "fusion"),
    ({"query": "a", "weights": {"reef": "1"}}, "weights.reef"),
    ({"query": "a", "weights": {"luck": 1}}, "weights.luck"),
    ({"query": "a", "max_per_document": -1}, "max_per_document"),
    ({"query": "a", "include_scores": "yes"}, "include_scores"),
    ({"query": "a", "include_scores": 1}, "include_scores"),
    ({"query": "a", "context": -1}, "context"),
    ({"query": "a", "context": 10**9}, "context"),
    ({"query": "a", "offset": -1}, "offset"),
    ({"query": "a", "offset": 10**30}, "offset"),
    ({"query": "a", "filters": []}, "filters"),
    ({"query": "a", "filters": {"tag": ["x"]}}, "filters.tag"),
    ({"query": "a", "filters": {"tags": "x"}}, "filters.tags"),
    ({"query": "a", "filters": {"tags": [1]}}, "filters.tags.0"),
    ({"query": "a", "filters": {"tags_match": "some"}}, "filters.tags_match"),
    ({"query": "a", "filters": {"min_confidence": "1"}}, "filters.min_confidence"),
    ({"query": "a", "filters": {"min_coverage": True}}, "filters.min_coverage"),
    ({"query": "a", "filters": {"min_coverage": 2}}, "filters.min_coverage"),
    ({"query": "a", "filters": {"document_ids": [2**63]}}, "filters.document_ids.0"),
    ({"query": "a", "filters": {"document_ids": ["1"]}}, "filters.document_ids.0"),
    ({"query": "a", "filters": {"reef_ids": 1}}, "filters.reef_ids"),
    ({"query": "a", "filters": {"archipelago": 4}}, "filters.archipelago"),
    ({"query": "a", "filters": {"format": "pdf"}}, "filters.format"),
    ({"query": "a", "filters": {"created_after": "yesterday"}}, "filters.created_after"),
    ({"query": "a", "filters": {"created_after": "0001-01-01T00:00:00+14:00"}}, "filters.created_after"),
    ({"query": "a", "filters": {"created_before": 5}}, "filters.created_before"),
    ({"query": "a", "topk": 5}, "topk"),
]  # fmt: skip


@pytest.mark.parametrize("address", [f"{API}/search", f"{API}/explain"])
@pytest.mark.parametrize(("body", "field"), WRONG_SEARCHES)
def test_invalid_search_field_is_named(
    empty: FlaskClient, address: str, body: dict[str, Any], field: str
) -> None:
    assert_problem(post(empty, address, body), 422, field)


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("/search", "q"),
        ("/search?q=", "q"),
        ("/search?q=a&top_k=many", "top_k"),
        ("/search?q=a&top_k=0", "top_k"),
        ("/search?q=a&top_k=101", "top_k"),
        ("/search?q=a&q=b", "q"),
        ("/search?q=a&min_coverage=nan", "min_coverage"),
        ("/search?q=a&min_coverage=2", "min_coverage"),
        ("/search?q=a&document_ids=1,x", "document_ids"),
        ("/search?q=a&mode=fuzzy", "mode"),
        ("/search?query=a", "query"),
        ("/documents?limit=0", "limit"),
        ("/documents?limit=1001", "limit"),
        ("/documents?limit=", "limit"),
        ("/documents?offset=-1", "offset"),
        ("/documents?offset=2147483648", "offset"),
        ("/documents?tags=a", "tags"),
        ("/jobs?status=done", "status"),
        ("/jobs?limit=ten", "limit"),
    ],
)
def test_invalid_query_parameter_is_named(empty: FlaskClient, address: str, field: str) -> None:
    assert_problem(empty.get(API + address), 422, field)


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"tags": ["x"]}, "tags", 'belongs in `filters`: {"filters": {"tags": ...}}'),
        ({"min_coverage": 0.5}, "min_coverage", 'belongs in `filters`: {"filters": {"min_coverage": ...}}'),
        ({"reef": 1}, "reef", 'belongs in `weights`: {"weights": {"reef": ...}}'),
        ({"topk": 1}, "topk", "is not known; did you mean `top_k`?"),
        ({"tag": "x"}, "tag", "is not known; did you mean `filters.tags`?"),
        ({"filters": {"tag": ["x"]}}, "filters.tag", "is not known; did you mean `tags`?"),
    ],
)
@pytest.mark.parametrize("address", [f"{API}/search", f"{API}/explain"])
def test_error_of_an_unknown_search_field_suggests_the_right_place(
    empty: FlaskClient, address: str, body: dict[str, Any], field: str, message: str
) -> None:
    problem = assert_problem(post(empty, address, {"query": "a", **body}), 422, field)
    assert problem["errors"] == {field: [message]}


def test_error_of_an_unknown_field_lists_the_known_fields(empty: FlaskClient) -> None:
    problem = assert_problem(post(empty, f"{API}/documents", {"content": "a", "colour": "red"}), 422)
    [message] = problem["errors"]["colour"]
    assert message == (
        "is not known; known are title, format, tags, metadata, source_path, language, chunk_tokens, allow, deny, "
        "chunks, content, url"
    )
    assert_problem(post(empty, f"{API}/documents", {"content": "a", "": 1, "x" * 100_000: 2}), 422)


@pytest.mark.parametrize(
    ("address", "field", "message"),
    [
        ("/documents?tags=a", "tags", "is not known; did you mean `tag`?"),
        ("/search?query=a", "query", "is not known; did you mean `q`?"),
        ("/jobs?colour=red", "colour", "is not known; known are status, kind, limit, offset"),
        ("/documents?limit=0", "limit", "must be between 1 and 1,000"),
        ("/search?q=a&top_k=0", "top_k", "must be between 1 and 100"),
    ],
)
def test_error_of_an_invalid_query_parameter_names_the_valid_ones(
    empty: FlaskClient, address: str, field: str, message: str
) -> None:
    assert assert_problem(empty.get(API + address), 422, field)["errors"][field] == [message]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/search", {"query": "lava"}),
        ("/search/batch", {"searches": ["lava"]}),
        ("/explain", {"query": "lava"}),
        ("/facets", {"query": "lava"}),
        ("/retrieve", {"query": "lava"}),
        ("/similarity", {"a": "lava", "b": "ash"}),
        ("/users/ann/recall", {"query": "lava"}),
        ("/users/ann/remember", {"items": []}),
        ("/verify", {"text": "lava"}),
    ],
)
def test_query_parameter_beside_the_body_of_a_search_is_refused(
    empty: FlaskClient, path: str, body: dict[str, Any]
) -> None:
    assert_problem(empty.post(f"{API}{path}?top_k=3", json=body), 422, "top_k")


@pytest.mark.parametrize(
    "address",
    [
        "/nothing",
        f"{API}",
        f"{API}/nothing",
        f"{API}/documents/0",
        f"{API}/documents/1",
        f"{API}/documents/-1",
        f"{API}/documents/one",
        f"{API}/documents/99999999999999999999999999",
        f"{API}/documents/1/chunks",
        f"{API}/documents/1/content",
        f"{API}/jobs/1",
        f"{API}/jobs/1/items",
        f"{API}/jobs/9223372036854775807",
        "/static/nothing.css",
        "/static/../app.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/docs/%00",
    ],
)
def test_unknown_path_returns_404(empty: FlaskClient, address: str) -> None:
    assert_problem(empty.get(address), 404)


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("DELETE", f"{API}/search"),
        ("PATCH", f"{API}/documents"),
        ("PUT", f"{API}/documents/bulk"),
        ("POST", f"{API}/status"),
        ("POST", "/health"),
        ("NONSENSE", "/health"),
    ],
)
def test_wrong_method_returns_405_with_the_allowed_methods(
    empty: FlaskClient, method: str, address: str
) -> None:
    response = empty.open(address, method=method)
    assert_problem(response, 405)
    assert response.headers["Allow"]


@given(
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["content", "title", "tags", "metadata", "query", "filters", "top_k"])
                | st.text(),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
)
@given_settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_body_returns_success_or_a_problem(client: FlaskClient, body: bytes) -> None:
    for address in (*JSON_POSTS, f"{API}/documents/bulk"):
        kind = "application/x-ndjson" if address.endswith("bulk") else "application/json"
        response = client.post(address, data=body, content_type=kind)
        assert response.status_code in (200, 202, 400, 422), response.get_data(as_text=True)
        if response.status_code >= 400:
            assert_problem(response, response.status_code)
