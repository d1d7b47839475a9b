"""Run the samples in the pages against a service with the sample articles and what the quick start stores.

Commands, SQL and blocks of Python run one by one; the Python of a page in `ONE_PROGRAM` is one program.
`KINDS` and `NOT_RUN` give the reasons for samples that are not run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from forked_service import forked_service
from forks import SHOAL, ForkServer

from shoal.cli.app import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SAMPLES = ROOT / "shoal" / "sample_corpus"
ADDRESS = "http://127.0.0.1:8000"
"""Address of the service in the pages; it is replaced by that of the test service."""
PATIENCE_S = 170
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = {"cli.md", "rest.md", "rights.md", "schema.md", "settings.md", "metrics.md", "reefs.md"}
"""Pages generated from the code. Their blocks are JSON shapes and SQL statements, not samples."""
KINDS = {
    "console": "each command runs here",
    "python": "runs here",
    "sql": "runs here",
    "ini": "systemd units: test_pages.py checks their commands and settings",
    "yaml": "configuration of Prometheus",
    "nginx": "configuration of nginx",
    "html": "a page: tests/browser/test_page_with_a_token.py opens it",
    "json": "configuration of agents: tests/shoal/cli/test_cli_hooks.py checks that the command prints its form",
    "text": "output of a command: test_pages.py checks that of the README",
    "": "query plans, and the build of the scorer's data, which takes PyTorch and ten minutes",
}
"""What happens to a block, by its language."""
NOT_RUN = {
    r"make |\. \.venv|pip |python3 -m venv": "installs",
    r"(SHOAL_\w+=\S* )*shoal (encoder|import-index) ": "needs the weights of a model",
    r"sudo |docker |.* docker |journalctl ": "for the host of a service",
    r"(SHOAL_\w+=\S* )*shoal (up|serve|worker|mcp)\b": "runs until it is stopped",
    r"(SHOAL_\w+=\S* )*\.venv/bin/python (-m (benchmarks|pip)|benchmarks/)": "takes minutes, and needs test collections",
    r".*(search|docs)\.example": "not a real service",
}
"""Patterns of commands that are not run, with the reason."""
ELSEWHERE = {"cluster.md"}
"""Pages whose commands are for the servers of a cluster. They would change servers that others use here."""
ONE_PROGRAM = {"python-client.md", "rag.md"}
"""Pages whose blocks of Python use names of those before."""
MAY_FAIL = re.compile(r"/(jobs|documents|notes)/\d+|shoal (jobs|note \w+) \d+|shoal key [\w-]+ [0-9a-f]{16}")
"""Commands about one job, document, note or key by its number, which may be another one in the test service."""


def blocks(page: Path, kind: str) -> list[str]:
    return [block for name, block in BLOCK.findall(page.read_text(encoding="utf-8")) if name == kind]


def commands(page: Path) -> list[str]:
    """Return the commands of a page to run, each with its continued lines."""
    shown = [
        command
        for block in blocks(page, "console")
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    all_commands = [_only_command(text) for text in shown]
    return [command for command in all_commands if not any(re.match(start, command) for start in NOT_RUN)]


def _only_command(shown: str) -> str:
    """Return a command without its output: it ends where no backslash or open quote continues it."""
    lines: list[str] = []
    for line in shown.split("\n"):
        lines.append(line)
        text = "\n".join(lines)
        if not line.endswith("\\") and text.count("'") % 2 == 0:
            return text
    return shown


WRITTEN = [page for page in PAGES if page.name not in GENERATED]
PYTHON = {page.name: code for page in WRITTEN if (code := blocks(page, "python"))}
PYTHON.update({name: ["\n\n".join(PYTHON[name])] for name in ONE_PROGRAM})
SQL = {page.name: code for page in WRITTEN if (code := blocks(page, "sql"))}
COMMANDS = {
    page.name: runnable for page in WRITTEN if page.name not in ELSEWHERE and (runnable := commands(page))
}


class Running(NamedTuple):
    """A service that holds the sample articles, with the paths of its library and its audit log."""

    address: str
    db: Path
    audit: Path


@pytest.fixture(scope="module")
def service(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    audit = folder / "audit.jsonl"
    with forked_service(
        forks,
        folder,
        SHOAL_AUDIT="full",
        SHOAL_AUDIT_FILE=str(audit),
        SHOAL_QUERY_LOG="queries",
        SHOAL_WEBHOOK_HOSTS="hooks.example.org",
        SHOAL_DROP_IN="dify,openai",
    ) as address:
        assert run(["upload", str(SAMPLES), "--server", address, "--tags", "sample,nature", "--wait"]) == 0
        quick_start = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
        (document,) = re.findall(r"--data '(\{\"title\": .*?\})'", quick_start)
        stored = httpx.post(
            f"{address}/api/v1/documents",
            json=json.loads(document),
            headers={"Prefer": "wait=60"},
            timeout=PATIENCE_S,
        )
        assert stored.status_code == httpx.codes.CREATED, stored.text
        for query in ("tides", "bees and flowers"):
            httpx.get(f"{address}/api/v1/search", params={"q": query}, timeout=PATIENCE_S).raise_for_status()
        yield Running(address, folder / "shoal.db", audit)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder in which the samples run, with the files they name."""
    work = tmp_path / "work"
    (work / "notes" / "field").mkdir(parents=True)
    (work / "books").mkdir()
    (work / "backups").mkdir()
    for name in (
        "tides.md",
        "notes.md",
        "books/one.md",
        "walden.md",
        "emma.md",
        "book.md",
        "notes.txt",
        "monsoons.txt",
        "notes/one.md",
        "notes/field/two.txt",
    ):
        (work / name).write_text(
            f"# {name}\n\nThe moon pulls the sea, and the water of {name} rises.\n", newline=""
        )
    documents = [
        {"title": f"Note {i}", "content": f"Note number {i} is about the tide and the sea."} for i in range(3)
    ]
    (work / "articles.ndjson").write_text("".join(json.dumps(document) + "\n" for document in documents))
    (work / "judged.jsonl").write_text(
        '{"query": "bees", "relevant": ["bees-and-pollination.md", "notes/one.md"]}\n'
    )
    shutil.make_archive(str(work / "notes"), "zip", work / "notes")
    return work


@pytest.fixture(scope="module")
def stored(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a library of the sample articles and an export of it."""
    copy = tmp_path_factory.mktemp("stored")
    assert run(["--db", str(service.db), "backup", str(copy / "shoal.db")]) == 0
    assert run(["--db", str(copy / "shoal.db"), "export", str(copy / "library.jsonl")]) == 0
    return copy


@pytest.fixture
def library(service: Running, stored: Path, folder: Path) -> Path:
    """Return the work folder with the library, the export, an audit log and the sample articles."""
    for path in (stored / "shoal.db", stored / "library.jsonl", service.audit):
        shutil.copy(path, folder)
    shutil.copytree(SAMPLES, folder / "shoal" / "sample_corpus")
    return folder


@pytest.fixture(scope="module")
def environment(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment without `SHOAL_` settings, with `shoal` on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    programs = tmp_path_factory.mktemp("programs")
    forks.write_shim(programs / "shoal", SHOAL)
    path = f"{programs}:{Path(sys.executable).parent}:{kept['PATH']}"
    return kept | {"LC_ALL": "C.UTF-8", "PATH": path, "HAYSTACK_TELEMETRY_ENABLED": "False"}


def test_every_block_has_a_known_language() -> None:
    kinds = {kind for page in WRITTEN for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert kinds <= KINDS.keys()


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_python_samples_run(
    name: str,
    service: Running,
    library: Path,
    tmp_path: Path,
    forks: ForkServer,
    environment: dict[str, str],
) -> None:
    program, printed = tmp_path / "sample.py", tmp_path / "printed.txt"
    for block in PYTHON[name]:
        code = block.replace(ADDRESS, service.address)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            compile(code, name, "exec")
        program.write_text(code, encoding="utf-8")
        with printed.open("wb") as output:
            ran = forks.start([str(program)], library, environment, output.fileno())
        assert ran.wait(PATIENCE_S) == 0, printed.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(SQL))
def test_sql_samples_run(name: str, library: Path) -> None:
    with contextlib.closing(sqlite3.connect(library / "shoal.db")) as connection:
        for statement in SQL[name]:
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_samples_run(name: str, service: Running, library: Path, environment: dict[str, str]) -> None:
    for command in COMMANDS[name]:
        program = command.split()[0]
        if program in ("curl", "sqlite3") and shutil.which(program) is None:
            continue
        ran = subprocess.run(
            ["bash", "-c", CURL_WITH_STATUS + command_here(command, service.address)],
            cwd=library, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        if "curl" not in command:
            assert ran.returncode == 0 or MAY_FAIL.search(command), f"{command}\n{ran.stderr}"
            continue
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        body, _, status = ran.stdout.rpartition("\n")
        assert status[0] == "2" or (status in ("404", "409") and MAY_FAIL.search(command)), (
            f"{command}\n{status} {body}"
        )


CURL_WITH_STATUS = 'curl() { command curl --write-out "\\n%{http_code}" "$@"; }\n'


def command_here(command: str, address: str) -> str:
    """Return a command of a page with the address of the test service."""
    with_server = re.sub(r"^(shoal (?:upload|jobs)\b(?!.*--server).*)$", rf"\1 --server {ADDRESS}", command)
    return with_server.replace(ADDRESS, address)


def test_main_pages_have_samples() -> None:
    assert {"README.md", "formats.md", "rag.md"} <= PYTHON.keys()
    assert {
        "README.md",
        "backup.md",
        "bulk-upload.md",
        "quickstart.md",
        "rag.md",
        "searching.md",
    } <= COMMANDS.keys()
    assert "search.md" in SQL
