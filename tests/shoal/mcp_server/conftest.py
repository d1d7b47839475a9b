"""A library for agents, as itself and behind a service, and a server for it over HTTP."""

from __future__ import annotations

import copy
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from empty_library import put_empty_library
from live_service import live

from shoal import client
from shoal.engine import Engine
from shoal.settings import Settings


@pytest.fixture(scope="session", autouse=True)
def _shared_schemas() -> Iterator[None]:
    """Make the schemas of a tool once: those of all tools take a third of a second, for each server."""
    if importlib.util.find_spec("mcp") is None:
        yield
        return
    from mcp.server.mcpserver.tools import Tool

    made: dict[tuple[Any, ...], Any] = {}
    from_function = Tool.from_function

    def shared(function: Callable[..., Any], **options: Any) -> Any:
        key = (function.__qualname__, str(inspect.signature(function)), options["name"])
        if key not in made:
            made[key] = from_function(function, **options)
        parameters = copy.deepcopy(made[key].parameters)
        return made[key].model_copy(update={**options, "fn": function, "parameters": parameters})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tool, "from_function", shared)
        yield


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Engine]:
    """A library with the packaged scorer; tests do not change its documents."""
    from mcp_library import fill

    folder = tmp_path_factory.mktemp("mcp")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", learning=False)
    put_empty_library(migrated_file, settings)
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


@pytest.fixture(scope="module")
def http_url(library: Engine) -> Iterator[str]:
    """The library over HTTP, without keys. Not for the session: its loop would run while other tests fork."""
    from mcp_library import served

    from shoal.mcp.backend import EngineBackend

    with served(EngineBackend(library), library.settings) as url:
        yield url
