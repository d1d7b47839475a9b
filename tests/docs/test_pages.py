"""What the pages say is so: settings, commands, links, files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import cli_page
import metrics_page
import pytest
import readme_examples
import reefs_page
import rest_page
import schema_page
import settings_page

from shoal.cli.app import MODULES, run
from shoal.engine import Engine
from shoal.settings import Settings, describe

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SAMPLE = ROOT / "shoal" / "sample_corpus"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("made", [settings_page, reefs_page, cli_page, rest_page, schema_page, metrics_page])
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


@pytest.mark.parametrize(
    ("query", "title"),
    [("defendants and attorneys", "Juries"), ("physicians against contagion", "How Vaccines Work")],
)
def test_reefs_find_what_the_page_on_results_says_they_find(tmp_path: Path, query: str, title: str) -> None:
    assert f"*{query}*" in (ROOT / "docs" / "how-results-explain-themselves.md").read_text(encoding="utf-8")
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        for path in sorted((ROOT / "shoal" / "sample_corpus").iterdir()):
            engine.ingest_file(path)
        first = engine.search(query).results[0]
    assert (first.document_title, first.term_coverage) == (title, 0.0)


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


def test_every_page_is_reached_from_the_first() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs" / "index.md").read_text()))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_settings_named_in_the_pages_exist(page: Path) -> None:
    known = {setting["name"] for setting in describe()}
    for name in re.findall(r"\bSHOAL_[A-Z0-9_]+…?", page.read_text()):
        if name.endswith("…"):
            assert any(one.startswith(name[:-1]) for one in known), name
        elif not name.startswith("SHOAL_TEST_"):
            assert name in known


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_operations_over_http_named_in_the_pages_exist(page: Path) -> None:
    known = set(re.findall(r"^### (\w+) (\S+)$", (ROOT / "docs" / "rest.md").read_text(), re.MULTILINE))
    shapes = {(method, re.sub(r"{\w+}", "{}", path).removeprefix("/api/v1")) for method, path in known}
    for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^\s`?]*)", page.read_text()):
        shape = re.sub(r"{\w+}|\bID\b|(?<=/)\d+", "{}", path).removeprefix("/api/v1")
        assert (method, shape) in shapes | PAGES_OF_THE_SERVICE, f"{method} {path}"


PAGES_OF_THE_SERVICE = {("GET", "/"), ("GET", "/docs"), ("GET", "/openapi.json")}
"""Which the reference of operations does not list."""


def test_the_metrics_of_the_alarms_exist() -> None:
    there = set(re.findall(r"^\| `(shoal_\w+)`", metrics_page.PAGE.read_text(), re.MULTILINE))
    series = there | {f"{name}_{part}" for name in there for part in ("bucket", "sum", "count")}
    monitoring = (ROOT / "docs" / "monitoring.md").read_text()
    named = set(re.findall(r"\b(shoal_(?!worker\.)\w+)", monitoring))
    assert named
    assert named <= series


@pytest.mark.parametrize("canonical", [False, True])
def test_the_fields_of_an_export_are_those_of_the_page(canonical: bool, tmp_path: Path) -> None:
    with Engine(settings=Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")) as engine:
        for i in range(3):
            engine.ingest(
                title=f"Note {i}", content=f"The zorblax {i} lives in the sea. A zorblax eats fish."
            )
        records = [json.loads(line) for line in engine.export(canonical=canonical)]
    page = (ROOT / "docs" / "formats.md").read_text()
    for kind in ("export", "document", "chunk", "custom_word"):
        table = re.search(rf"^`{kind}`:\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
        assert table is not None, kind
        rows = [row.split("|") for row in table[1].splitlines()[2:]]
        kept = [row for row in rows if not (canonical and row[3].strip())]
        told = {field for row in kept for field in re.findall(r"`(\w+)`", row[1])}
        assert told | {"type"} == {key for record in records if record["type"] == kind for key in record}, (
            kind
        )


@pytest.mark.parametrize("name", ["README.md", "docs/blend.md", "docs/tuning.md"])
def test_what_is_quoted_of_the_ranking_stands_in_its_table(name: str) -> None:
    told = (ROOT / "docs" / "search-quality.md").read_text().replace("**", "")
    page = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.MULTILINE | re.DOTALL)
    # A mean of nDCG in a sentence, not a weight in a table; a gain over words alone.
    quoted = re.findall(r"(?<!\| )\b(0\.[0-9]{3})\b(?! \|)|\b([0-9]\.[0-9]) %", page)
    assert quoted
    for score, gain in quoted:
        assert (score or f"+{gain} %") in told, f"{name}: {score or gain}"


@pytest.mark.parametrize("unit", ["shoal-api.service", "shoal-worker.service", "shoal-nightly.service"])
def test_the_units_of_systemd_start_commands_that_exist(unit: str) -> None:
    page = (ROOT / "docs" / "production.md").read_text()
    block = re.search(
        rf"^```ini\n# /etc/systemd/system/{unit}.*?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    assert block is not None
    commands = re.findall(r"^ExecStart(?:Pre)?=/opt/shoal/bin/shoal (\S+)(.*)$", block[1], re.MULTILINE)
    assert commands
    for command, options in commands:
        assert command in {name for names in MODULES.values() for name in names}
        assert all(option in cli_page.page() for option in re.findall(r"--\w+", options)), options


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
