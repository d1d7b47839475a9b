"""Check the pages against the code: settings, commands, links, files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from types import ModuleType

import cli_page
import metrics_page
import pytest
import readme_examples
import reefs_page
import rest_page
import rights_page
import schema_page
import settings_page

from benchmarks.language import RETIRED
from shoal.access.operations import DROP_IN
from shoal.cli.app import MODULES, run
from shoal.declared.operations.operation import operations_of
from shoal.engine import Engine
from shoal.settings import Settings, describe

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SAMPLE = ROOT / "shoal" / "sample_corpus"
PACKAGES = {
    "lagoon": "lagoon",
    "shoal": "shoal",
    "shoal_api": "api/shoal_api",
    "shoal_worker": "worker/shoal_worker",
    "benchmarks": "benchmarks",
}
"""The folder of each package."""
ROOTS = PACKAGES.values()
NO_CODE = frozenset({"shoal.db", "shoal.db.service", "shoal.db.starting"})
"""Names of files that look like modules."""


GROUPS = ("note", "encoder", "queries", "saved-search", "pin", "collection", "key")
"""Commands that have commands of their own."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "generator", [settings_page, reefs_page, cli_page, rest_page, rights_page, schema_page, metrics_page]
)
def test_generated_page_matches_the_code(generator: ModuleType) -> None:
    written = generator.PAGE.read_text(encoding="utf-8")
    assert written == generator.page(), f"run `python tests/docs/{generator.__name__}.py`"


def test_site_builds_with_every_page_in_its_navigation(tmp_path: Path) -> None:
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


def test_readme_outputs_match_what_the_commands_print(tmp_path: Path) -> None:
    shown = readme_examples.BLOCK.findall(readme_examples.README.read_text(encoding="utf-8"))
    assert shown == readme_examples.examples(tmp_path), "run `python tests/docs/readme_examples.py`"


@pytest.mark.parametrize(
    ("query", "title"),
    [("defendants and attorneys", "Juries"), ("physicians against contagion", "How Vaccines Work")],
)
def test_reefs_find_the_articles_named_on_the_results_page(tmp_path: Path, query: str, title: str) -> None:
    assert f"*{query}*" in (ROOT / "docs" / "how-results-explain-themselves.md").read_text(encoding="utf-8")
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        for path in sorted((ROOT / "shoal" / "sample_corpus").iterdir()):
            engine.ingest_file(path)
        first = engine.search(query).results[0]
    assert (first.document_title, first.term_coverage) == (title, 0.0)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_point_to_existing_files_and_headings(page: Path) -> None:
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
    """Return the `shoal …` commands in console blocks and inline code, as (command, options...)."""
    commands = set()
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(r"^\$ (?:.*?[ /])?shoal ([a-z].*)$", text, re.MULTILINE):
            words = line.split()
            name = " ".join(words[: 2 if words[0] in GROUPS else 1])
            commands.add((name, *sorted({w.split("=")[0] for w in words[1:] if w.startswith("--")})))
        for inline in re.findall(r"`shoal ([a-z][\w-]*)[^`]*`", text):
            commands.add((inline,))
    return commands


@pytest.mark.parametrize("command", sorted(_commands()), ids=" ".join)
def test_command_in_the_pages_exists_with_its_options(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*command[0].split(), "--help"])
    output = capsys.readouterr()
    assert code == 0, f"shoal {command[0]}: {output.err}"
    missing = [option for option in command[1:] if option not in output.out]
    assert missing == [], f"shoal {command[0]} has no {missing}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_project_paths_in_the_pages_exist(page: Path) -> None:
    tops = "lagoon|shoal|api|worker|migrations|tests|docs|benchmarks"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), f"{_name(page)}: {path}"


CODE_AND_PAGES = sorted(
    [
        *(page for page in PAGES if page.name != "CHANGELOG.md"),
        *(file for top in ROOTS for file in (ROOT / top).rglob("*.py")),
    ]
)


def test_names_of_the_code_in_pages_and_docstrings_exist() -> None:
    """`shoal.index.matching` or `shoal.index.matching.find`: in backticks, a module or what it defines."""
    dotted = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)[`(]")
    missing = [
        f"{_name(file)}: {name}"
        for file in CODE_AND_PAGES
        for name in dotted.findall(file.read_text(encoding="utf-8"))
        if not _is_defined(name) and name not in NO_CODE
    ]
    assert missing == []


def _is_defined(name: str) -> bool:
    """Whether the parts of a dotted name are packages and a module, and the next is a word in its text."""
    package, *parts = name.split(".")
    path = ROOT / PACKAGES[package]
    while parts and path.is_dir() and ((path / parts[0]).is_dir() or (path / f"{parts[0]}.py").exists()):
        part = parts.pop(0)
        path = path / part if (path / part).is_dir() else path / f"{part}.py"
    text = path if path.is_file() else path / "__init__.py"
    return not parts or (text.exists() and re.search(rf"\b{parts[0]}\b", text.read_text()) is not None)


def test_index_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs" / "index.md").read_text()))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_pytest_selections_in_the_pages_select_tests() -> None:
    tests = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    selections = [
        (folder, word)
        for page in PAGES
        for folder, words in re.findall(r"`pytest (\S+) -k \"?([\w ]+)", page.read_text())
        for word in words.split(" or ")
    ]
    assert selections
    for folder, word in selections:
        assert any(test.startswith(folder) and word in test for test in tests), (folder, word)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_settings_in_the_pages_exist(page: Path) -> None:
    known = {setting["name"] for setting in describe()}
    for name in re.findall(r"\bSHOAL_[A-Z0-9_]+…?", page.read_text()):
        if name.endswith("…"):
            assert any(setting.startswith(name[:-1]) for setting in known), name
        elif not name.startswith("SHOAL_TEST_") and not (page.name == "CHANGELOG.md" and name in RETIRED):
            assert name in known


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_http_operations_in_the_pages_exist(page: Path) -> None:
    known = set(re.findall(r"^### (\w+) (\S+)$", (ROOT / "docs" / "rest.md").read_text(), re.MULTILINE))
    shapes = {(method, re.sub(r"{\w+}", "{}", path).removeprefix("/api/v1")) for method, path in known}
    for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^\s`?]*)", page.read_text()):
        shape = re.sub(r"{\w+}|\bID\b|(?<=/)\d+", "{}", path).removeprefix("/api/v1")
        assert (method, shape) in shapes | PAGES_OF_THE_SERVICE, f"{method} {path}"


OF_OTHERS = {
    (each.terms.method, re.sub(r"{\w+}", "{}", each.address)) for each in operations_of(*DROP_IN.values())
}
PAGES_OF_THE_SERVICE = {("GET", "/"), ("GET", "/docs"), ("GET", "/openapi.json"), *OF_OTHERS}
"""Paths that the reference of operations does not list."""


def test_metrics_of_the_alarms_exist() -> None:
    documented = set(re.findall(r"^\| `(shoal_\w+)`", metrics_page.PAGE.read_text(), re.MULTILINE))
    series = documented | {f"{name}_{part}" for name in documented for part in ("bucket", "sum", "count")}
    monitoring = (ROOT / "docs" / "monitoring.md").read_text()
    mentioned = set(re.findall(r"\b(shoal_(?!worker\.)\w+)", monitoring))
    assert mentioned
    assert mentioned <= series


@pytest.mark.parametrize("canonical", [False, True])
def test_export_fields_match_the_formats_page(canonical: bool, tmp_path: Path) -> None:
    with Engine(settings=Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")) as engine:
        for i in range(3):
            engine.ingest(
                title=f"Note {i}", content=f"The zorblax {i} lives in the sea. A zorblax eats fish."
            )
        engine.ingest(chunks=[{"text": "A zorblax eats kelp."}])
        mail = EmailMessage()
        mail["Subject"] = "Kelp"
        mail.set_content("The kelp is attached.")
        mail.add_attachment("A kelp grows in the sea.", filename="kelp.txt")
        (tmp_path / "kelp.eml").write_bytes(mail.as_bytes())
        engine.ingest_file(tmp_path / "kelp.eml")
        records = [json.loads(line) for line in engine.maintenance.export(canonical=canonical)]
    page = (ROOT / "docs" / "formats.md").read_text()
    for kind in ("export", "document", "chunk", "custom_word"):
        table = re.search(rf"^`{kind}`:\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
        assert table is not None, kind
        rows = [row.split("|") for row in table[1].splitlines()[2:]]
        kept = [row for row in rows if not (canonical and row[3].strip())]
        listed = {field for row in kept for field in re.findall(r"`(\w+)`", row[1])}
        exported = {key for record in records if record["type"] == kind for key in record}
        assert listed | {"type"} == exported, kind


@pytest.mark.parametrize("name", ["README.md", "docs/blend.md", "docs/tuning.md"])
def test_quoted_ranking_numbers_are_in_the_quality_page(name: str) -> None:
    quality_page = (ROOT / "docs" / "search-quality.md").read_text().replace("**", "")
    page = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.MULTILINE | re.DOTALL)
    # A mean nDCG in a sentence (weights in tables are excluded), or a gain over words alone.
    quoted = re.findall(r"(?<!\| )\b(0\.[0-9]{3})\b(?! \|)|\b([0-9]\.[0-9]) %", page)
    assert quoted
    for score, gain in quoted:
        assert (score or f"+{gain} %") in quality_page, f"{name}: {score or gain}"


@pytest.mark.parametrize("unit", ["shoal-api.service", "shoal-worker.service", "shoal-nightly.service"])
def test_systemd_units_start_existing_commands(unit: str) -> None:
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


def test_sample_corpus_matches_its_manifest() -> None:
    manifest = json.loads(SAMPLE.with_suffix(".json").read_text())
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
