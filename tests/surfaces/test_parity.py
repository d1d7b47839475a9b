"""Every argument of a search, through every surface that takes it, gives the answer of the engine."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

from exclusions import EXCLUDED
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer
from http_surfaces import post
from live_service import live
from parity_world import RefusedError, World, by_engine, plain
from program_surfaces import call
from search_surfaces import EXPLAINING, SEARCHING, SEARCHING_NOTES, as_explained
from searched_library import ARGUMENTS, CASES, PINNED, Case, fill

from shoal.client import Client, ClientError
from shoal.engine import Engine
from shoal.search import explanation as explaining
from shoal.settings import Settings

SURFACES = {**SEARCHING, **EXPLAINING, **SEARCHING_NOTES}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("parity")
    open_engine = Engine.__init__

    def open_with_fakes(self: Engine, **given: Any) -> None:
        open_engine(self, **{"scorer": FakeScorer(), "encoder": FakeEncoder(), **given})

    settings = Settings(
        database_url=f"sqlite:///{folder / 'shoal.db'}",
        learning=False,
        rerank_seconds=60,
        webhook_hosts="example.org",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", open_with_fakes)
        # Each is a search of its own, and says nothing about surfaces (tests/shoal/search/test_counterfactuals.py).
        patch.setattr(explaining, "find_counterfactuals", lambda *_: None)
        with Engine(settings=settings) as engine:
            fill(engine, folder)
            with (
                live(engine) as service,
                httpx.Client(base_url=service.url, timeout=60) as http,
                Client(service.url) as client,
            ):
                yield World(engine, service.url, http, client, folder)


def chunk_ids(world: World) -> list[int]:
    documents = world.engine.documents
    return [chunk.id for each in documents.list().documents for chunk in documents.chunks(each.id).chunks]


def case_of(world: World, argument: str) -> Case:
    case = CASES[argument]
    if argument == "cursor":
        return case._replace(value=world.engine.search(case.query, **case.base).next_cursor)
    return case


def test_every_argument_has_a_case_that_changes_the_answer(world: World) -> None:
    assert set(CASES) == ARGUMENTS
    for argument in CASES:
        case = case_of(world, argument)
        before = by_engine(world, case.query, case.base)
        assert by_engine(world, case.query, case.changed(argument)) != before, argument


@functools.cache
def case_of_passage(world: World, argument: str) -> Case:
    """Return the case of an argument for a passage whose explanation it changes, if there is one."""
    case = case_of(world, argument)
    for chunk_id in chunk_ids(world):
        before, after = (
            as_explained(world, case.query, {**given, "chunk_id": chunk_id})
            for given in (case.base, case.changed(argument))
        )
        if before != after:
            break
    return case._replace(base={**case.base, "chunk_id": chunk_id})


def case_for(world: World, surface: str, argument: str) -> Case:
    return case_of_passage(world, argument) if surface in EXPLAINING else case_of(world, argument)


@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_answers_as_the_engine_does(world: World, name: str) -> None:
    surface, excluded = SURFACES[name], EXCLUDED.get(name, {})
    claimed = {*surface.claims(world)} & ARGUMENTS
    assert not ARGUMENTS - claimed - excluded.keys(), "take it, or say why not in exclusions.py"
    for argument in sorted(claimed - excluded.keys()):
        case = case_for(world, name, argument)
        arguments = case.changed(argument)
        expected = surface.expected(world, case.query, arguments)
        assert surface.ask(world, case.query, arguments) == expected, argument
        assert expected != surface.expected(world, case.query, case.base), argument


@pytest.mark.parametrize("name", EXCLUDED)
def test_what_is_excluded_is_refused_or_has_no_effect(world: World, name: str) -> None:
    surface = SURFACES[name]
    # A page ignores what its form does not have, as an address of the web does.
    excluded = EXCLUDED[name].keys() & surface.claims(world) if name.startswith("console") else EXCLUDED[name]
    for argument in sorted(excluded):
        case = case_for(world, name, argument)
        try:
            answer = surface.ask(world, case.query, case.changed(argument))
        except (RefusedError, ClientError, TypeError):
            continue
        assert argument in surface.claims(world), argument
        assert answer == surface.expected(world, case.query, case.base), argument


@pytest.mark.parametrize("argument", sorted(ARGUMENTS))
def test_an_explanation_agrees_with_the_page(world: World, argument: str) -> None:
    case = case_of(world, argument)
    arguments = case.changed(argument)
    response = world.engine.search(case.query, **{**arguments, "max_tokens": None})
    page = [each.chunk_id for each in response.results]
    if response.documents is not None:
        page = [each.best_chunk_id for each in response.documents]
    first = arguments.get("offset", 3 if argument == "cursor" else 0)
    on_page = {}
    for chunk_id in chunk_ids(world):
        target = world.engine.explain(case.query, chunk_id=chunk_id, **arguments).target
        assert target is not None
        if not target.kept_out and target.rank is not None and target.rank > first:
            on_page[target.rank] = chunk_id
    assert [on_page[rank] for rank in sorted(on_page)] == page


@pytest.mark.parametrize(
    "arguments",
    [
        {"top_k": 2},
        {"threshold": 0.9},
        {"filters": {"year": 2022}},
        {"filters": {"source": "fire.md"}},
        {"filter": "tags = sea"},
    ],
)
def test_a_retrieval_is_the_same_everywhere(world: World, arguments: dict[str, Any]) -> None:
    expected = plain(world.engine.retrieve(PINNED, **arguments))
    assert expected != plain(world.engine.retrieve(PINNED))
    assert plain(post(world, "/retrieve", {"query": PINNED, **arguments})) == expected
    assert plain(world.client.retrieve(PINNED, **arguments)) == expected
    if "filter" not in arguments:
        found = call(world, "retrieve", query=PINNED, **arguments)
        assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", [name for name in SURFACES if "console" not in name])
def test_the_name_of_another_engine_is_refused_with_the_name_here(world: World, name: str) -> None:
    surface = SURFACES[name]
    for other, argument in {"limit": "top_k", "where": "filter", "sort_by": "sort", "k": "top_k"}.items():
        if argument in surface.claims(world) and argument not in EXCLUDED.get(name, {}):
            written = "|".join((argument, argument.replace("_", "-")))
            hint = f"(?i)(did you mean|possible options:) [`-]*({written})\\b"
            with pytest.raises((RefusedError, ClientError, TypeError), match=hint):
                surface.ask(world, "sea", {other: 3})
