"""Commands that use a service: progress, outcomes and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_service import BROKEN, JOB, PROGRESS, ScriptedService, problem, scripted

from shoal.cli.app import run
from shoal.client import Client
from shoal.service.addresses import announced


@pytest.fixture
def server() -> Iterator[ScriptedService]:
    with scripted() as service:
        yield service


ITEMS = [
    {"seq": 0, "title": "A Whale", "source_path": "a.md", "status": "succeeded", "error": None},
    {"seq": 1, "title": "line 2", "source_path": None, "status": "failed", "error": "line 2: is not JSON"},
]
REST_OF_ITEM = {"bytes": 4, "document_id": None, "stage": None, "attempts": 0}
WARNING = "the file is not UTF-8 and was read as cp1250"


def _set_patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    defaults = {**Client.__init__.__kwdefaults__, "patience": seconds}
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", defaults)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["upload", "note.txt"], "shoal upload"),
        (["jobs"], "shoal jobs"),
        (["jobs", "7", "--wait"], "shoal jobs"),
        (["rescore"], "shoal rescore"),
        (["note", "dedup"], "shoal note dedup"),
    ],
)
def test_unreachable_service_error_names_the_command_and_how_to_start_the_service(
    arguments: list[str],
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_patience(monkeypatch, 3600.0)
    monkeypatch.chdir(tmp_path)
    Path("note.txt").write_text("a note")
    assert run([*arguments, "--server", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err == (
        f"error: `{command}` cannot reach a service at http://127.0.0.1:9; start one with "
        f"`shoal up --port 9` in another terminal, or name another address with --server, then run `{command}` "
        "again\n"
    )


def test_unreachable_service_hint_follows_the_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_patience(monkeypatch, 0.0)
    monkeypatch.setattr("shoal.cli.jobs.DEFAULT_PORT", 9)
    assert run(["jobs", "--server", "http://127.0.0.1:9"]) == 1
    assert "start one with `shoal up` in another terminal" in capsys.readouterr().err
    assert run(["jobs", "--server", "http://nowhere.invalid:9"]) == 1
    assert "start one on that machine with `shoal up`, or name another address" in capsys.readouterr().err


def test_job_error_says_that_the_job_is_safe_when_the_service_goes_away(
    server: ScriptedService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_patience(monkeypatch, 0.2)
    (tmp_path / "note.txt").write_text("a note")
    server.will_respond((202, {}, {"job": {**JOB, "status": "enqueued"}}), (BROKEN, {}, b""))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    errors = capsys.readouterr().err
    assert "job 7 was accepted and is safe; it continues when the service is back" in errors
    assert f"`shoal jobs 7 --server {server.url}`" in errors


def test_the_suggested_command_names_the_collection(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    server.will_respond((202, {}, {"job": {**JOB, "status": "enqueued"}}))
    arguments = ["upload", str(tmp_path / "note.txt"), "--collection", "birds", "--server", server.url]
    assert run(arguments) == 0
    assert f"`shoal jobs 7 --collection birds --server {server.url}`" in capsys.readouterr().out


def test_the_service_of_the_database_is_found_at_its_port(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    listed = {"jobs": [], "total": 0, "limit": 20, "offset": 0}
    server.will_respond((202, {}, {"job": {**JOB, "status": "enqueued"}}), (200, {}, listed))
    database = tmp_path / "library.db"
    with announced(database, server.url):
        assert run(["--db", str(database), "upload", str(tmp_path / "note.txt")]) == 0
        assert run(["--db", str(database), "jobs"]) == 0
    assert f"`shoal jobs 7 --server {server.url}`" in capsys.readouterr().out
    assert len(server.requests) == 2


def test_reason_for_retries_is_printed_once(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    full = problem(429, "the queue is full")
    server.will_respond(full, full, (202, {}, {"job": {**JOB, "status": "succeeded"}}))
    assert run(["upload", str(tmp_path / "note.txt"), "--json", "--server", server.url]) == 0
    output = capsys.readouterr()
    assert output.err == "the queue is full; trying again\n"
    assert json.loads(output.out)["id"] == 7


def test_error_of_an_upload_that_is_not_accepted_does_not_say_safe(
    server: ScriptedService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_patience(monkeypatch, 0.2)
    (tmp_path / "note.txt").write_text("a note")
    server.will_respond(problem(503, "the database is away"))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    assert "safe" not in capsys.readouterr().err


def test_items_are_listed_by_title_and_file_with_each_reason_once(
    server: ScriptedService, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {
        "seq": 2,
        "title": "b.md",
        "source_path": "notes/b.md",
        "status": "failed",
        "error": "it is empty",
    }
    items = [{**item, **REST_OF_ITEM} for item in (*ITEMS, refused)]
    server.will_respond((200, {}, JOB), (200, {}, {"items": items, "total": 2}))
    assert run(["jobs", "7", "--server", server.url]) == 0
    output = capsys.readouterr().out
    assert "A Whale (a.md)" in output
    assert " notes/b.md: it is empty" in output
    assert output.count("line 2") == 1
    assert "line 2: is not JSON" in output


def test_warnings_of_items_are_printed_when_the_job_has_ended(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    job = {**JOB, "status": "succeeded", "progress": {**PROGRESS, "failed": 0}}
    items = [{**ITEMS[0], **REST_OF_ITEM, "warnings": [WARNING]}, {**ITEMS[0], **REST_OF_ITEM, "seq": 1}]
    item_page = (200, {}, {"items": items, "total": 2})
    arguments = ["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]
    server.will_respond((202, {}, {"job": job}), (200, {}, job), item_page)
    assert run(arguments) == 0
    assert capsys.readouterr().err == f"warning: a.md: {WARNING}\n"
    server.will_respond((202, {}, {"job": job}), (200, {}, job), item_page)
    assert run([*arguments, "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["warned_items"]
    assert (item["seq"], item["warnings"]) == (0, [WARNING])


def test_items_of_a_job_are_listed_with_their_warnings(
    server: ScriptedService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    items = [{**ITEMS[0], **REST_OF_ITEM, "warnings": [WARNING]}]
    server.will_respond((200, {}, JOB), (200, {}, {"items": items, "total": 1}))
    assert run(["jobs", "7", "--server", server.url]) == 0
    assert f"warning: {WARNING}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["note.md", "notes.zip", "notes.ndjson"])
def test_upload_that_replaces_says_so(server: ScriptedService, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    for option in ([], ["--on-conflict", "replace"]):
        server.will_respond((202, {}, {"job": {**JOB, "status": "enqueued"}}))
        assert run(["upload", str(tmp_path / name), *option, "--server", server.url]) == 0
    kept, replaced = server.requests
    assert "on_conflict" not in kept.path
    assert replaced.path.endswith("?on_conflict=replace")


def test_upload_counts_skipped_files_of_folders(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "a/note.md",
        "a/one.png",
        "a/b/two.PNG",
        "a/song.mp3",
        "c/.hidden",
        "c/page.zip",
        "c/deep/x.png",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a note")
    folders = [str(tmp_path / "a"), str(tmp_path / "c")]
    server.will_respond((202, {}, {"job": {**JOB, "status": "enqueued"}}))
    assert run(["upload", *folders, "--json", "--server", server.url]) == 0
    output = capsys.readouterr()
    assert output.err.splitlines() == [
        f"warning: there is no file to read in {folders[1]}",
        *(line for line in output.err.splitlines() if line.startswith("skipped: ")),
        "6 skipped: 5 of a kind without text (3 .png, 1 .mp3, 1 .zip), 1 hidden",
    ]
    assert output.err.count("skipped: ") == 6
    assert f"skipped: {tmp_path / 'a' / 'song.mp3'}: this is an audio file; " in output.err
    assert json.loads(output.out)["skipped_files"] == {
        ".png": 3,
        ".mp3": 1,
        ".zip": 1,
        "hidden": 1,
    }
    (request,) = server.requests
    assert request.body.count(b"filename=") == 1
    assert run(["upload", folders[1], "--server", server.url]) == 1
    assert "3 skipped: 2 of a kind without text (1 .png, 1 .zip), 1 hidden" in capsys.readouterr().err


def test_progress_of_a_job_is_printed_as_lines_without_a_terminal(
    server: ScriptedService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.cli.jobs.PROGRESS_LINE_SECONDS", 0.0)
    positions: list[int] = []
    monkeypatch.setattr(
        "shoal.cli.progress.Bar.move_to", lambda _bar, n_bytes, *_, **__: positions.append(n_bytes)
    )
    progress = {**PROGRESS, "total": 4, "failed": 0, "bytes_total": 8_000_000, "bytes_done": 2_000_000}
    running = {**JOB, "status": "processing", "stage": "score", "kind": "rescore"}
    server.will_respond(
        (200, {}, running),
        (200, {}, {**running, "progress": {**progress, "fraction": 0.5, "seconds_left": 75.0}}),
        (200, {}, {**running, "status": "succeeded", "progress": {**progress, "done": 4, "fraction": 0.5}}),
    )
    assert run(["jobs", "7", "--wait", "--server", server.url]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "job 7 score: 2 of 4 items, 2.0 MB of 8.0 MB, 50% of the work done, about 1 min 15 s left"
    assert positions == [4_000_000, 4_000_000], "the bar moves with the work, not with stored documents"


@pytest.mark.parametrize(("status", "code"), [("succeeded", 0), ("partial", 1)])
def test_notes_are_compared_by_a_service_and_the_job_is_followed(
    server: ScriptedService, capsys: pytest.CaptureFixture[str], status: str, code: int
) -> None:
    dedup = {**JOB, "kind": "dedup"}
    progress = {**PROGRESS, "total": 1, "done": 1, "failed": 0}
    server.will_respond(
        (202, {}, {"job": {**dedup, "status": "enqueued"}}),
        (200, {}, {**dedup, "status": "processing"}),
        (200, {}, {**dedup, "status": status, "progress": progress}),
        (200, {}, {"proposals": [], "total": 2}),
    )
    arguments = ["note", "dedup", "--owner", "ann", "--recheck", "--server", server.url]
    assert run(arguments) == code
    printed = capsys.readouterr().out
    assert printed.startswith(f"job 7 {status}")
    assert printed.endswith("2 open proposals to merge notes of ann\n")


def test_an_embed_job_stores_no_documents(
    server: ScriptedService, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = {**PROGRESS, "total": 4, "done": 3, "failed": 1}
    embedding = {**JOB, "kind": "embed", "status": "canceled", "progress": {**progress, "canceled": 1}}
    server.will_respond((200, {}, {"job": embedding}), (200, {}, embedding))
    assert run(["jobs", "7", "--cancel", "--server", server.url]) == 0
    assert capsys.readouterr().out == "job 7 canceled: 1 done, 1 failed, 1 canceled, 1 to do\n"


def test_canceled_items_are_not_counted_as_stored(
    server: ScriptedService, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = {**PROGRESS, "total": 4, "done": 4, "canceled": 2}
    server.will_respond(
        (200, {}, {"job": {**JOB, "status": "canceled"}}),
        (200, {}, {**JOB, "status": "canceled", "progress": progress}),
    )
    assert run(["jobs", "7", "--cancel", "--server", server.url]) == 0
    assert capsys.readouterr().out == "job 7 canceled: 1 stored, 0 duplicates, 1 failed, 2 canceled\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("notes.zip", "application/zip"), ("Notes.TAR.GZ", "application/gzip"), ("n.tgz", "application/gzip")],
)
def test_archive_is_sent_unchanged(server: ScriptedService, tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"an archive of just 28 bytes.")
    progress = {**PROGRESS, "skipped": 3}
    server.will_respond((202, {}, {"job": {**JOB, "status": "succeeded", "progress": progress}}))
    assert run(["upload", str(tmp_path / name), "--tags", "a,b c", "--server", server.url]) == 0
    (request,) = server.requests
    headers = request.headers
    assert request.path == "/api/v1/documents/bulk?tags=a%2Cb+c"
    assert headers["Content-Type"] == kind
    assert headers["Content-Length"] == "28"
    assert headers["Idempotency-Key"]


def test_file_of_records_is_sent_unchanged(server: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_bytes(b'{"content": "Tides."}\n')
    server.will_respond((202, {}, {"job": {**JOB, "status": "succeeded"}}))
    assert run(["upload", str(tmp_path / "notes.jsonl"), "--server", server.url]) == 0
    (request,) = server.requests
    assert request.headers["Content-Type"] == "application/x-ndjson"
    assert request.json() == {"content": "Tides."}


def test_tags_for_a_file_of_records_are_refused(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.ndjson").write_bytes(b'{"content": "Tides."}\n')
    assert run(["upload", str(tmp_path / "notes.ndjson"), "--tags", "a", "--server", server.url]) == 2
    assert "records have their own tags" in capsys.readouterr().err
    assert server.requests == []


def test_archive_with_other_files_is_refused_before_anything_is_sent(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.zip", "note.txt"):
        (tmp_path / name).write_bytes(b"text")
    assert (
        run(["upload", str(tmp_path / "notes.zip"), str(tmp_path / "note.txt"), "--server", server.url]) == 2
    )
    assert "upload it alone" in capsys.readouterr().err
    assert server.requests == []
