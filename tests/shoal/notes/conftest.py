"""Fixtures of the tests of notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.settings import Settings


@pytest.fixture
def engine(settings: Settings, migrated_file: Path) -> Iterator[Engine]:
    """An engine with an empty library and a small scorer."""
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield engine
