"""Statements that run every two seconds, or for every batch, must not read ended rows."""

from __future__ import annotations

import re

import pytest
from postgres_schemas import sqlite_only

from shoal.jobs.queue import statements
from shoal.jobs.queue.metrics import OPEN_STATES, WAITING
from shoal.storage import evidence, observations, vocabulary
from shoal.storage.database import Database

OFTEN = (
    "JOBS_IN_TURN",
    "OPEN_LOCAL_JOB",
    "WAVES_AT",
    "NEWEST_VERSION",
    "ANY_DUE",
    "WAKE_DUE",
    "IS_STALLED",
    "LEARNING_NOW",
    "EMBEDDING_NOW",
    "READY_UNDISCOVERED",
    "READY_ITEMS",
    "READY_ORIGINALS",
    "IS_BEING_REPLACED",
    "RETRIABLE_ITEMS",
    "WAVES",
    "LEASED_ITEMS",
    "OPEN_ITEMS_OF_WAVE",
    "OPEN_WAVES_OF_JOB",
    "COUNT_STALE_UPLOADS",
    "DROPPED_JOB",
    "CLAIM_ITEM",
    "END_ITEM",
    "RENEW_ITEM",
    "JOB",
    "ITEMS",
)


def query_plan(database: Database, statement: str) -> list[str]:
    parameters = dict.fromkeys(re.findall(r":(\w+)", statement), 1)
    with database.snapshot() as snapshot:
        return [row[3] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]


@sqlite_only
@pytest.mark.parametrize("name", OFTEN)
def test_statements_of_every_round_use_an_index(database: Database, name: str) -> None:
    plan = query_plan(database, getattr(statements, name).format(has_status=statements.HAS_STATUS))
    whole = [
        step for step in plan if step.startswith("SCAN") and "INDEX" not in step and "CONSTANT" not in step
    ]
    assert whole == [], plan


@sqlite_only
def test_pages_of_items_and_metrics_read_an_index_alone(database: Database) -> None:
    for has_status in ("", statements.HAS_STATUS):
        plan = query_plan(database, statements.ITEMS.format(has_status=has_status))
        assert any("job_items USING COVERING INDEX" in step for step in plan), plan
        assert (
            "USING COVERING INDEX"
            in query_plan(database, statements.COUNT_ITEMS.format(has_status=has_status))[0]
        )
    items = [step for step in query_plan(database, WAITING) if " i " in step]
    assert len(items) == len(OPEN_STATES)
    assert all("COVERING INDEX idx_job_items_open (status=? AND job_id=?)" in step for step in items), items


OF_LEARNING = {
    "OF_WAVE": observations.OF_WAVE,
    "STRAYS": observations.STRAYS,
    "GONE": observations.GONE,
    "USELESS": observations.USELESS,
    "FIND_LIVE": observations.FIND_LIVE,
    "IN_FORCE": evidence.IN_FORCE.format(words=":word"),
    "FIND": vocabulary.FIND.format(words=":word"),
    "SINCE": vocabulary.SINCE,
    "OLDEST_IN_USE": vocabulary.OLDEST_IN_USE,
}


@sqlite_only
@pytest.mark.parametrize("name", OF_LEARNING)
def test_statements_of_every_learn_stage_use_an_index(database: Database, name: str) -> None:
    """Their cost grows with the new documents, not with the library."""
    plan = query_plan(database, OF_LEARNING[name])
    assert [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step] == [], plan
