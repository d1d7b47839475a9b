"""The client sends what a server can read, from disk, and says what went wrong."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.formparser import parse_form_data

from shoal.cli.app import run
from shoal.client import CHUNK_BYTES, Client, ClientError, MultipartBody, UploadFile

NAMES = [
    "plain.txt",
    'quo"te.md',
    "new\nline.txt",
    "日本.md",
    "folder/in/side.txt",
    "odd\udcff.txt",
    "%22.txt",
]


def _parsed(body: MultipartBody) -> tuple[Any, Any]:
    data = b"".join(body)
    assert len(data) == body.length
    import io

    environ = {
        "wsgi.input": io.BytesIO(data),
        "CONTENT_LENGTH": str(len(data)),
        "CONTENT_TYPE": body.content_type,
        "REQUEST_METHOD": "POST",
    }
    _stream, form, files = parse_form_data(environ)
    return form, files


def test_a_multipart_body_arrives_file_by_file_with_its_fields(tmp_path: Path) -> None:
    contents = [b"", b"a", b"x" * (CHUNK_BYTES + 1), b"\r\n--almost a boundary\r\n"]
    files = []
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(content)
        files.append(UploadFile.of(path, f"folder/{number}.txt"))
    told: list[int] = []
    form, parsed = _parsed(MultipartBody(files, fields=[("tags", "a"), ("tags", "b é")], sent=told.append))
    assert form.getlist("tags") == ["a", "b é"]
    assert [(file.filename, file.read()) for file in parsed.getlist("files")] == [
        (f"folder/{number}.txt", content) for number, content in enumerate(contents)
    ]
    assert sum(told) == sum(map(len, contents))


@pytest.mark.parametrize("name", NAMES)
def test_no_file_name_breaks_the_body(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    _form, parsed = _parsed(MultipartBody([UploadFile.of(path, name)]))
    (file,) = parsed.getlist("files")
    assert file.read() == b"text"
    if name.isprintable() and '"' not in name and "%" not in name:
        assert file.filename == name


@pytest.mark.parametrize("content", [b"longer than before", b""])
def test_a_file_that_changes_while_it_is_sent_stops_the_upload(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"as it was")
    body = MultipartBody([UploadFile.of(path)])
    path.write_bytes(content)
    with pytest.raises(ClientError, match="changed while it was being sent"):
        list(body)


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with the next of the prepared answers, the last one for ever."""

    protocol_version = "HTTP/1.1"
    prepared: list[tuple[int, dict[str, str], bytes]]
    asked: list[tuple[str, dict[str, str]]]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.path, dict(self.headers)))
        status, headers, body = self.prepared.pop(0) if len(self.prepared) > 1 else self.prepared[0]
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        pass


class _Server:
    def __init__(self) -> None:
        self.handler = type("Handler", (_Answers,), {"prepared": [], "asked": []})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def will_answer(self, *answers: tuple[int, dict[str, str], Any]) -> None:
        self.handler.prepared[:] = [
            (status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())
            for status, headers, body in answers
        ]

    @property
    def asked(self) -> list[tuple[str, dict[str, str]]]:
        return self.handler.asked  # type: ignore[no-any-return]


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_a_job_is_followed_past_unchanged_answers_and_a_restart_of_the_service(server: _Server) -> None:
    states = [{"id": 1, "status": status} for status in ("enqueued", "processing", "partial")]
    server.will_answer(
        (200, {"ETag": '"1"'}, states[0]),
        (304, {}, b""),
        (0, {}, b""),
        (503, {}, {"title": "away", "detail": "the database is away"}),
        (200, {"ETag": '"2"'}, states[1]),
        (200, {"ETag": '"3"'}, states[2]),
    )
    seen: list[str] = []
    with Client(server.url) as client:
        job = client.wait_for_job(1, seen=lambda job: seen.append(job["status"]))
    assert job == states[2]
    assert seen == ["enqueued", "processing", "partial"]
    assert [headers.get("If-None-Match") for _, headers in server.asked][:3] == [None, '"1"', '"1"']


def test_patience_with_a_service_that_stays_away_ends(server: _Server) -> None:
    server.will_answer((503, {}, {"title": "away", "detail": "the database is away"}))
    with Client(server.url, patience=0.3) as client, pytest.raises(ClientError, match="the database is away"):
        client.wait_for_job(1)
    assert len(server.asked) > 1


def test_a_refusal_is_told_in_the_words_of_the_server(server: _Server) -> None:
    server.will_answer(
        (
            422,
            {},
            {"title": "Unprocessable", "detail": "a field is wrong", "errors": {"top_k": ["at most 100"]}},
        )
    )
    with Client(server.url) as client, pytest.raises(ClientError) as caught:
        client.search("bees", top_k=1000)
    assert str(caught.value) == "a field is wrong; top_k: at most 100"
    assert caught.value.status == 422


def test_something_that_is_no_shoal_service_is_recognised(server: _Server) -> None:
    server.will_answer((404, {}, b"<html>not here</html>"))
    with Client(server.url) as client, pytest.raises(ClientError, match="is it a Shoal service"):
        client.jobs()


def test_no_service_at_all_is_told_with_what_to_do() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ClientError, match="`shoal up` starts one"):
        client.jobs()


@pytest.mark.parametrize("address", ["http://", "http://host:port", "ftp://127.0.0.1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ClientError), Client(address) as client:
        client.jobs()


JOB = {
    "id": 7,
    "kind": "ingest",
    "status": "partial",
    "stage": None,
    "error": None,
    "progress": {"total": 2, "done": 2, "failed": 1, "duplicate": 0, "bytes_total": 9, "bytes_done": 9},
    "created_at": "2026-01-31T00:00:00.000Z",
    "started_at": None,
    "finished_at": None,
}
ITEMS = [
    {"seq": 0, "title": "A Whale", "source_path": "a.md", "status": "succeeded", "error": None},
    {"seq": 1, "title": "line 2", "source_path": None, "status": "failed", "error": "line 2: is not JSON"},
]


def test_a_job_whose_service_goes_away_is_said_to_be_safe(
    server: _Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", {"timeout": 5.0, "patience": 0.2})
    (tmp_path / "note.txt").write_text("a note")
    server.will_answer((202, {}, {"job": {**JOB, "status": "enqueued"}}), (0, {}, b""))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    told = capsys.readouterr().err
    assert "job 7 was accepted and is safe; it goes on when the service is back" in told
    assert f"`shoal jobs 7 --server {server.url}`" in told


def test_an_upload_that_is_not_accepted_is_not_said_to_be_safe(
    server: _Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    server.will_answer((503, {}, {"title": "away", "detail": "the database is away"}))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    assert "safe" not in capsys.readouterr().err


def test_items_are_listed_by_title_and_a_reason_is_told_once(
    server: _Server, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [{**item, "bytes": 4, "document_id": None} for item in ITEMS]
    server.will_answer((200, {}, JOB), (200, {}, {"items": items, "total": 2}))
    assert run(["jobs", "7", "--server", server.url]) == 0
    listed = capsys.readouterr().out
    assert "A Whale" in listed
    assert "a.md" not in listed
    assert listed.count("line 2") == 1
    assert "line 2: is not JSON" in listed


@pytest.mark.parametrize(
    ("name", "kind"),
    [("notes.zip", "application/zip"), ("Notes.TAR.GZ", "application/gzip"), ("n.tgz", "application/gzip")],
)
def test_an_archive_is_sent_as_it_is(server: _Server, tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"what the service takes apart")
    progress = {**JOB["progress"], "skipped": 3}  # type: ignore[dict-item]
    server.will_answer((202, {}, {"job": {**JOB, "status": "succeeded", "progress": progress}}))
    assert run(["upload", str(tmp_path / name), "--tags", "a,b c", "--server", server.url]) == 0
    ((address, headers),) = server.asked
    assert address == "/api/v1/documents/bulk?tags=a%2Cb+c"
    assert headers["Content-Type"] == kind
    assert headers["Content-Length"] == "28"
    assert headers["Idempotency-Key"]


def test_an_archive_beside_others_is_refused_before_anything_is_sent(
    server: _Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.zip", "note.txt"):
        (tmp_path / name).write_bytes(b"text")
    assert (
        run(["upload", str(tmp_path / "notes.zip"), str(tmp_path / "note.txt"), "--server", server.url]) == 2
    )
    assert "name it alone" in capsys.readouterr().err
    assert server.asked == []
