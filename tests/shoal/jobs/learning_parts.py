"""Small libraries with words to learn, and ways to ingest them by one, several or dying workers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from job_parts import assert_consistent, rows

import lagoon
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import Upload
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for, process
from shoal.learning import Evidence
from shoal.maintenance.export import export
from shoal.models.documents import DocumentDraft
from shoal.settings import Settings
from shoal.storage import evidence, observations, vocabulary
from shoal.storage.database import Database, Transaction
from shoal.storage.postgres import database as postgres_module
from shoal.storage.postgres.database import PostgresDatabase, PostgresTransaction
from shoal.storage.sqlite import database as database_module
from shoal.storage.sqlite.database import SqliteTransaction


@cache
def scorer() -> Any:
    return lagoon.load()


def learning_settings(settings: Settings, **changed: Any) -> Settings:
    """Return settings with small waves and batches, many attempts, and fixed thresholds."""
    chosen = {
        "learning": True,
        "wave_bytes": 700,
        "batch_items": 2,
        "max_attempts": 10_000,
        "min_occurrences_short": 2,
        "min_occurrences_long": 3,
        "short_document_words": 500,
        "association_min": 0.2,
    }
    return dataclasses.replace(settings, **{**chosen, **changed})


def drafts(contents: Sequence[str], settings: Settings) -> list[DocumentDraft]:
    return [
        make_draft(title=text[:12], content=text, format="plaintext", settings=settings) for text in contents
    ]


def upload(database: Database, settings: Settings, contents: Sequence[str]) -> int:
    opened = Upload(database, settings).begin()
    for draft in drafts(contents, settings):
        opened.add(draft)
    return opened.finish()


def handlers(database: Database, settings: Settings) -> Handlers:
    return handlers_for(database, scorer(), settings)


def run_job(database: Database, settings: Settings, using: Handlers | None = None) -> None:
    """Run one worker until no work is left."""
    using = using or handlers(database, settings)
    while batch := claim(database, claims.new_owner(), settings):
        process(batch, database, using, settings)
    assert_consistent(database)


def ingest(database: Database, settings: Settings, contents: Sequence[str]) -> int:
    job_id = upload(database, settings, contents)
    run_job(database, settings)
    assert get_job(database, job_id).ended
    return job_id


def canonical(database: Database) -> list[str]:
    return list(export(database, canonical=True))


def learned(database: Database, *, compounds: bool = False) -> dict[str, dict[str, Any]]:
    """Return the current single words, or compounds, as exported."""
    records = [json.loads(line) for line in canonical(database)]
    return {
        record["word"]: record
        for record in records
        if record["type"] == "custom_word" and bool(record["is_compound"]) == compounds
    }


class KilledError(BaseException):
    """Death of a worker, as seen by its database."""


@contextlib.contextmanager
def killed_at(database: Database, n: int) -> Iterator[Callable[[], bool]]:
    """Die instead of statement or commit n (from 0) of the write transactions; yields a function that tells
    whether it happened."""
    left, died = n, False

    def count() -> None:
        nonlocal left, died
        if left == 0 or died:
            # A dead worker writes nothing more.
            died = True
            raise KilledError
        left -= 1

    class MortalTransaction(SqliteTransaction):
        def _execute(self, *arguments: Any) -> Any:
            count()
            return super()._execute(*arguments)

        def write_many(self, *arguments: Any) -> int:
            count()
            return super().write_many(*arguments)

        def close(self) -> None:
            super().close()
            # The commit follows.
            count()

    class MortalPostgresTransaction(PostgresTransaction):
        def _execute(self, *arguments: Any) -> Any:
            count()
            return super()._execute(*arguments)

        def write_many(self, *arguments: Any) -> int:
            count()
            return super().write_many(*arguments)

    write_of = PostgresDatabase.write

    @contextlib.contextmanager
    def write(opened: PostgresDatabase) -> Iterator[Transaction]:
        with write_of(opened) as transaction:
            yield transaction
            # The commit follows.
            count()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module, "SqliteTransaction", MortalTransaction)
        patch.setattr(postgres_module, "PostgresTransaction", MortalPostgresTransaction)
        patch.setattr(PostgresDatabase, "write", write)
        yield lambda: died


class Crew:
    """Simulated workers in one process: every claim stands for one worker."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.dead: set[str] = set()

    @contextlib.contextmanager
    def simulate_deaths(self) -> Iterator[Crew]:
        is_dead = claims.is_dead
        claims.is_dead = lambda owner: owner in self.dead
        try:
            yield self
        finally:
            claims.is_dead = is_dead

    def report_death(self, owner: str) -> None:
        """Mark a worker as dead and reconcile."""
        self.dead.add(owner)
        reconcile(self.database, self.settings)


def assert_evidence(database: Database) -> None:
    """Check that the evidence is the sum over the learned documents."""
    with database.snapshot() as snapshot:
        state = evidence.state(snapshot)
        words = sorted({row[0] for row in snapshot.rows("SELECT word FROM word_evidence")})
        ids = [row[0] for row in snapshot.rows("SELECT id FROM observed_documents WHERE state = 'learned'")]
        in_sums = Evidence.of_stored(observations.rows_of(snapshot, ids))
        in_force = Evidence.of_stored(evidence.in_force(snapshot, words, state.revision))
        n_known = len(vocabulary.read_words(snapshot, vocabulary.newest(snapshot).number))
        assert vocabulary.count_words(snapshot, vocabulary.newest(snapshot).number) == n_known
    assert in_sums == in_force


def assert_settled(database: Database) -> None:
    """Check that exactly the stored documents were learned from; removed ones may await cleanup."""
    assert_evidence(database)
    documents = {h for (h,) in rows(database, "SELECT content_hash FROM documents")}
    observed = rows(
        database, "SELECT content_hash, state, stored FROM observed_documents WHERE state <> 'removed'"
    )
    assert {h for h, _, _ in observed} == documents
    assert {(state, stored) for _, state, stored in observed} <= {("learned", 1)}
