"""The surfaces of a search, used as people and programs use them.

Each says which arguments it takes, in the place where a user reads it: the OpenAPI document, `--help`, the
signature of a client, the schema of a tool, the form of a page. `ask` sends a search through it, `expected` is
the answer of the engine in the form of the surface.
"""

from __future__ import annotations

from typing import Any

import http_surfaces as http
import program_surfaces as program
from parity_world import UNITS, Arguments, Surface, World, by_engine, explanation, found_units, once

from shoal.client import AsyncClient, Client

# Explanations, and passages with notes


@once
def as_explained(world: World, query: str, arguments: Arguments) -> Any:
    return explanation(world.engine.explain(query, **arguments))


@once
def as_of_units(world: World, query: str, arguments: Arguments) -> Any:
    return found_units(world.engine.search_units(query, units=UNITS, **arguments))


def as_of_units_with_scores(world: World, query: str, arguments: Arguments) -> Any:
    return as_of_units(world, query, {**arguments, "include_scores": True})


EXPLAINING: dict[str, Surface] = {
    "POST /explain": Surface(http.body_members("/explain"), http.explained_by_body, as_explained),
    "Client.explain": Surface(
        program.parameters_of(Client.explain), program.explained_by_client, as_explained
    ),
    "shoal explain": Surface(program.options_of("explain"), program.explained_by_command, as_explained),
}
SEARCHING_NOTES: dict[str, Surface] = {
    "POST /search with notes": Surface(http.body_members("/search"), http.units_by_body, as_of_units),
    "GET /search with notes": Surface(http.address_members, http.units_by_address, as_of_units),
    "Client.search_units": Surface(
        program.parameters_of(Client.search_units), program.units_by_client, as_of_units
    ),
    "shoal search --units": Surface(
        program.options_of("search"), program.units_by_command, as_of_units_with_scores
    ),
}
SEARCHING: dict[str, Surface] = {
    "Engine.search_many": Surface(program.every_argument, program.by_search_many, by_engine),
    "POST /search": Surface(http.body_members("/search"), http.by_body, by_engine),
    "POST /search, lines": Surface(http.body_members("/search"), http.by_lines, by_engine),
    "GET /search": Surface(http.address_members, http.by_address, by_engine),
    "POST /search/batch": Surface(program.every_argument, http.by_batch, by_engine),
    "Client.search": Surface(program.parameters_of(Client.search), program.by_client, by_engine),
    "Client.search_json": Surface(
        program.parameters_of(Client.search_json), program.by_client_json, by_engine
    ),
    "Client.search_many": Surface(program.every_argument, program.by_client_batch, by_engine),
    "AsyncClient.search": Surface(
        program.parameters_of(AsyncClient.search), program.by_async_client, by_engine
    ),
    "shoal search": Surface(program.options_of("search"), program.by_command, program.with_scores),
    "shoal search --server": Surface(
        program.options_of("search"), program.by_server_command, program.with_scores
    ),
    "shoal search --batch": Surface(
        program.options_of("search"), program.by_batch_command, program.with_scores
    ),
    "shoal search --batch, line": Surface(program.every_argument, program.by_batch_line, program.with_scores),
    "search_chunks": Surface(program.tool_members("search_chunks"), program.by_tool, program.as_of_tool),
    "console": Surface(http.form_members, http.by_console, http.as_of_console),
    "POST /saved-searches": Surface(
        http.body_members("/saved-searches", "search"), http.by_saved_search, http.as_of_saved_search
    ),
    "shoal saved-search create": Surface(
        program.options_of("saved-search", "create"), program.by_saved_search_command, http.as_of_saved_search
    ),
    "console, saved searches": Surface(
        http.saved_search_form_members, http.by_saved_search_form, http.as_of_saved_search
    ),
}
