"""A library for agents, as itself and behind a service, and a server for it over HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_service import live

from shoal import client
from shoal.engine import Engine
from shoal.settings import Settings


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Engine]:
    """A library with the packaged scorer; tests do not change its documents."""
    from mcp_library import fill

    folder = tmp_path_factory.mktemp("mcp")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", learning=False)
    shutil.copyfile(migrated_file, settings.database_path)
    with Engine(settings=settings) as engine:
        fill(engine, folder)
        yield engine


@pytest.fixture(scope="session", params=["engine", "client"])
def backend(request: pytest.FixtureRequest, library: Engine) -> Iterator[Any]:
    """The library itself, and a service for it."""
    from shoal.mcp.backend import ClientBackend, EngineBackend

    if request.param == "engine":
        yield EngineBackend(library)
        return
    with live(library) as service, client.Client(service.url) as http:
        yield ClientBackend(http)


@pytest.fixture(scope="session")
def http_url(library: Engine) -> Iterator[str]:
    """The library over HTTP, without keys."""
    from mcp_library import served

    from shoal.mcp.backend import EngineBackend

    with served(EngineBackend(library), library.settings) as url:
        yield url
