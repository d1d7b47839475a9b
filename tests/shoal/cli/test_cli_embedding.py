"""`shoal encoder embed` embeds what lacks vectors, and says what it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.encoders import encoder
from shoal.engine import Engine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shoal.db"
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        engine.ingest(title="Rain", content="Rain falls on the coast.")
        engine.ingest(title="Fire", content="Lava of a volcano cools.")
    return path


def test_embed_command(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = FakeEncoder()
    monkeypatch.setattr(encoder, "open_encoder", lambda _: first)
    assert run(["encoder", "embed", "--db", str(path)]) == 0
    assert "2 passages embedded, 2 of 2 have a vector" in capsys.readouterr().out
    assert run(["encoder", "embed", "--db", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_documents"], result["n_before"], result["n_after"]) == (0, 2, 2)
    assert result["encoder"]["name"] == "fake"
    assert first.n_embedded == 2
    second = FakeEncoder(revision="2")
    monkeypatch.setattr(encoder, "open_encoder", lambda _: second)
    assert run(["encoder", "embed", "--db", str(path)]) == 1
    assert "embed --again" in capsys.readouterr().err
    assert run(["encoder", "embed", "--again", "--db", str(path)]) == 0
    assert second.n_embedded == 2


def test_embed_command_without_an_encoder(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["encoder", "embed", "--db", str(path)]) == 1
    assert "SHOAL_ENCODER" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--wait"], ["--again", "--server", "http://127.0.0.1:9"]])
def test_options_that_do_not_fit_are_refused(path: Path, wrong: list[str]) -> None:
    assert run(["encoder", "embed", "--db", str(path), *wrong]) == 2
