"""The command `shoal mcp`: its options, its configurations for clients, and a server at an address."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

from mcp import Client
from mcp_library import run, stdio
from waiting import DEADLINE_SECONDS

from shoal.cli.app import run as shoal
from shoal.engine import Engine


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = shoal(arguments)
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_printed_configuration_starts_the_server_it_describes(
    library: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(library.settings.database_path)
    arguments = [
        "--db",
        path,
        "mcp",
        "--read-only",
        "--prefix",
        "engrammar",
        "--owner",
        "a b",
        "--print-config",
    ]
    code, text, _ = printed(capsys, *arguments)
    assert code == 0
    for client in ("Claude Desktop", "Claude Code", "Cursor", "VS Code", "Codex"):
        assert client in text
    code, text, _ = printed(capsys, *arguments, "--json")
    by_clients = {entry["clients"]: entry["text"] for entry in json.loads(text)}
    entry = json.loads(by_clients["Claude Desktop, Claude Code, Cursor, Windsurf"])["mcpServers"]["shoal"]
    assert json.loads(by_clients["VS Code"])["servers"]["shoal"] == {"type": "stdio", **entry}
    assert tomllib.loads(by_clients["Codex"])["mcp_servers"]["shoal"] == entry
    options = ["--read-only", "--prefix", "engrammar", "--owner", "a b"]
    assert entry["args"][-8:] == ["mcp", "--db", path, *options]
    assert Path(entry["command"]).is_absolute()


@pytest.mark.parametrize(
    ("http", "url"),
    [("8010", "http://127.0.0.1:8010/mcp"), ("[::1]:8010", "http://[::1]:8010/mcp")],
)
def test_a_configuration_of_an_address_has_no_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, http: str, url: str
) -> None:
    _, text, _ = printed(capsys, "mcp", "--http", http, "--print-config", "--json")
    entry = json.loads(json.loads(text)[0]["text"])["mcpServers"]["shoal"]
    assert entry == {"type": "http", "url": url}
    monkeypatch.setenv("SHOAL_API_KEYS", "write:secret-0123456789abc")
    _, text, _ = printed(capsys, "mcp", "--http", http, "--print-config", "--json")
    assert "secret" not in text
    assert "Authorization: Bearer KEY" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--http", "here"], "is not HOST:PORT"),
        (["--http", "127.0.0.1:70000"], "is not HOST:PORT"),
        (["--prefix", "A b"], "lower-case word"),
        (["--http", "0.0.0.0:8010"], "refuses to listen on 0.0.0.0"),
        (["--owner", "a\nb"], "1 to 200 printable characters"),
        (["--server", "nowhere:x:y"], "is not the address of a service"),
        ([], "there is no database"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], reason: str
) -> None:
    code, text, errors = printed(capsys, "--db", str(tmp_path / "none.db"), "mcp", *arguments)
    assert code != 0
    assert reason in errors
    assert text == ""


def test_without_the_extra_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    code, _, errors = printed(capsys, "mcp")
    assert code == 1
    assert "pip install 'shoal[mcp]'" in errors


def test_the_command_serves_over_http_until_it_is_told_to_stop(library: Engine) -> None:
    command = stdio(library, "--http", "127.0.0.1:0")
    server = subprocess.Popen(
        [command.command, *command.args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(command.env or {})},
        text=True,
    )
    assert server.stderr is not None
    try:
        line = next(line for line in server.stderr if "MCP server on" in line)
        [url] = re.findall(r"http://\S+", line)

        async def main() -> Any:
            async with Client(url) as client:
                return await client.call_tool("search_chunks", {"query": "bees", "top_k": 1})

        assert run(main).structured_content["n_results"] == 1
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=DEADLINE_SECONDS)
        assert "Traceback" not in errors
    finally:
        server.kill()
        server.communicate()


def test_a_configuration_has_no_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_DATABASE_URL", "postgresql://me:secret@host/db")
    code, text, warned = printed(capsys, "mcp", "--print-config")
    assert code == 0
    assert "secret" not in text + warned
    assert "set SHOAL_DATABASE_URL" in warned
