"""`shoal ingest --replace`: replace the content of a document with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.app import run

FIRE = "Magma rises through the crust. Lava and ash pour from the crater of the volcano."
PLANT = "A flower grows from a seed. The root and the leaf feed the plant."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fire.md").write_text(f"# Fire\n\n{FIRE}\n\n# Growth\n\n{PLANT}\n")
    return tmp_path


def show_document(capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run(["--json", "show", "1"]) == 0
    return json.loads(capsys.readouterr().out)


def test_file_replaces_the_content_of_a_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", "fire.md", "--title", "Notes", "--tags", "a,b"]) == 0
    before = {chunk["text"]: chunk["id"] for chunk in show_document(capsys)["chunks"]}
    (folder / "fire.md").write_text(f"# Fire\n\n{FIRE} It burns.\n\n# Growth\n\n{PLANT}\n")
    assert run(["ingest", "fire.md", "--replace", "1"]) == 0
    assert "document 1: Notes" in capsys.readouterr().out
    detail = show_document(capsys)
    after = {chunk["text"]: chunk["id"] for chunk in detail["chunks"]}
    assert after[PLANT] == before[PLANT]
    assert set(after) == {f"{FIRE} It burns.", PLANT}
    assert detail["document"]["tags"] == ["a", "b"]


def test_impossible_replacement_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", "fire.md", "--replace", "1"]) == 1
    (folder / "other.txt").write_text(PLANT)
    assert run(["ingest", "fire.md", "other.txt"]) == 0
    capsys.readouterr()
    assert run(["ingest", "other.txt", "--replace", "1"]) == 1
    assert "the same content is stored already as document 2" in capsys.readouterr().err
    assert run(["ingest", "other.txt", "--replace", "7"]) == 1
    assert "there is no document 7" in capsys.readouterr().err
    assert run(["ingest", "fire.md", "other.txt", "--replace", "1"]) == 2
    assert "one document cannot become several files" in capsys.readouterr().err
