"""What the tests of surfaces share: the library behind a service, and answers in one form."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from searched_library import ARGUMENTS

from shoal.cli.session import json_form
from shoal.client import Client
from shoal.engine import Engine

API = "/api/v1"
FILTERS = frozenset(name for name in ARGUMENTS if name.startswith("filters."))
UNITS = ("chunk", "note")
OF_ONE_RUN = ("trace_id", "took_ms", "ms")
"""Members of answers that differ between two runs."""
Arguments = Mapping[str, Any]


class World(NamedTuple):
    """A library, a service of it with clients, and a folder. Commands open the library by themselves."""

    engine: Engine
    url: str
    http: httpx.Client
    client: Client
    folder: Path


class Surface(NamedTuple):
    claims: Callable[[World], Iterable[str]]
    ask: Callable[[World, str, Arguments], Any]
    expected: Callable[[World, str, Arguments], Any]


class RefusedError(Exception):
    """The surface refused a search."""


def plain(value: Any, without: Iterable[str] = OF_ONE_RUN) -> Any:
    """Return a value as JSON, without what differs between two runs."""

    def clean(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: clean(each) for name, each in part.items() if name not in without}
        return [clean(each) for each in part] if isinstance(part, list) else part

    return clean(json.loads(json.dumps(json_form(value))))


def explanation(explained: Any) -> Any:
    """Return an explanation as JSON. The command adds the numbers of passages."""
    return plain(explained, (*OF_ONE_RUN, "chunk_index"))


def found_units(response: Any) -> Any:
    """Return what a search in passages and notes found, in the form of every surface."""
    answer = plain(response)
    found = [
        (
            each["note"]["id"] if "note" in each else each["chunk_id"],
            each["match_score"],
            [bool(each.get(name)) for name in ("before", "evidence", "shared_reefs")],
        )
        for each in answer["results"]
    ]
    return found, answer["warnings"], answer["weights"]


def once(answer: Callable[[World, str, Arguments], Any]) -> Callable[[World, str, Arguments], Any]:
    """Have the engine answer each question once: many surfaces are compared with the same answer."""
    answers: dict[tuple[Any, ...], Any] = {}

    @functools.wraps(answer)
    def answered(world: World, query: str, arguments: Arguments) -> Any:
        key = (world, query, repr(sorted(arguments.items())))
        if key not in answers:
            answers[key] = answer(world, query, arguments)
        return answers[key]

    return answered


@once
def by_engine(world: World, query: str, arguments: Arguments) -> Any:
    return plain(world.engine.search(query, **arguments))
