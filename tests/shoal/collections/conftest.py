"""An installation whose main library is small, and its collections."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.storage import migrate


@pytest.fixture
def settings(tmp_path: Path, migrated_file: Path) -> Settings:
    """Settings of an installation whose empty libraries are copies, which is faster than migrating."""
    path = tmp_path / "shoal.db"
    shutil.copyfile(migrated_file, path)
    prepared = Settings(database_url=f"sqlite:///{path}", learning=False)
    folder = prepared.data_path / "collections"
    folder.mkdir(parents=True)
    shutil.copyfile(migrated_file, folder / f"empty-{migrate.HEAD}.db")
    return prepared


@pytest.fixture
def main(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield engine


@pytest.fixture
def collections(settings: Settings, main: Engine) -> Iterator[Collections]:
    with Collections(settings, main=main) as opened:
        yield opened
