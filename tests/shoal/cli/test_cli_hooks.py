"""The commands of hooks and of the extraction, as people call them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shoal import Engine
from shoal.cli.app import run

ROOT = Path(__file__).parents[3]
LESSON = {
    "text": "Deploy this project with `make release`, because the script forgets the migrations.",
    "topic": "deployment",
    "friction": "correction",
    "scope": "anywhere",
    "confidence": 0.95,
    "quote": "no, deploy with make release",
}


@pytest.fixture
def library(tmp_path: Path, migrated_file: Path) -> Path:
    path = tmp_path / "a library.db"
    path.write_bytes(migrated_file.read_bytes())
    return path


def emitted(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_printed_configuration_runs_as_it_stands(
    library: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    configurations = emitted(capsys, "hook", "--print-config", "--db", library, "--owner", "me & co")
    assert [configuration["agent"] for configuration in configurations] == [
        "Claude Code",
        "Codex",
        "Gemini CLI",
    ]
    hooks = [json.loads(configuration["text"])["hooks"] for configuration in configurations]
    assert list(hooks[0]) == ["SessionStart", "UserPromptSubmit", "Stop", "PreToolUse"]
    assert list(hooks[2]) == ["SessionStart", "BeforeAgent", "AfterAgent"]
    with Engine(library) as engine:
        notes = engine.notes.of("me & co")
        notes.pin(notes.add("Lava of a volcano cools to basalt.").note.id)
    command = hooks[0]["SessionStart"][0]["hooks"][0]["command"]
    ran = subprocess.run(command, shell=True, cwd=tmp_path, input=b"{}", capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"volcano" in ran.stdout


def test_only_the_start_of_a_session_starts_the_service(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("hook", "--print-config", "--db", library, "--start", "shoal up")
    for configuration in emitted(capsys, *options):
        commands = re.findall(r'"command": "(.*)"', configuration["text"])
        assert [command for command in commands if "'--start=shoal up'" in command] == [
            command for command in commands if " session-start " in command
        ]
    assert run(["hook", "--print-config", "--server", "http://127.0.0.1:8000", "--start", "shoal up"]) == 1


def test_page_shows_the_printed_form(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    shown = json.loads(re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    printed = json.loads(emitted(capsys, "hook", "--print-config", "--db", library)[0]["text"])

    def form(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: form(item) for name, item in value.items()}
        return [form(item) for item in value] if isinstance(value, list) else type(value)

    assert form(shown) == form(printed)


def test_configuration_of_no_database_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hook", "--print-config", "--db", str(tmp_path / "missing.db")]) == 1
    assert "there is no database" in capsys.readouterr().err


def test_configuration_of_a_library_on_a_server_names_its_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("hook", "--print-config", "--db", "postgresql://ann:secret@db.example/library")
    assert run(list(options)) == 1
    assert "--server http://127.0.0.1:8000" in capsys.readouterr().err
    configurations = emitted(capsys, *options, "--server", "https://shoal.example")
    for configuration in configurations:
        assert "--server=https://shoal.example" in configuration["text"]
        assert "--db" not in configuration["text"]


def test_agent_answers_the_question_of_a_transcript(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript, answer = tmp_path / "session.jsonl", tmp_path / "answer.json"
    said = [
        ("assistant", "The tests pass. " * 700),
        ("user", LESSON["quote"] + ", the script forgets things"),
    ]
    transcript.write_text("".join(json.dumps({"role": role, "content": text}) + "\n" for role, text in said))
    answer.write_text(json.dumps({"lessons": [LESSON, {"text": "no"}]}))
    options = (transcript, "--db", library)
    request = emitted(capsys, "note", "extract", *options, "--show-request")
    assert set(request["schema"]["properties"]) == {"lessons"}
    assert request["session_id"] == "session"
    assert emitted(capsys, "note", "status", "--db", library)["extraction"]["n_waiting"] == 1
    [result] = emitted(capsys, "note", "extract", *options, "--answer", answer)
    assert (result["n_added"], len(result["refused"])) == (1, 1)
    status = emitted(capsys, "note", "status", "--db", library)
    assert (status["n_active"], status["extraction"]["n_waiting"]) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["extract"], 2, "give a TRANSCRIPT, or --waiting alone"),
        (["extract", "a.jsonl", "--waiting"], 2, "give a TRANSCRIPT, or --waiting alone"),
        (["extract", "missing.jsonl"], 1, "No such file"),
        (["extract", "notes.txt"], 2, ".jsonl"),
    ],
)
def test_wrong_use_says_what_to_do(
    library: Path,
    arguments: list[str],
    code: int,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["note", *arguments, "--db", str(library)]) == code
    assert reason in capsys.readouterr().err


def test_status_says_that_transcripts_wait_for_an_endpoint(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine(library) as engine:
        engine.notes.of("default").record_stop("s1", transcript_path="/tmp/t.jsonl")
    assert run(["note", "status", "--db", str(library)]) == 0
    out = capsys.readouterr().out
    assert "transcripts that wait: 1, since" in out
    assert "SHOAL_LLM_URL" in out
