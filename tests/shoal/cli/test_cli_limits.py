"""The numbers that commands take have the limits of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
import pytest
import typer
from fake_scorer import FakeScorer

from shoal.cli.app import app, load
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

SAME = {
    "search": "search",
    "explain": "explain",
    "verify": "verify",
    "list": "listDocuments",
    "suggest": "suggest",
    "vocabulary": "getVocabulary",
    "jobs": "listJobs",
    "note list": "listNotes",
    "note search": "searchNotes",
    "note recall": "recall",
    "note proposals": "listMergeProposals",
    "note merges": "listNoteMerges",
    "saved-search list": "listSavedSearches",
    "saved-search deliveries": "listWebhookDeliveries",
    "source list": "listSources",
    "source runs": "listSourceRuns",
    "source objects": "listSourceObjects",
    "queries list": "listQueries",
    "queries frequent": "listFrequentQueries",
    "queries judged": "listJudgedQueries",
    "synonyms list": "listSynonyms",
    "acronyms list": "listAcronyms",
    "pin list": "listPins",
    "key list": "listKeys",
    "collection list": "listCollections",
}
"""Commands, and the operation whose numbers they take by the same names."""


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The schema of each number by operation and name."""
    database = tmp_path_factory.mktemp("limits") / "shoal.db"
    with Engine(settings=Settings(database_url=f"sqlite:///{database}"), scorer=FakeScorer()) as engine:
        spec = create_app(engine.settings, engine=engine).test_client().get("/openapi.json").get_json()
    found: dict[str, dict[str, Any]] = {}
    for item in spec["paths"].values():
        for operation in item.values():
            if not isinstance(operation, dict) or "operationId" not in operation:
                continue
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            properties = dict(spec["components"]["schemas"].get(name, {}).get("properties", {}))
            properties |= {
                each["name"]: each["schema"] for each in operation.get("parameters", ()) if "name" in each
            }
            found[operation["operationId"]] = properties
    return found


def ranges() -> Iterator[tuple[str, str, click.IntRange | click.FloatRange]]:
    """The options with a range: command, name, range."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}".strip())
        for option in command.params:
            if hasattr(option.type, "min"):
                yield path, option.name, option.type

    load([])
    yield from walk(typer.main.get_command(app), "")


def test_numbers_of_commands_have_the_limits_of_the_api(operations: Mapping[str, Mapping[str, Any]]) -> None:
    compared = set()
    for command, name, limits in ranges():
        schema = operations.get(SAME.get(command, ""), {}).get(name)
        if schema is None:
            continue
        compared.add((command, name))
        assert limits.min == schema["minimum"], (command, name)
        # Without a maximum of its own, the library refuses what is too much.
        assert limits.max in (None, schema["maximum"]), (command, name)
    assert {("search", "top_k"), ("search", "rerank"), ("suggest", "limit")} <= compared
    assert {SAME[command] for command, _ in compared} == set(SAME.values())
