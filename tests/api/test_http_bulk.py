"""Bulk uploads: every item has its own outcome, and memory does not grow with the upload."""

from __future__ import annotations

import errno
import io
import json
import tracemalloc
import zipfile
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

from shoal.engine import Engine
from shoal.errors import DiskFullError
from shoal.settings import Settings
from shoal.support.byte_units import MIB
from shoal_api import create_app

BULK = f"{API}/documents/bulk"
NDJSON = "application/x-ndjson"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def files(**contents: bytes) -> list[tuple[io.BytesIO, str]]:
    return [(io.BytesIO(content), name.replace("__", ".")) for name, content in contents.items()]


def send_lines(client: FlaskClient, *lines: Any, **options: Any) -> Any:
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return client.post(BULK, data=body, content_type=NDJSON, **options)


def items(client: FlaskClient, response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 202, response.get_data(as_text=True)
    listed: list[dict[str, Any]] = client.get(f"{response.headers['Location']}/items").get_json()["items"]
    return listed


def test_files_of_a_form_become_documents(client: FlaskClient, worker: Worker) -> None:
    response = client.post(
        BULK,
        data={
            "files": [
                *files(fire__md=f"# Fire\n\n{VOLCANO}".encode()),
                (io.BytesIO(LAW.encode()), "a/law.txt"),
            ],
            "more": files(flower__txt=FLOWER.encode()),
            "tags": "books, old",
            "metadata": '{"shelf": 7}',
        },
    )
    assert response.status_code == 202
    assert response.get_json()["job"]["progress"]["total"] == 3
    worker.work()
    assert client.get(response.headers["Location"]).get_json()["status"] == "succeeded"
    documents = client.get(f"{API}/documents?tag=old").get_json()["documents"]
    assert sorted(document["source_path"] for document in documents) == ["a/law.txt", "fire.md", "flower.txt"]
    assert all(document["metadata"] == {"shelf": 7} for document in documents)
    assert all(sorted(document["tags"]) == ["books", "old"] for document in documents)
    assert {document["format"] for document in documents if document["source_path"] == "fire.md"} == {
        "markdown"
    }


def test_file_of_records_in_a_form_fails(client: FlaskClient, worker: Worker) -> None:
    lines = json.dumps({"content": VOLCANO}).encode() + b"\n"
    sent = {"files": files(a__ndjson=lines, b__JSONL=lines, c__txt=LAW.encode())}
    first, second, third = items(client, client.post(BULK, data=sent))
    for item in (first, second):
        assert item["status"] == "failed"
        assert "application/x-ndjson" in item["error"]
    assert third["status"] == "enqueued"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("deep/a.ndjson", lines)
    (item,) = items(client, client.post(BULK, data=packed.getvalue(), content_type="application/zip"))
    assert item["source_path"] == "deep/a.ndjson"
    assert "application/x-ndjson" in item["error"]
    as_text = {"files": files(a__jsonl=lines), "format": "plaintext"}
    assert [item["status"] for item in items(client, client.post(BULK, data=as_text))] == ["enqueued"]


def test_fields_apply_to_earlier_files_of_the_form(client: FlaskClient, worker: Worker) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
        + VOLCANO.encode()
        + b"\r\n"
        b'--x\r\nContent-Disposition: form-data; name="tags"\r\n\r\nlate\r\n--x--\r\n'
    )
    response = client.post(BULK, data=body, content_type="multipart/form-data; boundary=x")
    assert response.status_code == 202
    worker.work()
    assert client.get(f"{API}/documents?tag=late").get_json()["total"] == 1


def test_bad_file_fails_by_name_and_the_others_are_stored(client: FlaskClient, worker: Worker) -> None:
    response = client.post(
        BULK,
        data={
            "files": files(
                good__txt=VOLCANO.encode(), picture__png=PNG, empty__md=b"", latin__txt=b"\xff\xfe\xfd"
            )
        },
    )
    worker.work()
    by_path = {item["source_path"]: item for item in items(client, response)}
    assert by_path["good.txt"]["status"] == "succeeded"
    for name in ("picture.png", "empty.md", "latin.txt"):
        assert by_path[name]["status"] == "failed"
        assert by_path[name]["error"]
        assert by_path[name]["document_id"] is None
    job = client.get(response.headers["Location"]).get_json()
    assert job["status"] == "partial"
    assert job["progress"]["failed"] == 3
    assert job["progress"]["done"] == 4
    assert client.get(f"{API}/documents").get_json()["total"] == 1


def test_lines_become_documents(client: FlaskClient, worker: Worker) -> None:
    response = send_lines(
        client,
        {"title": "Fire", "content": VOLCANO, "tags": ["rock"], "metadata": {"a": [1, None]}},
        b"",
        {"content": FLOWER, "source_path": "garden/flower.md"},
    )
    worker.work()
    assert [item["status"] for item in items(client, response)] == ["succeeded", "succeeded"]
    titles = {document["title"] for document in client.get(f"{API}/documents").get_json()["documents"]}
    assert titles == {"Fire", "Flower"}


def test_bad_line_fails_by_number_and_the_others_are_stored(client: FlaskClient, worker: Worker) -> None:
    bad = [
        b"{",
        b"[1, 2]",
        b'"text"',
        b'{"content": NaN}',
        b'{"content": "a", "content": "b"}',
        b'{"content": 5}',
        b'{"title": "No content"}',
        b'{"content": " "}',
        b'{"content": "a", "format": "pdf"}',
        b'{"content": "a", "tags": "one"}',
        b'{"content": "a", "colour": "red"}',
        b'{"content": "a", "title": "\\ud800"}',
        b'{"content": "\xff"}',
        b"[" * 5000,
        b'{"content": "a", "metadata": {"n": ' + b"9" * 5000 + b"}}",
    ]
    response = send_lines(client, {"content": VOLCANO}, *bad, {"content": FLOWER})
    worker.work()
    outcomes = items(client, response)
    assert len(outcomes) == len(bad) + 2
    assert [outcomes[0]["status"], outcomes[-1]["status"]] == ["succeeded", "succeeded"]
    for number, item in enumerate(outcomes[1:-1], start=2):
        assert item["status"] == "failed", item
        assert item["error"].startswith(f"line {number}: "), item
        assert item["error"].count("line") == 1, item
        assert number == 8 or item["title"] == f"line {number}", item
    assert outcomes[7]["title"] == "No content"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_error_of_an_unclosed_string_gives_its_start(client: FlaskClient, end: bytes) -> None:
    body = b'{"content": "a"}\n{"content": "lava and ash' + end
    response = client.post(BULK, data=body, content_type="application/x-ndjson")
    [_, item] = items(client, response)
    assert item["error"] == "line 2: is not JSON: a string that starts here is not closed (column 13)"


def test_error_of_a_control_character_gives_its_column(client: FlaskClient) -> None:
    [item] = items(client, send_lines(client, b'{"content": "lava\tash"}'))
    assert "control character that is not escaped (column 18)" in item["error"]


def test_overlong_line_fails_alone(settings: Settings, engine: Engine) -> None:
    small = replace(settings, max_document_bytes=1000, max_metadata_bytes=100)
    client = create_app(small, engine=engine).test_client()
    huge = {"content": "x" * 400_000}
    response = send_lines(client, {"content": VOLCANO}, huge, {"content": FLOWER})
    outcomes = items(client, response)
    assert [item["status"] for item in outcomes] == ["enqueued", "failed", "enqueued"]
    assert "line 2" in outcomes[1]["error"]
    assert outcomes[1]["bytes"] > 400_000


def test_oversize_file_fails_alone(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_document_bytes=1000), engine=engine).test_client()
    response = client.post(
        BULK, data={"files": files(large__txt=b"word " * 300, small__txt=VOLCANO.encode())}
    )
    large, small = items(client, response)
    assert large["status"] == "failed"
    assert "1,000" in large["error"]
    assert large["bytes"] == 1500
    assert small["status"] == "enqueued"


def test_equal_texts_of_an_upload_are_stored_once(client: FlaskClient, worker: Worker) -> None:
    response = send_lines(client, {"content": VOLCANO, "tags": ["a"]}, {"content": VOLCANO, "tags": ["b"]})
    worker.work()
    first, second = items(client, response)
    assert first["status"] == "succeeded"
    assert second["status"] == "duplicate"
    assert second["document_id"] == first["document_id"]
    assert sorted(client.get(f"{API}/documents/{first['document_id']}").get_json()["tags"]) == ["a", "b"]


def test_upload_of_only_bad_documents_is_a_failed_job(client: FlaskClient) -> None:
    response = send_lines(client, b"{", b"}")
    assert response.status_code == 202
    job = response.get_json()["job"]
    assert job["status"] == "failed"
    assert job["progress"]["failed"] == 2
    assert "Retry-After" not in response.headers


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", NDJSON),
        (b"\n\n \r\n", NDJSON),
        (b"--x--\r\n", "multipart/form-data; boundary=x"),
        # Browsers send this for an empty file input.
        (
            b'--x\r\nContent-Disposition: form-data; name="f"; filename=""\r\n\r\n\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
    ],
)
def test_empty_upload_is_refused(empty: FlaskClient, body: bytes, content_type: str) -> None:
    assert_problem(empty.post(BULK, data=body, content_type=content_type), 422, "documents")
    assert empty.get(f"{API}/jobs").get_json()["total"] == 0


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"anything", "multipart/form-data"),
        (b"anything", "multipart/form-data; boundary=x"),
        (b"\r\n", "multipart/form-data; boundary=x"),
        (b"no boundary at all " * 100_000, "multipart/form-data; boundary=x"),
        (b"--x\r\n" + b"Endless: header\r\n" * 100_000, "multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\ncut',
            "multipart/form-data; boundary=x",
        ),
        (b"--x\r\nNo-Disposition: 1\r\n\r\ntext\r\n--x--\r\n", "multipart/form-data; boundary=x"),
        (b"--x\r\n\xff\xfe: 1\r\n\r\ntext\r\n--x--\r\n", "multipart/form-data; boundary=x"),
        (b"anything", "multipart/form-data; boundary=\xfcml\xe4ut"),
    ],
)
def test_malformed_form_stores_nothing(empty: FlaskClient, body: bytes, content_type: str) -> None:
    assert_problem(empty.post(BULK, data=body, content_type=content_type), 400)
    assert empty.get(f"{API}/jobs").get_json()["total"] == 0


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"tags": "x" * 65}, "tags"),
        ({"metadata": "["}, "metadata"),
        ({"metadata": "[1]"}, "metadata"),
        ({"metadata": '{"a": "\\ud800"}'}, "metadata"),
        ({"format": "pdf"}, "format"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_form_field_is_refused_and_nothing_is_stored(
    empty: FlaskClient, fields: dict[str, str], wrong: str
) -> None:
    response = empty.post(BULK, data={"files": files(a__txt=VOLCANO.encode()), **fields})
    assert_problem(response, 422, wrong)
    assert empty.get(f"{API}/jobs").get_json()["total"] == 0


@pytest.mark.parametrize("name", ["file", "files", "document", "book.md"])
def test_error_of_a_file_sent_as_text_says_how_to_send_a_file(empty: FlaskClient, name: str) -> None:
    problem = assert_problem(
        empty.post(BULK, data={name: "just a string"}, content_type="multipart/form-data"), 422, name
    )
    assert "did you forget the @ before its name?" in problem["errors"][name][0]


def test_error_of_a_misspelt_form_field_suggests_a_name(empty: FlaskClient) -> None:
    problem = assert_problem(
        empty.post(BULK, data={"tag": "a"}, content_type="multipart/form-data"), 422, "tag"
    )
    assert problem["errors"]["tag"] == ["is not known; did you mean `tags`?"]


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("text/plain", "application/json (an array), application/x-ndjson, multipart/form-data"),
        ("", "application/json (an array), application/x-ndjson, multipart/form-data"),
        ("application/x-ndjson; charset=utf-16", "UTF-8"),
        ("application/json; charset=utf-16", "UTF-8"),
        ("text/csv", "send its rows as an array of documents"),
        ("application/x-www-form-urlencoded", "name the content type"),
    ],
)
def test_other_content_types_are_refused(empty: FlaskClient, kind: str, advice: str) -> None:
    response = empty.post(BULK, data=b"{}", content_type=kind)
    assert advice in assert_problem(response, 415)["detail"]
    if "charset" not in kind:
        assert "application/json, application/zip" in response.headers["Accept-Post"]


def assert_no_rows(engine: Engine) -> None:
    """Assert that no rows are left, hidden ones included."""
    with engine.database.snapshot() as snapshot:
        for table in ("jobs", "job_items", "job_item_contents"):
            assert snapshot.value(f"SELECT COUNT(*) FROM {table}") == 0


def test_failed_upload_leaves_no_rows(
    client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFullError("no space")

    monkeypatch.setattr("shoal_api.documents.Upload.finish", full)
    assert_problem(send_lines(client, *[{"content": f"{VOLCANO} {n}"} for n in range(600)]), 507)
    assert_no_rows(engine)


class Arriving(io.RawIOBase):
    """A body without a known length, as servers other than waitress pass it."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


def send_arriving(client: FlaskClient, body: bytes) -> Any:
    return client.post(
        BULK,
        environ_overrides={
            "wsgi.input": Arriving(body),
            "wsgi.input_terminated": True,
            "CONTENT_TYPE": NDJSON,
            "CONTENT_LENGTH": "",
        },
    )


def test_body_without_a_length_is_accepted(client: FlaskClient, settings: Settings) -> None:
    body = b"".join(json.dumps({"content": f"{VOLCANO} {n}"}).encode() + b"\n" for n in range(600))
    response = send_arriving(client, body)
    assert response.status_code == 202
    assert response.get_json()["job"]["progress"]["total"] == 600
    assert list((settings.data_path / "spool").iterdir()) == []


def test_full_disk_while_spooling_returns_507(
    client: FlaskClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    assert_problem(send_arriving(client, b'{"content": "x"}'), 507)
    assert_no_rows(engine)


def test_upload_over_a_limit_is_refused_whole(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_upload_items=3), engine=engine).test_client()
    assert_problem(send_lines(client, *[{"content": f"{VOLCANO} {n}"} for n in range(4)]), 413)
    assert_no_rows(engine)
    assert send_lines(client, *[{"content": f"{VOLCANO} {n}"} for n in range(3)]).status_code == 202

    client = create_app(replace(settings, max_upload_bytes=1000), engine=engine).test_client()
    assert_problem(send_lines(client, {"content": "x" * 1000}), 413)
    # Without a length, as with chunked transfer, the limit applies to the received bytes.
    stream = io.BytesIO(json.dumps({"content": "x" * 1000}).encode())
    chunked = {"wsgi.input": stream, "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    response = client.post(BULK, content_type=NDJSON, environ_overrides=chunked)
    assert_problem(response, 413)


def test_idempotency_key_of_an_upload_compares_documents(client: FlaskClient) -> None:
    key = {"Idempotency-Key": "upload-1"}

    def upload(content: str) -> Any:
        # Every request gets another boundary, so the bytes differ.
        return client.post(BULK, data={"files": files(a__txt=content.encode()), "tags": "t"}, headers=key)

    first, second = upload(VOLCANO), upload(VOLCANO)
    assert first.status_code == second.status_code == 202
    assert first.get_json()["job"]["id"] == second.get_json()["job"]["id"]
    assert_problem(upload(FLOWER), 409)
    assert client.get(f"{API}/jobs").get_json()["total"] == 1


def test_stored_text_in_an_upload_is_a_duplicate(client: FlaskClient, store: Store, worker: Worker) -> None:
    stored = store(VOLCANO)
    response = send_lines(client, {"content": VOLCANO})
    worker.work()
    assert [(item["status"], item["document_id"]) for item in items(client, response)] == [
        ("duplicate", stored)
    ]


@pytest.mark.parametrize("form", [True, False])
def test_memory_does_not_grow_with_the_upload(settings: Settings, engine: Engine, form: bool) -> None:
    client = create_app(replace(settings, max_document_bytes=MIB), engine=engine).test_client()

    def peak(n_documents: int) -> int:
        tracemalloc.start()
        stream = _Body(n_documents, form=form)
        response = client.post(
            BULK,
            environ_overrides={
                "wsgi.input": stream,
                "wsgi.input_terminated": True,
                "CONTENT_LENGTH": "",
                "CONTENT_TYPE": f"multipart/form-data; boundary={_Body.BOUNDARY}" if form else NDJSON,
            },
        )
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert response.status_code == 202, response.get_data(as_text=True)
        assert response.get_json()["job"]["progress"]["total"] == n_documents
        return peak_bytes

    few, many = peak(40), peak(160)
    assert many < few + 8 * MIB, "30 MiB more were uploaded"


class _Body:
    """A generated upload of documents of 256 KiB, made while it is read."""

    BOUNDARY = "boundary"

    def __init__(self, n_documents: int, *, form: bool) -> None:
        self._left = n_documents
        self._form = form
        self._buffer = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._buffer) < size and self._left >= 0:
            self._buffer += self._next()
            self._left -= 1
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _next(self) -> bytes:
        if self._left == 0:
            return f"--{self.BOUNDARY}--\r\n".encode() if self._form else b""
        text = f"Document {self._left}. " + "The volcano and the lava. " * 10_000
        if not self._form:
            return json.dumps({"content": text}).encode() + b"\n"
        head = f'--{self.BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="{self._left}.txt"\r\n\r\n'
        return head.encode() + text.encode() + b"\r\n"


def test_each_line_may_say_how_it_is_cut(client: FlaskClient, worker: Worker) -> None:
    response = send_lines(
        client,
        {"title": "a", "chunks": [{"text": VOLCANO}, {"text": LAW}]},
        {"title": "b", "content": FLOWER, "chunk_tokens": "300-800"},
        {"title": "c", "chunks": [{"text": VOLCANO}, {"text": " "}]},
    )
    worker.work()
    assert [item["status"] for item in items(client, response)] == ["succeeded", "succeeded", "failed"]
    assert "chunks: [1] is empty" in items(client, response)[2]["error"]
    documents = client.get(f"{API}/documents").get_json()["documents"]
    assert sorted((document["title"], document["chunk_tokens"]) for document in documents) == [
        ("a", "given"),
        ("b", "300-800"),
    ]


def test_a_form_may_say_how_its_files_are_cut(client: FlaskClient, worker: Worker) -> None:
    sent = {"files": files(a__txt=VOLCANO.encode(), b__html=b"<p>" + LAW.encode()), "chunk_tokens": "300-800"}
    response = client.post(BULK, data=sent)
    worker.work()
    assert {item["status"] for item in items(client, response)} == {"succeeded"}
    documents = client.get(f"{API}/documents").get_json()["documents"]
    assert [document["chunk_tokens"] for document in documents] == ["300-800"] * 2
    wrong = client.post(BULK, data={"files": files(a__txt=b"text"), "chunk_tokens": "many"})
    assert_problem(wrong, 422)


def test_an_archive_says_in_its_address_how_its_files_are_cut(client: FlaskClient, worker: Worker) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", VOLCANO)
    address = f"{BULK}?chunk_tokens=300-800"
    response = client.post(address, data=packed.getvalue(), content_type="application/zip")
    worker.work()
    assert {item["status"] for item in items(client, response)} == {"succeeded"}
    documents = client.get(f"{API}/documents").get_json()["documents"]
    assert [document["chunk_tokens"] for document in documents] == ["300-800"]
