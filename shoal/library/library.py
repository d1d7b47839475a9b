"""An open library: its database, its settings and its scorer.

What a method needs is imported when it is called: a search should not wait for the code that ingests.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import SettingsError, ShoalError
from shoal.models.jobs import OnConflict
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import SQLITE, open_database

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder, PairScorer, VectorCache
    from shoal.index.upkeep import IndexFollower
    from shoal.jobs.in_process import IngestSession
    from shoal.jobs.stages.contract import Handlers
    from shoal.search.audit import AuditLog
    from shoal.search.library_index import IndexCache
    from shoal.search.query_vectors import EncoderPause, QueryVectors
    from shoal.search.reranking import Comparison, Reranker
    from shoal.search.searcher import Searcher
    from shoal.search.suggesting import Suggester

log = logging.getLogger(__name__)


class Library:
    """What reading and changing a library needs. May be shared between threads.

    Creates or migrates the database at once; loads lagoon's data on first use, unless `scorer` is given.
    Raises SettingsError, SchemaError or DatabaseUnavailableError.
    """

    def __init__(
        self,
        settings: Settings,
        scorer: Scorer | None = None,
        lagoon_data_dir: str | Path | None = None,
        encoder: Encoder | None = None,
        pair_scorer: PairScorer | None = None,
        shared: Library | None = None,
    ) -> None:
        """`shared`: another library of this process, whose scorer, encoder and models this one uses; then the
        database must exist."""
        self.settings = settings
        self._shared = shared
        self._scorer = scorer
        self._encoder = encoder
        self._pair_scorer = pair_scorer
        self._lagoon_data_dir = lagoon_data_dir
        self._loading = threading.Lock()
        self.database = open_database(settings.database_url, settings.data_path)
        migrate.upgrade(self.database, creates=shared is None)
        self.database.write_guard = migrate.check_writable

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use. Raises lagoon.LagoonError if its data cannot be used."""
        if self._shared is not None:
            return self._shared.scorer
        if self._scorer is None:
            with self._loading:
                if self._scorer is None:
                    import lagoon

                    self._scorer = lagoon.load(self._lagoon_data_dir)
        return self._scorer

    @functools.cached_property
    def encoder(self) -> Encoder | None:
        """The encoder that was given, or that of the settings; None if there is none."""
        if self._shared is not None:
            return self._shared.encoder
        if self._encoder is not None:
            return self._encoder
        from shoal.encoders.encoder import open_encoder

        return open_encoder(self.settings)

    @functools.cached_property
    def pair_scorer(self) -> PairScorer | None:
        """The cross-encoder that reranks in place of the encoder: the given one or that of the settings."""
        if self._shared is not None:
            return self._shared.pair_scorer
        if self._pair_scorer is not None:
            return self._pair_scorer
        from shoal.encoders.encoder import open_pair_scorer

        return open_pair_scorer(self.settings)

    @functools.cached_property
    def reranker(self) -> Reranker:
        """What reranks the first results of searches. Loads no model yet."""
        from shoal.search.query_vectors import EncoderPause
        from shoal.search.reranking import Reranker

        pause = self._encoder_pause if self.pair_scorer is None else EncoderPause()
        return Reranker(lambda: self._comparison, seconds=self.settings.rerank_seconds, pause=pause)

    @functools.cached_property
    def _comparison(self) -> Comparison | None:
        from shoal.search.reranking import CosineComparison, PairComparison

        if self.pair_scorer is not None:
            return PairComparison(self.pair_scorer)
        return None if self.encoder is None else CosineComparison(self.encoder, self._vector_cache)

    @functools.cached_property
    def _vector_cache(self) -> VectorCache:
        """What the encoder returned, of queries and passages, for all of this process."""
        if self._shared is not None:
            # It depends on encoder and text alone.
            return self._shared._vector_cache
        from shoal.encoders.encoder import VectorCache

        return VectorCache()

    @functools.cached_property
    def _encoder_pause(self) -> EncoderPause:
        """The pause of the encoder, for all of this process."""
        if self._shared is not None:
            return self._shared._encoder_pause
        from shoal.search.query_vectors import EncoderPause

        return EncoderPause()

    @functools.cached_property
    def index(self) -> IndexCache:
        """The index of the library, for this process."""
        from shoal.search.library_index import IndexCache

        return IndexCache(self.read_database)

    @functools.cached_property
    def searcher(self) -> Searcher:
        """What the searches of the library share. Loads the scorer; raises lagoon.LagoonError."""
        from shoal.search.searcher import Searcher

        return Searcher(
            self.read_database,
            self.scorer,
            self.settings,
            self.index,
            lambda: self.query_vectors,
            lambda: self._audit,
            lambda: self.reranker,
        )

    @functools.cached_property
    def _audit(self) -> AuditLog | None:
        if self.settings.audit == "off":
            return None
        from shoal.search.audit import AuditLog

        return AuditLog.of(self.settings)

    @functools.cached_property
    def read_database(self) -> Database:
        """The database that searches read: the library itself, or a standby of it."""
        url = self.settings.read_database_url
        if not url:
            return self.database
        opened = open_database(url, self.settings.data_path)
        opened.read_timeout = self.database.read_timeout
        return opened

    def close(self) -> None:
        """Close the connections."""
        opened = vars(self)
        if opened.get("follower") is not None:
            self.follower.stop()  # type: ignore[union-attr]
        if "read_database" in opened and self.read_database is not self.database:
            self.read_database.close()
        self.database.close()

    @functools.cached_property
    def follower(self) -> IndexFollower | None:
        """What keeps the index of this machine current, not started; None if writers of the library do."""
        if self.read_database.has_index_records:
            return None
        from shoal.index.upkeep import IndexFollower

        return IndexFollower(self.read_database, self.index)

    @functools.cached_property
    def query_vectors(self) -> QueryVectors | None:
        """The vectors of queries, if documents are embedded (`SHOAL_EMBED`)."""
        return self.text_vectors if self.settings.embed else None

    @functools.cached_property
    def text_vectors(self) -> QueryVectors | None:
        """The vectors of queries and notes, if there is an encoder."""
        if self._shared is None and self._encoder is None and self.settings.encoder == "disabled":
            return None
        if self.encoder is None:
            return None
        from shoal.search.query_vectors import QueryVectors

        return QueryVectors(self.encoder, self._vector_cache, self._encoder_pause)

    @functools.cached_property
    def suggester(self) -> Suggester:
        """What suggests queries in this process."""
        from shoal.search.suggesting import Suggester

        # Scorers of other makers may have no list of compounds.
        return Suggester(
            self.database,
            lambda: getattr(self.scorer, "compounds", ()),
            with_queries=self.settings.query_log != "off",
        )

    @functools.cached_property
    def handlers(self) -> Handlers:
        """The handlers that run the stages of a job in this process."""
        from shoal.jobs.stages.runner import handlers_for

        return handlers_for(self.database, self.scorer, self.settings, lambda: self.encoder)

    def load_suggestions(self) -> None:
        """Read what suggestions are made of. An error is logged: the first suggestion says what is wrong."""
        try:
            with self.read_database.snapshot(limited=False) as snapshot:
                library = self.index.of(snapshot)
            self.suggester.load(library)
        except ShoalError as error:
            log.warning("titles and headings not loaded: %s", error)

    def run_job(self, job_id: int) -> None:
        """Carry out a job in this process, alone or together with workers, until it has ended."""
        from shoal.jobs.in_process import run_job

        run_job(self.database, job_id, self.handlers, self.settings)

    def ingest_session(self, on_conflict: OnConflict = OnConflict.keep) -> IngestSession:
        """A session that takes documents one by one and reports progress."""
        from shoal.jobs.in_process import IngestSession

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
