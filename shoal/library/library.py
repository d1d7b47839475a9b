"""An open library: its database, its settings and its scorer.

What a method needs is imported when it is called: a search should not wait for the code that ingests.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import SettingsError
from shoal.models import OnConflict
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database

if TYPE_CHECKING:
    from shoal.jobs.ingestion import IngestSession
    from shoal.jobs.stages.contract import Handlers
    from shoal.search.library_index import IndexCache

SQLITE = "sqlite:///"


class Library:
    """What reading and changing a library needs. May be shared between threads.

    Creates or migrates the database at once; loads lagoon's data on first use, unless `scorer` is given.
    Raises SettingsError, SchemaError or DatabaseUnavailableError.
    """

    def __init__(
        self, settings: Settings, scorer: Scorer | None = None, lagoon_data_dir: str | Path | None = None
    ) -> None:
        self.settings = settings
        self._scorer = scorer
        self._lagoon_data_dir = lagoon_data_dir
        self._loading = threading.Lock()
        self.database = Database(settings.database_url)
        migrate.upgrade(self.database)

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use. Raises lagoon.LagoonError if its data cannot be used."""
        if self._scorer is None:
            with self._loading:
                if self._scorer is None:
                    import lagoon

                    self._scorer = lagoon.load(self._lagoon_data_dir)
        return self._scorer

    @functools.cached_property
    def index(self) -> IndexCache:
        """The index of the library, for this process."""
        from shoal.search.library_index import IndexCache

        return IndexCache(self.database)

    @functools.cached_property
    def handlers(self) -> Handlers:
        """The handlers that run the stages of a job in this process."""
        from shoal.jobs.stages.runner import handlers_for

        return handlers_for(self.database, self.scorer, self.settings)

    def ingest_session(self, on_conflict: OnConflict = OnConflict.keep) -> IngestSession:
        """A session that takes documents one by one and reports progress."""
        from shoal.jobs.ingestion import IngestSession

        return IngestSession(self.database, self.handlers, self.settings, on_conflict)


def make_settings(
    given: Settings | None, db_path: str | Path | None, database_url: str | None, learning: bool | None
) -> Settings:
    """The given settings, or those of the environment, with the other arguments in place of theirs.

    Raises SettingsError.
    """
    if db_path is not None and database_url is not None:
        raise SettingsError("db_path and database_url mean the same; give only one of them")
    url = database_url if db_path is None else f"{SQLITE}{db_path}"
    if given is None:
        return Settings.from_environment(database_url=url, learning=learning)
    if url is not None and not url.startswith(SQLITE):
        raise SettingsError(f"database_url must begin with {SQLITE}")
    changed: dict[str, Any] = {"database_url": url, "learning": learning}
    return dataclasses.replace(given, **{name: value for name, value in changed.items() if value is not None})
