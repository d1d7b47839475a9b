"""Encoders behind an endpoint, which may misbehave."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from embedding_server import Answer, EmbeddingServer, embedding_server, vector_of

from shoal.encoders.encoder import TextKind, open_encoder
from shoal.encoders.http_endpoint import HttpEncoder
from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.settings import Settings
from shoal.support import http_endpoints

DOCUMENT, QUERY = TextKind.document, TextKind.query
NO_CLOCK = {"encoder_timeout": 5.0}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoints, "FIRST_PAUSE_SECONDS", 0.01)


def encoder_of(server: EmbeddingServer, **settings: Any) -> HttpEncoder:
    given = {"encoder": server.url, "encoder_model": "tiny", **NO_CLOCK, **settings}
    encoder = open_encoder(Settings(**given))
    assert isinstance(encoder, HttpEncoder)
    return encoder


def units(texts: Sequence[str]) -> np.ndarray:
    vectors = np.array([vector_of(text) for text in texts])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_texts_are_sent_in_batches_with_model_key_and_prefix() -> None:
    with embedding_server() as server:
        encoder = encoder_of(
            server,
            encoder_batch=2,
            encoder_key="secret",
            encoder_query_prefix="q: ",
            encoder_document_prefix="d: ",
        )
        vectors = encoder.embed(["a", "bb", "ccc"], DOCUMENT)
        np.testing.assert_allclose(vectors, units(["d: a", "d: bb", "d: ccc"]), atol=1e-6)
        encoder.embed(["a"], QUERY)
        assert encoder.embed([], QUERY).shape == (0, 4)
    assert server.texts[1:] == [["d: a", "d: bb"], ["d: ccc"], ["q: a"]]
    assert server.requests[-1]["model"] == "tiny"
    assert server.headers[-1]["Authorization"] == "Bearer secret"
    assert set(server.paths) == {"/v1/embeddings"}


def test_identity_is_model_prefixes_and_tokens_and_not_the_address() -> None:
    with embedding_server() as server, embedding_server() as moved:
        identity = encoder_of(server).identity
        assert identity == encoder_of(moved, encoder_key="k", encoder_batch=1).identity
        assert (identity.name, identity.dimension) == ("tiny", 4)
        others = [
            encoder_of(server, **{name: value}).identity.revision
            for name, value in [
                ("encoder_model", "other"),
                ("encoder_query_prefix", "q"),
                ("encoder_document_prefix", "q"),
                ("encoder_max_tokens", 9),
            ]
        ]
        assert len({identity.revision, *others}) == 5
        n_requests = len(server.requests)
        encoder = encoder_of(server)
        _ = encoder.identity, encoder.identity
        assert len(server.requests) == n_requests + 1


def _shuffled(texts: Sequence[str]) -> bytes:
    items = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(texts)]
    return json.dumps({"data": items[::-1]}).encode()


def _in_base64(texts: Sequence[str]) -> bytes:
    items = [
        {"index": i, "embedding": base64.b64encode(np.array(vector_of(text), "<f4").tobytes()).decode()}
        for i, text in enumerate(texts)
    ]
    return json.dumps({"data": items}).encode()


def _without_indexes(texts: Sequence[str]) -> bytes:
    return json.dumps({"data": [{"embedding": vector_of(text)} for text in texts]}).encode()


@pytest.mark.parametrize("make", [_shuffled, _in_base64, _without_indexes])
def test_other_forms_of_answers_are_understood(make: Callable[[Sequence[str]], bytes]) -> None:
    texts = ["a", "bbbb", "cc"]
    with embedding_server(Answer(make)) as server:
        np.testing.assert_allclose(encoder_of(server).embed(texts, DOCUMENT), units(texts), atol=1e-6)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_batch_is_sent_again_after_errors_that_may_pass(status: int) -> None:
    refused = Answer(status=status, headers={"Retry-After": "0"})
    with embedding_server(refused, refused, Answer()) as server:
        assert encoder_of(server).identity.dimension == 4
    assert len(server.requests) == 3


@pytest.mark.parametrize("is_date", [False, True])
def test_an_endpoint_that_asks_for_a_long_pause_is_not_asked_again_before(is_date: bool) -> None:
    value = email.utils.formatdate(time.time() + 30, usegmt=True) if is_date else "30"
    with embedding_server(Answer(status=429, headers={"Retry-After": value})) as server:
        encoder = encoder_of(server)
        for _ in range(3):
            with pytest.raises(EncoderUnavailableError) as caught:
                encoder.embed(["rain"], QUERY)
            assert 20 < (caught.value.retry_after or 0) <= 30
    assert len(server.requests) == 1


def test_an_endpoint_is_asked_again_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.encoders.http_endpoint.LONGEST_SILENCE_SECONDS", 0.05)
    with embedding_server(Answer(status=503, headers={"Retry-After": "999999999"}), Answer()) as server:
        encoder = encoder_of(server)
        with pytest.raises(EncoderUnavailableError):
            encoder.embed(["rain"], QUERY)
        time.sleep(0.06)
        assert encoder.embed(["rain"], QUERY).shape == (1, 4)


def test_an_endpoint_that_is_down_is_unavailable() -> None:
    with embedding_server() as server:
        pass
    with pytest.raises(EncoderUnavailableError, match="cannot be reached: ConnectError"):
        _ = encoder_of(server).identity


@pytest.mark.parametrize("answer", [Answer(wait=100), Answer(drips=True)], ids=["silent", "dripping"])
def test_a_slow_endpoint_is_unavailable_after_the_time_limit(answer: Answer) -> None:
    with embedding_server(answer) as server, pytest.raises(EncoderUnavailableError, match=r"within 0\.\d+ s"):
        encoder_of(server, encoder_timeout=0.3).embed(["rain"], QUERY)


def test_threads_wait_for_a_silent_endpoint_together() -> None:
    def ask() -> None:
        with contextlib.suppress(EncoderUnavailableError):
            encoder.embed(["rain"], QUERY)

    with embedding_server(Answer(wait=100)) as server:
        encoder = encoder_of(server, encoder_timeout=0.5)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_a_connection_that_breaks_off_is_tried_again() -> None:
    with embedding_server(Answer(cut=20), Answer()) as server:
        assert encoder_of(server).embed(["rain"], QUERY).shape == (1, 4)


def _half(texts: Sequence[str]) -> list[list[float]]:
    return [vector_of(text) for text in texts][: max(1, len(texts) // 2)]


def _body(text: str) -> Callable[[Sequence[str]], bytes]:
    return lambda texts: text.encode()


def _vectors(vector: Any) -> Callable[[Sequence[str]], list[Any]]:
    return lambda texts: [vector for _ in texts]


def _doubled_index(texts: Sequence[str]) -> bytes:
    return json.dumps({"data": [{"index": 0, "embedding": vector_of(text)} for text in texts]}).encode()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_half, "has 1 vectors for 3 texts"),
        (_doubled_index, "not in the form of embeddings"),
        (_body("<html>"), "not in the form of embeddings"),
        (_body("[" * 60_000), "not in the form of embeddings"),
        (_body('{"data": null}'), "not in the form of embeddings"),
        (_body('{"data": [1, 2, 3]}'), "not in the form of embeddings"),
        (_body('{"data": [{"index": "0"}, {}, {}]}'), "not in the form of embeddings"),
        (_vectors([1.0, float("nan"), 0.0, 0.0]), "zero or not finite"),
        (_vectors([1.0, float("inf"), 0.0, 0.0]), "zero or not finite"),
        (_vectors([1e308, 1e308, 1e308, 1e308]), "zero or not finite"),
        (_vectors([0, 0, 0, 0]), "zero or not finite"),
        (_vectors(["1", "2", "3", "4"]), "not a list of numbers"),
        (_vectors([True, False, True, True]), "not a list of numbers"),
        (_vectors([[1, 2], [3, 4]]), "not a list of numbers"),
        (_vectors([1, [2], 3, 4]), "not a list of numbers"),
        (_vectors([10**400, 1, 1, 1]), "not a list of numbers"),
        (_vectors("no base64!"), "not a list of numbers"),
        (_vectors(None), "not a list of numbers"),
        (_vectors([1.0] * 5), "vectors of 5 numbers; expected 4; the model behind the endpoint has changed"),
        (_vectors([]), "vectors of 0 numbers; expected 4"),
        (lambda texts: b"1" * 1_000_000, "over 65,920 bytes"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(
    make: Callable[[Sequence[str]], Any], message: str
) -> None:
    with embedding_server(Answer(), Answer(make)) as server:
        encoder = encoder_of(server)
        with pytest.raises(EncoderError, match=message) as caught:
            encoder.embed(["a", "b", "c"], DOCUMENT)
    assert not isinstance(caught.value, EncoderUnavailableError)
    assert len(server.requests) <= 4


def test_half_a_batch_is_asked_for_again() -> None:
    with embedding_server(Answer(), Answer(_half), Answer()) as server:
        assert encoder_of(server).embed(["a", "b"], DOCUMENT).shape == (2, 4)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(status=401), "status 401; check SHOAL_ENCODER_KEY"),
        (Answer(status=404), "status 404"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "correct SHOAL_ENCODER"),
    ],
)
def test_a_lasting_refusal_is_not_tried_again_and_shows_no_key(answer: Answer, message: str) -> None:
    with embedding_server(answer) as server, pytest.raises(EncoderError, match=message) as caught:
        encoder_of(server, encoder_key="hush-hush").embed(["rain"], QUERY)
    assert "hush" not in str(caught.value)
    assert len(server.requests) == 1


def test_long_texts_are_cut_by_the_tokens_and_again_when_they_are_refused() -> None:
    with embedding_server(Answer(), Answer(status=413), Answer(status=400), Answer()) as server:
        encoder = encoder_of(server, encoder_max_tokens=10)
        assert encoder.embed(["x" * 100, "short"], DOCUMENT).shape == (2, 4)
    assert [list(map(len, texts)) for texts in server.texts[1:]] == [[40, 5], [20, 5], [10, 5]]


def test_short_texts_that_are_refused_are_not_sent_again() -> None:
    refused = Answer(status=400)
    with embedding_server(Answer(), refused) as server, pytest.raises(EncoderError, match="status 400"):
        encoder_of(server).embed(["short"], DOCUMENT)
    assert len(server.requests) == 2


def test_empty_texts_and_those_that_no_encoding_has_are_sent() -> None:
    with embedding_server() as server:
        assert encoder_of(server).embed(["", "a\ud800"], DOCUMENT).shape == (2, 4)
    assert server.texts[-1] == [" ", "a?"]


def test_an_endpoint_without_a_model_is_an_error() -> None:
    with embedding_server() as server, pytest.raises(EncoderError, match="set SHOAL_ENCODER_MODEL"):
        _ = encoder_of(server, encoder_model="").identity
