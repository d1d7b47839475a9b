"""`shoal verify`: a text against the passages that it cites, on the command line."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.cli.app import run
from shoal.engine import Engine

Verify = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "shoal.db"
    with Engine(db_path=path, learning=False) as engine:
        engine.ingest(title="Tides", content="The moon pulls at the sea twice a day: the tide.")
        engine.ingest(title="Bread", content="Flour and salt become bread in an oven.")
    return path


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str], tmp_path: Path, database: Path) -> Verify:
    def run_verify(text: str, *arguments: str) -> tuple[int, str, str]:
        (tmp_path / "answer.md").write_text(text, encoding="utf-8", newline="")
        capsys.readouterr()
        code = run(["--db", str(database), "verify", str(tmp_path / "answer.md"), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_verify


def test_rejected_claims_are_listed_with_their_reasons(verify: Verify) -> None:
    text = "# Tides\r\n\r\nThe moon pulls at the sea [chunk 1]. It pulls 3 times a day [chunk 1]. Salt is bread.\n"
    code, out, _ = verify(text)
    assert code == 1
    assert "unsupported, line 3: It pulls 3 times a day" in out
    assert "do not have the number there: '3'" in out
    assert "unreferenced, line 3: Salt is bread." in out
    assert "The moon pulls at the sea [chunk 1]" not in out
    assert out.endswith("rejected: 3 claims, 1 supported, 1 not supported, 0 unclear, 1 without a citation\n")


def test_results_of_a_search_are_cited_by_position(verify: Verify, tmp_path: Path) -> None:
    results = tmp_path / "passages.json"
    results.write_text(json.dumps({"results": [{"chunk_id": 2, "text": "…"}, {"chunk_id": 1}]}))
    text = "The moon pulls at the sea [2]. Flour becomes bread [1]."
    code, out, _ = verify(text, "--references", str(results), "--all")
    assert code == 0
    assert "[2] Tides, line 1: The moon pulls at the sea twice a day: the tide." in out
    results.write_text(json.dumps([{"chunk_id": 1, "label": 2}]))
    assert verify(text, "--references", str(results))[0] == 1


def test_json_has_the_form_of_the_api(verify: Verify) -> None:
    code, out, _ = verify("The moon pulls at the sea [document 1].", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["accepted"]
    assert answer["statements"][0]["evidence"]["document_id"] == 1


def test_text_can_come_from_stdin(
    verify: Verify, database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The moon pulls at the sea [chunk 1].")))
    assert run(["--db", str(database), "verify", "-"]) == 0
    assert capsys.readouterr().out.startswith("accepted: 1 claim, 1 supported")


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ("[", "--references: passages.json is not JSON"),
        ("[" * 100_000, "--references: passages.json is not JSON"),
        ("{}", "--references: passages.json must be a list of references"),
        ("3", "--references: passages.json must be a list of references"),
        ('[{"chunk": 1}]', "chunk: is unknown; known are label, chunk_id"),
        ('{"results": [{"text": "a"}]}', "must have a chunk_id or a document_id"),
    ],
)
def test_bad_references_are_named(verify: Verify, tmp_path: Path, references: str, message: str) -> None:
    (tmp_path / "passages.json").write_text(references)
    code, out, err = verify("A [1].", "--references", str(tmp_path / "passages.json"))
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_an_empty_text_is_an_error(verify: Verify, text: str) -> None:
    code, out, err = verify(text)
    assert (code, out) == (2, "")
    assert "is empty" in err


def test_terminal_escapes_of_a_text_are_not_printed(verify: Verify) -> None:
    _, out, _ = verify("The moon \x1b[31m is red \x07.")
    assert "\x1b" not in out
    assert "\x07" not in out
