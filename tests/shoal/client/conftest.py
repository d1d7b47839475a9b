"""Fixtures: a service with scripted responses, and a real one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from live_service import LiveService, live
from scripted_service import ScriptedService, scripted

from shoal.engine import Engine
from shoal.settings import Settings


@pytest.fixture
def server() -> Iterator[ScriptedService]:
    with scripted() as scripted_service:
        yield scripted_service


@pytest.fixture
def engine(settings: Settings, migrated_file: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    watching = replace(settings, webhook_hosts="example.org", sources="memory://absent")
    with Engine(settings=watching, scorer=FakeScorer()) as opened:
        yield opened


@pytest.fixture
def service(engine: Engine) -> Iterator[LiveService]:
    with live(engine) as live_service:
        yield live_service
