"""Samples in the pages run: Python and SQL as they stand, commands one by one, requests against a service that holds the
sample articles. What is not run has its reason here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SAMPLES = ROOT / "shoal" / "sample_corpus"
ADDRESS = "http://127.0.0.1:8000"
"""Of the service in the pages; the samples run against another."""
SHOAL = [sys.executable, "-m", "shoal.cli"]
PATIENCE_S = 170
STOP_S = 120
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MADE = {"cli.md", "rest.md", "schema.md", "settings.md", "metrics.md", "reefs.md"}
"""Pages that are made from the code; what stands in blocks there are forms and statements of it."""
KINDS = {
    "console": "each command runs here",
    "python": "runs here",
    "sql": "runs here",
    "ini": "units of systemd: their commands and settings are held against the code in test_pages.py",
    "yaml": "for Prometheus, which is not here",
    "nginx": "for nginx, which is not here",
    "text": "what a command printed: of the README held against it in test_pages.py",
    "": "plans of queries, and how the scorer's data are built, which takes PyTorch and ten minutes",
}
"""What becomes of a block, by its language."""
NOT_RUN = {
    r"make |\. \.venv|pip |python3 -m venv": "installs",
    r"sudo |docker |.* docker |journalctl ": "for the host of a service",
    r"shoal (up|serve|worker)\b": "runs until it is stopped",
    r"\.venv/bin/python -m (benchmarks|pip)|\.venv/bin/python benchmarks/": "takes minutes, and collections that are not here",
    r".*search\.example": "nobody's service",
}
"""Beginnings of commands that are not run, and why."""
MAY_BE_REFUSED = re.compile(r"/(jobs|documents)/\d+|shoal jobs \d+")
"""What a page shows about one job or document, by its number, may be another thing here."""


def blocks(page: Path, kind: str) -> list[str]:
    return [block for name, block in BLOCK.findall(page.read_text(encoding="utf-8")) if name == kind]


def commands(page: Path) -> list[str]:
    """The commands of a page that are run, each with its continued lines."""
    shown = [
        command
        for block in blocks(page, "console")
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    found = [_only_command(command) for command in shown]
    return [command for command in found if not any(re.match(start, command) for start in NOT_RUN)]


def _only_command(shown: str) -> str:
    """A command without what it printed: it goes on while a line ends in a backslash or a quote is open."""
    lines: list[str] = []
    for line in shown.split("\n"):
        lines.append(line)
        text = "\n".join(lines)
        if not line.endswith("\\") and text.count("'") % 2 == 0:
            return text
    return shown


WRITTEN = [page for page in PAGES if page.name not in MADE]
PYTHON = {page.name: code for page in WRITTEN if (code := blocks(page, "python"))}
SQL = {page.name: code for page in WRITTEN if (code := blocks(page, "sql"))}
COMMANDS = {page.name: found for page in WRITTEN if (found := commands(page))}


class Running(NamedTuple):
    """A service that holds the sample articles, and where it keeps its library and its audit."""

    address: str
    db: Path
    audit: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    audit = folder / "audit.jsonl"
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [*SHOAL, "--db", str(folder / "shoal.db"), "--json", "up", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "SHOAL_AUDIT": "full", "SHOAL_AUDIT_FILE": str(audit)},
        )
    assert process.stdout is not None
    printed = b""
    for line in process.stdout:
        printed += line
        if line.rstrip() == b"}":
            break
    address = json.loads(printed)["url"]
    subprocess.run(
        [*SHOAL, "upload", str(SAMPLES), "--server", address, "--tags", "sample,nature", "--wait"],
        check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    for query in ("tides", "bees and flowers"):
        httpx.get(f"{address}/api/v1/search", params={"q": query}, timeout=PATIENCE_S).raise_for_status()
    yield Running(address, folder / "shoal.db", audit)
    process.terminate()
    process.wait(STOP_S)
    process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the samples run: with the files that they name."""
    here = tmp_path / "here"
    (here / "notes" / "field").mkdir(parents=True)
    (here / "books").mkdir()
    (here / "backups").mkdir()
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
        (here / name).write_text(
            f"# {name}\n\nThe moon pulls the sea, and the water of {name} rises.\n", newline=""
        )
    documents = [
        {"title": f"Note {i}", "content": f"Note number {i} is about the tide and the sea."} for i in range(3)
    ]
    (here / "articles.ndjson").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (here / "judged.jsonl").write_text(
        '{"query": "bees", "relevant": ["bees-and-pollination.md", "notes/one.md"]}\n'
    )
    shutil.make_archive(str(here / "notes"), "zip", here / "notes")
    return here


@pytest.fixture(scope="module")
def stored(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the sample articles, and an export of it."""
    here = tmp_path_factory.mktemp("stored")
    made = [*SHOAL, "--db", str(here / "shoal.db")]
    subprocess.run([*SHOAL, "--db", str(service.db), "backup", str(here / "shoal.db")], check=True)
    subprocess.run([*made, "export", str(here / "library.jsonl")], check=True)
    return here


@pytest.fixture
def library(service: Running, stored: Path, folder: Path) -> Path:
    """The library where commands look for it, the export, an audit and the samples, beside the files."""
    for path in (stored / "shoal.db", stored / "library.jsonl", service.audit):
        shutil.copy(path, folder)
    shutil.copytree(SAMPLES, folder / "shoal" / "sample_corpus")
    return folder


def environment() -> dict[str, str]:
    """Without settings of whoever runs this, with `shoal` on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return kept | {"LC_ALL": "C.UTF-8", "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}


def test_every_block_of_a_page_has_a_language_that_something_becomes_of() -> None:
    found = {kind for page in WRITTEN for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert found <= KINDS.keys()


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_the_python_of_a_page_runs(name: str, service: Running, library: Path) -> None:
    code = "\n\n".join(PYTHON[name]).replace(ADDRESS, service.address)
    ran = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=library,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", sorted(SQL))
def test_the_sql_of_a_page_runs(name: str, library: Path) -> None:
    with contextlib.closing(sqlite3.connect(library / "shoal.db")) as connection:
        for statement in SQL[name]:
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_commands_of_a_page_run(name: str, service: Running, library: Path) -> None:
    for command in COMMANDS[name]:
        program = command.split()[0]
        if program in ("curl", "sqlite3") and shutil.which(program) is None:
            continue
        ran = subprocess.run(
            ["bash", "-c", CURL_TELLS_STATUS + command_here(command, service.address)],
            cwd=library, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        if "curl" not in command:
            assert ran.returncode == 0 or MAY_BE_REFUSED.search(command), f"{command}\n{ran.stderr}"
            continue
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        body, _, status = ran.stdout.rpartition("\n")
        assert status[0] == "2" or (status in ("404", "409") and MAY_BE_REFUSED.search(command)), (
            f"{command}\n{status} {body}"
        )


CURL_TELLS_STATUS = 'curl() { command curl --write-out "\\n%{http_code}" "$@"; }\n'


def command_here(command: str, address: str) -> str:
    """A command of a page, sent to the service that runs here."""
    named = re.sub(r"^(shoal (?:upload|jobs)\b(?!.*--server).*)$", rf"\1 --server {ADDRESS}", command)
    return named.replace(ADDRESS, address)


def test_the_pages_have_samples_that_run() -> None:
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
