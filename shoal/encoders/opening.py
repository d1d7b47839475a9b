"""The encoder and the cross-encoder that the settings name."""

from __future__ import annotations

from pathlib import Path

from shoal.encoders.contract import Encoder, PairScorer
from shoal.settings import Settings

DISABLED = "disabled"
LOCAL = "local:"


def open_encoder(settings: Settings) -> Encoder | None:
    """Return the encoder of `SHOAL_ENCODER`, or None if it is disabled. Loads no model yet."""
    if settings.encoder in ("", DISABLED):
        return None
    if settings.encoder.startswith(LOCAL):
        from shoal.encoders.local_model import LocalEncoder

        return LocalEncoder(_folder(settings.encoder), settings)
    from shoal.encoders.http_endpoint import HttpEncoder

    return HttpEncoder(settings)


def open_pair_scorer(settings: Settings) -> PairScorer | None:
    """Return the cross-encoder of `SHOAL_RERANKER`, or None if it names none. Loads no model yet."""
    if not settings.reranker.startswith(LOCAL):
        return None
    from shoal.encoders.local_model import LocalPairScorer

    return LocalPairScorer(_folder(settings.reranker), settings)


def _folder(value: str) -> Path:
    return Path(value.removeprefix(LOCAL)).absolute()
