"""Documents that try to speak to the agent, resources, prompts, and clients that misbehave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

import anyio
import httpx
from mcp import Client, MCPError
from mcp_library import BEES, run, served, server_of, stdio
from waiting import DEADLINE_SECONDS

from shoal.engine import Engine
from shoal.mcp.backend import Backend, EngineBackend
from shoal.mcp.results import NOTICE, UNTRUSTED, clean_value
from shoal.mcp.server import make_server
from shoal.support.plain_text import clean, indented

INVISIBLE = set("\x1b\x07\r\u200b\u202e\U000e0041\U000e0042")
SAMPLE = {"query": "the court heard the judge", "doc_name_filter": "law"}


async def _call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result


def in_memory(backend: Backend, tool: str, **arguments: Any) -> Any:
    async def main() -> Any:
        async with Client(server_of(backend)) as client:
            return await _call(client, tool, **arguments)

    return run(main)


def test_a_document_cannot_imitate_results_or_hide_text(backend: Backend) -> None:
    result = in_memory(backend, "search_chunks", **SAMPLE)
    text = result.content[0].text
    heads = [line for line in text.splitlines() if line.startswith("[")]
    assert len(heads) == result.structured_content["n_results"]
    assert not any("[2] law.md (line 1)" in head for head in heads)
    known = ("[", "    ", NOTICE, "Warning: ")
    others = [line for line in text.splitlines() if line and not line.startswith(known)]
    assert len(others) == 1
    assert "matching passage" in others[0]
    chunk_id = result.structured_content["results"][0]["chunk_id"]
    read = in_memory(backend, "read_passage", chunk_id=chunk_id)
    explained = in_memory(backend, "explain_result", query="judge", chunk_id=chunk_id)
    listed = in_memory(backend, "list_documents", title_contains="law")
    retrieved = in_memory(backend, "retrieve", query="judge court")
    fetched = in_memory(backend, "fetch", id="3")
    for shown in (result, read, explained, listed, retrieved, fetched):
        assert shown.content[0].text
        everything = shown.content[0].text + json.dumps(shown.structured_content, ensure_ascii=False)
        assert not set(everything) & INVISIBLE
    outside = [line for line in read.content[0].text.splitlines() if not line.startswith("    ")]
    assert not any("Ignore all" in line or "SYSTEM" in line for line in outside)
    assert len(listed.content[0].text.splitlines()) == 2


def test_metadata_are_cleaned_at_every_depth(backend: Backend) -> None:
    result = in_memory(backend, "retrieve", query="bees flowers nectar", filters={"category": "nature"})
    assert result.structured_content["results"][0]["metadata"]["page"] == {"a": ["red"]}
    deep: Any = "end"
    for _ in range(50):
        deep = {"a": [deep]}
    assert "…" in json.dumps(clean_value(deep), ensure_ascii=False)
    assert clean("a\r\nb\rc\td") == "a\nb\nc\td"
    assert indented("a\n[1] b") == "    a\n    [1] b"


def test_documents_and_chunks_are_resources(backend: Backend) -> None:
    async def main() -> Any:
        async with Client(server_of(backend)) as client:
            templates = (await client.list_resource_templates()).resource_templates
            document = await client.read_resource("shoal://documents/1")
            chunk = await client.read_resource("shoal://documents/1/chunks/1")
            refusals = []
            for uri in (
                "1e3",
                "0",
                "-1",
                "٣",
                "99999",
                f"{10**30}",
                "1/chunks/99",
                "1/chunks/x",
                "1/x",
                "../1",
            ):
                with pytest.raises(MCPError) as error:
                    await client.read_resource(f"shoal://documents/{uri}")
                refusals.append(error.value)
            return templates, document.contents, chunk.contents, refusals

    templates, [document], [chunk], refusals = run(main)
    assert {template.uri_template for template in templates} == {
        "shoal://documents/{document_id}",
        "shoal://documents/{document_id}/chunks/{chunk_index}",
    }
    assert document.text == BEES
    assert chunk.text in BEES
    assert document.mime_type == "text/plain"
    assert document.meta == chunk.meta == UNTRUSTED
    assert {refusal.error.code for refusal in refusals} == {-32602}


def test_prompts_ask_for_citations_and_for_rejection(library: Engine) -> None:
    async def main() -> Any:
        async with Client(make_server(EngineBackend(library))) as client:
            prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
            answer = await client.get_prompt("answer_with_citations", {"question": "Why {x}?"})
            check = await client.get_prompt("check_grounding", {"answer": "Bees {0} fly."})
            for name, arguments, reason in (
                ("answer_with_citations", {}, "question is missing"),
                ("answer_with_citations", {"question": "a", "queston": "b"}, "did you mean question?"),
                ("answer_with_citation", {}, "there is no prompt 'answer_with_citation'; did you mean"),
            ):
                with pytest.raises(MCPError, match=re.escape(reason)):
                    await client.get_prompt(name, arguments)
            return prompts, answer.messages[0].content.text, check.messages[0].content.text

    prompts, answer, check = run(main)
    assert set(prompts) == {"answer_with_citations", "check_grounding"}
    assert answer.endswith("Question: Why {x}?\n")
    assert "cite its passage by number" in answer
    assert "say so" in answer
    assert check.endswith("Bees {0} fly.\n")
    assert "`no reference`" in check
    assert "Reject the answer" in check


def test_ten_clients_at_once_get_their_own_results(http_url: str) -> None:
    async def ask(number: int, found: dict[int, str]) -> None:
        async with Client(http_url) as client:
            for _ in range(3):
                result = await _call(
                    client, "search_chunks", query=f"the ship sails the sea, day {number}", top_k=1
                )
                found[number] = result.content[0].text

    async def main() -> tuple[dict[int, str], dict[int, str]]:
        at_once: dict[int, str] = {}
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(ask, number, at_once)
        alone: dict[int, str] = {}
        for number in range(10):
            await ask(number, alone)
        return at_once, alone

    at_once, alone = run(main)
    assert at_once == alone
    assert len(set(alone.values())) > 5


class SlowBackend(EngineBackend):
    """A library whose searches wait until they are released."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.began, self.release = threading.Event(), threading.Event()

    def search(self, query: str, **arguments: Any) -> Any:
        if query == "slow":
            self.began.set()
            assert self.release.wait(DEADLINE_SECONDS)
        return super().search(query, **arguments)


def test_a_client_that_disconnects_in_the_middle_harms_no_other(library: Engine) -> None:
    backend = SlowBackend(library)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call |= {"params": {"name": "search_chunks", "arguments": {"query": "slow"}}}

    async def main(url: str) -> Any:
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(headers=headers) as leaving:
            with anyio.move_on_after(60) as scope:
                async with anyio.create_task_group() as group:

                    async def leave() -> None:
                        await anyio.to_thread.run_sync(backend.began.wait, DEADLINE_SECONDS)
                        group.cancel_scope.cancel()

                    group.start_soon(leave)
                    await leaving.post(url, json=call)
            assert not scope.cancelled_caught
        async with Client(url) as other:
            first = await _call(other, "search_chunks", query="bees")
            backend.release.set()
            second = await _call(other, "search_chunks", query="bees")
        return first.structured_content, second.structured_content

    with served(backend, library.settings) as url:
        first, second = run(lambda: main(url))
    assert backend.began.is_set()
    assert first == second
    assert first["results"]


def test_a_stdio_server_ends_when_its_client_leaves_in_the_middle(library: Engine, tmp_path: Path) -> None:
    command = stdio(library)
    environment = {**os.environ, **(command.env or {})}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [command.command, *command.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_chunks"}}
        server.stdin.write(b"not json\n" + json.dumps(call).encode()[:40])
        server.stdin.flush()
        server.stdin.close()
        try:
            output = server.stdout.read()
            assert server.wait(DEADLINE_SECONDS) == 0
        finally:
            server.kill()
            server.stdout.close()
            server.wait()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in output.splitlines())
    assert "Traceback" not in (tmp_path / "log").read_text()
