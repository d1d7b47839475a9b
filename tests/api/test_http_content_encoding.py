"""Compressed request bodies: unpacked on every route, within the limits of what they unpack to."""

from __future__ import annotations

import functools
import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, LAW, VOLCANO, Worker, assert_problem
from test_http_openapi import operations

from shoal.conversion import inflating
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB
from shoal_api import create_app, limits
from shoal_api.limits import max_body, unpack_body
from shoal_api.spool import SPOOL_FROM

BULK = f"{API}/documents/bulk"
NDJSON = "application/x-ndjson"
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": lambda data: b"".join(gzip.compress(part) for part in (data[:7], data[7:])),
    "deflate": zlib.compress,
    "identity": bytes,
}


def send(client: FlaskClient, path: str, body: bytes, coding: str, **options: Any) -> Any:
    headers = {"Content-Encoding": coding, **options.pop("headers", {})}
    options.setdefault("content_type", "application/json")
    return client.open(path, data=body, headers=headers, method=options.pop("method", "POST"), **options)


@pytest.fixture(scope="module")
def bodies(empty: FlaskClient) -> dict[str, tuple[str, str]]:
    """Method and path of the operations with a JSON object as their body, by operation id."""
    spec = empty.get("/openapi.json").get_json()
    found = {}
    for name, operation in operations(spec):
        method, path = name.split()
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        for parameter in (*spec["paths"][path].get("parameters", ()), *operation.get("parameters", ())):
            if parameter.get("in") == "path":
                value = parameter["schema"].get("enum", [1])[0]
                path = path.replace(f"{{{parameter['name']}}}", str(value))
        if schema is not None and schema.get("type") != "array":
            found[operation["operationId"]] = (method, path)
    return found


def test_most_operations_that_change_something_are_tried(bodies: dict[str, tuple[str, str]]) -> None:
    assert len(bodies) > 30
    assert {"addDocument", "search", "addNote", "renameCollection", "replacePin"} <= bodies.keys()


@pytest.mark.parametrize("coding", CODINGS)
def test_every_operation_reads_a_compressed_body(
    empty: FlaskClient, bodies: dict[str, tuple[str, str]], coding: str
) -> None:
    data = b'{"zzz": 1}'
    n_read = 0
    for operation, (method, path) in bodies.items():
        plain = empty.open(path, data=data, content_type="application/json", method=method)
        response = send(empty, path, CODINGS[coding](data), coding, method=method)
        assert response.status_code == plain.status_code, operation
        expected, actual = plain.get_json(force=True), response.get_json(force=True)
        assert {**actual, "trace_id": ""} == {**expected, "trace_id": ""}
        n_read += "zzz" in actual.get("errors", ())
    assert n_read > 30


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b'{"query": "lava"}')[:-9]),
        ("gzip", b'{"query": "lava"}'),
        ("gzip", gzip.compress(b'{"query": "lava"}') + b"more"),
        ("gzip", zlib.compress(b'{"query": "lava"}')),
        ("deflate", gzip.compress(b'{"query": "lava"}')),
        ("deflate", zlib.compress(b'{"query": "lava"}')[:-1]),
    ],
    # The bytes have the time of their compression, and processes must agree on the names of tests.
    ids=["cut off", "not compressed", "with more", "zlib as gzip", "gzip as zlib", "zlib cut off"],
)
def test_damaged_body_is_refused(empty: FlaskClient, coding: str, body: bytes) -> None:
    problem = assert_problem(send(empty, f"{API}/search", body, coding), 400)
    assert coding in problem["detail"]


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "identity, gzip", "x" * 5000])
@pytest.mark.parametrize("path", [f"{API}/search", f"{API}/documents", BULK, "/verify"])
def test_other_codings_are_refused_with_those_that_are_taken(
    empty: FlaskClient, path: str, coding: str
) -> None:
    response = send(empty, path, gzip.compress(b"{}"), coding)
    problem = assert_problem(response, 415)
    assert "gzip" in problem["detail"]
    assert "deflate" in problem["detail"]
    assert response.headers["Accept-Encoding"] == "gzip, deflate"


def test_request_without_a_body_may_name_a_coding(empty: FlaskClient) -> None:
    assert empty.get(f"{API}/documents", headers={"Content-Encoding": "gzip"}).status_code == 200
    assert empty.post(f"{API}/synonyms/export", headers={"Content-Encoding": "gzip"}).status_code == 405


def test_form_of_the_console_may_be_compressed(empty: FlaskClient) -> None:
    response = send(
        empty,
        "/verify",
        gzip.compress(b"text=Lava+is+hot.&references=&min_coverage=0.5"),
        "gzip",
        content_type="application/x-www-form-urlencoded",
    )
    assert response.status_code == 200
    assert "Lava is hot." in response.get_data(as_text=True)


def test_same_body_is_the_same_request_compressed_or_not(client: FlaskClient) -> None:
    lines = json.dumps({"content": VOLCANO}).encode()
    key = {"Idempotency-Key": "once"}
    first = client.post(BULK, data=lines, content_type=NDJSON, headers=key)
    again = send(client, BULK, gzip.compress(lines), "gzip", content_type=NDJSON, headers=key)
    assert first.status_code == again.status_code == 202
    assert again.headers["Location"] == first.headers["Location"]


@pytest.mark.parametrize("size", [100, SPOOL_FROM + 1], ids=["in memory", "in a file"])
def test_documents_of_a_compressed_upload_are_stored(client: FlaskClient, worker: Worker, size: int) -> None:
    texts = [f"{VOLCANO} " * (size // 1000 + 1), LAW]
    lines = b"\n".join(json.dumps({"content": text}).encode() for text in texts)
    response = send(client, BULK, gzip.compress(lines), "gzip", content_type=NDJSON)
    assert response.status_code == 202
    worker.work()
    job = client.get(response.headers["Location"]).get_json()
    assert job["status"] == "succeeded"
    assert client.get(f"{API}/documents").get_json()["total"] == 2


def _noise(n_bytes: int) -> bytes:
    """Bytes of text that deflate halves at best."""
    return random.Random(n_bytes).randbytes(n_bytes).hex()[:n_bytes].encode()


@pytest.mark.parametrize("path", [f"{API}/search", f"{API}/documents", BULK, "/verify"])
def test_limit_is_that_of_the_unpacked_body(settings: Settings, engine: Engine, path: str) -> None:
    settings = replace(settings, max_document_bytes=9, max_metadata_bytes=9, max_upload_bytes=128 * KIB)
    client = create_app(settings, engine=engine).test_client()
    limit = max_body(path, settings)
    kind = NDJSON if path == BULK else "application/json"
    for n_bytes, is_refused in ((limit, False), (limit + 1, True)):
        response = send(client, path, gzip.compress(_noise(n_bytes)), "gzip", content_type=kind)
        message = f"unpacks to more than {limit:,} bytes"
        assert (message in response.get_data(as_text=True)) == is_refused
    assert_problem(response, 413)


@functools.cache
def bomb_of(coding: str) -> bytes:
    return CODINGS[coding](bytes(200 * MIB))


@pytest.mark.parametrize("path", [f"{API}/search", f"{API}/documents", BULK, f"{API}/notes/bulk", "/verify"])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_bomb_is_refused_early_and_not_held_in_memory(
    empty: FlaskClient, path: str, coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = bomb_of(coding)
    read = []
    real = inflating.Inflated.read

    def counted(self: inflating.Inflated, size: int = inflating.READ_BYTES, /) -> bytes:
        read.append(len(data := real(self, size)))
        return data

    monkeypatch.setattr(inflating.Inflated, "read", counted)
    tracemalloc.start()
    try:
        response = send(empty, path, bomb, coding, content_type=NDJSON)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_problem(response, 413)
    assert sum(read) < 10 * MIB
    assert peak < len(bomb) + 4 * MIB


def test_ratio_counts_from_a_mebibyte_on(empty: FlaskClient) -> None:
    for n_bytes, status in ((MIB - 100, 400), (2 * MIB, 413)):
        body = gzip.compress(b" " * n_bytes)
        assert_problem(send(empty, f"{API}/documents", body, "gzip"), status)


def test_file_of_an_unpacked_body_is_closed(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []

    def watched(*args: Any) -> Any:
        files.append(unpack_body(*args))
        return files[-1]

    monkeypatch.setattr(limits, "unpack_body", watched)
    response = send(client, f"{API}/search", gzip.compress(b'{"query": "lava"}'), "gzip")
    assert response.status_code == 200
    [file] = files
    assert file.closed


def test_full_queue_refuses_before_a_body_is_unpacked(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_queue_items=1), engine=engine).test_client()
    assert client.post(f"{API}/documents", json={"content": VOLCANO}).status_code == 202
    assert_problem(send(client, BULK, b"not gzip", "gzip", content_type=NDJSON), 429)


def test_nothing_is_left_in_the_spool_folder(client: FlaskClient, settings: Settings) -> None:
    send(client, BULK, gzip.compress(_noise(2 * SPOOL_FROM)), "gzip", content_type=NDJSON)
    spool = Path(settings.data_path) / "spool"
    assert list(spool.iterdir()) == []
