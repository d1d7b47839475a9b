"""The JSON that coding agents send to hooks, and the words of it that are searched for.

The agents share a protocol: an object with `session_id`, `cwd`, `transcript_path` and `hook_event_name`, and
by event `source`, `prompt`, or `tool_name` and `tool_input`. Variants of these names are accepted too. A hook
must never disturb its caller, so nothing here fails: a field that is missing, of a wrong type or too long is
empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Literal

from shoal.support.plain_text import plain

HookEvent = Literal["session-start", "prompt", "tool-use", "stop"]

EVENT_NAMES: dict[HookEvent, tuple[str, ...]] = {
    "session-start": ("SessionStart", "sessionStart"),
    "prompt": ("UserPromptSubmit", "userPromptSubmitted", "beforeSubmitPrompt", "BeforeAgent"),
    "tool-use": ("PreToolUse", "preToolUse", "BeforeTool"),
    "stop": ("Stop", "stop", "agentStop", "AfterAgent"),
}
"""Names of an event in the agents' protocols; the first is the usual one."""

MAX_INPUT_BYTES = 8 * 1024 * 1024
"""Larger inputs are ignored. The largest ones write whole files."""
MAX_NAME_CHARS = 200
MAX_PATH_CHARS = 4096
MAX_PROMPT_CHARS = 20_000
MAX_WORDS = 40
"""Most words of a tool's use that are searched for."""

_MAX_WORD_CHARS = 40
_MAX_VALUE_CHARS = 1000
_MAX_VALUES = 100
_MAX_DEPTH = 4

# The content of files says less about what the agent is about to do than their names.
_BULK_FIELDS = frozenset(
    {"content", "contents", "edits", "file_text", "insert_text", "new_source", "new_str", "new_string"}
    | {"old_source", "old_str", "old_string", "patch", "todos"}
)
_FIRST_FIELDS = ("command", "file_path", "path", "notebook_path", "url", "query", "pattern", "description")
_WORD = re.compile(r"[^\W_]++(?:[-'.][^\W_]++)*+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]++|\d++")
_SENSITIVE_NAME = r"(?:token|secret|passw(?:or)?d|credential|api[-_]?key)"
_SECRET_VALUE = re.compile(
    rf"""(?:
        # --api-token VALUE; TOKEN=VALUE, authorization: bearer VALUE; bearer VALUE; quotes may be escaped
        (?<![\w-])--?[\w-]{{0,30}}{_SENSITIVE_NAME}[\w-]{{0,30}}(?:=|\s++)
      | (?:{_SENSITIVE_NAME}|authorization)[\w-]{{0,60}}+\\{{0,9}}+["']?\s*+[:=]\s*+(?:(?:basic|bearer)\s++)?
      | \b(?:basic|bearer)\s++
    )\S++""",
    re.IGNORECASE | re.VERBOSE,
)
_SPACED = re.compile(r"\S{16,}+")
_ADDRESS_USER = re.compile(r"(://)[^/@\s]++@")


@dataclass(frozen=True, slots=True)
class HookInput:
    """The input of a hook. An empty field is unknown.

    event_name       as the agent sent it, or the usual name
    cwd              absolute path
    prompt           of the event `prompt`
    words            of the event `tool-use`: what is searched for, without what looks like a secret
    transcript_path  absolute path
    source           of the event `session-start`: startup, resume, clear or compact
    is_subagent      whether the session is one that another session started
    """

    event: HookEvent
    event_name: str
    session_id: str = ""
    cwd: str = ""
    prompt: str = ""
    tool_name: str = ""
    words: tuple[str, ...] = ()
    transcript_path: str = ""
    source: str = ""
    is_subagent: bool = False

    @property
    def query(self) -> str:
        """What to search notes for; empty for events that search nothing."""
        return self.prompt if self.event == "prompt" else " ".join(self.words)

    def as_json(self) -> dict[str, str]:
        """Return an input that says the same in a few kilobytes."""
        return {
            "hook_event_name": self.event_name,
            "session_id": self.session_id,
            "cwd": self.cwd,
            "prompt": self.prompt,
            "tool_name": self.tool_name,
            "tool_input": " ".join(self.words),
            "transcript_path": self.transcript_path,
            "source": self.source,
            "agent_id": "subagent" if self.is_subagent else "",
        }


def parse_hook_input(data: bytes, event: HookEvent) -> HookInput:
    """Return what the input of a hook says; nothing but the event if it is not a JSON object."""
    return hook_input_of(_parse_object(data), event)


def hook_input_of(fields: Mapping[str, Any], event: HookEvent) -> HookInput:
    """Return what the fields of an input say."""
    cwd = _path(fields.get("cwd")) or _path(_first(fields.get("workspace_roots")))
    tool_name = _name(fields.get("tool_name"))
    event_name = _name(fields.get("hook_event_name"))
    return HookInput(
        event=event,
        event_name=event_name if event_name in EVENT_NAMES[event] else EVENT_NAMES[event][0],
        session_id=_name(fields.get("session_id")) or _name(fields.get("conversation_id")),
        cwd=cwd,
        prompt=_prompt(fields.get("prompt")) if event == "prompt" else "",
        tool_name=tool_name,
        words=tool_words(tool_name, fields.get("tool_input"), cwd) if event == "tool-use" else (),
        transcript_path=_path(fields.get("transcript_path")),
        source=_name(fields.get("source")),
        is_subagent=bool(fields.get("agent_id")),
    )


def is_skipped(tool_name: str, skip_tools: str) -> bool:
    """Whether a tool is in a list of names separated by commas (`hook_skip_tools`)."""
    return tool_name in {name.strip() for name in skip_tools.split(",")}


def tool_words(tool_name: str, tool_input: object, cwd: str = "") -> tuple[str, ...]:
    """Return the words of a tool's name and input that are searched for: at most MAX_WORDS, each once.

    Paths below `cwd` lose it, and names such as `ButtonGroup` give their parts as well. What looks like a
    secret is left out, because the event log keeps the words.
    """
    words: dict[str, str] = {}
    for text in (tool_name.removeprefix("mcp__"), *_values(tool_input)):
        for word in _words(_without_secrets(text), cwd):
            words.setdefault(word.casefold(), word)
            if len(words) >= MAX_WORDS:
                return tuple(words.values())
    return tuple(words.values())


def without_secrets(text: str) -> str:
    """Return a text without what looks like a password, a key or a hash, and without control characters."""
    named = _without_secrets(text)
    return _SPACED.sub(lambda word: "[removed]" if _looks_random(word.group()) else word.group(), named)


def _parse_object(data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_INPUT_BYTES:
        return {}
    try:
        value = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _values(value: object) -> Iterator[str]:
    """Yield the texts in a tool's input, the telling fields first."""
    return islice(_nested_values(value, 0), _MAX_VALUES)


def _nested_values(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_MAX_VALUE_CHARS]
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        first = [name for name in _FIRST_FIELDS if name in value]
        others = [name for name in value if name not in _FIRST_FIELDS and name not in _BULK_FIELDS]
        for name in islice((*first, *others), _MAX_VALUES):
            yield from _nested_values(value[name], depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list):
        for item in islice(value, _MAX_VALUES):
            yield from _nested_values(item, depth + 1)


def _without_secrets(text: str) -> str:
    return _SECRET_VALUE.sub(" ", _ADDRESS_USER.sub(r"\1", plain(text)))


def _words(text: str, cwd: str) -> Iterator[str]:
    relative = text.replace(cwd, " ") if len(cwd) > 1 else text
    for word in _WORD.findall(relative):
        if len(word) > _MAX_WORD_CHARS or word.isdigit() or _looks_random(word):
            continue
        yield word
        parts = [part for part in _CAMEL.findall(word) if len(part) > 1 and not part.isdigit()]
        if len(parts) > 1:
            yield from parts


def _looks_random(word: str) -> bool:
    """Whether a word looks like a key or a hash: long, and digits among its letters."""
    n_digits = sum(character.isdigit() for character in word)
    return len(word) >= 16 and n_digits >= 3


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _name(value: object) -> str:
    """Return a text of one line; empty if it is none, too long, or has control characters."""
    is_valid = isinstance(value, str) and len(value) <= MAX_NAME_CHARS and value.isprintable()
    return str(value).strip() if is_valid else ""


def _path(value: object) -> str:
    is_valid = isinstance(value, str) and len(value) <= MAX_PATH_CHARS and value.isprintable()
    path = str(value) if is_valid else ""
    return path if PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute() else ""


def _prompt(value: object) -> str:
    return plain(value[:MAX_PROMPT_CHARS]).strip() if isinstance(value, str) else ""
