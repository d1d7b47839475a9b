"""Bulk uploads of a JSON array: read element by element, whatever is in it."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st
from surface import API, FLOWER, LAW, VOLCANO, Worker, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.byte_units import MIB
from shoal_api import create_app, strict_json
from shoal_api.strict_json import MalformedArrayError, elements

BULK = f"{API}/documents/bulk"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def split(data: bytes, limit: int = 10**9) -> list[bytes | None]:
    return [element.data for element in elements(io.BytesIO(data), limit)]


@given(
    value=st.lists(values, max_size=6),
    indent=st.none() | st.integers(0, 3),
    is_ascii=st.booleans(),
    read_bytes=st.integers(1, 40),
    bom=st.booleans(),
    around=st.sampled_from([b"", b" ", b"\r\n\t "]),
)
def test_elements_are_those_of_the_array(
    value: list[Any], indent: int | None, is_ascii: bool, read_bytes: int, bom: bool, around: bytes
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    data = (b"\xef\xbb\xbf" if bom else b"") + around + text + around
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "READ_BYTES", max(read_bytes, 3))
        found = split(data)
    parsed = [
        json.loads(element.decode("utf-8", "surrogatepass")) for element in found if element is not None
    ]
    assert parsed == value
    assert len(found) == len(value)


def test_first_read_may_hold_a_byte_order_mark_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "READ_BYTES", 3)
    assert split(b"\xef\xbb\xbf  \n [1, 2]") == [b"1", b"2"]


@given(value=st.lists(values, min_size=1, max_size=4), cut=st.floats(0, 1, exclude_max=True))
def test_array_that_is_cut_off_is_malformed(value: list[Any], cut: float) -> None:
    data = json.dumps(value).encode()
    with pytest.raises(MalformedArrayError):
        split(data[: int(cut * len(data))])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{}", "must be a JSON array"),
        (b'"[]"', "must be a JSON array"),
        (b"[,1]", "in place of element 1"),
        (b"[1,,2]", "in place of element 2"),
        (b"[1,]", "in place of element 2"),
        (b"[1}", "has a `}`"),
        (b"[1] 2", "goes on after the end"),
        (b"[1]]", "goes on after the end"),
        (b"[1" + b" " * 200_000, "ends within element 1"),
        (b"[1]" + b" " * 200_000 + b"2", "goes on after the end"),
        (b"[" * 100, "nested deeper than 64 levels"),
    ],
)
def test_malformed_array_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(MalformedArrayError, match=message):
        split(data)


def test_long_element_is_passed_over() -> None:
    data = json.dumps(["a" * 1000, "b", ["c" * 1000], "d"]).encode()
    assert split(data, limit=100) == [None, b'"b"', None, b'"d"']
    assert [element.n_bytes for element in elements(io.BytesIO(data), 100)] == [1002, 3, 1004, 3]


HOSTILE = {
    "a string": lambda n: b'["' + b"a" * n + b'"]',
    "escapes": lambda n: b'["' + b"\\n" * (n // 2) + b'"]',
    "quotes": lambda n: b"[[" + b'"",' * (n // 3) + b"1]]",
    "brackets": lambda n: b"[[" + b"[],{}," * (n // 6) + b"1]]",
    "deep brackets": lambda n: b"[[" + (b"[" * 40 + b"]" * 40 + b",") * (n // 81) + b"1]]",
    "open brackets": lambda n: b"[" + b"[" * 60 + b"a" * n,
    "commas": lambda n: b"[[" + b"," * n + b"]]",
    "white space": lambda n: b" " * n + b"[1" + b" " * n + b"]" + b" " * n,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_not_quadratic(name: str) -> None:
    def read(data: bytes) -> None:
        try:
            split(data)
        except MalformedArrayError:
            assert name == "open brackets"

    n = 50_000
    small, large = HOSTILE[name](n), HOSTILE[name](FACTOR * n)
    assert_not_quadratic(lambda: read(small), lambda: read(large))


def test_memory_holds_one_element_at_a_time() -> None:
    element = json.dumps({"content": "a" * MIB}).encode()
    data = io.BytesIO(b"[" + b",".join([element] * 30) + b"]")
    tracemalloc.start()
    try:
        n = sum(1 for _ in elements(data, 10 * MIB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n == 30
    assert peak < 5 * MIB


def send(client: FlaskClient, body: Any, **options: Any) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(BULK, data=data, content_type="application/json", **options)


def items(client: FlaskClient, response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 202, response.get_data(as_text=True)
    found: list[dict[str, Any]] = client.get(f"{response.headers['Location']}/items").get_json()["items"]
    return found


def test_documents_of_an_array_are_stored(client: FlaskClient, worker: Worker) -> None:
    body = [{"content": VOLCANO, "title": "Fire", "tags": ["rock"]}, {"content": LAW, "metadata": {"n": [1]}}]
    response = send(client, body)
    worker.work()
    assert [item["status"] for item in items(client, response)] == ["succeeded", "succeeded"]
    documents = client.get(f"{API}/documents").get_json()["documents"]
    assert {(each["title"], *each["tags"]) for each in documents} >= {("Fire", "rock")}


def test_bad_element_is_a_failed_item(client: FlaskClient, worker: Worker) -> None:
    body = b'[{"content": "%s"}, 7, {"content": "a", "colour": 1}, {"content": "a" "b"}, [], {"content": "\\u00"}]'
    found = items(client, send(client, body.replace(b"%s", FLOWER.encode())))
    assert [item["status"] for item in found] == ["enqueued", *["failed"] * 5]
    errors = [item["error"] for item in found[1:]]
    assert [error[:10] for error in errors] == [f"element {n}:" for n in range(2, 7)]
    assert "must be a JSON object" in errors[0]
    assert "colour: is not known" in errors[1]
    assert all("is not JSON" in error for error in (errors[2], errors[4]))


@pytest.mark.parametrize("body", [b"[", b'[{"content": "a"}', b'[{"content": "a"}] x', b"[1,]"])
def test_array_that_cannot_be_read_to_its_end_stores_nothing(empty: FlaskClient, body: bytes) -> None:
    assert "nothing of it was stored" in assert_problem(send(empty, body), 400)["detail"]


def test_other_json_is_refused_with_advice(empty: FlaskClient) -> None:
    for body in (b'{"content": "a"}', b'{"content": "a"}\n{"content": "b"}', b""):
        detail = assert_problem(send(empty, body), 400)["detail"]
        assert "application/x-ndjson" in detail
        assert "POST /api/v1/documents" in detail
    assert_problem(send(empty, []), 422, "documents")
    assert_problem(send(empty, [{"content": "a"}], query_string={"tags": "a"}), 422, "tags")


def test_number_and_size_of_documents_are_limited(settings: Settings, engine: Engine) -> None:
    settings = replace(settings, max_upload_items=3, max_document_bytes=1000)
    client = create_app(settings, engine=engine).test_client()
    assert_problem(send(client, [{"content": f"{LAW} {n}"} for n in range(4)]), 413)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0
    first, second = items(client, send(client, [{"content": "a" * 2000}, {"content": LAW}]))
    assert (first["status"], second["status"]) == ("failed", "enqueued")
    assert first["error_code"] == "document_too_large"


def test_compressed_array_is_read(client: FlaskClient) -> None:
    body = gzip.compress(json.dumps([{"content": VOLCANO}, {"content": LAW}]).encode())
    assert len(items(client, send(client, body, headers={"Content-Encoding": "gzip"}))) == 2
