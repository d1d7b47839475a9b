"""`shoal search` for programs: batches of a file, pages, budgets, prompts and selected fields."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run as run_command
from shoal.engine import Engine


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    migrated_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run `shoal` on a library with two documents."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )
    with Engine(db_path=library) as engine:
        engine.ingest(content="The moon pulls the sea, and the tide rises.", title="Tides", tags=["n"])
        engine.ingest(content="Bees visit flowers for nectar. The hive stores honey.", title="Bees")

    def run(*arguments: str, stdin: str = "") -> Result:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run_command(["--db", str(library), *arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def answer_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_batch_of_queries_and_json_lines(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "searches.txt"
    file.write_text('moon and sea\n\n{"query": "bees", "top_k": 1}\n{"query": "bees", "topk": 1}\n')
    answer = answer_of(run("--json", "search", "--batch", str(file), "--include", "document_title"))
    assert [each["query"] for each in answer["answers"]] == ["moon and sea", "bees", "bees"]
    assert answer["answers"][0]["response"]["results"][0] == {"document_title": "Tides"}
    assert len(answer["answers"][1]["response"]["results"]) == 1
    assert answer["answers"][2]["error"]["field"] == "topk"
    shown = run("search", "--batch", str(file))
    assert "“moon and sea”" in shown.stdout
    assert "did you mean top_k?" in shown.stderr


def test_fused_batch_from_standard_input(run: Run) -> None:
    lines = "moon and sea\ntide of the sea\n"
    answer = answer_of(run("--json", "search", "--batch", "-", "--fused", stdin=lines))
    assert [finder["search"] for finder in answer["fused"][0]["found_by"]] == [0, 1]
    shown = run("search", "--batch", "-", "--fused", stdin=lines)
    assert "fused score 1.00" in shown.stdout
    prompt = run("search", "--batch", "-", "--fused", "--prompt", stdin=lines)
    assert "[1] Tides, line 1\n    The moon pulls" in prompt.stdout


def test_options_are_those_of_each_search(run: Run) -> None:
    lines = 'mooon\n{"query": "mooon", "typos": "auto"}\n'
    corrected, typed = (
        answer_of(run("--json", "search", "--batch", "-", *options, stdin=lines))["answers"]
        for options in ((), ("--typos", "off"))
    )
    assert [len(each["response"]["results"]) for each in corrected] == [1, 1]
    assert [len(each["response"]["results"]) for each in typed] == [0, 1]
    grouped = answer_of(
        run("--json", "search", "--batch", "-", "--group-by", "document", "--include", "text", stdin="bees")
    )
    document = grouped["answers"][0]["response"]["documents"][0]
    assert [set(passage) for passage in document["passages"]] == [{"text"}]


def test_facets_and_prompts_of_each_search_are_printed(run: Run) -> None:
    counted = run("search", "--batch", "-", "--facet", "tags", stdin="moon\n")
    assert "tags\n  1  n " in counted.stdout
    fused = run("search", "--batch", "-", "--fused", "--facet", "tags", stdin="moon\nbees\n")
    assert fused.stdout.index("fused score") < fused.stdout.index("“moon”\ntags\n")
    prompts = run("search", "--batch", "-", "--prompt", stdin="moon\nbees\n")
    of_moon, _, of_bees = prompts.stdout.removeprefix("“moon”\n").partition("“bees”\n")
    assert "[1] Tides, line 1\n" in of_moon
    assert "[1] Bees, line 1\n" in of_bees


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["--batch", "/no/such/file"], "", "cannot read"),
        (["--batch", "-"], "\n \n", "has no searches"),
        (["--batch", "-"], "{broken\n", "line 1 is not JSON"),
        (["--batch", "-"], "[" * 10, "exit"),
        (["moon", "--batch", "-"], "moon", "not both"),
        ([], "", "give a QUERY"),
        (["--batch", "-", "--units", "chunk,note"], "moon", "is not for --batch"),
        (["--batch", "-", "--decay", "x"], "moon", "decay"),
        (["moon", "--fused"], "", "is only for --batch"),
        (["moon", "--include", "txet"], "", "did you mean text"),
        (["moon", "--cursor", "x"], "", "is not a cursor"),
        (["moon", "--text", "half"], "", "is not one of"),
    ],
)
def test_bad_input_is_named(run: Run, arguments: list[str], stdin: str, message: str) -> None:
    result = run("search", *arguments, stdin=stdin)
    if message == "exit":
        assert result.exit_code == 0, "a line that is no object is a query"
        return
    assert result.exit_code != 0
    assert message in " ".join((result.stdout + result.stderr).split())


def test_pages_budgets_and_prompts(run: Run) -> None:
    first = answer_of(run("--json", "search", "moon and bees", "--top-k", "1"))
    second = answer_of(run("--json", "search", "moon and bees", "--cursor", first["next_cursor"]))
    titles = [each["document_title"] for page in (first, second) for each in page["results"]]
    assert sorted(titles) == ["Bees", "Tides"]
    skipped = answer_of(run("--json", "search", "moon and bees", "--offset", "1"))
    assert [each["document_title"] for each in skipped["results"]] == titles[1:]
    documents = [
        answer_of(run("--json", "search", "moon and bees", "--group-by", "document", "--offset", str(n)))
        for n in range(3)
    ]
    assert [[each["document_title"] for each in page["documents"]] for page in documents] == [
        titles,
        titles[1:],
        [],
    ]
    cut = answer_of(run("--json", "search", "bees", "--max-tokens", "9", "--exclude", "scores"))
    assert cut["tokens"]["used"] <= 9
    assert cut["results"][0]["text"] == "Bees visit flowers for nectar."
    assert "scores" not in cut["results"][0]
    shown = run("search", "bees", "--prompt")
    assert "[1] Bees, line 1\n    Bees visit flowers" in shown.stdout
