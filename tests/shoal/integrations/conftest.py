"""A library, and a service for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from live_service import live

from shoal.client import Client
from shoal.engine import Engine
from shoal.settings import Settings

TEXT = "Lava rose in the volcano.\n\nAsh fell on the rock. The magma was hot."


@pytest.fixture
def engine(settings: Settings, migrated_file: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        opened.ingest(
            content=TEXT,
            title="Volcano",
            tags=["hot"],
            source_path="notes/volcano.txt",
            metadata={"by": "a geologist"},
        )
        opened.ingest(content="The judge read the law to the court.", title="Law")
        yield opened


@pytest.fixture
def address(engine: Engine) -> Iterator[str]:
    with live(engine) as service:
        yield service.url


@pytest.fixture(params=["library", "service"])
def searcher(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Engine | Client]:
    """What retrievers search: the library itself, or a client of the service."""
    if request.param == "library":
        yield engine
        return
    with Client(request.getfixturevalue("address")) as client:
        yield client
