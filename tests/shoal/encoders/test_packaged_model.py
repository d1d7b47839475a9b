"""`SHOAL_ENCODER=minilm`: the packaged encoder is found, checked, and loaded as data."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tiny_models

from shoal.encoders import packaged_model
from shoal.encoders.encoder import TextKind, open_encoder
from shoal.errors import EncoderError
from shoal.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
BUILD_SECONDS = 900


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution with a small model, whose code must not run; returns the model's folder."""
    package = tmp_path / "site" / packaged_model.PACKAGE
    folder = package / "model"
    folder.mkdir(parents=True)
    tiny_models.write_encoder(folder, description={"pooling": "mean", "pad_token_id": 0})
    (package / "__init__.py").write_text("raise SystemExit('code of the distribution ran')")
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in packaged_model.DIGESTS
    }
    monkeypatch.setattr(packaged_model, "DIGESTS", digests)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder


def test_packaged_encoder_is_loaded_without_its_code(packaged: Path) -> None:
    encoder = open_encoder(Settings(encoder="minilm"))
    assert encoder is not None
    assert encoder.embed(["rain"], TextKind.query).shape == (1, tiny_models.DIMENSION)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "encoder.json"])
def test_changed_file_of_the_packaged_encoder_is_refused(packaged: Path, name: str) -> None:
    with (packaged / name).open("ab") as file:
        file.write(b"\n")
    encoder = open_encoder(Settings(encoder="minilm"))
    assert encoder is not None
    with pytest.raises(EncoderError, match=rf"{name} .* is not the one of shoal-minilm"):
        encoder.embed(["rain"], TextKind.query)


def test_missing_file_of_the_packaged_encoder_is_named(packaged: Path) -> None:
    (packaged / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match=r"cannot read tokenizer.json"):
        packaged_model.find_packaged_model()


def test_missing_distribution_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged_model, "PACKAGE", "no_such_distribution")
    with pytest.raises(EncoderError, match=r"pip install ./minilm"):
        packaged_model.find_packaged_model()


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("SHOAL_TEST_LONG"), reason="downloads 200 MB; SHOAL_TEST_LONG=1 runs it"
)
@pytest.mark.timeout(BUILD_SECONDS)
def test_build_of_the_weights_has_the_expected_bytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(ROOT / "minilm")], check=True, timeout=BUILD_SECONDS)
    [wheel] = tmp_path.glob("shoal_minilm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    packaged_model.check_files(tmp_path / "shoal_minilm" / "model")
    assert not list(tmp_path.rglob("*.py")), "the distribution has no code"
