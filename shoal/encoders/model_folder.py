"""Folders with an ONNX model and its tokenizer: which files they have, and how the model wants to be used.

Three layouts are understood: that of `shoal encoder convert` (`encoder.json`), that of sentence-transformers
(`modules.json`, `1_Pooling/config.json`), and that of optimum (`onnx/model.onnx`, `model_quantized.onnx`).
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.encoders.encoder import TextKind
from shoal.errors import EncoderError, EncoderUnavailableError

DESCRIPTION = "encoder.json"
"""Written by `shoal encoder convert`."""
MODEL_NAMES = ("model.onnx", "model_optimized.onnx", "model_quantized.onnx", "model_int8.onnx")
"""Names of model files, preferred first."""
MAX_JSON_BYTES = 64 * 1024 * 1024
READ_BYTES = 1024 * 1024
PROMPTS = {TextKind.query: ("query",), TextKind.document: ("document", "passage", "corpus")}
"""Names of prefixes in the settings of sentence-transformers."""
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
RESERVED_POSITIONS = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}
"""Positions that models of a type do not use for tokens."""


class Pooling(enum.StrEnum):
    """How the vectors of tokens become one."""

    mean = "mean"
    cls = "cls"
    max = "max"
    last = "last"


_POOLING_NAMES = {
    "mean": Pooling.mean,
    "mean_tokens": Pooling.mean,
    "mean_sqrt_len_tokens": Pooling.mean,  # the same direction
    "cls": Pooling.cls,
    "cls_token": Pooling.cls,
    "max": Pooling.max,
    "max_tokens": Pooling.max,
    "last": Pooling.last,
    "lasttoken": Pooling.last,
}


@dataclass(frozen=True)
class ModelFolder:
    """The files of a model and what its folder says about it.

    `max_tokens`: most tokens that the model reads, None if the folder does not say. `dimension`: length of a
    vector, None if the folder does not say. `prompts`: text before each kind of text. `pad_id`: token that
    fills shorter texts, None if the folder does not say.
    """

    model: Path
    tokenizer: Path
    name: str
    pooling: Pooling
    max_tokens: int | None
    dimension: int | None
    pad_id: int | None
    prompts: Mapping[TextKind, str]

    def digest(self, *parts: str) -> str:
        """Return a hash of the model, the tokenizer, the pooling and `parts`, 16 hexadecimal digits."""
        hashed = hashlib.blake2b(digest_size=8)
        # Large models keep their weights in files beside the model.
        weights = sorted(self.model.parent.glob(f"{self.model.name}[._]data*"))
        try:
            for path in (self.model, *weights, self.tokenizer):
                with path.open("rb") as file:
                    while block := file.read(READ_BYTES):
                        hashed.update(block)
        except FileNotFoundError as error:
            raise EncoderUnavailableError(f"the model has no {path.name} any more") from error
        except OSError as error:
            raise EncoderError(f"cannot read the model: {path.name}: {error.strerror}") from error
        for part in (self.pooling.value, *parts):
            hashed.update(f"{len(part)}:{part}".encode("utf-8", "replace"))
        return hashed.hexdigest()


def read_model_folder(path: Path) -> ModelFolder:
    """Read what a folder says; `path` is the folder, or the ONNX file in it if there are several.

    Raises EncoderUnavailableError if the folder does not exist. Raises EncoderError, which names what is
    missing or cannot be used.
    """
    if not path.exists():
        # A disk may be mounted later, and a model may be replaced, so trying again can help.
        raise EncoderUnavailableError(f"there is no model folder {path.name}")
    model = path if path.is_file() else _find_model(path)
    top = _find_top(model.parent if path.is_file() else path)
    tokenizer = _find_tokenizer(model, top)
    described = _read_object(top / DESCRIPTION)
    config = _read_object(top / "config.json")
    sentence = _read_object(top / "sentence_bert_config.json")
    pooling, pooled_dimension = _pooling(top, described)
    limits = [
        limit
        for limit in (
            _positive(described, "max_tokens"),
            _positive(sentence, "max_seq_length"),
            _position_limit(config),
        )
        if limit is not None
    ]
    return ModelFolder(
        model=model,
        tokenizer=tokenizer,
        name=_name(top, described, config),
        pooling=pooling,
        max_tokens=min(limits, default=None),
        dimension=_positive(described, "dimension") or pooled_dimension or _positive(config, "hidden_size"),
        pad_id=_first_count(described.get("pad_token_id"), config.get("pad_token_id")),
        prompts=_prompts(_read_object(top / "config_sentence_transformers.json")),
    )


def _find_model(folder: Path) -> Path:
    places = [folder, folder / "onnx"]
    for name in MODEL_NAMES:
        for place in places:
            if (place / name).is_file():
                return place / name
    others = sorted(path for place in places if place.is_dir() for path in place.glob("*.onnx"))
    if len(others) == 1:
        return others[0]
    if others:
        names = ", ".join(str(path.relative_to(folder)) for path in others[:8])
        raise EncoderError(f"{folder} has several models ({names}): name the file, local:FOLDER/FILE.onnx")
    hint = ""
    if (folder / "model.safetensors").is_file() or (folder / "pytorch_model.bin").is_file():
        hint = "; it has the weights of PyTorch: `shoal encoder convert --source FOLDER` converts them"
    raise EncoderError(f"{folder} has no model.onnx, nor onnx/model.onnx{hint}")


def _find_top(folder: Path) -> Path:
    """Return the folder of the settings, which may be above that of the model."""
    return folder.parent if folder.name == "onnx" and not (folder / DESCRIPTION).exists() else folder


def _find_tokenizer(model: Path, top: Path) -> Path:
    for folder in (top, model.parent):
        if (folder / "tokenizer.json").is_file():
            return folder / "tokenizer.json"
    raise EncoderError(f"{top} has no tokenizer.json, the form that tokenizers of any model can be saved in")


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; {} if there is no file."""
    value = _read_json(path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise EncoderError(f"{path.name} of the model is not a JSON object")
    return value


def _read_json(path: Path) -> Any:
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > MAX_JSON_BYTES:
            raise EncoderError(f"{path.name} of the model is too large")
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{path.name} of the model is not JSON") from error
    except OSError as error:
        raise EncoderError(f"cannot read {path.name} of the model: {error.strerror}") from error


def _pooling(top: Path, described: Mapping[str, Any]) -> tuple[Pooling, int | None]:
    """Return the pooling that the folder names, mean if none, and the dimension that it says."""
    if "pooling" in described:
        return _pooling_named(described["pooling"]), None
    folder = top / "1_Pooling"
    modules = _read_json(top / "modules.json")
    if isinstance(modules, list):
        for module in modules:
            fields = module if isinstance(module, dict) else {}
            kind = str(fields.get("type")).rsplit(".", 1)[-1]
            if kind not in KNOWN_MODULES:
                raise EncoderError(f"the model has a part of the type {kind}, which Shoal does not compute")
            if kind == "Pooling":
                folder = top / str(fields.get("path"))
    config = _read_object(folder / "config.json")
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    modes = [name.removeprefix("pooling_mode_") for name in flags]
    if not modes and "pooling_mode" in config:
        given = config["pooling_mode"]
        modes = given if isinstance(given, list) else [given]
    if len(modes) > 1:
        raise EncoderError("the model joins several ways of pooling, which Shoal does not compute")
    dimension = _positive(config, "word_embedding_dimension") or _positive(config, "embedding_dimension")
    return (_pooling_named(modes[0]) if modes else Pooling.mean), dimension


def _pooling_named(name: object) -> Pooling:
    pooling = _POOLING_NAMES.get(str(name))
    if pooling is None:
        raise EncoderError(f"the model needs the pooling {str(name)[:40]!r}, which Shoal does not compute")
    return pooling


def _position_limit(config: Mapping[str, Any]) -> int | None:
    positions = _positive(config, "max_position_embeddings")
    reserved = RESERVED_POSITIONS.get(str(config.get("model_type")), 0)
    return None if positions is None or positions <= reserved else positions - reserved


def _name(top: Path, described: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    for name in (described.get("name"), config.get("_name_or_path")):
        if isinstance(name, str) and name.strip("/ "):
            return name.strip("/ ").rsplit("/", 1)[-1][:200]
    return top.resolve().name[:200] or "model"


def _prompts(config: Mapping[str, Any]) -> dict[TextKind, str]:
    prompts = config.get("prompts")
    if not isinstance(prompts, dict):
        return {}
    given = {
        kind: next((prompts[name] for name in names if name in prompts), "")
        for kind, names in PROMPTS.items()
    }
    return {kind: text for kind, text in given.items() if isinstance(text, str) and text}


def _positive(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value > 0 else None


def _first_count(*values: object) -> int | None:
    return next((value for value in values if type(value) is int and value >= 0), None)
