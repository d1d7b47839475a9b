"""A library whose webhooks go to a server of the test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from saved_search_parts import Receiver
from web_server import running

from shoal import Engine
from shoal.settings import Settings


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running() as server:
        receiver = Receiver(server, server.url("/hook"))
        receiver.answer("204 No Content")
        yield receiver


@pytest.fixture
def watching(settings: Settings, migrated_file: Path) -> Settings:
    """Settings of an empty library that may send webhooks to this machine."""
    put_empty_library(migrated_file, settings)
    return dataclasses.replace(settings, webhook_hosts="*:*", webhook_private="127.0.0.1")


@pytest.fixture
def engine(watching: Settings) -> Iterator[Engine]:
    with Engine(settings=watching, scorer=FakeScorer()) as opened:
        yield opened
