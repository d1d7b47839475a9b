"""Samples of code in the pages run: Python as it stands, curl against a service that holds the sample articles."""

from __future__ import annotations

import json
import os
import re
import shutil
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
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = {
    page.name: code
    for page in PAGES
    if (code := [b for kind, b in BLOCK.findall(page.read_text()) if kind == "python"])
}


def curl_commands(page: Path) -> list[str]:
    """The commands of a page that talk to the service, each with its continued lines."""
    found = []
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "console":
            commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
            found += [_only_command(command) for command in commands if "curl" in command.split("\n", 1)[0]]
    return found


def _only_command(shown: str) -> str:
    """A command without what it printed: it goes on while a line ends in a backslash or a quote is open."""
    lines: list[str] = []
    for line in shown.split("\n"):
        lines.append(line)
        text = "\n".join(lines)
        if not line.endswith("\\") and text.count("'") % 2 == 0:
            return text
    return shown


CURL = {page.name: commands for page in PAGES if (commands := curl_commands(page))}


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
    for name in (
        "tides.md",
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
    shutil.make_archive(str(here / "notes"), "zip", here / "notes")
    return here


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_the_python_of_a_page_runs(name: str, service: Running, folder: Path) -> None:
    code = "\n\n".join(PYTHON[name]).replace(ADDRESS, service.address)
    if "audit.jsonl" in code:
        shutil.copy(service.audit, folder)
        subprocess.run([*SHOAL, "--db", str(service.db), "backup", str(folder / "shoal.db")], check=True)
    ran = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", sorted(CURL))
def test_the_requests_of_a_page_are_answered(name: str, service: Running, folder: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    for command in CURL[name]:
        ran = subprocess.run(
            ["bash", "-c", 'curl() { command curl --write-out "\\n%{http_code}" "$@"; }\n' + command.replace(ADDRESS, service.address)],
            cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        body, _, status = ran.stdout.rpartition("\n")
        # What a page shows about one job or document, by its number, may be another thing here.
        assert status[0] == "2" or (
            status in ("404", "409") and re.search(r"/(jobs|documents)/\d+", command)
        ), f"{command}\n{status} {body}"


def test_the_pages_have_samples_that_run() -> None:
    assert {"README.md", "rag.md"} <= PYTHON.keys()
    assert {"README.md", "bulk-upload.md", "rag.md"} <= CURL.keys()
