"""Encoders and cross-encoders that onnxruntime runs from a folder."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

from shoal.encoders.encoder import TextKind, open_encoder, open_pair_scorer
from shoal.encoders.local_model import LocalEncoder, _LocalModel
from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.settings import Settings

DOCUMENT, QUERY = TextKind.document, TextKind.query
WORD = dict(zip(tiny_models.WORDS, tiny_models.word_vectors(), strict=True))


def encoder_of(folder: Path, **settings: Any) -> LocalEncoder:
    encoder = open_encoder(Settings(encoder=f"local:{folder}", **settings))
    assert isinstance(encoder, LocalEncoder)
    return encoder


def unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / np.linalg.norm(vector))


def write_pooling(folder: Path, config: dict[str, Any]) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))


def write_modules(folder: Path, *kinds: str) -> None:
    modules = [
        {"path": "1_Pooling" if kind == "Pooling" else "", "type": f"some.package.{kind}"} for kind in kinds
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


def test_vectors_are_means_of_tokens_of_unit_length_in_the_order_of_the_texts(tmp_path: Path) -> None:
    encoder = encoder_of(tiny_models.write_encoder(tmp_path))
    texts = ["rain", "bread flour oven bread flour oven", "Storm wind", ""]
    vectors = encoder.embed(texts, DOCUMENT)
    assert vectors.dtype == np.float32
    ends = WORD["[CLS]"] + WORD["[SEP]"]
    expected = [ends + WORD["rain"], ends + 2 * (WORD["bread"] + WORD["flour"] + WORD["oven"])]
    expected += [ends + WORD["storm"] + WORD["wind"], ends]
    np.testing.assert_allclose(vectors, [unit(vector) for vector in expected], atol=1e-6)
    assert vectors[0] @ vectors[2] > 0.8 > 0.2 > vectors[0] @ vectors[1]
    assert encoder.embed([], QUERY).shape == (0, tiny_models.DIMENSION)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("cls", WORD["[CLS]"]),
        ("lasttoken", WORD["[SEP]"]),
        ("max", np.max([WORD["[CLS]"], WORD["rain"], WORD["[SEP]"]], axis=0)),
        ("mean", WORD["[CLS]"] + WORD["rain"] + WORD["[SEP]"]),
    ],
)
@pytest.mark.parametrize("device_batches", [1, 8])
def test_pooling_ignores_the_tokens_that_fill_up(
    pooling: str, expected: np.ndarray, device_batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_models.write_encoder(tmp_path, description={"pooling": pooling, "pad_token_id": 9})
    encoder = encoder_of(folder)
    monkeypatch.setattr("shoal.encoders.local_model._LocalModel._texts_in_run", lambda *_: device_batches)
    vectors = encoder.embed(["wind storm wind storm", "rain"], DOCUMENT)
    np.testing.assert_allclose(vectors[1], unit(expected), atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        {"word_embedding_dimension": 8, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        {"embedding_dimension": 8, "pooling_mode": "cls"},
    ],
)
def test_layout_of_sentence_transformers_names_pooling_tokens_and_prefixes(
    config: dict[str, Any], tmp_path: Path
) -> None:
    folder = tiny_models.write_encoder(tmp_path, file="onnx/model.onnx")
    write_pooling(folder, config)
    write_modules(folder, "Transformer", "Pooling", "Normalize")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
    prompts = {"prompts": {"query": "query ", "passage": "passage "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (folder / "config.json").write_text('{"_name_or_path": "makers/tiny", "max_position_embeddings": 512}')
    encoder = encoder_of(folder)
    assert (encoder.identity.name, encoder.identity.dimension, encoder.max_tokens) == ("tiny", 8, 6)
    np.testing.assert_allclose(encoder.embed(["rain"], QUERY)[0], unit(WORD["[CLS]"]), atol=1e-6)
    same = encoder_of(folder, encoder_query_prefix="query ", encoder_document_prefix="passage ")
    assert same.identity == encoder.identity


@pytest.mark.parametrize(
    "file", ["onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx", "tiny.onnx"]
)
def test_model_files_of_other_tools_are_found(file: str, tmp_path: Path) -> None:
    encoder = encoder_of(tiny_models.write_encoder(tmp_path, file=file))
    assert encoder.embed(["rain"], QUERY).shape == (1, 8)


def test_a_file_of_several_can_be_named(tmp_path: Path) -> None:
    for file in ("onnx/a.onnx", "onnx/b.onnx"):
        tiny_models.write_encoder(tmp_path, file=file)
    with pytest.raises(EncoderError, match=r"several models \(onnx/a.onnx, onnx/b.onnx\): name the file"):
        encoder_of(tmp_path).embed(["rain"], QUERY)
    assert encoder_of(tmp_path / "onnx" / "b.onnx").embed(["rain"], QUERY).shape == (1, 8)


def test_prefixes_come_before_each_kind_of_text(tmp_path: Path) -> None:
    folder = tiny_models.write_encoder(tmp_path)
    plain = encoder_of(folder)
    prefixed = encoder_of(folder, encoder_query_prefix="query ", encoder_document_prefix="passage ")
    np.testing.assert_array_equal(prefixed.embed(["rain"], QUERY), plain.embed(["query rain"], QUERY))
    np.testing.assert_array_equal(prefixed.embed(["rain"], DOCUMENT), plain.embed(["passage rain"], QUERY))


def test_longer_texts_are_read_up_to_the_tokens_of_the_settings_and_of_the_model(tmp_path: Path) -> None:
    folder = tiny_models.write_encoder(tmp_path, description={"max_tokens": 10})
    encoder = encoder_of(folder)
    assert encoder.max_tokens == 10
    np.testing.assert_array_equal(
        encoder.embed(["rain " * 100_000 + "bread"], DOCUMENT), encoder.embed(["rain " * 8], DOCUMENT)
    )
    assert encoder_of(folder, encoder_max_tokens=9).max_tokens == 9


def test_identity_changes_with_all_that_changes_vectors(tmp_path: Path) -> None:
    folder = tiny_models.write_encoder(tmp_path / "a")
    base = encoder_of(folder).identity
    assert encoder_of(tiny_models.write_encoder(tmp_path / "b")).identity.revision == base.revision
    assert encoder_of(folder, encoder_threads=1, encoder_batch=7).identity == base
    others = [
        encoder_of(folder, encoder_query_prefix="x"),
        encoder_of(folder, encoder_document_prefix="x"),
        encoder_of(folder, encoder_max_tokens=100),
        encoder_of(tiny_models.write_encoder(tmp_path / "c", vectors=2 * tiny_models.word_vectors())),
        encoder_of(tiny_models.write_encoder(tmp_path / "d", description={"pooling": "cls"})),
    ]
    revisions = {base.revision, *(encoder.identity.revision for encoder in others)}
    assert len(revisions) == len(others) + 1


def test_texts_that_no_encoding_has_are_embedded(tmp_path: Path) -> None:
    encoder = encoder_of(tiny_models.write_encoder(tmp_path))
    assert np.isfinite(encoder.embed(["rain \ud800 \x00", "\U0001f327" * 50], QUERY)).all()


def test_texts_share_the_threads_and_each_vector_is_that_of_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_models.write_encoder(tmp_path)
    texts = ["rain " * n for n in range(12)]
    expected = encoder_of(folder, encoder_threads=1).embed(texts, DOCUMENT)
    encoder = encoder_of(folder, encoder_threads=3)
    assert encoder.identity  # loads the model
    together = threading.Barrier(3)
    run_rows = _LocalModel._run_rows

    def wait_for_the_others(self: _LocalModel, *arguments: Any) -> np.ndarray:
        together.wait(timeout=20)
        return run_rows(self, *arguments)

    monkeypatch.setattr(_LocalModel, "_run_rows", wait_for_the_others)
    np.testing.assert_array_equal(encoder.embed(texts, DOCUMENT), expected)


def test_threads_that_start_together_get_the_same_vectors(tmp_path: Path) -> None:
    encoder = encoder_of(tiny_models.write_encoder(tmp_path))
    vectors: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: vectors.append(encoder.embed(["rain storm"], QUERY)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(vectors) == 8
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


def _without_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()


def _with_weights_only(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "model.safetensors")


def _without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def _with_broken_model(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no model")


def _with_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def _with_broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _with_list_as_config(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def _with_dense_layer(folder: Path) -> None:
    write_modules(folder, "Transformer", "Pooling", "Dense")


def _with_two_poolings(folder: Path) -> None:
    write_pooling(folder, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})


def _with_unknown_pooling(folder: Path) -> None:
    write_pooling(folder, {"pooling_mode_weightedmean_tokens": True})


def _with_another_input(folder: Path) -> None:
    tiny_models.write_encoder(folder, inputs=("input_ids", "pixel_values"))


def _with_another_dimension(folder: Path) -> None:
    (folder / "encoder.json").write_text('{"dimension": 12}')


def _with_zero_vectors(folder: Path) -> None:
    tiny_models.write_encoder(folder, vectors=np.zeros_like(tiny_models.word_vectors()))


def _with_infinite_vectors(folder: Path) -> None:
    tiny_models.write_encoder(folder, vectors=np.full_like(tiny_models.word_vectors(), np.inf))


def _with_a_word_too_many(folder: Path) -> None:
    tiny_models.write_encoder(folder, vectors=tiny_models.word_vectors()[:4])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without_model, "has no model.onnx, nor onnx/model.onnx$"),
        (_with_weights_only, "weights of PyTorch: `shoal encoder convert"),
        (_without_tokenizer, "has no tokenizer.json"),
        (_with_broken_model, "cannot be loaded"),
        (_with_broken_tokenizer, "cannot be loaded"),
        (_with_broken_config, "config.json of the model is not JSON"),
        (_with_list_as_config, "config.json of the model is not a JSON object"),
        (_with_dense_layer, "part of the type Dense"),
        (_with_two_poolings, "several ways of pooling"),
        (_with_unknown_pooling, "needs the pooling 'weightedmean_tokens'"),
        (_with_another_input, "needs pixel_values"),
        (_with_another_dimension, r"vectors of shape \(1, 8\); expected \(1, 12\)"),
        (_with_zero_vectors, "zero or not finite"),
        (_with_infinite_vectors, "zero or not finite"),
        (_with_a_word_too_many, "the model failed with 1 texts of 3 tokens"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error_that_says_why(
    damage: Any, message: str, tmp_path: Path
) -> None:
    folder = tiny_models.write_encoder(tmp_path)
    damage(folder)
    with pytest.raises(EncoderError, match=message):
        encoder_of(folder).embed(["rain"], QUERY)


def test_a_missing_folder_is_an_error_on_first_use_only(tmp_path: Path) -> None:
    encoder = encoder_of(tmp_path / "nowhere")
    with pytest.raises(EncoderUnavailableError, match="there is no model folder nowhere"):
        _ = encoder.identity


def test_a_folder_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    folder = tiny_models.write_encoder(tmp_path / "model")
    encoder, away = encoder_of(folder), tmp_path / "away"
    assert encoder.max_tokens > 0  # read from the folder, before the model is loaded
    folder.rename(away)
    with pytest.raises(EncoderUnavailableError):
        encoder.embed(["rain"], QUERY)
    away.rename(folder)
    assert len(encoder.embed(["rain"], QUERY)) == 1


def test_a_missing_package_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of(tiny_models.write_encoder(tmp_path))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EncoderError, match=r"needs the package tokenizers: pip install 'shoal\[encoder\]'"):
        encoder.embed(["rain"], QUERY)


def test_a_device_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("there is a GPU")
    with pytest.raises(EncoderError, match="onnxruntime-gpu"):
        encoder_of(tiny_models.write_encoder(tmp_path), encoder_device="cuda").embed(["rain"], QUERY)


def test_cross_encoder_scores_each_passage_by_the_sigmoid_of_its_logit(tmp_path: Path) -> None:
    folder = tiny_models.write_cross_encoder(tmp_path)
    scorer = open_pair_scorer(Settings(reranker=f"local:{folder}"))
    assert scorer is not None
    scores = scorer.score("rain", ["storm wind", "bread", "rain rain rain"])
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([-3.0, -1.0, -4.0])), atol=1e-6)
    assert scorer.score("rain", []).shape == (0,)
    assert scorer.identity.dimension == 1
    assert scorer.score("rain " * 5000, ["rain " * 5000]).shape == (1,)


def test_cross_encoder_with_several_classes_is_an_error(tmp_path: Path) -> None:
    scorer = open_pair_scorer(
        Settings(reranker=f"local:{tiny_models.write_cross_encoder(tmp_path, n_logits=3)}")
    )
    assert scorer is not None
    with pytest.raises(EncoderError, match="expected a number for each passage"):
        scorer.score("rain", ["storm"])


def test_nothing_is_opened_by_default() -> None:
    assert open_encoder(Settings()) is None
    assert open_pair_scorer(Settings()) is None
    assert dataclasses.replace(Settings(), encoder="").encoder == ""
