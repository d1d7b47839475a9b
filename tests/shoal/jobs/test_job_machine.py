"""Any order of uploads, claims, results, crashes, pauses and reconciliations keeps all invariants."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from job_parts import assert_consistent, claim_now, draft, handlers, rows, run_job, scored, value

from shoal.errors import DocumentError, JobStateError, LeaseLostError
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.claims import Batch, WaveRef, WorkItem, claimable, has_claimable_work, release
from shoal.jobs.queue.progress import wake_all
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.states import FINAL
from shoal.jobs.queue.submission import Upload, submit_document
from shoal.jobs.queue.transitions import Outcome, cancel, finish_items, finish_wave, retry
from shoal.jobs.stages.contract import Handlers, ItemHandler, WaveHandler
from shoal.jobs.stages.runner import process
from shoal.models.jobs import ItemStatus, Stage
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database

CONTENTS = st.sampled_from(["a", "bb", "ccc", "bad", "dddd"])
REFUSED_CONTENT = "bad"
"""Content whose scoring fails."""


class _UndoneError(Exception):
    """Rolls a transaction back."""


class Protocol(RuleBasedStateMachine):
    """Holds batches as workers do; a crash drops a batch and marks its owner as dead."""

    learning = False
    template: Path

    def __init__(self) -> None:
        super().__init__()
        # In memory if possible: the disk does not matter here.
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        shutil.copy(self.template, self.folder / "shoal.db")
        self.settings = dataclasses.replace(
            Settings(database_url=f"sqlite:///{self.folder / 'shoal.db'}"),
            learning=self.learning,
            wave_bytes=4,
            batch_items=3,
            max_attempts=2,
        )
        self.database = open_database(self.settings.database_url)
        self.held: list[tuple[Batch, list[WorkItem]]] = []
        self.dead: set[str] = set()
        self.job_ids: list[int] = []
        self.is_dead = claims.is_dead
        claims.is_dead = lambda owner: owner in self.dead

    def teardown(self) -> None:
        """Check that all jobs end, and each document is stored once, when the living workers continue."""
        try:
            self.dead |= {batch.owner for batch, _ in self.held}
            self.held = []
            for _ in range(20):
                reconcile(self.database, self.settings)
                run_job(self.database, self.settings, self.handlers())
            self.check_final_state()
        finally:
            claims.is_dead = self.is_dead
            self.database.close()
            shutil.rmtree(self.folder)

    def check_final_state(self) -> None:
        assert_consistent(self.database)
        assert all(queries.get_job(self.database, job_id).ended for job_id in self.job_ids)
        items = rows(
            self.database,
            """SELECT i.content_hash, i.status, i.document_id, i.error, d.content_hash
               FROM job_items i JOIN jobs j ON j.id = i.job_id AND j.status <> 'receiving'
               LEFT JOIN documents d ON d.id = i.document_id""",
        )
        assert {status for _, status, *_ in items} <= {str(status) for status in FINAL}
        poisoned = {h for h, status, _, error, _ in items if error and "died" in str(error)}
        for content_hash, status, _, error, stored_hash in items:
            if status in ("succeeded", "duplicate"):
                assert content_hash == stored_hash
            else:
                assert error
                assert content_hash in poisoned or error == "refused" or status == "canceled"
        stored = [h for (h,) in rows(self.database, "SELECT content_hash FROM documents")]
        assert len(stored) == len(set(stored))
        assert value(self.database, "SELECT COUNT(*) FROM chunks") == len(stored)
        succeeded = [h for h, status, *_ in items if status == "succeeded"]
        assert sorted(map(str, succeeded)) == sorted(map(str, stored)), (
            "each document comes from exactly one item"
        )

    def handlers(self) -> Handlers:
        def score(document: Any) -> Any:
            if document.content == REFUSED_CONTENT:
                raise DocumentError("refused")
            return scored(document)

        return {**handlers(self.database, score), Stage.discover: _Discover(), Stage.learn: _Learn()}

    @rule(contents=st.lists(CONTENTS, min_size=1, max_size=6))
    def upload(self, contents: list[str]) -> None:
        opened = Upload(self.database, self.settings).begin()
        for content in contents:
            opened.add(draft(content))
        self.job_ids.append(opened.finish())

    @rule(content=CONTENTS)
    def submit(self, content: str) -> None:
        self.job_ids.append(submit_document(self.database, self.settings, draft(content)))

    @rule()
    def upload_and_die(self) -> None:
        opened = Upload(self.database, self.settings).begin()
        opened.add(draft("a"))
        opened._flush()

    @rule()
    def claim(self) -> None:
        batch = claim_now(self.database, self.settings)
        assert (batch is not None) or not has_claimable_work(self.database)
        if batch:
            self.held.append((batch, list(batch.items)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def process_a_batch(self, data: st.DataObject) -> None:
        batch, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        process(batch, self.database, self.handlers(), self.settings)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish_item_of_batch(self, data: st.DataObject) -> None:
        batch, remaining = self.held[data.draw(st.integers(0, len(self.held) - 1))]
        handler: Any = self.handlers()[batch.stage]
        # A canceled job may have lost only some items of a batch.
        with contextlib.suppress(LeaseLostError):
            if batch.wave is not None:
                self.held.remove((batch, remaining))
                with self.database.write() as transaction:
                    finish_wave(transaction, batch.wave, batch.owner, 1)
            elif remaining:
                item = remaining.pop(data.draw(st.integers(0, len(remaining) - 1)))
                self.finish(batch, item, handler)

    def finish(self, batch: Batch, item: WorkItem, handler: Any) -> None:
        try:
            prepared = handler.prepare(item)
        except DocumentError as error:
            prepared = Outcome(ItemStatus.failed, error=str(error))
        with self.database.write() as transaction:
            if not isinstance(prepared, Outcome):
                prepared = handler.store(transaction, item, prepared)
            finish_items(transaction, [(item, prepared)], batch.owner)

    @precondition(lambda self: self.job_ids)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        cancel(self.database, data.draw(st.sampled_from(self.job_ids)))

    @precondition(lambda self: self.job_ids)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        with contextlib.suppress(JobStateError):
            retry(self.database, self.settings, data.draw(st.sampled_from(self.job_ids)))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), noticed=st.booleans())
    def crash(self, data: st.DataObject, noticed: bool) -> None:
        batch, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.dead.add(batch.owner)
        if noticed:
            reconcile(self.database, self.settings)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release_batch(self, data: st.DataObject) -> None:
        batch, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        release(self.database, batch)

    @rule(later=st.booleans())
    def reconcile(self, later: bool) -> None:
        # Later: all leases have expired, but their owners are alive and will try to write.
        now = time.time() + (self.settings.lease_seconds + 1 if later else 0)
        reconcile(self.database, self.settings, now=now)

    @invariant()
    def counts_match_items(self) -> None:
        assert_consistent(self.database)

    @invariant()
    def nothing_waits_in_vain(self) -> None:
        with contextlib.suppress(_UndoneError), self.database.write() as transaction:
            before = list(claimable(transaction))
            wake_all(transaction)
            assert list(claimable(transaction)) == before
            raise _UndoneError

    @invariant()
    def no_item_has_two_owners(self) -> None:
        owners = rows(
            self.database, "SELECT id, lease_owner FROM job_items WHERE status IN ('discovering', 'scoring')"
        )
        held = {(item.id, batch.owner) for batch, remaining in self.held for item in remaining}
        living = {(i, owner) for i, owner in owners if owner not in self.dead}
        assert living <= held


class _Discover(ItemHandler):
    def prepare(self, item: WorkItem) -> Any:
        return None

    def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
        return Outcome(ItemStatus.discovered)


class _Learn(WaveHandler):
    def prepare_wave(self, wave: WaveRef, owner: str) -> Any:
        return 1

    def store_wave(self, connection: Any, wave: WaveRef, prepared: Any) -> int | None:
        return int(prepared)


class LearningProtocol(Protocol):
    learning = True


def _run(machine: type[Protocol], tmp_path: Path) -> None:
    template = tmp_path / "template.db"
    database = open_database(f"sqlite:///{template}")
    migrate.upgrade(database)
    database.close()
    machine.template = template
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(
            max_examples=200 if os.environ.get("SHOAL_TEST_LONG") else 8,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_order_of_events_with_one_stage(tmp_path: Path) -> None:
    _run(Protocol, tmp_path)


def test_any_order_of_events_with_discover_learn_score(tmp_path: Path) -> None:
    _run(LearningProtocol, tmp_path)
