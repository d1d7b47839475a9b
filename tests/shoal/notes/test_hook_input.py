"""Hooks read what agents send, whatever it is, and search for the words that tell what a tool is about to do."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.notes.hook_input import (
    EVENT_NAMES,
    MAX_INPUT_BYTES,
    MAX_WORDS,
    HookEvent,
    HookInput,
    is_skipped,
    parse_hook_input,
    tool_words,
)
from shoal.settings import Settings

COMMON = {
    "session_id": "abc-123",
    "transcript_path": "/home/ann/.agent/projects/app/abc-123.jsonl",
    "cwd": "/home/ann/work/acme/app",
    "permission_mode": "default",
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.sampled_from(get_args(HookEvent))


def parsed(event: HookEvent, **fields: Any) -> HookInput:
    return parse_hook_input(json.dumps(COMMON | fields).encode(), event)


def test_session_start() -> None:
    assert parsed("session-start", hook_event_name="SessionStart", source="compact") == HookInput(
        event="session-start",
        event_name="SessionStart",
        session_id="abc-123",
        cwd="/home/ann/work/acme/app",
        transcript_path="/home/ann/.agent/projects/app/abc-123.jsonl",
        source="compact",
    )


def test_prompt_is_searched_for_without_terminal_escapes() -> None:
    hook_input = parsed("prompt", hook_event_name="UserPromptSubmit", prompt=" Fix \x1b[31mthe\x07 tests\n")
    assert hook_input.query == "Fix the tests"


def test_tool_use_gives_the_words_of_paths_and_commands() -> None:
    edit = {
        "file_path": COMMON["cwd"] + "/src/ButtonGroup.test.tsx",
        "old_string": "secretive",
        "new_string": "x",
    }
    hook_input = parsed("tool-use", hook_event_name="PreToolUse", tool_name="Edit", tool_input=edit)
    assert hook_input.tool_name == "Edit"
    assert hook_input.words == ("Edit", "src", "ButtonGroup.test.tsx", "Button", "Group", "test", "tsx")
    assert tool_words("Bash", {"command": "git push --force origin main", "timeout": 5}) == (
        "Bash",
        "git",
        "push",
        "force",
        "origin",
        "main",
    )
    assert tool_words("mcp__tickets__create_issue", {"nested": [{"title": "Flaky HTTPServer"}]}) == (
        "tickets",
        "create",
        "issue",
        "Flaky",
        "HTTPServer",
        "HTTP",
        "Server",
    )


def test_stop_and_sessions_of_subagents() -> None:
    assert parsed("stop", stop_hook_active=True).query == ""
    assert not parsed("stop").is_subagent
    assert parsed("stop", agent_id="agent-7").is_subagent


@pytest.mark.parametrize(
    ("event", "sent", "used"),
    [
        ("prompt", "BeforeAgent", "BeforeAgent"),
        ("prompt", "PreToolUse", "UserPromptSubmit"),
        ("tool-use", None, "PreToolUse"),
        ("stop", "x" * 9999, "Stop"),
    ],
)
def test_event_name_is_one_of_the_event(event: HookEvent, sent: str | None, used: str) -> None:
    assert parsed(event, hook_event_name=sent).event_name == used


def test_names_of_other_agents() -> None:
    data = json.dumps({"conversation_id": "c1", "workspace_roots": ["/home/ann/app"], "prompt": "x"}).encode()
    hook_input = parse_hook_input(data, "prompt")
    assert (hook_input.session_id, hook_input.cwd) == ("c1", "/home/ann/app")


@pytest.mark.parametrize(
    "command",
    [
        "curl -H 'Authorization: Bearer hunter-two' https://api.example.org",
        "deploy --api-token hunter-two now",
        "deploy --password=hunter-two",
        "MY_SECRET=hunter-two make",
        'echo {"api_key": "hunter-two"}',
        "git clone https://ann:hunter-two@example.org/app.git",
    ],
)
def test_words_hold_no_secrets(command: str) -> None:
    words = tool_words("Bash", {"command": command})
    assert not any("hunter" in word for word in words)
    assert len(words) > 1


@pytest.mark.parametrize(
    "key", ["ghp_16C7e42F292c6912E7710c838347Ae178B4a", "9f86d081884c7d659a2feaa0c55ad015", "a" * 41]
)
def test_words_hold_no_keys_or_hashes(key: str) -> None:
    assert not any(key[-12:] in word for word in tool_words("Bash", {"command": f"login {key}"}))


def test_a_word_about_secrets_keeps_its_neighbours() -> None:
    assert tool_words("", {"description": "rotate the token cache"}) == ("rotate", "the", "token", "cache")


@given(EVENTS, st.binary(max_size=200))
def test_any_bytes_are_accepted(event: HookEvent, data: bytes) -> None:
    assert parse_hook_input(data, event).event == event


@given(
    EVENTS,
    st.dictionaries(
        st.sampled_from(
            [*COMMON, "hook_event_name", "prompt", "tool_name", "tool_input", "source", "workspace_roots"]
        ),
        JSON_VALUES,
    ),
)
def test_any_fields_are_accepted_within_the_limits(event: HookEvent, fields: dict[str, Any]) -> None:
    hook_input = parse_hook_input(json.dumps(fields).encode(), event)
    assert hook_input.event_name in EVENT_NAMES[event]
    assert len(hook_input.words) <= MAX_WORDS
    assert hook_input.session_id.isprintable()
    for path in (hook_input.cwd, hook_input.transcript_path):
        assert path == "" or path.startswith(("/", "\\")) or path[1] == ":"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"cwd": ' + b"9" * 10_000 + b"}",
        b'{"cwd": "/a", "prompt": "' + b"x" * MAX_INPUT_BYTES + b'"}',
    ],
    ids=["empty", "list", "null", "binary", "deep", "deep objects", "number", "huge"],
)
def test_broken_inputs_say_nothing_but_the_event(data: bytes) -> None:
    assert parse_hook_input(data, "prompt") == HookInput("prompt", "UserPromptSubmit")


@pytest.mark.parametrize("path", ["relative", "/a\nb", "/" + "a" * 4096, "/a\0", 7, ["/a"], ""])
def test_a_folder_that_is_no_absolute_path_is_unknown(path: object) -> None:
    assert parsed("stop", cwd=path).cwd == ""


def test_large_inputs_of_tools_give_few_words() -> None:
    hostile = {f"field{i}": {"deep": [" ".join(f"w{i}x{j}" for j in range(500))] * 50} for i in range(500)}
    assert len(tool_words("Bash", hostile)) == MAX_WORDS
    assert tool_words("Bash", {"a" * 10: "token" * 200_000, "b": "-" * 200_000, "c": "A" * 200_000}) == (
        "Bash",
    )


def test_tools_of_the_setting_are_skipped() -> None:
    skip_tools = Settings().hook_skip_tools
    assert is_skipped("Read", skip_tools)
    assert not is_skipped("Bash", skip_tools)
    assert not is_skipped("", skip_tools)
