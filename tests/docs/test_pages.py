"""What the pages say is so: settings, commands, links, files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import cli_page
import pytest
import readme_examples
import reefs_page
import rest_page
import schema_page
import settings_page

from shoal.cli.app import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SAMPLE = ROOT / "shoal" / "sample_corpus"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("made", [settings_page, reefs_page, cli_page, rest_page, schema_page])
def test_a_page_that_is_made_from_the_code_says_what_the_code_says(made: ModuleType) -> None:
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), f"run `python tests/docs/{made.__name__}.py`"


def test_the_site_is_built_with_every_page_in_its_contents(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert built.returncode == 0, built.stderr
    assert "How results explain themselves" in (tmp_path / "site" / "index.html").read_text()


def test_the_outputs_in_the_readme_are_what_the_commands_print(tmp_path: Path) -> None:
    shown = readme_examples.BLOCK.findall(readme_examples.README.read_text(encoding="utf-8"))
    assert shown == readme_examples.examples(tmp_path), "run `python tests/docs/readme_examples.py`"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{_name(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{_name(page)}: {target}"


def _commands() -> set[tuple[str, ...]]:
    """`shoal …` commands in the pages' console blocks and inline code, as (command, options...)."""
    found = set()
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(r"^\$ (?:.*?[ /])?shoal ([a-z].*)$", text, re.MULTILINE):
            words = line.split()
            found.add((words[0], *sorted({w.split("=")[0] for w in words[1:] if w.startswith("--")})))
        for inline in re.findall(r"`shoal ([a-z][\w-]*)[^`]*`", text):
            found.add((inline,))
    return found


@pytest.mark.parametrize("command", sorted(_commands()), ids=" ".join)
def test_a_command_in_the_pages_exists_with_the_options_shown(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([command[0], "--help"])
    output = capsys.readouterr()
    assert code == 0, f"shoal {command[0]}: {output.err}"
    missing = [option for option in command[1:] if option not in output.out]
    assert missing == [], f"shoal {command[0]} has no {missing}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_paths_of_the_project_named_in_the_pages_exist(page: Path) -> None:
    tops = "lagoon|shoal|api|worker|migrations|tests|docs|benchmarks"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), f"{_name(page)}: {path}"


def test_the_sample_corpus_is_what_its_manifest_says() -> None:
    manifest = json.loads((SAMPLE / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest} == {
        path.name for path in SAMPLE.iterdir() if path.suffix in {".md", ".txt"}
    }
    for keyword in ("nature", "matter", "systems", "society"):
        assert sum(keyword in entry["tags"] for entry in manifest) == 4
    for entry in manifest:
        text = (SAMPLE / entry["file"]).read_text(encoding="utf-8")
        assert 450 <= len(text.split()) <= 900, entry["file"]
        if entry["file"].endswith(".md"):
            assert text.startswith(f"# {entry['title']}\n")
            assert text.count("\n## ") >= 3
