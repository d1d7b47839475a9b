"""The client of OpenAI's API on an application in this process."""

from __future__ import annotations

from typing import Any

import flask
import pytest

BASE = "http://localhost/openai/v1"


def client_of(app: flask.Flask, authorization: str = "Bearer none") -> Any:
    """Return the client of OpenAI, whose requests go to an application in this process, each once."""
    openai = pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")
    # The client brings it.
    import httpx2

    http = httpx2.Client(transport=httpx2.WSGITransport(app=app.wsgi_app))
    return openai.OpenAI(
        base_url=BASE, api_key=authorization.removeprefix("Bearer "), max_retries=0, http_client=http
    )
