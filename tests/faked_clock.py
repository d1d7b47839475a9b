"""A clock that tests set, for this process and for the stores."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from shoal.storage.postgres.database import PostgresDatabase, PostgresSnapshot, PostgresTransaction


def fake_clock(monkeypatch: pytest.MonkeyPatch, now: Callable[[], float]) -> None:
    """Let `now` be the time: `time.time`, which SQLite has, and that of a PostgreSQL server."""
    monkeypatch.setattr(time, "time", now)
    for owner in (PostgresDatabase, PostgresSnapshot, PostgresTransaction):
        monkeypatch.setattr(owner, "now", lambda _: now())
