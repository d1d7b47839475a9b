"""What hooks answer, and what they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal import Engine
from shoal.errors import DatabaseUnavailableError
from shoal.notes import hooks
from shoal.notes.environment import Environment
from shoal.notes.hook_input import HookEvent, hook_input_of, without_secrets
from shoal.notes.hooks import ENVIRONMENT_SECONDS, Environments, answer_hook
from shoal.notes.notes import OwnerNotes

LAVA = "Lava of a volcano cools to basalt and ash."
RAIN = "Rain and storm of the monsoon season fall on the coast."
COURT = "The judge and the jury weigh the evidence of a crime."


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("me")


class Agent:
    """An agent in one session."""

    def __init__(
        self, engine: Engine, session_id: str = "s1", environment: Environment | None = None
    ) -> None:
        self._engine = engine
        self._session_id = session_id
        self._environment = environment or Environment(os="linux", repo="web", cwd="/web", tags=("react",))

    def __call__(self, event: HookEvent, **fields: Any) -> str:
        """The notes that a hook shows; empty for none."""
        hook_input = hook_input_of({"session_id": self._session_id, "cwd": "/web", **fields}, event)
        notes = self._engine.notes.of("me")
        answer = json.loads(
            answer_hook(notes, self._engine.settings, hook_input, lambda _folder: self._environment)
        )
        return str(answer["hookSpecificOutput"]["additionalContext"]) if answer else ""


@pytest.fixture
def agent(engine: Engine) -> Agent:
    return Agent(engine)


def events(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.database.snapshot() as snapshot:
        rows = snapshot.tuples("SELECT session_id, event, note_ids, context FROM hook_events ORDER BY id")
        return list(rows)


def test_note_is_shown_once_in_a_session(engine: Engine, notes: OwnerNotes, agent: Agent) -> None:
    lava, rain = notes.add(LAVA).note, notes.add(RAIN).note
    assert LAVA in agent("prompt", prompt="Why does lava of a volcano cool?")
    assert agent("prompt", prompt="Why does lava of a volcano cool?") == ""
    assert RAIN in agent("tool-use", tool_name="Bash", tool_input={"command": "grep monsoon coast-rain.txt"})
    assert agent("tool-use", tool_name="Bash", tool_input={"command": "grep monsoon coast-rain.txt"}) == ""
    assert LAVA in Agent(engine, "s2")("prompt", prompt="Why does lava of a volcano cool?")
    assert notes.get(lava.id).times_matched == 2
    assert notes.get(lava.id).repo_matches == {"web": 2}
    assert notes.shown("s1") == [lava.id, rain.id]
    assert [event[:3] for event in events(engine)] == [
        ("s1", "prompt", f"[{lava.id}]"),
        ("s1", "tool-use", f"[{rain.id}]"),
        ("s2", "prompt", f"[{lava.id}]"),
    ]


def test_hooks_at_the_same_time_show_a_note_once(
    engine: Engine, notes: OwnerNotes, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = notes.add(LAVA).note
    real = OwnerNotes.record_shown

    def shown_elsewhere_first(self: OwnerNotes, *arguments: Any, **options: Any) -> Any:
        real(self, "s1", [note.id], event="tool-use")
        return real(self, *arguments, **options)

    monkeypatch.setattr(OwnerNotes, "record_shown", shown_elsewhere_first)
    assert agent("prompt", prompt="lava of a volcano") == ""
    assert notes.get(note.id).times_matched == 1


def test_session_starts_with_pinned_notes_that_apply(engine: Engine, notes: OwnerNotes, agent: Agent) -> None:
    here, elsewhere, mac = notes.add(LAVA).note, notes.add(RAIN).note, notes.add(COURT).note
    notes.pin(here.id, tags=["react"])
    notes.pin(elsewhere.id, tags=["rust"])
    notes.pin(mac.id, prerequisites={"os": ["darwin"]})
    shown = agent("session-start", source="startup")
    assert LAVA in shown
    assert RAIN not in shown
    assert COURT not in shown
    # A resumed session has it; one whose context is gone gets it again.
    assert agent("session-start", source="resume") == ""
    assert LAVA in agent("session-start", source="compact")
    assert agent("prompt", prompt="Why does lava of a volcano cool?") == ""


def test_tools_of_the_list_are_skipped(notes: OwnerNotes, agent: Agent) -> None:
    notes.add(RAIN)
    assert agent("tool-use", tool_name="Read", tool_input={"file_path": "/web/monsoon-rain.txt"}) == ""
    assert RAIN in agent("tool-use", tool_name="Edit", tool_input={"file_path": "/web/monsoon-rain.txt"})


def test_note_that_resembles_the_prompt_too_little_is_not_shown(
    engine: Engine, notes: OwnerNotes, agent: Agent
) -> None:
    notes.add(LAVA)
    object.__setattr__(engine.settings, "hook_min_similarity", 1.0)
    assert agent("prompt", prompt="a volcano") == ""
    object.__setattr__(engine.settings, "hook_min_similarity", 0.0)
    assert LAVA in agent("prompt", prompt="a volcano")


def test_server_of_a_tool_counts_as_connected(notes: OwnerNotes, agent: Agent) -> None:
    notes.add(RAIN, prerequisites={"mcp_servers": ["weather"]})
    assert agent("prompt", prompt="rain of the monsoon") == ""
    assert RAIN in agent("tool-use", tool_name="mcp__weather__get", tool_input={"query": "monsoon rain"})


def test_log_of_events_keeps_no_secrets(engine: Engine, notes: OwnerNotes, agent: Agent) -> None:
    notes.add(LAVA)
    prompt = (
        "lava, basalt and ash: use token=hunter2hunter and AKIA4EXAMPLE9876KEYS5 for the volcano "
        + "x" * 20_000
    )
    assert LAVA in agent("prompt", prompt=prompt)
    [event] = events(engine)
    assert "hunter2" not in event[3]
    assert "AKIA" not in event[3]
    assert "volcano" in event[3]
    assert len(event[3]) <= 500


def test_stop_queues_the_transcript_of_a_session(engine: Engine, notes: OwnerNotes, agent: Agent) -> None:
    assert agent("stop", transcript_path="/tmp/t.jsonl") == ""
    assert notes.status().extraction.n_waiting == 1
    assert Agent(engine, "s2")("stop", transcript_path="/tmp/u.jsonl", agent_id="sub") == ""
    assert Agent(engine, "s3")("stop") == ""
    assert Agent(engine, "")("stop", transcript_path="/tmp/u.jsonl") == ""
    assert notes.status().extraction.n_waiting == 1
    with engine.database.snapshot() as snapshot:
        rows = snapshot.rows("SELECT session_id, repo, tags, transcript_path FROM agent_sessions")
    assert [tuple(row) for row in rows] == [
        ("s1", "web", '["react"]', "/tmp/t.jsonl"),
        ("s3", "web", '["react"]', ""),
    ]


def test_session_without_an_id_is_shown_notes_without_memory(notes: OwnerNotes, engine: Engine) -> None:
    notes.add(LAVA)
    unnamed = Agent(engine, "")
    assert LAVA in unnamed("prompt", prompt="lava of a volcano")
    assert LAVA in unnamed("prompt", prompt="lava of a volcano")
    assert events(engine) == []


def test_answer_does_not_depend_on_the_write(
    notes: OwnerNotes, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.add(LAVA)

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailableError("locked")

    monkeypatch.setattr(OwnerNotes, "record_shown", fail)
    assert LAVA in agent("prompt", prompt="lava of a volcano")


def test_answer_does_not_wait_for_other_writers(
    engine: Engine, notes: OwnerNotes, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.add(LAVA)
    monkeypatch.setattr(hooks, "RECORDING_SECONDS", 0.05)
    with engine.database.write():
        assert LAVA in agent("prompt", prompt="lava of a volcano")
    assert events(engine) == []
    assert LAVA in agent("prompt", prompt="lava of a volcano")
    assert len(events(engine)) == 1


def test_notes_of_a_late_answer_do_not_count_as_shown(
    engine: Engine, notes: OwnerNotes, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.add(LAVA)
    monkeypatch.setattr(hooks, "LATE_SECONDS", 0.0)
    assert LAVA in agent("prompt", prompt="lava of a volcano")
    assert events(engine) == []


def test_hook_without_a_subject_is_answered_with_nothing(notes: OwnerNotes, agent: Agent) -> None:
    notes.add(LAVA)
    assert agent("prompt", prompt="  ") == ""
    assert agent("prompt") == ""
    assert agent("tool-use", tool_name="", tool_input={"a": 1}) == ""


def test_owners_see_their_own_notes_only(engine: Engine, agent: Agent) -> None:
    other = engine.notes.of("other")
    other.pin(other.add(LAVA).note.id)
    assert agent("session-start") == ""
    assert agent("prompt", prompt="lava of a volcano") == ""


def test_environments_are_kept_for_a_minute(engine: Engine, tmp_path: Path) -> None:
    now = [0.0]
    environments = Environments(engine.settings, lambda: now[0])
    assert "rust" not in environments.of(str(tmp_path)).tags
    (tmp_path / "Cargo.toml").write_text("")
    assert "rust" not in environments.of(str(tmp_path)).tags
    now[0] = ENVIRONMENT_SECONDS + 1
    assert "rust" in environments.of(str(tmp_path)).tags
    assert environments.of("") == Environment()


def test_old_events_are_deleted(engine: Engine, notes: OwnerNotes, agent: Agent) -> None:
    notes.add(LAVA)
    agent("prompt", prompt="lava of a volcano")
    assert engine.notes.prune().events == 0
    with engine.database.write() as transaction:
        transaction.execute("UPDATE hook_events SET created_at = '2020-01-01T00:00:00.000Z'")
    assert engine.notes.prune().events == 1
    assert events(engine) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call it with --api-key abc123 now", "call it with   now"),
        ("https://me:pw@host/x", "https://host/x"),
        (r"{\"password\": \"hunter2\"} end", r"{\"  end"),
        ("hash 9f8e7d6c5b4a39281706abcdef end", "hash [removed] end"),
        ("the method getUserByAccountNumber", "the method getUserByAccountNumber"),
    ],
)
def test_secrets_are_removed_from_texts(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
