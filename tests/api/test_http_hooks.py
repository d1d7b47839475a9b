"""Hooks of agents over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API

from shoal.engine import Engine

LAVA = "Lava of a volcano cools to basalt and ash."


def ask(client: FlaskClient, event: str, data: Any, query: str = "", **options: Any) -> Any:
    return client.post(f"{API}/hooks/{event}{query}", json=data, **options)


def prompt(**fields: Any) -> dict[str, Any]:
    return {"input": {"session_id": "s1", "prompt": "lava of a volcano", **fields}}


def waiting(engine: Engine) -> int:
    return int(engine.notes.of("default").status().extraction.n_waiting)


def test_hook_is_answered_in_the_form_of_agents(client: FlaskClient, engine: Engine) -> None:
    engine.notes.of("default").add(LAVA)
    response = ask(client, "prompt", prompt(hook_event_name="BeforeAgent", unknown={"deep": [1]}))
    assert response.status_code == 200
    output = response.get_json()["hookSpecificOutput"]
    assert output["hookEventName"] == "BeforeAgent"
    assert f"> {LAVA}" in output["additionalContext"]
    assert ask(client, "prompt", prompt()).get_json() == {}


def test_owner_is_named_in_the_query(client: FlaskClient, engine: Engine) -> None:
    engine.notes.of("me").add(LAVA)
    assert ask(client, "prompt", prompt()).get_json() == {}
    assert LAVA in ask(client, "prompt", prompt(), "?owner=me").get_data(as_text=True)
    assert ask(client, "prompt", prompt(), "?owner=").status_code == 422


def test_environment_is_detected_here_unless_it_is_given(
    client: FlaskClient, engine: Engine, tmp_path: Path
) -> None:
    notes = engine.notes.of("default")
    notes.pin(notes.add(LAVA).note.id, tags=["rust"])
    (tmp_path / "Cargo.toml").write_text("")
    start = {"session_id": "s1", "cwd": str(tmp_path)}
    assert ask(client, "session-start", {"input": start, "environment": {"tags": ["go"]}}).get_json() == {}
    far = {"REMOTE_ADDR": "192.0.2.7"}
    assert ask(client, "session-start", {"input": start}, environ_base=far).get_json() == {}
    assert LAVA in ask(client, "session-start", {"input": start}).get_data(as_text=True)


@pytest.mark.parametrize(
    "options",
    [
        {"environ_base": {"REMOTE_ADDR": "192.0.2.7"}},
        {"headers": {"X-Forwarded-For": "192.0.2.7"}},
        {"headers": {"Forwarded": "for=192.0.2.7"}},
    ],
)
def test_transcript_is_queued_only_for_sessions_on_this_machine(
    client: FlaskClient, engine: Engine, options: dict[str, Any]
) -> None:
    stop = {"input": {"session_id": "s1", "transcript_path": "/etc/secrets.jsonl"}}
    assert ask(client, "stop", stop, **options).get_json() == {}
    assert waiting(engine) == 0
    assert ask(client, "stop", stop).get_json() == {}
    assert waiting(engine) == 1


@pytest.mark.parametrize(
    ("event", "data", "status"),
    [
        ("lunch", prompt(), 404),
        ("prompt", {}, 422),
        ("prompt", {"input": []}, 422),
        ("prompt", {"input": {}, "environment": {"tags": 5}}, 422),
        ("prompt", {"input": {}, "environment": {"shell": "sh"}}, 422),
        ("prompt", {"input": {}, "more": 1}, 422),
        ("prompt", {"input": {}}, 200),
        ("prompt", {"input": {"prompt": 5, "session_id": ["x"], "cwd": {}}}, 200),
        ("stop", {"input": {"session_id": "s\u0000", "transcript_path": "relative"}}, 200),
    ],
)
def test_bad_input_is_refused_or_ignored(client: FlaskClient, event: str, data: Any, status: int) -> None:
    assert ask(client, event, data).status_code == status
