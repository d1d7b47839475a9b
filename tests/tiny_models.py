"""Small ONNX models with a tokenizer, made for tests: each word has a fixed vector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "rain",
    "storm",
    "wind",
    "bread",
    "flour",
    "oven",
    "query",
    "passage",
)
DIMENSION = 8


def word_vectors() -> np.ndarray:
    """Return f32 (words, DIMENSION); rain, storm and wind are near each other, and so are bread, flour and oven."""
    random = np.random.default_rng(7)
    vectors = random.normal(0, 0.2, (len(WORDS), DIMENSION)).astype(np.float32)
    vectors[4:7, 0] += 3
    vectors[7:10, 1] += 3
    return vectors


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of whole words, with [CLS] and [SEP]."""
    special = [
        {
            "id": i,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, word in enumerate(WORDS[:4])
    ]
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    sep_of_second = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    tokenizer = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, first, sep],
            "pair": [cls, first, sep, second, sep_of_second],
            "special_tokens": {
                word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]}
                for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: i for i, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def write_encoder(
    folder: Path,
    *,
    file: str = "model.onnx",
    description: dict[str, Any] | None = None,
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    vectors: np.ndarray | None = None,
) -> Path:
    """Write a folder with an encoder whose token vectors are those of the words. Return the folder."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["last_hidden_state"])]
    _save(path, nodes, inputs, [("last_hidden_state", ["batch", "tokens", DIMENSION])], vectors)
    write_tokenizer(folder)
    if description is not None:
        (folder / "encoder.json").write_text(json.dumps(description))
    return folder


def write_cross_encoder(folder: Path, *, n_logits: int = 1) -> Path:
    """Write a folder with a cross-encoder whose logit is the number of tokens of the weather. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    weather = np.zeros((len(WORDS), n_logits), dtype=np.float32)
    weather[4:7] = 1
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["values"]),
        helper.make_node("ReduceSum", ["values", "axes"], ["logits"], keepdims=0),
    ]
    axes = numpy_helper.from_array(np.array([1]), "axes")
    _save(folder / "model.onnx", nodes, ("input_ids",), [("logits", ["batch", n_logits])], weather, [axes])
    write_tokenizer(folder)
    return folder


def _save(
    path: Path,
    nodes: list[Any],
    inputs: Sequence[str],
    outputs: list[tuple[str, list[Any]]],
    vectors: np.ndarray | None,
    constants: Sequence[Any] = (),
) -> None:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(word_vectors() if vectors is None else vectors, "words"), *constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
