"""Requests with many repeated parts: counted while they arrive, and refused with a short response."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st
from surface import API, VOLCANO, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB
from shoal_api import create_app, incoming, limits, strict_json
from shoal_api.incoming import MAX_FIELDS
from shoal_api.problems import MAX_ERRORS

BULK = f"{API}/documents/bulk"
FORM = "multipart/form-data; boundary=B"
SETTINGS = Settings()


def part(disposition: str, content: bytes = b"") -> bytes:
    return f"--B\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--B--\r\n"


# Errors


def test_first_twenty_errors_are_listed_and_the_rest_counted(client: FlaskClient) -> None:
    response = client.post(f"{API}/documents", json={"content": VOLCANO, "tags": [1] * 5000})
    problem = assert_problem(response, 422, "tags.0")
    assert sum(map(len, problem["errors"].values())) == MAX_ERRORS == 20
    assert "4,980 more errors" in problem["detail"]
    assert len(response.data) < 4 * KIB


def test_line_with_many_errors_fails_with_a_short_error(client: FlaskClient) -> None:
    line = json.dumps({"content": VOLCANO, "tags": [1] * 5000}).encode()
    job = client.post(BULK, data=line, content_type="application/x-ndjson").get_json()["job"]
    (item,) = client.get(f"{API}/jobs/{job['id']}/items").get_json()["items"]
    assert "tags.0" in item["error"]
    assert len(item["error"]) < KIB


def test_number_of_fields_is_limited(empty: FlaskClient) -> None:
    names = {f"name{n}": n for n in range(60)}
    problem = assert_problem(empty.post(f"{API}/search", json={"query": "a", **names}), 422)
    assert len(problem["errors"]) == MAX_ERRORS
    assert "40 more errors" in problem["detail"]
    names = {f"name{n}": n for n in range(5000)}
    problem = assert_problem(empty.post(f"{API}/search", json=names), 422, "body")
    assert problem["errors"]["body"] == ["has 5,000 fields; the limit is 100"]
    problem = assert_problem(empty.get(f"{API}/search", query_string=names), 422)
    assert len(problem["errors"]) == MAX_ERRORS
    assert "4,980 more errors" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"query": "a", "x" * 100_000: 1},
        {"query": "a", "filters": {"y" * 100_000: 1}},
        {"query": "a", "\ud800" * 9999: 1},
    ],
)
def test_response_does_not_repeat_a_long_name(empty: FlaskClient, body: dict[str, Any]) -> None:
    response = empty.post(f"{API}/search", data=json.dumps(body), content_type="application/json")
    assert_problem(response, 422)
    assert len(response.data) < 2 * KIB


# Lists


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("documents", lambda many: {"content": VOLCANO, "tags": many}, "tags"),
        ("search", lambda many: {"query": "a", "filters": {"tags": many}}, "filters.tags"),
        ("search", lambda many: {"query": "a", "filters": {"document_ids": many}}, "filters.document_ids"),
        ("search", lambda many: {"query": "a", "filters": {"reef_ids": many}}, "filters.reef_ids"),
        ("search", lambda many: {"query": "a", "filters": {"source_path": many}}, "filters.source_path"),
        ("explain", lambda many: {"query": "a", "filters": {"island_ids": many}}, "filters.island_ids"),
        ("verify", lambda many: {"text": "a", "references": many}, "references"),
    ],
)
def test_list_length_is_checked_before_the_elements(
    empty: FlaskClient, path: str, body: Callable[[list[Any]], dict[str, Any]], field: str
) -> None:
    problem = assert_problem(empty.post(f"{API}/{path}", json=body([[]] * 10_001)), 422)
    assert problem["errors"] == {field: ["has more than 10,000 elements, which is the limit"]}


@pytest.mark.parametrize("name", ["document_ids", "tags", "tag", "source_path"])
def test_lists_in_query_parameters_have_the_same_limit(empty: FlaskClient, name: str) -> None:
    values = ",".join(["x"] * 10_001) if name in ("document_ids", "tags") else ["x"] * 10_001
    problem = assert_problem(empty.get(f"{API}/search", query_string={"q": "a", name: values}), 422, name)
    assert "10,000 elements" in problem["errors"][name][0]


# JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\\n/é\ud83d')) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@given(value=VALUES, ascii_only=st.booleans(), long_chars=st.integers(2, 20))
def test_json_outside_long_strings_is_limited_to_the_character(
    value: object, ascii_only: bool, long_chars: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    with contextlib.suppress(UnicodeEncodeError):
        data = text.encode()
        beside = len(text) - sum(len(each) for each in STRING.findall(text) if len(each) >= long_chars)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(strict_json, "LONG_CHARS", long_chars)
            assert strict_json.parse(data, beside) == json.loads(text)
            if beside < len(text):
                with pytest.raises(strict_json.OversizedJSONError):
                    strict_json.parse(data, beside - 1)


@pytest.mark.parametrize("data", [b'{"a": "' + b"x" * 99, b'["' + b"\\" * 99, b'["\n' + b"x" * 99 + b'"]'])
def test_invalid_json_is_malformed_whatever_its_size(data: bytes) -> None:
    with pytest.raises(strict_json.MalformedJSONError, match="is not JSON"):
        strict_json.parse(data, 10)


@pytest.mark.parametrize(
    "filler",
    ['{"content": "a", "metadata": {"a": [%s[]]}}', '{"content": "a", "metadata": {%s"z": 1}}'],
    ids=["empty lists", "keys"],
)
def test_huge_metadata_is_refused_without_using_much_memory(client: FlaskClient, filler: str) -> None:
    repeated = "[]," * MIB if "[[" in filler.replace("%s", "") else ""
    repeated = repeated or "".join(f'"{n}":1,' for n in range(200_000))
    data = (filler % repeated).encode()
    tracemalloc.start()
    response = client.post(f"{API}/documents", data=data, content_type="application/json")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    problem = assert_problem(response, 413)
    assert "less metadata" in problem["detail"]
    assert peak_bytes < 4 * len(data)


def test_large_document_with_the_largest_other_fields_is_accepted(client: FlaskClient) -> None:
    metadata = {"a": "é" * 10_000, "b": ["\x01"] * 3000}
    body = {
        "content": VOLCANO + "д" * (2 * MIB),
        "title": "t" * 512,
        "tags": [f"tag {n}" for n in range(64)],
        "metadata": metadata,
    }
    assert len(json.dumps(body)) > limits.max_beside_content(SETTINGS)
    for data in (json.dumps(body), json.dumps(body, ensure_ascii=False)):
        response = client.post(f"{API}/documents", data=data.encode(), content_type="application/json")
        assert response.status_code == 202


def test_line_with_huge_metadata_is_a_failed_item(client: FlaskClient) -> None:
    wrong = b'{"content": "a", "metadata": {"a": [' + b"[]," * 500_000 + b"[]]}}\n"
    good = json.dumps({"content": VOLCANO}).encode()
    job = client.post(BULK, data=wrong + good, content_type="application/x-ndjson").get_json()["job"]
    failed, waiting = client.get(f"{API}/jobs/{job['id']}/items").get_json()["items"]
    assert "besides its long texts" in failed["error"]
    assert waiting["error"] is None


def test_empty_lines_are_limited(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_upload_items=3), engine=engine).test_client()
    line = json.dumps({"content": VOLCANO}).encode() + b"\n"
    response = client.post(BULK, data=b"\n" * 5 + line, content_type="application/x-ndjson")
    assert response.status_code == 202
    response = client.post(BULK, data=b"\n" * 6 + line, content_type="application/x-ndjson")
    assert "6 lines" in assert_problem(response, 413)["detail"]


JSON_SHAPES: dict[str, Callable[[int], str]] = {
    "digits of a fraction": lambda n: "0." + "1" * n,
    "zeros of an exponent": lambda n: "1e" + "0" * n + "1",
    "floats": lambda n: "[" + "1.2345678901234567e-300," * (n // 24) + "1]",
    "integers": lambda n: "[" + ("9" * 4000 + ",") * (n // 4000) + "1]",
    "too many digits": lambda n: "9" * n,
    "lists": lambda n: "[" * n,
    "objects": lambda n: '{"a":' * (n // 5),
    "closed lists": lambda n: "[" + "[[[]]]," * (n // 7) + "1]",
    "keys twice": lambda n: "{" + '"a":1,' * (n // 6) + '"a":1}',
    "strings": lambda n: "[" + '"",' * (n // 3) + '""]',
    "quotes": lambda n: '"' + '\\"' * (n // 2) + '"',
    "backslashes": lambda n: '"' + "\\" * n,
    "escapes": lambda n: '"' + "\\u0434" * (n // 6) + '"',
    "half pairs": lambda n: '"' + "\\ud834" * (n // 6) + '"',
    "line breaks": lambda n: "[\n" + "\n" * n + "x",
}


@pytest.mark.parametrize("name", JSON_SHAPES)
@pytest.mark.parametrize(
    "max_beside", [None, 10 * MIB, 10_000], ids=["unlimited", "large limit", "small limit"]
)
def test_json_parsing_time_is_not_quadratic(name: str, max_beside: int | None) -> None:
    def read(data: bytes) -> None:
        with contextlib.suppress(strict_json.MalformedJSONError):
            strict_json.parse(data, max_beside)

    n = 25_000
    small, large = (JSON_SHAPES[name](size).encode() for size in (n, FACTOR * n))
    assert_not_quadratic(lambda: read(small), lambda: read(large))


# Forms


def test_form_fields_have_a_common_size_limit(client: FlaskClient) -> None:
    limit = limits.max_beside_content(SETTINGS)
    fields = [part('name="tags"', b"a," * 50_000) for _ in range(30)]
    tracemalloc.start()
    response = client.post(BULK, data=form(*fields), content_type=FORM)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    problem = assert_problem(response, 413)
    assert f"{limit:,} bytes" in problem["detail"]
    assert peak_bytes < sum(map(len, fields)) + 4 * limit


@pytest.mark.parametrize("disposition", ['name="tags"', 'name="files"; filename=""'])
def test_form_parts_without_documents_are_counted_while_they_arrive(
    client: FlaskClient, disposition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = 0
    drain = incoming.FormPart.drain

    def count_and_drain(part: incoming.FormPart) -> None:
        nonlocal n_read
        n_read += 1
        drain(part)

    monkeypatch.setattr(incoming.FormPart, "drain", count_and_drain)
    body = form(part('name="files"; filename="a.txt"', VOLCANO.encode()), *([part(disposition)] * 5000))
    problem = assert_problem(client.post(BULK, data=body, content_type=FORM), 413)
    assert f"{MAX_FIELDS:,} fields" in problem["detail"]
    assert n_read == MAX_FIELDS + 1


def test_form_files_are_counted_while_they_arrive(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_upload_items=3), engine=engine).test_client()
    file = part('name="files"; filename="a.txt"', VOLCANO.encode())
    assert client.post(BULK, data=form(*[file] * 3), content_type=FORM).status_code == 202
    # The rest is malformed, but it is not read.
    body = file * 4 + b"--B\r\nno header"
    problem = assert_problem(client.post(BULK, data=body, content_type=FORM), 413)
    assert "at most 3 documents" in problem["detail"]


def test_file_sent_as_a_field_is_refused_before_the_rest_is_read(client: FlaskClient) -> None:
    body = part('name="file"', b"a.txt") + b"--B\r\nno header"
    problem = assert_problem(client.post(BULK, data=body, content_type=FORM), 422, "file")
    assert "did you forget the @" in problem["errors"]["file"][0]


def test_huge_part_header_is_refused(client: FlaskClient) -> None:
    body = form(part('name="files"; filename="' + "a" * (200 * KIB) + '"', VOLCANO.encode()))
    assert_problem(client.post(BULK, data=body, content_type=FORM), 400)


BODIES: dict[str, Callable[[int], bytes]] = {
    "line breaks": lambda n: form(part('name="f"; filename="a"', b"\r\n" * (n // 2))),
    "returns": lambda n: form(part('name="f"; filename="a"', b"\r" * n)),
    "near boundaries": lambda n: form(part('name="f"; filename="a"', b"\r\n--Bx" * (n // 6))),
    "boundaries with spaces": lambda n: form(
        part('name="f"; filename="a"', (b"\r\n--B" + b" " * 80) * (n // 85))
    ),
    "a boundary and spaces": lambda n: form(part('name="f"; filename="a"', b"\r\n--B" + b" " * n)),
    "a preamble": lambda n: b"\r\n--Bx" * (min(n, 100_000) // 6) + form(part('name="f"; filename="a"')),
    "an end without an end": lambda n: form(part('name="f"; filename="a"')) + b"\r\n--B" * (n // 5),
    "headers": lambda n: form(part('name="f"; filename="a"\r\n' + "a:b\r\n" * (min(n, 100_000) // 5))),
    "parameters": lambda n: form(part('name="f"; filename="a"' + ";a=b" * (min(n, 100_000) // 4))),
    "small parts": lambda n: form(*[part('name="f"; filename="a"')] * (n // 300)),
}


class Trickle(io.BytesIO):
    """A body that arrives in pieces of 100 bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(100 if size is None or size < 0 else min(size, 100))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("stream_class", [io.BytesIO, Trickle])
def test_form_parsing_time_is_not_quadratic(name: str, stream_class: type[io.BytesIO]) -> None:
    def read(body: bytes) -> None:
        with contextlib.suppress(incoming.MalformedMultipartError):
            for _ in incoming.parts(stream_class(body), "B"):
                pass

    n = 3125 if name in ("a preamble", "headers", "parameters") else 25_000
    small, large = BODIES[name](n), BODIES[name](FACTOR * n)
    assert_not_quadratic(lambda: read(small), lambda: read(large))


# The console

FLASK_ARGUMENTS = ["endpoint", "_method", "_anchor", "_external", "_scheme", "values", "self", "filename"]


@pytest.mark.parametrize("name", FLASK_ARGUMENTS)
@pytest.mark.parametrize("path", ["/?q=lava&tags=a,b&mode=lexical", "/jobs?status=failed", "/library?q=a"])
def test_query_parameters_named_like_flask_arguments_are_refused(
    empty: FlaskClient, path: str, name: str
) -> None:
    response = empty.get(f"{path}&{name}=GET")
    assert response.status_code == 422
    links = re.findall(r'href="([^"]*)"', response.get_data(as_text=True))
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links)
    assert not [link for link in links if "GET" in link]


def test_console_limits_the_number_of_filter_values(client: FlaskClient) -> None:
    for name in ("tags", "document"):
        many = ",".join(str(n) for n in range(101))
        response = client.get("/", query_string={"q": "lava", name: many})
        assert response.status_code == 422
        assert f"{name}: has more than 100 values" in response.get_data(as_text=True)
