"""What this version's schema is made of, to compare a database with."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import sqlalchemy as sa

from shoal.storage import migrate
from shoal.storage.database import Snapshot, snapshot_of

PARTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name"
TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"

DERIVED = ("reef_postings", "chunk_fts")
"""Tables that hold nothing but what follows from others, and the beginning of the names of those that make one up."""

Part = tuple[str, str, str]
"""Type, name and SQL of a part of the schema."""


def missing_parts(snapshot: Snapshot) -> list[Part]:
    """Tables, views and indexes that a new database of this version has and this one has not."""
    present = {part[:2] for part in _parts(snapshot)}
    return [part for part in _expected_parts() if part[:2] not in present]


def with_content(parts: Iterable[Part]) -> list[str]:
    """The names of the tables among some parts that cannot be made again from others."""
    return [name for kind, name, _ in parts if kind == "table" and not name.startswith(DERIVED)]


def triggers(snapshot: Snapshot) -> list[str]:
    """The names of all triggers. A schema of ours has none."""
    return [name for (name,) in snapshot.rows(TRIGGERS)]


@functools.cache
def _expected_parts() -> tuple[Part, ...]:
    # In memory: there may be no folder to write to.
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            migrate.apply(connection)
            return tuple(_parts(snapshot_of(connection)))
    finally:
        engine.dispose()


def _parts(snapshot: Snapshot) -> list[Part]:
    return [(kind, name, sql) for kind, name, sql in snapshot.rows(PARTS)]
