"""Commands that talk to a service tell what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_service import BROKEN, JOB, PROGRESS, ScriptedService, problem, scripted

from shoal.cli.app import run
from shoal.client import Client


@pytest.fixture
def server() -> Iterator[ScriptedService]:
    with scripted() as made:
        yield made


ITEMS = [
    {"seq": 0, "title": "A Whale", "source_path": "a.md", "status": "succeeded", "error": None},
    {"seq": 1, "title": "line 2", "source_path": None, "status": "failed", "error": "line 2: is not JSON"},
]
REST_OF_ITEM = {"bytes": 4, "document_id": None, "stage": None, "attempts": 0}
DOUBT = "the file is not UTF-8 and was read as cp1250"


def test_a_person_is_told_at_once_that_no_service_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {**Client.__init__.__kwdefaults__, "patience": 3600.0}
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", defaults)
    assert run(["jobs", "--server", "http://127.0.0.1:9"]) == 1
    assert "`shoal up` starts one" in capsys.readouterr().err


def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {**Client.__init__.__kwdefaults__, "patience": 0.2}
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", defaults)


def test_a_job_whose_service_goes_away_is_said_to_be_safe(
    server: ScriptedService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without_patience(monkeypatch)
    (tmp_path / "note.txt").write_text("a note")
    server.will_answer((202, {}, {"job": {**JOB, "status": "enqueued"}}), (BROKEN, {}, b""))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    told = capsys.readouterr().err
    assert "job 7 was accepted and is safe; it goes on when the service is back" in told
    assert f"`shoal jobs 7 --server {server.url}`" in told


def test_a_person_is_told_why_a_command_waits_and_only_once(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    full = problem(429, "the queue is full")
    server.will_answer(full, full, (202, {}, {"job": {**JOB, "status": "succeeded"}}))
    assert run(["upload", str(tmp_path / "note.txt"), "--json", "--server", server.url]) == 0
    told = capsys.readouterr()
    assert told.err == "the queue is full; trying again\n"
    assert json.loads(told.out)["id"] == 7


def test_an_upload_that_is_not_accepted_is_not_said_to_be_safe(
    server: ScriptedService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without_patience(monkeypatch)
    (tmp_path / "note.txt").write_text("a note")
    server.will_answer(problem(503, "the database is away"))
    assert run(["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]) == 1
    assert "safe" not in capsys.readouterr().err


def test_items_are_listed_by_title_and_file_and_a_reason_is_told_once(
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
    server.will_answer((200, {}, JOB), (200, {}, {"items": items, "total": 2}))
    assert run(["jobs", "7", "--server", server.url]) == 0
    listed = capsys.readouterr().out
    assert "A Whale (a.md)" in listed
    assert " notes/b.md: it is empty" in listed
    assert listed.count("line 2") == 1
    assert "line 2: is not JSON" in listed


def test_doubts_about_a_text_are_told_when_its_job_has_ended(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("a note")
    job = {**JOB, "status": "succeeded", "progress": {**PROGRESS, "failed": 0}}
    items = [{**ITEMS[0], **REST_OF_ITEM, "warnings": [DOUBT]}, {**ITEMS[0], **REST_OF_ITEM, "seq": 1}]
    listed = (200, {}, {"items": items, "total": 2})
    arguments = ["upload", str(tmp_path / "note.txt"), "--wait", "--server", server.url]
    server.will_answer((202, {}, {"job": job}), (200, {}, job), listed)
    assert run(arguments) == 0
    assert capsys.readouterr().err == f"warning: a.md: {DOUBT}\n"
    server.will_answer((202, {}, {"job": job}), (200, {}, job), listed)
    assert run([*arguments, "--json"]) == 0
    (warned,) = json.loads(capsys.readouterr().out)["warned_items"]
    assert (warned["seq"], warned["warnings"]) == (0, [DOUBT])


def test_the_items_of_a_job_are_listed_with_their_warnings(
    server: ScriptedService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    items = [{**ITEMS[0], **REST_OF_ITEM, "warnings": [DOUBT]}]
    server.will_answer((200, {}, JOB), (200, {}, {"items": items, "total": 1}))
    assert run(["jobs", "7", "--server", server.url]) == 0
    assert f"warning: {DOUBT}" in capsys.readouterr().out


def test_what_an_upload_passes_over_in_folders_is_counted(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "a/note.md",
        "a/one.pdf",
        "a/b/two.PDF",
        "a/letter.docx",
        "c/.hidden",
        "c/page.html",
        "c/deep/x.pdf",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a note")
    folders = [str(tmp_path / "a"), str(tmp_path / "c")]
    server.will_answer((202, {}, {"job": {**JOB, "status": "enqueued"}}))
    assert run(["upload", *folders, "--json", "--server", server.url]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        f"warning: there is no .md, .markdown or .txt file in {folders[1]}",
        "5 passed over: 3 .pdf, 1 .docx, 1 .html",
    ]
    assert json.loads(told.out)["passed_over"] == {".pdf": 3, ".docx": 1, ".html": 1}
    (asked,) = server.asked
    assert asked.body.count(b"filename=") == 1
    assert run(["upload", folders[1], "--server", server.url]) == 1
    assert "2 passed over: 1 .html, 1 .pdf" in capsys.readouterr().err


def test_a_job_is_followed_by_lines_where_no_bar_can_be_drawn(
    server: ScriptedService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.cli.jobs.TOLD_EVERY_SECONDS", 0.0)
    drawn: list[int] = []
    monkeypatch.setattr(
        "shoal.cli.progress.Bar.move_to", lambda _bar, n_bytes, *_, **__: drawn.append(n_bytes)
    )
    progress = {**PROGRESS, "total": 4, "failed": 0, "bytes_total": 8_000_000, "bytes_done": 2_000_000}
    running = {**JOB, "status": "processing", "stage": "score", "kind": "rescore"}
    server.will_answer(
        (200, {}, running),
        (200, {}, {**running, "progress": {**progress, "fraction": 0.5, "seconds_left": 75.0}}),
        (200, {}, {**running, "status": "succeeded", "progress": {**progress, "done": 4, "fraction": 0.5}}),
    )
    assert run(["jobs", "7", "--wait", "--server", server.url]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "job 7 score: 2 of 4 items, 2.0 of 8.0 MB, 50% of the work done, about 1 min 15 s left"
    assert drawn == [4_000_000, 4_000_000], "a bar moves by the work, not by documents that are stored"


def test_what_was_canceled_is_not_told_as_stored(
    server: ScriptedService, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = {**PROGRESS, "total": 4, "done": 4, "canceled": 2}
    server.will_answer(
        (200, {}, {"job": {**JOB, "status": "canceled"}}),
        (200, {}, {**JOB, "status": "canceled", "progress": progress}),
    )
    assert run(["jobs", "7", "--cancel", "--server", server.url]) == 0
    told = capsys.readouterr().out
    assert told == "job 7 canceled: 1 stored, 0 duplicates, 1 failed, 2 canceled\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("notes.zip", "application/zip"), ("Notes.TAR.GZ", "application/gzip"), ("n.tgz", "application/gzip")],
)
def test_an_archive_is_sent_as_it_is(server: ScriptedService, tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"what the service takes apart")
    progress = {**PROGRESS, "skipped": 3}
    server.will_answer((202, {}, {"job": {**JOB, "status": "succeeded", "progress": progress}}))
    assert run(["upload", str(tmp_path / name), "--tags", "a,b c", "--server", server.url]) == 0
    (asked,) = server.asked
    headers = asked.headers
    assert asked.path == "/api/v1/documents/bulk?tags=a%2Cb+c"
    assert headers["Content-Type"] == kind
    assert headers["Content-Length"] == "28"
    assert headers["Idempotency-Key"]


def test_a_file_of_records_is_sent_as_it_is(server: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_bytes(b'{"content": "Tides."}\n')
    server.will_answer((202, {}, {"job": {**JOB, "status": "succeeded"}}))
    assert run(["upload", str(tmp_path / "notes.jsonl"), "--server", server.url]) == 0
    (asked,) = server.asked
    assert asked.headers["Content-Type"] == "application/x-ndjson"
    assert asked.json() == {"content": "Tides."}


def test_tags_for_records_that_have_their_own_are_refused(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.ndjson").write_bytes(b'{"content": "Tides."}\n')
    assert run(["upload", str(tmp_path / "notes.ndjson"), "--tags", "a", "--server", server.url]) == 2
    assert "every record has tags of its own" in capsys.readouterr().err
    assert server.asked == []


def test_an_archive_beside_others_is_refused_before_anything_is_sent(
    server: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.zip", "note.txt"):
        (tmp_path / name).write_bytes(b"text")
    assert (
        run(["upload", str(tmp_path / "notes.zip"), str(tmp_path / "note.txt"), "--server", server.url]) == 2
    )
    assert "name it alone" in capsys.readouterr().err
    assert server.asked == []
