"""Failures of the encoder over HTTP: mode `dense` says what failed, and no response names a path."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import Floats, TextKind
from shoal.engine import Engine
from shoal.errors import EncoderError, EncoderMismatchError, EncoderUnavailableError
from shoal.settings import Settings
from shoal_api import create_app

FOLDER = "/srv/models/minilm"


class FailingEncoder(FakeEncoder):
    """Raises `failure` for each query."""

    def __init__(self, failure: EncoderError) -> None:
        super().__init__()
        self.failure = failure

    def embed(self, texts: object, kind: TextKind) -> Floats:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "code", "detail", "retry_after"),
    [
        (EncoderError(f"no model in {FOLDER}"), "encoder_failed", "cannot be used", None),
        (EncoderUnavailableError("status 429", 12.3), "encoder_unavailable", "does not answer", "13"),
        (EncoderUnavailableError("no answer"), "encoder_unavailable", "does not answer", "5"),
        (EncoderMismatchError("run it --again"), "encoder_mismatch", "run it --again", None),
    ],
)
def test_a_failure_in_mode_dense_is_a_503_with_its_code(
    settings: Settings,
    migrated: Path,
    failure: EncoderError,
    code: str,
    detail: str,
    retry_after: str | None,
) -> None:
    with Engine(
        settings=dataclasses.replace(settings, embed=True),
        scorer=FakeScorer(),
        encoder=FailingEncoder(failure),
    ) as engine:
        client = create_app(settings, engine=engine).test_client()
        response = client.get("/api/v1/search?q=tides&mode=dense")
        hybrid = client.get("/api/v1/search?q=tides")
        page = client.get("/?q=tides&mode=dense")
    problem = response.get_json()
    assert (response.status_code, problem["code"]) == (503, code)
    assert detail in problem["detail"]
    assert response.headers.get("Retry-After") == retry_after
    assert hybrid.status_code == 200
    assert page.status_code == 503
    assert "the encoder does not answer" in page.text  # the first failure keeps searches from it for a while
    assert "<nav" in page.text
    for answer in (response, hybrid, page):
        assert FOLDER not in answer.text
