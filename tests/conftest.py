"""Fixtures shared by all tests."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from examples import examples
from forks import ForkServer
from hypothesis import HealthCheck
from hypothesis import settings as given_settings
from postgres_schemas import MigratedSchema, new_schema, url_of
from werkzeug.routing import Rule

from shoal.library import library
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres.database import PostgresDatabase
from shoal.storage.sqlite.database import SqliteDatabase

# The tests start some three hundred Python processes. Without bytecode, each would compile the project anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY = "/dev/shm"
ROOM_BYTES = 4 << 30


def _has_room(folder: str) -> bool:
    """Whether tests can keep their files in `folder` and run programs there."""
    if not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize >= ROOM_BYTES and not system.f_flag & os.ST_NOEXEC


# Each test would wait about twenty times for the disk, and no test loses power.
if _has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

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
    "steady",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
given_settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
given_settings.load_profile("searching" if os.environ.get("SHOAL_TEST_LONG") else "steady")


_compile_builder = Rule._compile_builder


def _compile_when_used(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
    """Compile the builder of addresses of a route at its first use."""

    def build(rule: Rule, /, **values: Any) -> tuple[str, str]:
        builder = _compile_builder(rule, append_unknown).__get__(rule)
        setattr(rule, "_build_unknown" if append_unknown else "_build", builder)
        return builder(**values)

    return build


# A thousand tests make an application with 150 routes. To compile the builders takes most of that time, and a
# test uses few of them.
Rule._compile_builder = _compile_when_used  # type: ignore

# Imports and collected tests stay until the end, so the garbage collector need not visit them.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


IMPORTED_ONCE = (
    "fake_encoder",
    "fake_scorer",
    "forked_workers",
    "httpx",
    "shoal.cli.app",
    "shoal.cli.search",
    "shoal.client",
    "shoal.jobs.in_process",
    "shoal.maintenance.maintenance",
    "shoal_api.runner",
    "shoal_worker.process",
)
"""What the API, workers and most commands import."""


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """A process whose forks are services, workers and commands."""
    server = ForkServer(tmp_path_factory.mktemp("forks"), IMPORTED_ONCE)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the shell's SHOAL_ variables, so that tests see the defaults."""
    for name in list(os.environ):
        if name.startswith("SHOAL_") and not name.startswith("SHOAL_TEST_"):
            monkeypatch.delenv(name)


def _skip(_: object) -> None:
    pytest.skip("uses the file of the library, and SHOAL_TEST_POSTGRES=1 has it on PostgreSQL")


@pytest.fixture(autouse=True)
def _no_log_to_an_old_stream() -> Iterator[None]:
    """Remove handlers that a test set up: they write to its stderr, which is closed when it ends."""
    yield
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The default settings without learning, which has separate tests; of an empty library.

    With SHOAL_TEST_POSTGRES=1, the library is on PostgreSQL, and a test that uses its file is skipped.
    """
    if os.environ.get("SHOAL_TEST_POSTGRES") == "1":
        url = request.getfixturevalue("empty_postgres")
        for owner, name in ((Settings, "database_path"), (PostgresDatabase, "path")):
            monkeypatch.setattr(owner, name, property(_skip), raising=False)
        return Settings(database_url=url, data_dir=str(tmp_path / "data"), learning=False)
    return Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}", learning=False)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty, migrated database; copying it is much faster than migrating."""
    path = tmp_path_factory.mktemp("migrated") / "empty.db"
    opened = open_database(f"sqlite:///{path}")
    migrate.upgrade(opened)
    opened.close()
    return path


@pytest.fixture(scope="session", autouse=True)
def _libraries_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make a new library by copying an empty one; an engine would migrate it each time."""

    @functools.cache
    def empty() -> Path:
        path = tmp_path_factory.mktemp("new") / "empty.db"
        with contextlib.closing(open_database(f"sqlite:///{path}")) as database:
            migrate.upgrade(database)
        return path

    def upgrade(database: Database, *, creates: bool = True) -> bool:
        if isinstance(database, SqliteDatabase) and creates and not database.path.exists():
            copy = database.path.with_name(f"copy-{threading.get_ident()}")
            # The whole file at once, and not where another thread has made one.
            with contextlib.suppress(OSError):
                shutil.copyfile(empty(), copy)
                database.path.hardlink_to(copy)
            copy.unlink(missing_ok=True)
        return migrate.upgrade(database, creates=creates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "migrate", SimpleNamespace(**vars(migrate) | {"upgrade": upgrade}))
        yield


@pytest.fixture(scope="session")
def migrated_schema() -> Iterator[MigratedSchema]:
    """A migrated library on PostgreSQL, which tests use one after the other; skips without a server."""
    with new_schema() as schema:
        yield MigratedSchema(url_of(schema))


@pytest.fixture
def empty_postgres(migrated_schema: MigratedSchema) -> str:
    """The URL of an empty, migrated library on PostgreSQL."""
    migrated_schema.empty()
    return migrated_schema.url


@pytest.fixture
def database(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Database]:
    """An empty, migrated database: a separate file, or with SHOAL_TEST_POSTGRES=1 on PostgreSQL."""
    if settings.is_sqlite:
        shutil.copyfile(request.getfixturevalue("migrated_file"), settings.database_path)
    opened = open_database(settings.database_url, settings.data_path)
    yield opened
    opened.close()
