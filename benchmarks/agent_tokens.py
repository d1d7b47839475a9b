"""What the tools for agents cost in tokens: their schemas, and an answer of a search.

    python -m benchmarks.agent_tokens DATABASE [--queries 50] [--seed 1]

Queries are runs of two to eight words of the passages of a library. Prints, for the usual tools and for all,
the tokens of names, descriptions and schemas of arguments at four characters each; and the tokens of the
answers of `search_chunks` with its defaults, text and structured content apart, in the mean and the most, by
the estimate that `max_tokens` counts with (`shoal.support.token_estimate`) and at four characters each. The
estimate finds more tokens than tokenizers of models do: about a tenth more in code and text, and four tenths
in JSON. Exits 1 if the schemas of the usual tools or an answer is above its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path
from typing import Any

from mcp import Client

from benchmarks.search_latency import draw
from shoal import Engine
from shoal.mcp.backend import EngineBackend
from shoal.mcp.server import ServerOptions, make_server
from shoal.support.token_estimate import count_tokens

CHARS_PER_TOKEN = 4
MOST_OF_SCHEMAS, MOST_OF_ANSWER = 2_500, 1_300


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def schema_tokens(backend: EngineBackend, *, all_tools: bool) -> tuple[int, float]:
    """The number of tools, and the tokens of what an agent reads of them."""
    async with Client(make_server(backend, ServerOptions(all_tools=all_tools))) as client:
        tools = (await client.list_tools()).tools
    described = [[tool.name, tool.description, tool.input_schema] for tool in tools]
    return len(tools), len(compact(described)) / CHARS_PER_TOKEN


async def answers(backend: EngineBackend, queries: list[str]) -> list[tuple[str, str]]:
    """Text and structured content of the answer to each query."""
    async with Client(make_server(backend, ServerOptions(all_tools=False))) as client:
        results = [await client.call_tool("search_chunks", {"query": query}) for query in queries]
    return [(result.content[0].text, compact(result.structured_content)) for result in results]


def line(name: str, costs: list[float]) -> str:
    return f"  {name:<46} mean {statistics.fmean(costs):7.0f}  most {max(costs):7.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with Engine(options.database) as engine:
        backend = EngineBackend(engine)
        n_usual, usual = asyncio.run(schema_tokens(backend, all_tools=False))
        n_all, of_all = asyncio.run(schema_tokens(backend, all_tools=True))
        print(f"schemas of {n_usual} tools: {usual:,.0f} tokens; of all {n_all}: {of_all:,.0f}")
        found = asyncio.run(answers(backend, draw(options.database, options.queries, options.seed)))
    totals = [float(count_tokens(text) + count_tokens(data)) for text, data in found]
    print(f"answers of search_chunks to {len(found)} queries, tokens:")
    print(line("text and structured content, estimate", totals))
    print(line("text, estimate", [count_tokens(text) for text, _ in found]))
    print(line("structured content, estimate", [count_tokens(data) for _, data in found]))
    print(line("both, four characters each", [len(text + data) / CHARS_PER_TOKEN for text, data in found]))
    return int(usual > MOST_OF_SCHEMAS or max(totals) > MOST_OF_ANSWER)


if __name__ == "__main__":
    raise SystemExit(main())
