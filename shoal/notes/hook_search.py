"""A hook in a process of its own, without a service: reads and writes the database itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.notes.hook_input import HookEvent, parse_hook_input
from shoal.notes.hooks import Environments, answer_hook
from shoal.notes.notes import Notes
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database


def answer_from_database(
    database_url: str, event: HookEvent, data: bytes, overrides: Mapping[str, Any] | None = None
) -> str:
    """Return the answer to a hook as a line of JSON. `overrides`: settings that win over the environment.

    Raises SettingsError, and SchemaError for a database of another version: a hook has no time to migrate.
    """
    settings = Settings.from_environment(database_url=database_url, **(overrides or {}))
    database = open_database(settings.database_url, settings.data_path)
    try:
        migrate.check(database)
        notes = Notes(database, settings, _load_scorer).of(settings.note_owner)
        return answer_hook(notes, settings, parse_hook_input(data, event), Environments(settings).of)
    finally:
        database.close()


def _load_scorer() -> Scorer:
    import lagoon

    return lagoon.load()
