"""Searches with the client, by commands, and by agents."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import io
import json
import os
import re
import unittest.mock
from collections.abc import Callable, Iterable
from typing import Any

from http_surfaces import webhook_of
from mcp import Client as AgentClient
from parity_world import (
    FILTERS,
    UNITS,
    Arguments,
    RefusedError,
    World,
    by_engine,
    explanation,
    found_units,
    once,
    plain,
)
from searched_library import ARGUMENTS

from shoal.cli.app import run as run_command
from shoal.client import AsyncClient
from shoal.client.requests import decode
from shoal.engine import Engine
from shoal.mcp.backend import EngineBackend
from shoal.mcp.server import ShoalServer, make_server
from shoal.models.search import SearchResponse


def parameters_of(method: Callable[..., Any]) -> Callable[[World], Iterable[str]]:
    """Return what reads the arguments of a method from its signature. `**search` are all arguments."""

    def read(_: World) -> Iterable[str]:
        parameters = inspect.signature(method).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return ARGUMENTS
        return {*parameters, *(FILTERS if "filters" in parameters else ())}

    return read


def every_argument(_: World) -> Iterable[str]:
    return ARGUMENTS


def by_search_many(world: World, query: str, arguments: Arguments) -> Any:
    (answer,) = world.engine.search_many([{"query": query, **arguments}]).answers
    if answer.error is not None:
        raise RefusedError(answer.error)
    return plain(answer.response)


def by_client(world: World, query: str, arguments: Arguments) -> Any:
    return plain(world.client.search(query, **arguments))


def by_client_json(world: World, query: str, arguments: Arguments) -> Any:
    return plain(decode(SearchResponse, world.client.search_json(query, **arguments)))


def by_client_batch(world: World, query: str, arguments: Arguments) -> Any:
    (answer,) = world.client.search_many([{"query": query, **arguments}]).answers
    if answer.error is not None:
        raise RefusedError(answer.error)
    return plain(answer.response)


def explained_by_client(world: World, query: str, arguments: Arguments) -> Any:
    return explanation(world.client.explain(query, **arguments))


def units_by_client(world: World, query: str, arguments: Arguments) -> Any:
    return found_units(world.client.search_units(query, units=UNITS, **arguments))


def by_async_client(world: World, query: str, arguments: Arguments) -> Any:
    async def search() -> SearchResponse:
        async with AsyncClient(world.url) as client:
            return await client.search(query, **arguments)

    return plain(asyncio.run(search()))


# Commands


def shoal(world: World, *arguments: str) -> str:
    """Run a command on the library, and return what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with (
        unittest.mock.patch.dict(os.environ, world.engine.settings.environment()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run_command(list(arguments))
    if code:
        raise RefusedError(err.getvalue() or out.getvalue())
    # The service logs its requests in this process.
    return re.sub(r"(?m)^[0-9]{4}-[0-9]{2}-.*\n", "", out.getvalue())


IN_OPTIONS = {"include_scores": "scores", "boosts": "boost", "facets": "facet"}
"""Options with another name than the argument."""


def options_of(*command: str) -> Callable[[World], Iterable[str]]:
    """Return what reads the arguments of a command from its help."""
    names = {option: argument for argument, option in IN_OPTIONS.items()}

    def read(world: World) -> Iterable[str]:
        options = re.findall(r"(?m)^  --([a-z-]+)", shoal(world, *command, "--help"))
        return {names.get(option, option.replace("-", "_")) for option in options}

    return read


def in_options(arguments: Arguments) -> list[str]:
    """Return arguments as options of a command."""
    options: list[str] = []
    for name, value in arguments.items():
        option = f"--{IN_OPTIONS.get(name, name).replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        if name == "weights":
            values = [",".join(f"{signal}={weight}" for signal, weight in value.items())]
        elif name == "tags":
            values = [",".join(value)]
        for each in values:
            options += [option] if each is True else [option, str(each)]
    return options


def with_scores(world: World, query: str, arguments: Arguments) -> Any:
    """The answer of the engine as `shoal search --json` has it."""
    return by_engine(world, query, {**arguments, "include_scores": True})


def by_command(world: World, query: str, arguments: Arguments) -> Any:
    return plain(json.loads(shoal(world, "search", query, "--json", *in_options(arguments))))


def by_server_command(world: World, query: str, arguments: Arguments) -> Any:
    server = ("--json", "--server", world.url)
    return plain(json.loads(shoal(world, "search", query, *server, *in_options(arguments))))


def explained_by_command(world: World, query: str, arguments: Arguments) -> Any:
    return explanation(json.loads(shoal(world, "explain", query, "--json", *in_options(arguments))))


def units_by_command(world: World, query: str, arguments: Arguments) -> Any:
    units = ("--json", "--units", ",".join(UNITS))
    return found_units(json.loads(shoal(world, "search", query, *units, *in_options(arguments))))


def _batch_command(world: World, line: str, options: Iterable[str]) -> Any:
    file = world.folder / "searches.txt"
    file.write_text(f"{line}\n")
    (answer,) = json.loads(shoal(world, "search", "--json", "--batch", str(file), *options))["answers"]
    if answer["error"] is not None:
        raise RefusedError(answer["error"])
    return plain(answer["response"])


def by_batch_command(world: World, query: str, arguments: Arguments) -> Any:
    return _batch_command(world, query, in_options(arguments))


def by_batch_line(world: World, query: str, arguments: Arguments) -> Any:
    return _batch_command(world, json.dumps({"query": query, **arguments}), ())


def by_saved_search_command(world: World, query: str, arguments: Arguments) -> Any:
    command = ("saved-search", "create", "parity", query, "--url", "http://example.org/", "--json")
    created = json.loads(shoal(world, *command, *in_options(arguments)))
    return webhook_of(world, created["saved_search"]["id"])


# Agents

OWN_OF_TOOL = {"max_tokens"}
"""Arguments of a tool with another meaning than those of a search: it counts the whole answer."""
IN_TOOL = {"filters.file_type": "file_type_filter", "filters.name_contains": "doc_name_filter"}


@functools.cache
def agent_server(engine: Engine) -> ShoalServer:
    return make_server(EngineBackend(engine))


def call(world: World, tool: str, **arguments: Any) -> Any:
    async def main() -> Any:
        async with AgentClient(agent_server(world.engine)) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(main())
    if result.is_error:
        raise RefusedError(result.content)
    return result.structured_content


def tool_members(tool: str) -> Callable[[World], Iterable[str]]:
    """Return what reads the arguments of a tool from its schema."""

    def read(world: World) -> Iterable[str]:
        async def main() -> Any:
            async with AgentClient(agent_server(world.engine)) as client:
                return await client.list_tools()

        (schema,) = [each.input_schema for each in asyncio.run(main()).tools if each.name == tool]
        names = {renamed: name for name, renamed in IN_TOOL.items()}
        return {names.get(name, name) for name in schema["properties"]} - OWN_OF_TOOL

    return read


def by_tool(world: World, query: str, arguments: Arguments) -> Any:
    flat = {name: value for name, value in arguments.items() if name != "filters"}
    flat |= {
        IN_TOOL.get(f"filters.{name}", name): each for name, each in arguments.get("filters", {}).items()
    }
    found = call(world, "search_chunks", query=query, max_tokens=100_000, **flat)
    passages = [[each["chunk_id"], each["start_line"], each["end_line"]] for each in found["results"]]
    facets = [[each["field"], [value["n_documents"] for value in each["values"]]] for each in found["facets"]]
    return passages, facets


@once
def as_of_tool(world: World, query: str, arguments: Arguments) -> Any:
    response = world.engine.search(query, **{**arguments, "expand": "time"})
    passages = [[each.chunk_id, each.start_line, each.end_line] for each in response.results]
    facets = [[facet.field, [each.count for each in facet.values]] for facet in response.facets or ()]
    return passages, facets
