"""Time of calls of the MCP server's tools, and its memory after few and after many of them.

    python -m benchmarks.mcp_calls DATABASE [--few 500] [--many 10000] [--clients 10] [--seed 1] [--most 1.5]

Starts `shoal mcp` on a copy of a library, over HTTP for `--clients` official clients at once, then over
stdio for one. Queries are runs of two to eight words of its passages; fifty notes are added first. Prints a
line of JSON for each transport before, after the few calls and after the many, with the memory of the
server (MB): `anonymous` is its own, `resident` includes cached pages of files. The last line of a transport
has p50 and p95 of each tool (ms, seen by the client) and the ratio of anonymous memory after the many calls
to that after the few. Exits 1 if a ratio is above `--most`, or a call failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from benchmarks.api_memory import memory
from benchmarks.process_tree import child_running
from benchmarks.search_latency import draw

N_QUERIES = 500
N_NOTES = 50
Times = dict[str, list[float]]
Call = tuple[str, dict[str, Any]]


def call_maker(queries: Sequence[str], chunk_ids: Sequence[int], seed: int) -> Callable[[], Call]:
    """Return a function that draws a call of a reading tool, each tool equally often."""
    drawn = random.Random(seed)

    def draw_call() -> Call:
        query, chunk_id = drawn.choice(queries), drawn.choice(chunk_ids)
        return drawn.choice(
            [
                ("search_chunks", {"query": query}),
                ("list_documents", {"title_contains": query.split()[0]}),
                ("read_passage", {"chunk_id": chunk_id}),
                ("explain_result", {"query": query, "chunk_id": chunk_id}),
                ("retrieve", {"query": query}),
                ("search", {"query": query}),
                ("fetch", {"id": "1/0"}),
                ("note_search", {"query": query}),
                ("note_list", {}),
                ("recall", {"query": query, "user_id": "bench", "threshold": 0.0}),
            ]
        )

    return draw_call


async def make_calls(
    connect: Callable[[], Client], draw_call: Callable[[], Call], n: int, clients: int
) -> Times:
    """Make `n` calls from concurrent clients; times in seconds by tool. A failed call has the tool
    `failed`."""
    times: Times = defaultdict(list)
    calls = iter([draw_call() for _ in range(n)])

    async def work() -> None:
        async with connect() as client:
            for tool, arguments in calls:
                began = time.perf_counter()
                result = await client.call_tool(tool, arguments)
                times["failed" if result.is_error else tool].append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(work())
    return times


async def add_notes(connect: Callable[[], Client], queries: Sequence[str]) -> list[int]:
    """Add notes; return ids of passages that the first queries find."""
    chunk_ids: set[int] = set()
    async with connect() as client:
        for query in queries[:N_NOTES]:
            await client.call_tool("note_add", {"text": f"Remember: {query}."})
            found = await client.call_tool("search_chunks", {"query": query})
            chunk_ids |= {result["chunk_id"] for result in found.structured_content["results"]}
    return sorted(chunk_ids)


async def measure(
    transport: str,
    connect: Callable[[], Client],
    pid: int,
    queries: Sequence[str],
    options: argparse.Namespace,
) -> bool:
    """Print the measurements of a transport; whether they are within the limits."""
    clients = options.clients if transport == "http" else 1
    print(json.dumps({"transport": transport, "calls": 0, **memory(pid)}), flush=True)
    draw_call = call_maker(queries, await add_notes(connect, queries), options.seed)
    measured = []
    for n in (options.few, options.many):
        began = time.perf_counter()
        times = await make_calls(connect, draw_call, n, clients)
        rate = round(n / (time.perf_counter() - began), 1)
        measured.append(memory(pid))
        line = {"transport": transport, "calls": n, "clients": clients, "per_s": rate, **measured[-1]}
        print(json.dumps(line), flush=True)
    percentiles = {tool: _percentiles(values) for tool, values in sorted(times.items())}
    ratio = round(measured[1]["anonymous"] / measured[0]["anonymous"], 2)
    print(json.dumps({"transport": transport, "ms": percentiles, "many_to_few": ratio}), flush=True)
    return "failed" not in times and ratio <= options.most


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    steps = statistics.quantiles([1000 * value for value in times], n=20, method="inclusive")
    return {"p50": round(steps[9], 1), "p95": round(steps[18], 1)}


def command_of(database: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "shoal.cli", "--db", str(database), "mcp", "--all-tools", *options]


@contextmanager
def serving(database: Path) -> Iterator[tuple[str, int]]:
    """Address and process id of a server over HTTP."""
    server = subprocess.Popen(
        command_of(database, "--http", "127.0.0.1:0"), stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        line = next(line for line in server.stderr if "MCP server on" in line)
        yield re.findall(r"http://\S+", line)[0], server.pid
    finally:
        server.terminate()
        server.communicate()


@asynccontextmanager
async def spawned(database: Path) -> AsyncIterator[tuple[Client, int]]:
    """A client of a server over stdio that it started, and the server's process id."""
    program, *arguments = command_of(database)
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with Client(parameters) as client:
        yield client, child_running(os.getpid(), "shoal.cli")


@asynccontextmanager
async def _open(client: Client) -> AsyncIterator[Client]:
    """A connection that is open already, and stays so."""
    yield client


async def run(folder: Path, options: argparse.Namespace) -> bool:
    database = folder / "bench.db"
    queries = draw(database, N_QUERIES, options.seed)
    with serving(database) as (url, pid):
        is_good = await measure("http", lambda: Client(url), pid, queries, options)
    async with spawned(database) as (client, pid):
        connect: Any = lambda: _open(client)  # noqa: E731
        return await measure("stdio", connect, pid, queries, options) and is_good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--few", type=int, default=500)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=1.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copyfile(options.database, folder / "bench.db")
        return int(not asyncio.run(run(folder, options)))


if __name__ == "__main__":
    os.environ.setdefault("SHOAL_LOG_LEVEL", "warning")
    sys.exit(main())
