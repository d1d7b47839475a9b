"""Structural prerequisites: physical conditions without which a note is never shown.

Each of the four gates is a list. An empty list is no gate.

| gate | holds if |
|---|---|
| `os` | the operating system is one of them |
| `repos` | the repository is one of them, in any case of letters |
| `paths` | the working directory matches one of them or lies below (`folder_patterns`) |
| `mcp_servers` | all of them are connected |

Tags are no prerequisites here: affinity and relevance weigh them. `split_tags` takes them out of the form
that has them among the prerequisites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from shoal.errors import InvalidFieldError
from shoal.notes.environment import Environment, checked_tags, normalized_os, text_list
from shoal.support import patterns

MAX_VALUES = 50
"""Most values of one gate."""
MAX_CHARS = 200
"""Longest name of a system, repository or server, characters."""


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """The four gates of a note; the values of each are unique and sorted."""

    os: tuple[str, ...] = ()
    repos: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object, *, field: str = "prerequisites") -> Prerequisites:
        """Check the JSON form: an object with lists of texts; a text counts as a list with one text.

        None and `{}` mean no gates. Raises InvalidFieldError, which names the gate.
        """
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidFieldError(field, f"must be an object with {_one_of(GATES)}")
        for name in value:
            if name == "tags":
                raise InvalidFieldError(field, "tags are no prerequisite; give them as tags of the note")
            if name not in GATES:
                raise InvalidFieldError(field, f"{str(name)[:50]!r} is not one of {_one_of(GATES)}")
        return cls(**{gate: _checked(value.get(gate), gate, f"{field}.{gate}") for gate in GATES})

    def as_json(self) -> dict[str, list[str]]:
        """Return the JSON form, without empty gates."""
        return {gate: list(values) for gate in GATES if (values := getattr(self, gate))}

    def united(self, added: Prerequisites) -> Prerequisites:
        """Return the gates with the values of both, as feedback adds them: a value opens a gate that has
        others, and closes one that had none."""
        return Prerequisites(
            **{gate: tuple(sorted({*getattr(self, gate), *getattr(added, gate)})) for gate in GATES}
        )

    def hold_in(self, environment: Environment) -> bool:
        """Whether every gate holds. A gate fails in an environment that says nothing about it."""
        return not self.failed_in(environment)

    def failed_in(self, environment: Environment) -> tuple[str, ...]:
        """Return the names of the gates that do not hold, for explanations."""
        repo = environment.repo.casefold()
        holds = {
            "os": not self.os or environment.os in self.os,
            "repos": not self.repos or any(name.casefold() == repo for name in self.repos),
            "paths": not self.paths or any(patterns.matches(environment.cwd, p) for p in self.paths),
            "mcp_servers": set(self.mcp_servers) <= set(environment.mcp_servers),
        }
        return tuple(gate for gate in GATES if not holds[gate])


GATES = tuple(gate.name for gate in fields(Prerequisites))


def split_tags(value: object, *, field: str = "prerequisites") -> tuple[Prerequisites, tuple[str, ...]]:
    """Check prerequisites that may also have `tags`, as in 002: return the gates and the tags."""
    if not isinstance(value, Mapping) or "tags" not in value:
        return Prerequisites.from_json(value, field=field), ()
    gates = {name: values for name, values in value.items() if name != "tags"}
    tags = checked_tags(value["tags"], f"{field}.tags")
    return Prerequisites.from_json(gates, field=field), tags


def merge(prerequisites: Iterable[Prerequisites]) -> Prerequisites:
    """Return the gates of a note that absorbs others: it holds wherever one of the merged notes held.

    `os`, `repos` and `paths` are united; one note without such a gate opens the gate. Of `mcp_servers`, only
    those that all notes need remain.
    """
    notes = list(prerequisites)
    if not notes:
        return Prerequisites()
    servers = set(notes[0].mcp_servers).intersection(*(note.mcp_servers for note in notes))
    return Prerequisites(
        os=_united([note.os for note in notes]),
        repos=_united([note.repos for note in notes]),
        paths=_united([note.paths for note in notes]),
        mcp_servers=tuple(sorted(servers)),
    )


def merge_tags(tags: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the tags that all merged notes have, sorted."""
    sets = [frozenset(note) for note in tags]
    return tuple(sorted(frozenset.intersection(*sets))) if sets else ()


def _united(gates: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted(set().union(*gates))) if all(gates) else ()


def _checked(value: Any, gate: str, field: str) -> tuple[str, ...]:
    max_chars = patterns.MAX_CHARS if gate == "paths" else MAX_CHARS
    values = text_list(value, field, MAX_VALUES, max_chars)
    return tuple(sorted({normalized_os(name) for name in values} if gate == "os" else set(values)))


def _one_of(names: Sequence[str]) -> str:
    return ", ".join(names)
