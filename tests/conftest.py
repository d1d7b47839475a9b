"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as given_settings

from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database

# The tests start some three hundred Python processes. Without bytecode, each would compile the project anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The default is a traceback with the values of all variables, which takes up to three seconds to draw.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

# The result of a check must depend only on the change: the same examples every time, however slow the
# machine. The long run searches for new examples.
given_settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
given_settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
given_settings.load_profile("searching" if os.environ.get("SHOAL_TEST_LONG") else "steady")


# Imports and collected tests stay until the end, so the garbage collector need not visit them.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the shell's SHOAL_ variables, so that tests see the defaults."""
    for name in list(os.environ):
        if name.startswith("SHOAL_") and not name.startswith("SHOAL_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The default settings without learning, which has separate tests."""
    return Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}", learning=False)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty, migrated database; copying it is much faster than migrating."""
    path = tmp_path_factory.mktemp("migrated") / "empty.db"
    opened = Database(f"sqlite:///{path}")
    migrate.upgrade(opened)
    opened.close()
    return path


@pytest.fixture
def database(settings: Settings, migrated_file: Path) -> Iterator[Database]:
    """An empty, migrated database in a separate file."""
    shutil.copyfile(migrated_file, settings.database_path)
    opened = Database(settings.database_url)
    yield opened
    opened.close()
