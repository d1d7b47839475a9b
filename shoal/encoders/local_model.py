"""Encoders and cross-encoders in ONNX, run in this process by onnxruntime.

Only this module imports onnxruntime and tokenizers (extra `encoder`), on first use.

On a CPU each text runs alone, on one of SHOAL_ENCODER_THREADS threads. Quantised models scale their numbers
by all texts of a run, so that the vector of a text would depend on the others; and runs of eight are at most
30 % faster for short texts, and slower for long ones. Threads that divide one text wait for each other in
every layer (benchmarks/encoder_speed.py). On a GPU, texts are sorted by length and filled up to the longest
of their run only.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.encoders import encoder as texts_of_encoders
from shoal.encoders.encoder import EncoderIdentity, Floats, TextKind, unit_vectors
from shoal.encoders.model_folder import ModelFolder, Pooling, read_model_folder
from shoal.encoders.packaged_model import find_packaged_model
from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.settings import Settings

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

Rows = NDArray[np.int64]

INPUTS = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
MAX_CHARS_PER_TOKEN = 32
"""Longer texts are cut before they are tokenized, so that one that is never read costs nothing. A token of
English has about 4 characters."""
TOKENS_IN_RUN = 8192
"""Most tokens in one run, with those that fill up; bounds the memory of long texts."""
POOLED_OUTPUT = "sentence_embedding"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
SLOW_FUSIONS = ["SkipLayerNormFusion"]
"""On a CPU, the kernel that adds and normalizes at once takes four times the time of two kernels."""
N_VECTOR_AXES, N_TOKEN_AXES = 2, 3

_log = logging.getLogger(__name__)


class LocalEncoder:
    """An encoder from a folder; see `shoal.encoders.encoder.Encoder`. Loads the model on first use."""

    def __init__(self, path: Path | None, settings: Settings) -> None:
        """`path`: of the folder; None for the packaged model."""
        self._model = _LocalModel(path, settings)
        self._settings = settings

    @functools.cached_property
    def identity(self) -> EncoderIdentity:
        """The model, by a hash of its files, the prefixes and the tokens read. Raises EncoderError."""
        folder = self._model.folder
        revision = folder.digest(
            self._prefixes[TextKind.query], self._prefixes[TextKind.document], str(self.max_tokens)
        )
        dimension = folder.dimension or int(self._run([""]).shape[1])
        return EncoderIdentity(folder.name, revision, dimension)

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read, special tokens and prefix included."""
        return self._model.max_tokens

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        """Return f32 (len(texts), dimension), rows of unit length. Raises EncoderError."""
        dimension = self.identity.dimension
        if not texts:
            return np.empty((0, dimension), dtype=np.float32)
        started = time.perf_counter()
        max_chars = self.max_tokens * MAX_CHARS_PER_TOKEN
        vectors = self._run(texts_of_encoders.prepare(texts, self._prefixes[kind], max_chars))
        _log_run(self.identity, len(texts), started)
        return unit_vectors(vectors, len(texts), dimension)

    @functools.cached_property
    def _prefixes(self) -> dict[TextKind, str]:
        return texts_of_encoders.prefixes(self._settings, self._model.folder.prompts)

    def _run(self, texts: Sequence[str]) -> Floats:
        return self._model.run(texts, _pooled_by(self._model.folder.pooling))


class LocalPairScorer:
    """A cross-encoder from a folder; see `shoal.encoders.encoder.PairScorer`. Loads it on first use.

    Its score is the sigmoid of the single number that the model returns.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self._model = _LocalModel(path, settings)

    @functools.cached_property
    def identity(self) -> EncoderIdentity:
        """The model, by a hash of its files and the tokens read. Raises EncoderError."""
        folder = self._model.folder
        return EncoderIdentity(folder.name, folder.digest(str(self._model.max_tokens)), 1)

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Return f32 (len(texts),): how well each text answers the query, 0 to 1. Raises EncoderError."""
        if not texts:
            return np.empty(0, dtype=np.float32)
        started = time.perf_counter()
        max_chars = self._model.max_tokens * MAX_CHARS_PER_TOKEN
        query, *passages = texts_of_encoders.prepare([query, *texts], "", max_chars)
        logits = self._model.run([(query, passage) for passage in passages], _single_logits)[:, 0]
        if not np.isfinite(logits).all():
            raise EncoderError("the cross-encoder returned a score that is not finite")
        _log_run(self.identity, len(texts), started)
        return np.asarray(1 / (1 + np.exp(-logits.astype(np.float64))), dtype=np.float32)


class _LocalModel:
    """A model with its tokenizer. Safe to use from several threads."""

    def __init__(self, path: Path | None, settings: Settings) -> None:
        self._path = path
        self._settings = settings
        self._loading = threading.Lock()

    @functools.cached_property
    def folder(self) -> ModelFolder:
        return read_model_folder(find_packaged_model() if self._path is None else self._path)

    @property
    def max_tokens(self) -> int:
        return min(
            self._settings.encoder_max_tokens, self.folder.max_tokens or self._settings.encoder_max_tokens
        )

    def run(self, texts: Sequence[Any], reduce: Any) -> Floats:
        """Return f32 (len(texts), n): what `reduce` makes of the outputs for each text or pair of texts.

        `reduce` takes the first output of the model, f32 (texts, ...), and the mask of its tokens.
        """
        tokenizer, session = self._loaded
        encodings = tokenizer.encode_batch_fast(list(texts))
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        # The longest first, so that no thread is left with one at the end.
        order = np.argsort(-lengths, kind="stable")
        runs: list[list[Any]] = []
        first = 0
        while first < len(order):
            n_rows = self._texts_in_run(int(lengths[order[first]]))
            runs.append([encodings[row] for row in order[first : first + n_rows]])
            first += n_rows
        n_threads = min(self._settings.encoder_threads, len(runs)) if self._is_on_cpu else 1
        with concurrent.futures.ThreadPoolExecutor(n_threads, "encoder") as threads:
            # Threads of a call have the priority of its caller.
            each = threads.map if n_threads > 1 else map
            parts = list(each(lambda encodings: self._run_rows(session, encodings, reduce), runs))
        reduced = np.concatenate(parts)
        values = np.empty_like(reduced)
        values[order] = reduced
        return values

    @property
    def _is_on_cpu(self) -> bool:
        return self._settings.encoder_device == "cpu"

    def _texts_in_run(self, n_tokens: int) -> int:
        if self._is_on_cpu:
            return 1
        return max(1, min(self._settings.encoder_batch, TOKENS_IN_RUN // max(1, n_tokens)))

    def _run_rows(
        self, session: onnxruntime.InferenceSession, encodings: Sequence[Any], reduce: Any
    ) -> Floats:
        shape = (len(encodings), max(1, *(len(encoding.ids) for encoding in encodings)))
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, encoding in enumerate(encodings):
            n_tokens = len(encoding.ids)
            ids[row, :n_tokens] = encoding.ids
            mask[row, :n_tokens] = 1
            types[row, :n_tokens] = encoding.type_ids
        positions = np.broadcast_to(np.arange(shape[1]), shape)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "position_ids": positions}
        feed = {
            tensor.name: given[tensor.name].astype(np.int32 if "int32" in tensor.type else np.int64)
            for tensor in session.get_inputs()
        }
        names = [tensor.name for tensor in session.get_outputs()]
        output = POOLED_OUTPUT if POOLED_OUTPUT in names else names[0]
        try:
            (values,) = session.run([output], feed)
        except Exception as error:  # onnxruntime has no public base class of its errors
            raise EncoderError(
                f"the model failed with {shape[0]} texts of {shape[1]} tokens ({_first_line(error)}); "
                "a lower SHOAL_ENCODER_MAX_TOKENS or SHOAL_ENCODER_BATCH may help"
            ) from error
        return np.asarray(reduce(np.asarray(values, dtype=np.float32), mask), dtype=np.float32)

    @property
    def _loaded(self) -> tuple[tokenizers.Tokenizer, onnxruntime.InferenceSession]:
        with self._loading:
            return self._parts

    @functools.cached_property
    def _parts(self) -> tuple[tokenizers.Tokenizer, onnxruntime.InferenceSession]:
        # Its threads would be added to those of the settings, and it warns of processes forked later.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            import onnxruntime
            import tokenizers
        except ImportError as error:
            raise EncoderError(
                f"a local model needs the package {error.name}: pip install 'shoal[encoder]'"
            ) from error
        provider = PROVIDERS[self._settings.encoder_device]
        if provider not in onnxruntime.get_available_providers():
            raise EncoderError(
                f"SHOAL_ENCODER_DEVICE={self._settings.encoder_device} needs a build of onnxruntime for it, "
                "such as the package onnxruntime-gpu in the place of onnxruntime"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not self.folder.model.exists():
            raise EncoderUnavailableError(f"there is no model folder {self.folder.model.parent.name}")
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self.folder.tokenizer))
            session = onnxruntime.InferenceSession(
                str(self.folder.model),
                options,
                providers=[provider],
                disabled_optimizers=SLOW_FUSIONS if self._is_on_cpu else None,
            )
        except Exception as error:  # neither package has a public base class of its errors
            raise EncoderError(
                f"the model in {self.folder.model.parent} cannot be loaded: {_first_line(error)}"
            ) from error
        if provider not in session.get_providers():
            raise EncoderError(
                f"onnxruntime cannot use {self._settings.encoder_device}; see its messages above"
            )
        unknown = {tensor.name for tensor in session.get_inputs()} - INPUTS
        if unknown:
            raise EncoderError(f"the model needs {', '.join(sorted(unknown))}, which Shoal does not give")
        padding = tokenizer.padding
        self._pad_id = int(padding["pad_id"]) if padding else self.folder.pad_id or 0
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens, strategy="longest_first")
        return tokenizer, session


def _pooled_by(pooling: Pooling) -> Any:
    """Return the function that makes one vector of those of the tokens."""

    def pool(values: Floats, mask: Rows) -> Floats:
        if values.ndim == N_VECTOR_AXES:
            return values
        if values.ndim != N_TOKEN_AXES:
            raise EncoderError(f"the model returned an array of {values.ndim} axes; expected 2 or 3")
        if pooling is Pooling.cls:
            return values[:, 0]
        if pooling is Pooling.last:
            return np.asarray(values[np.arange(len(values)), mask.sum(axis=1) - 1])
        if pooling is Pooling.max:
            return np.asarray(np.where(mask[:, :, None] == 1, values, -np.inf).max(axis=1))
        sums = np.einsum("btd,bt->bd", values, mask.astype(np.float32))
        return np.asarray(sums / np.maximum(1, mask.sum(axis=1, keepdims=True)))

    return pool


def _single_logits(values: Floats, mask: Rows) -> Floats:
    """Return (texts, 1), the only number of each text."""
    if values.size != len(mask):
        raise EncoderError(
            f"the cross-encoder returned an array of shape {values.shape}; expected a number for each passage"
        )
    return values.reshape(-1, 1)


def _log_run(identity: EncoderIdentity, n_texts: int, started: float) -> None:
    _log.debug(
        "texts encoded",
        extra={
            "encoder": identity.name,
            "texts": n_texts,
            "ms": round(1000 * (time.perf_counter() - started), 1),
        },
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().split("\n") or [""])[0][:300] or type(error).__name__
