"""`shoal search` through a service, and what it leaves in the query log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_service import LiveService, live

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.settings import Settings

CONTENT = "# One\n\nThe tide.\n\n# Two\n\nA tide.\n\n# Three\n\nTides.\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LiveService]:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    settings = Settings.from_environment(database_url=url, query_log="queries")
    with Engine(settings=settings) as engine:
        engine.ingest(title="Tides", content=CONTENT, format="markdown")
        engine.ingest(title="Bread", content="Flour and water.")
        with live(engine) as opened:
            yield opened


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(list(arguments))
    captured = capsys.readouterr()
    # The service logs its requests in this process.
    text = re.sub(r"(?m)^[0-9]{4}-[0-9]{2}-.*\n", "", captured.out + captured.err)
    return code, re.sub(r"[0-9.]+ ms", "ms", text)


def test_a_service_prints_the_same(
    service: LiveService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (
        ("tide", "--max-per-document", "2", "--scores"),
        ("tide", "--facet", "tags", "--sort", "title"),
        ("tide", "--group-by", "document"),
        ("tide", "--group-by", "document", "--offset", "1"),
        ("tide", "--offset", "1", "--max-per-document", "2"),
        ("tide watre", "--filter", "title = Tides"),
        ("zzzzz",),
        ("tide", "--prompt"),
        ("tide", "--decay", "created:30:0.2", "--boost", "0.1:title = Tides"),
    ):
        here = output(capsys, "--db", str(tmp_path / "shoal.db"), "search", *options)
        there = output(capsys, "search", *options, "--server", service.url)
        assert here[1].splitlines() == there[1].splitlines(), options
        assert (here[0], there[0]) == (0, 0), options


def test_a_service_answers_in_json_and_in_batches(
    service: LiveService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ("--db", str(tmp_path / "shoal.db"))
    for arguments in (("search", "tide", "--json"), ("search", "tide", "--units", "chunk,note", "--json")):
        here, there = (
            json.loads(output(capsys, *arguments, *options)[1])
            for options in (database, ("--server", service.url))
        )
        assert here.keys() == there.keys()
        assert [each["chunk_id"] for each in here["results"]] == (
            [each["chunk_id"] for each in there["results"]]
        )
    questions = tmp_path / "questions.txt"
    questions.write_text("tide\nbread\n")
    batch = ("search", "--batch", str(questions), "--fused")
    assert output(capsys, *batch, *database) == output(capsys, *batch, "--server", service.url)


def test_without_a_service_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = output(capsys, "search", "tide", "--server", "http://127.0.0.1:9")
    assert code == 1
    assert "cannot reach a service" in text


def test_a_search_is_logged_once(service: LiveService, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("search", "tide", "--max-per-document", "2", "--mode", "lexical")
    code, text = output(capsys, *arguments, "--server", service.url)
    assert code == 0
    assert "at most 2 passages per document" in text
    recorder = service.engine.queries.recorder
    assert recorder is not None
    recorder.flush()
    assert [query.query for query in service.engine.queries.list().queries] == ["tide"]
