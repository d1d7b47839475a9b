"""The next documents are prepared while results are stored; lost preparations are repeated."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from job_parts import FunctionScorer, assert_consistent, must_claim, rows, run_job, scored, statuses, upload

from shoal.errors import DatabaseUnavailableError
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages import runner
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.jobs.stages.runner import process
from shoal.jobs.stages.score import Scoring
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction

TEXTS = [f"text {i}" for i in range(6)]
WAIT = 120.0


@pytest.fixture(autouse=True)
def two_documents_per_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WRITE_ITEMS", 2)


@pytest.fixture
def group_settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, batch_items=100)


class RecordingHandler(ItemHandler):
    """Scores and stores documents and records its calls; subclasses change the behavior."""

    def __init__(self, database: Database) -> None:
        self.scoring = Scoring(database, FunctionScorer(scored), Settings())
        self.events: list[tuple[str, str]] = []

    def prepare(self, item: WorkItem) -> Any:
        self.events.append(("prepare", item.head.title))
        return self.scoring.prepare(item)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
        self.events.append(("store", item.head.title))
        return self.scoring.store(transaction, item, prepared)


def stored(database: Database) -> list[str]:
    return sorted(row[0] for row in rows(database, "SELECT content FROM document_texts"))


def test_preparing_overlaps_with_storing_earlier_documents(
    database: Database, group_settings: Settings
) -> None:
    class WaitingHandler(RecordingHandler):
        """Waits with storing until the third document is prepared."""

        third_is_prepared = threading.Event()

        def prepare(self, item: WorkItem) -> Any:
            prepared = super().prepare(item)
            if item.head.title == TEXTS[2]:
                self.third_is_prepared.set()
            return prepared

        def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
            assert self.third_is_prepared.wait(WAIT)
            return super().store(transaction, item, prepared)

    upload(database, group_settings, TEXTS)
    stored_counts: list[int] = []
    handler = WaitingHandler(database)

    def record_stored_count() -> None:
        stored_counts.append(len(stored(database)))

    process(
        must_claim(database, group_settings),
        database,
        {Stage.score: handler},
        group_settings,
        record_stored_count,
    )
    assert stored(database) == TEXTS
    assert stored_counts == [2, 4, 6]
    assert [title for event, title in handler.events if event == "store"] == TEXTS
    assert_consistent(database)


def test_outdated_preparation_is_repeated(database: Database, group_settings: Settings) -> None:
    class OutdatedHandler(RecordingHandler):
        def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
            if self.events.count(("prepare", item.head.title)) == 1 and item.head.title in TEXTS[1:4]:
                raise NotPreparedError
            return super().store(transaction, item, prepared)

    job_id = upload(database, group_settings, TEXTS)
    handler = OutdatedHandler(database)
    process(must_claim(database, group_settings), database, {Stage.score: handler}, group_settings)
    assert stored(database) == TEXTS
    assert statuses(database, job_id) == ["succeeded"] * len(TEXTS)
    assert sum(event == "prepare" for event, _ in handler.events) == len(TEXTS) + 3
    assert_consistent(database)


def test_unstorable_batch_is_released_with_its_prepared_documents(
    database: Database, group_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingHandler(RecordingHandler):
        def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
            if item.head.title == TEXTS[2]:
                raise DatabaseUnavailableError("locked")
            return super().store(transaction, item, prepared)

    monkeypatch.setattr(runner, "STORE_RETRY_SECONDS", 0.0)
    job_id = upload(database, group_settings, TEXTS)
    with pytest.raises(DatabaseUnavailableError):
        process(
            must_claim(database, group_settings),
            database,
            {Stage.score: FailingHandler(database)},
            group_settings,
        )
    assert stored(database) == TEXTS[:2]
    assert_consistent(database)
    run_job(database, group_settings)
    assert statuses(database, job_id) == ["succeeded"] * len(TEXTS)
    assert stored(database) == TEXTS


def test_failed_group_transaction_is_retried_document_by_document(
    database: Database, group_settings: Settings
) -> None:
    class ExpectingHandler(RecordingHandler):
        expected: list[list[str]] = []  # noqa: RUF012

        def prepare_together(self, items: Sequence[WorkItem]) -> None:
            self.expected.append([item.head.title for item in items])
            raise ValueError("too much at once")

    upload(database, group_settings, TEXTS[:5])
    handler = ExpectingHandler(database)
    process(must_claim(database, group_settings), database, {Stage.score: handler}, group_settings)
    assert stored(database) == TEXTS[:5]
    assert handler.expected == [TEXTS[:2], TEXTS[2:4]], "a single document is not announced by `expect`"
    assert_consistent(database)
