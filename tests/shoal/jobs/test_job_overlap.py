"""While results are stored the next documents are prepared; what is lost in between is done again."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from job_parts import FunctionScorer, assert_consistent, must_claim, rows, run_job, scored, statuses, upload

from shoal.errors import DatabaseUnavailableError
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.states import Stage
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages import runner
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError
from shoal.jobs.stages.runner import process
from shoal.jobs.stages.score import Scoring
from shoal.settings import Settings
from shoal.storage.database import Database

TEXTS = [f"text {i}" for i in range(6)]
WAIT = 120.0


@pytest.fixture(autouse=True)
def two_documents_share_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WRITE_ITEMS", 2)


@pytest.fixture
def together(settings: Settings) -> Settings:
    return dataclasses.replace(settings, batch_items=100)


class Watched(ItemHandler):
    """Scores and stores; notes what it does, and may be made to do it otherwise."""

    def __init__(self, database: Database) -> None:
        self.scoring = Scoring(database, FunctionScorer(scored))
        self.seen: list[tuple[str, str]] = []

    def prepare(self, item: WorkItem) -> Any:
        self.seen.append(("prepare", item.head.title))
        return self.scoring.prepare(item)

    def store(self, connection: sa.Connection, item: WorkItem, prepared: Any) -> Outcome:
        self.seen.append(("store", item.head.title))
        return self.scoring.store(connection, item, prepared)


def stored(database: Database) -> list[str]:
    return sorted(row[0] for row in rows(database, "SELECT content FROM documents"))


def test_preparing_overlaps_with_storing_earlier_documents(database: Database, together: Settings) -> None:
    class Waiting(Watched):
        """Storing the first waits until the third is prepared."""

        third_is_prepared = threading.Event()

        def prepare(self, item: WorkItem) -> Any:
            prepared = super().prepare(item)
            if item.head.title == TEXTS[2]:
                self.third_is_prepared.set()
            return prepared

        def store(self, connection: sa.Connection, item: WorkItem, prepared: Any) -> Outcome:
            assert self.third_is_prepared.wait(WAIT)
            return super().store(connection, item, prepared)

    upload(database, together, TEXTS)
    told: list[int] = []
    handler = Waiting(database)
    watch = lambda: told.append(len(stored(database)))  # noqa: E731
    process(must_claim(database, together), database, {Stage.score: handler}, together, watch)
    assert stored(database) == TEXTS
    assert told == [2, 4, 6]
    assert [title for what, title in handler.seen if what == "store"] == TEXTS
    assert_consistent(database)


def test_outdated_preparation_is_repeated(database: Database, together: Settings) -> None:
    class Changing(Watched):
        def store(self, connection: sa.Connection, item: WorkItem, prepared: Any) -> Outcome:
            if self.seen.count(("prepare", item.head.title)) == 1 and item.head.title in TEXTS[1:4]:
                raise NotPreparedError
            return super().store(connection, item, prepared)

    job_id = upload(database, together, TEXTS)
    handler = Changing(database)
    process(must_claim(database, together), database, {Stage.score: handler}, together)
    assert stored(database) == TEXTS
    assert statuses(database, job_id) == ["succeeded"] * len(TEXTS)
    assert sum(what == "prepare" for what, _ in handler.seen) == len(TEXTS) + 3
    assert_consistent(database)


def test_unstorable_batch_is_released_with_its_prepared_documents(
    database: Database, together: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Watched):
        def store(self, connection: sa.Connection, item: WorkItem, prepared: Any) -> Outcome:
            if item.head.title == TEXTS[2]:
                raise DatabaseUnavailableError("locked")
            return super().store(connection, item, prepared)

    monkeypatch.setattr(runner, "STORE_RETRY_SECONDS", 0.0)
    job_id = upload(database, together, TEXTS)
    with pytest.raises(DatabaseUnavailableError):
        process(must_claim(database, together), database, {Stage.score: Failing(database)}, together)
    assert stored(database) == TEXTS[:2]
    assert_consistent(database)
    run_job(database, together)
    assert statuses(database, job_id) == ["succeeded"] * len(TEXTS)
    assert stored(database) == TEXTS


def test_failed_group_transaction_is_retried_document_by_document(
    database: Database, together: Settings
) -> None:
    class Expecting(Watched):
        expected: list[list[str]] = []  # noqa: RUF012

        def prepare_together(self, items: Sequence[WorkItem]) -> None:
            self.expected.append([item.head.title for item in items])
            raise ValueError("too much at once")

    upload(database, together, TEXTS[:5])
    handler = Expecting(database)
    process(must_claim(database, together), database, {Stage.score: handler}, together)
    assert stored(database) == TEXTS[:5]
    assert handler.expected == [TEXTS[:2], TEXTS[2:4]], "one by itself is not expected"
    assert_consistent(database)
