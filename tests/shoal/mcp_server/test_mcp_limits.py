"""The numbers that tools take: what their schemas allow is what the library accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from mcp.client import Client
from mcp_library import run, server_of
from test_mcp_tools import CALLS

from shoal.engine import Engine
from shoal.mcp.backend import EngineBackend
from shoal.settings import Settings

NUMBERS = {"integer", "number"}


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=dataclasses.replace(settings, max_top_k=60), scorer=FakeScorer()) as engine:
        engine.ingest(title="Bees", content="# A\n\nRain falls.\n\n# B\n\nLava rises.\n", format="markdown")
        yield engine


def limits_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a number, also if it may be null; empty for other values."""
    options = schema.get("anyOf", [schema])
    return next((option for option in options if option.get("type") in NUMBERS), {})


def test_limits_of_the_tools_are_those_of_the_library(engine: Engine, tmp_path: Path) -> None:
    async def main() -> dict[tuple[str, str, int], bool]:
        outcomes = {}
        async with Client(server_of(EngineBackend(engine))) as client:
            for tool in (await client.list_tools()).tools:
                for name, schema in tool.input_schema.get("properties", {}).items():
                    limits = limits_of(schema)
                    if tool.name not in CALLS or not limits or name.endswith("_id"):
                        continue
                    assert "minimum" in limits, (tool.name, name)
                    low = limits["minimum"]
                    # Without a maximum of its own, the setting is the limit.
                    high = limits.get("maximum", engine.settings.max_top_k)
                    assert "maximum" in limits or name == "top_k", (tool.name, name)
                    for value in (low - 1, low, high, high + 1):
                        arguments = {**CALLS[tool.name], name: value}
                        result = await client.call_tool(tool.name, arguments)
                        outcomes[tool.name, name, value] = (not result.is_error) == (low <= value <= high)
        return outcomes

    outcomes = run(main)
    assert len(outcomes) > 30
    assert [case for case, is_right in outcomes.items() if not is_right] == []
