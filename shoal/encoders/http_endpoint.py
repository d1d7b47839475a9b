"""Encoders behind an OpenAI-compatible endpoint of embeddings (`/v1/embeddings`).

Texts go to the configured address and nowhere else: redirects are not followed, and proxies of the
environment are not used.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.encoders import encoder as texts_of_encoders
from shoal.encoders.encoder import EncoderIdentity, Floats, TextKind, unit_vectors
from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.settings import Settings
from shoal.support.http_endpoints import (
    Endpoint,
    Refusal,
    endpoint_address,
    open_client,
    pause_before_retry,
    read_answer,
    refusal_of,
)

if TYPE_CHECKING:
    import httpx

ENDPOINT = Endpoint("the encoder's endpoint", "SHOAL_ENCODER", "SHOAL_ENCODER_KEY")
PROBE = "a short text"
"""Embedded once, for the dimension."""
CHARS_PER_TOKEN = (4, 2, 1)
"""Texts are cut to so many characters for each token. English has about 4 and most scripts at least 1, so an
endpoint that refuses texts as too long is sent shorter ones."""
TOO_LONG = (400, 413, 422)
"""Statuses with which endpoints refuse texts that are longer than their model."""
MAX_DIMENSION = 16_384
BYTES_PER_NUMBER = 32
ANSWER_BYTES = 64 * 1024
"""Most bytes of an answer besides its numbers."""
LONGEST_SILENCE_SECONDS = 600.0
"""An endpoint that asks for a longer pause is asked again after this one."""

ANSWER = f"the answer of {ENDPOINT.name}"
OK = 200

_log = logging.getLogger(__name__)


class HttpEncoder:
    """An encoder behind an endpoint; see `shoal.encoders.encoder.Encoder`. Asks it on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prefixes = texts_of_encoders.prefixes(settings)
        self._identity: EncoderIdentity | None = None
        self._resumes_at = 0.0

    @property
    def identity(self) -> EncoderIdentity:
        """The model: its name, prefixes and tokens; the first use asks the endpoint for the dimension.

        The address does not count, so a model may move. Raises EncoderError.
        """
        # Without a lock: threads would wait for a silent endpoint one after the other.
        if self._identity is None:
            self._identity = self._ask_identity()
        return self._identity

    def _ask_identity(self) -> EncoderIdentity:
        parts = (*self._prefixes.values(), str(self.max_tokens))
        hashed = hashlib.blake2b(json.dumps([self._settings.encoder_model, *parts]).encode(), digest_size=8)
        dimension = self._embed_batch([PROBE], TextKind.document, None).shape[1]
        return EncoderIdentity(self._settings.encoder_model, hashed.hexdigest(), dimension)

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are sent, estimated by characters."""
        return self._settings.encoder_max_tokens

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        """Return f32 (len(texts), dimension), rows of unit length.

        Sends requests of `encoder_batch` texts. Raises EncoderUnavailableError if the endpoint is down, too
        slow or overloaded, else EncoderError.
        """
        dimension = self.identity.dimension
        size = self._settings.encoder_batch
        batches = [
            self._embed_batch(texts[first : first + size], kind, dimension)
            for first in range(0, len(texts), size)
        ]
        return np.concatenate(batches) if batches else np.empty((0, dimension), dtype=np.float32)

    def _embed_batch(self, texts: Sequence[str], kind: TextKind, dimension: int | None) -> Floats:
        """Return unit vectors of the texts of one request; `dimension` None accepts any."""
        started = time.monotonic()
        deadline = started + self._settings.encoder_timeout
        refusal = Refusal("")
        for chars in CHARS_PER_TOKEN:
            limit = chars * self.max_tokens
            prepared = texts_of_encoders.prepare(texts, self._prefixes[kind], limit)
            # Endpoints refuse empty texts.
            outcome = self._ask([text or " " for text in prepared], dimension, deadline)
            if not isinstance(outcome, Refusal):
                _log.info(
                    "texts sent to the encoder",
                    extra={
                        "encoder": self._settings.encoder_model,
                        "texts": len(texts),
                        "ms": round(1000 * (time.monotonic() - started), 1),
                    },
                )
                return outcome
            refusal = outcome
            if refusal.status not in TOO_LONG or all(len(text) < limit // 2 for text in prepared):
                break
        raise EncoderError(refusal.reason)

    def _ask(self, texts: list[str], dimension: int | None, deadline: float) -> Floats | Refusal:
        """Return the vectors of an answer, or why the endpoint refuses the texts.

        Raises EncoderUnavailableError if trying later may help.
        """
        remaining = self._resumes_at - time.monotonic()
        if remaining > 0:
            message = f"{ENDPOINT.name} asked for a pause, {remaining:.0f} s from now"
            raise EncoderUnavailableError(message, remaining)
        n_tries = 0
        while True:
            outcome = self._try(texts, dimension, deadline)
            if not isinstance(outcome, Refusal) or outcome.is_lasting:
                return outcome
            n_tries += 1
            pause = pause_before_retry(outcome, n_tries)
            if pause is None or time.monotonic() + pause >= deadline:
                raise self._unavailable(outcome)
            time.sleep(pause)

    def _unavailable(self, refusal: Refusal) -> EncoderError:
        if refusal.status == OK:
            return EncoderError(refusal.reason)
        if refusal.pause is not None:
            self._resumes_at = time.monotonic() + min(refusal.pause, LONGEST_SILENCE_SECONDS)
        return EncoderUnavailableError(refusal.reason, refusal.pause)

    def _try(self, texts: list[str], dimension: int | None, deadline: float) -> Floats | Refusal:
        import httpx

        seconds = max(0.05, deadline - time.monotonic())
        body = {"model": self._settings.encoder_model, "input": texts}
        address = endpoint_address(self._settings.encoder, "embeddings")
        max_bytes = ANSWER_BYTES + len(texts) * (dimension or MAX_DIMENSION) * BYTES_PER_NUMBER
        try:
            with self._client.stream("POST", address, json=body, timeout=seconds) as response:
                if response.status_code != OK:
                    return refusal_of(response, ENDPOINT)
                data = read_answer(response, max_bytes, seconds)
        except httpx.TimeoutException:
            return Refusal(f"{ENDPOINT.name} did not answer within {self._settings.encoder_timeout:g} s")
        except httpx.HTTPError as error:
            return Refusal(f"{ENDPOINT.name} cannot be reached: {type(error).__name__}")
        return _vectors(data, len(texts), dimension) if isinstance(data, bytes) else data

    @functools.cached_property
    def _client(self) -> httpx.Client:
        if not self._settings.encoder_model:
            raise EncoderError("an endpoint needs the name of a model: set SHOAL_ENCODER_MODEL")
        return open_client(self._settings.encoder_key, self._settings.encoder_timeout)


def _vectors(data: bytes, n_texts: int, dimension: int | None) -> Floats | Refusal:
    """Return the unit vectors of an answer in the order of the texts, or what is wrong with it."""
    try:
        items = json.loads(data)["data"]
        embeddings = [item["embedding"] for item in _in_order(items)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return Refusal(f"{ANSWER} is not in the form of embeddings", status=OK)
    if len(embeddings) != n_texts:
        return Refusal(f"{ANSWER} has {len(embeddings)} vectors for {n_texts} texts", status=OK)
    try:
        rows = [_numbers(embedding) for embedding in embeddings]
    except (ValueError, TypeError, OverflowError):
        return Refusal(f"{ANSWER} has a vector that is not a list of numbers", status=OK)
    sizes = {len(row) for row in rows}
    expected = dimension or len(rows[0])
    if sizes != {expected} or not 0 < expected <= MAX_DIMENSION:
        given = " and ".join(str(size) for size in sorted(sizes)[:3])
        hint = "" if dimension is None else "; the model behind the endpoint has changed"
        reason = f"{ANSWER} has vectors of {given} numbers; expected {expected}{hint}"
        return Refusal(reason, is_lasting=True, status=OK)
    try:
        with np.errstate(over="ignore"):
            return unit_vectors(np.stack(rows), n_texts, expected)
    except EncoderError as error:
        return Refusal(f"{ANSWER} cannot be used: {error}", status=OK)


def _in_order(items: Any) -> list[Any]:
    """Return the items of an answer by their `index`, or as they are if they have none.

    Raises ValueError unless the indexes are 0 to the number of items - 1, each once.
    """
    if not isinstance(items, list):
        raise TypeError("not a list")
    if all("index" not in item for item in items):
        return items
    by_index = {item["index"]: item for item in items if type(item["index"]) is int}
    if sorted(by_index) != list(range(len(items))):
        raise ValueError("indexes are missing or doubled")
    return [by_index[index] for index in range(len(items))]


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """Return the numbers of a vector: a list, or little-endian f32 in base64."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
    numbers = np.asarray(embedding)
    if numbers.ndim != 1 or numbers.dtype.kind not in "fi":
        raise ValueError("not a list of numbers")
    return numbers.astype(np.float64)
