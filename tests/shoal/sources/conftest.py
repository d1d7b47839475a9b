"""A library that may follow folders and the memory of this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.settings import Settings


@pytest.fixture
def engine(settings: Settings, migrated_file: Path, tmp_path: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    allowed = dataclasses.replace(
        settings, sources=f"{tmp_path}/texts memory://trial s3://reports", secrets_dir=str(secrets)
    )
    with Engine(settings=allowed, scorer=FakeScorer()) as opened:
        yield opened
