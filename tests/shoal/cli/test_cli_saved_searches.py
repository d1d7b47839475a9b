"""`shoal saved-search …` and `shoal queries …` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from web_server import response, running

from shoal.cli.app import run
from shoal.engine import Engine

Shoal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shoal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Shoal:
    """Run a command on a library of its own, with a small scorer."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )
    monkeypatch.setenv("SHOAL_WEBHOOK_HOSTS", "127.0.0.1:*")
    monkeypatch.setenv("SHOAL_WEBHOOK_PRIVATE", "127.0.0.1")
    monkeypatch.setenv("SHOAL_QUERY_LOG", "queries")

    def run_shoal(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(library), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_saved_search_on_the_command_line(shoal: Shoal, tmp_path: Path) -> None:
    with running() as server:
        server.answers["/hook"] = response()
        code, out, _ = shoal(
            "saved-search", "create", "Fire", "lava", "--url", server.url("/hook"), "--mode", "lexical",
            "--min-relevance", "0", "--tags", "rock", "--secret", "0123456789abcdef",
        )  # fmt: skip
        assert (code, out) == (0, "saved search 1; its secret, shown this once: 0123456789abcdef\n")
        (tmp_path / "fire.txt").write_text("Lava rose in the volcano.")
        shoal("ingest", str(tmp_path / "fire.txt"), "--tags", "rock")
        assert shoal("saved-search", "run")[1] == "1 tried; 0 waiting, 0 given up\n"
        assert shoal("saved-search", "test", "1")[0] == 0
        listed = json.loads(shoal("saved-search", "deliveries", "1", "--json")[1])
        assert [each["status"] for each in listed["deliveries"]] == ["waiting", "delivered"]
        again = listed["deliveries"][1]["delivery_id"]
        assert f"{again}  " in shoal("saved-search", "redeliver", "1", again)[1]
        shoal("saved-search", "run")
        assert len(server.bodies) == 3
    code, out, _ = shoal("saved-search", "change", "1", "--min-relevance", "0.5", "--inactive", "--json")
    changed = json.loads(out)
    assert (changed["search"]["min_relevance"], changed["search"]["tags"]) == (0.5, ["rock"])
    assert "inactive" in shoal("saved-search", "list")[1]
    assert "0123456789abcdef" not in shoal("saved-search", "show", "1")[1]
    assert shoal("saved-search", "delete", "1")[0] == 0
    assert shoal("saved-search", "show", "1")[0] == 1
    code, _, error = shoal("saved-search", "create", "N", "lava", "--url", "http://example.org/")
    assert (code, "--url:" in error) == (2, True)


def test_webhook_of_a_process_with_webhooks_off_says_what_to_do(
    shoal: Shoal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shoal("saved-search", "create", "Fire", "lava", "--url", "http://127.0.0.1:9/hook")
    shoal("saved-search", "test", "1")
    monkeypatch.delenv("SHOAL_WEBHOOK_HOSTS")
    shoal("saved-search", "run")
    _, out, _ = shoal("saved-search", "deliveries", "1")
    assert ", 0 passages, failed, 1 try: webhooks are off in the process" in out
    assert "SHOAL_WEBHOOK_HOSTS for every worker" in out


def test_queries_on_the_command_line(shoal: Shoal, tmp_path: Path) -> None:
    (tmp_path / "fire.txt").write_text("Lava rose in the volcano.")
    shoal("ingest", str(tmp_path / "fire.txt"))
    found = json.loads(shoal("search", "lava", "--json")[1])
    shoal("search", "zzz", "--mode", "lexical")
    assert shoal("queries", "click", found["trace_id"], "--document", "1")[0] == 0
    listed = json.loads(shoal("queries", "list", "--json")[1])
    assert [query["query"] for query in listed["queries"]][-1] == "lava"
    assert "zzz" in shoal("queries", "list", "--empty")[1]
    assert "zzz" in shoal("queries", "frequent", "--min-searches", "1", "--empty")[1]
    judged = tmp_path / "judged.jsonl"
    judged.write_text(shoal("queries", "judged")[1])
    assert json.loads(judged.read_text())["query"] == "lava"
    code, out, _ = shoal("evaluate", str(judged), "--way", "lexical", "--json")
    assert code == 0, out
    assert shoal("queries", "clear", "--yes")[1].endswith("queries deleted\n")
    assert "no logged queries" in shoal("queries", "list")[1]
