"""Jobs that compare notes: plan, passes, cancel, retry, workers that die."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import ChatServer, chat_server
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from job_parts import claim_now, run_job

from shoal import Engine
from shoal.errors import IdempotencyError, NoteError
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import leases
from shoal.jobs.queue.recovery import reclaim_expired_leases, time_limit
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal.notes import merge_rows
from shoal.settings import Settings
from shoal.support import http_endpoints

LAVA = "Lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
RAIN = "Rain and storm of the monsoon season fall on the coast."
WET = "On the coast, rain and storm fall in the season of the monsoon."


@pytest.fixture
def engine(settings: Settings, migrated_file: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield engine


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """An endpoint that calls all notes of a question the same."""
    monkeypatch.setattr(http_endpoints, "FIRST_PAUSE_SECONDS", 0.001)

    def answer(question: dict[str, list[dict[str, object]]]) -> str:
        ids = [note["id"] for note in (*question["waiting"], *question["others"])]
        text = question["waiting"][0]["text"]
        group = {"ids": ids, "canonical_text": text, "confidence": 1, "reason": "same"}
        return merge_rows.compact_json({"groups": [group], "no_match_ids": []})

    with chat_server(answer=answer) as server:
        yield server


def add(engine: Engine, *texts: str, owner: str = "me") -> list[int]:
    return [engine.notes.of(owner).add(text).note.id for text in texts]


def run(engine: Engine, settings: Settings | None = None) -> int:
    own = settings or engine.settings
    return run_job(engine.database, own, handlers_for(engine.database, FakeScorer(), own))


def test_job_compares_the_waiting_notes(engine: Engine) -> None:
    add(engine, LAVA, SAME, RAIN)
    add(engine, LAVA, SAME, owner="them")
    job = engine.jobs.submit_dedup("me")
    assert (job.kind, job.status, job.progress.total) == (JobKind.dedup, JobStatus.enqueued, 1)
    assert run(engine) == 1
    job = engine.jobs.get(job.id)
    assert (job.status, job.progress.done) == (JobStatus.succeeded, 1)
    assert engine.notes.of("me").proposals().total == 1
    assert engine.notes.of("them").proposals().total == 0
    assert engine.jobs.items(job.id)[0].title == "notes of me"


def test_job_without_waiting_notes_ends_at_once(engine: Engine) -> None:
    assert engine.jobs.submit_dedup("me").status is JobStatus.succeeded
    with pytest.raises(NoteError, match="owner"):
        engine.jobs.submit_dedup("")


def test_open_job_of_the_owner_is_returned(engine: Engine) -> None:
    add(engine, LAVA, SAME)
    add(engine, LAVA, owner="them")
    first = engine.jobs.submit_dedup("me")
    assert engine.jobs.submit_dedup("me").id == first.id
    assert engine.jobs.submit_dedup("them").id != first.id
    assert engine.jobs.submit_dedup("me", recheck=True).id != first.id
    run(engine)
    assert engine.jobs.submit_dedup("me").id != first.id


def test_repeated_request_is_the_same_job(engine: Engine) -> None:
    add(engine, LAVA, SAME)
    first = engine.jobs.submit_dedup("me", idempotency_key="k", request_hash="a")
    assert engine.jobs.submit_dedup("me", idempotency_key="k", request_hash="a").id == first.id
    with pytest.raises(IdempotencyError):
        engine.jobs.submit_dedup("me", idempotency_key="k", request_hash="b")


def test_items_are_ranges_that_run_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_rows, "COMPARED_TOGETHER", 2)
    add(engine, LAVA, RAIN, SAME, WET, "Courts judge crimes.")
    job = engine.jobs.submit_dedup("me")
    assert job.progress.total == 3
    assert run(engine) == 3
    pairs = {proposal.note_ids for proposal in engine.notes.of("me").proposals().proposals}
    assert pairs == {(1, 3), (2, 4)}


def test_ranges_may_run_in_any_order(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_rows, "COMPARED_TOGETHER", 1)
    add(engine, LAVA, SAME)
    engine.jobs.submit_dedup("me")
    using = handlers_for(engine.database, FakeScorer(), engine.settings)
    batches = [claim_now(engine.database, engine.settings) for _ in range(2)]
    for batch in reversed(batches):
        assert batch is not None
        process(batch, engine.database, using, engine.settings)
    assert engine.notes.of("me").proposals().total == 1


def test_another_pass_follows_a_merge_and_covers_new_notes(engine: Engine, server: ChatServer) -> None:
    settings = dataclasses.replace(engine.settings, llm_url=server.url, llm_model="m")
    add(engine, LAVA, SAME)
    job = engine.jobs.submit_dedup("me")
    using = handlers_for(engine.database, FakeScorer(), settings)
    batch = claim_now(engine.database, settings)
    assert batch is not None
    process(batch, engine.database, using, settings)
    assert engine.jobs.get(job.id).progress.total == 2
    run(engine, settings)
    job = engine.jobs.get(job.id)
    assert (job.status, job.progress.done) == (JobStatus.succeeded, 2)
    [merge] = engine.notes.of("me").merges().merges
    assert merge.run_id == f"job {job.id}, pass 1"


def test_passes_are_limited(engine: Engine, server: ChatServer) -> None:
    settings = dataclasses.replace(engine.settings, llm_url=server.url, llm_model="m", note_dedup_passes=1)
    add(engine, LAVA, SAME)
    job = engine.jobs.submit_dedup("me")
    run(engine, settings)
    assert engine.jobs.get(job.id).progress.total == 1
    assert engine.notes.of("me").merges().total == 1


def test_failed_endpoint_fails_the_item_and_a_retry_goes_on(engine: Engine, server: ChatServer) -> None:
    settings = dataclasses.replace(engine.settings, llm_url=server.url, llm_model="m")
    answer, server.answer = server.answer, lambda _: 503
    add(engine, LAVA, SAME)
    job = engine.jobs.submit_dedup("me")
    run(engine, settings)
    job = engine.jobs.get(job.id)
    [item] = engine.jobs.items(job.id)
    assert (job.status, item.status, item.error_code) == (
        JobStatus.failed,
        ItemStatus.failed,
        "chat_endpoint_failed",
    )
    server.answer = answer
    engine.jobs.retry(job.id)
    run(engine, settings)
    assert engine.jobs.get(job.id).status is JobStatus.succeeded
    assert engine.notes.of("me").merges().total == 1


def test_canceled_job_merges_nothing_more(engine: Engine, server: ChatServer) -> None:
    settings = dataclasses.replace(engine.settings, llm_url=server.url, llm_model="m", note_dedup_chars=500)
    answer = server.answer

    def cancel(question: dict[str, object]) -> str | int:
        engine.jobs.cancel(1)
        return answer(question)

    server.answer = cancel
    add(engine, *(f"{LAVA} {' '.join(['basalt'] * n)}" for n in range(40, 60)))
    job = engine.jobs.submit_dedup("me")
    run(engine, settings)
    assert engine.jobs.get(job.id).status is JobStatus.canceled
    assert len(server.questions) == 1
    assert engine.notes.of("me").merges().total == 1, "the question that was asked is not wasted"


def test_dead_worker_leaves_its_range_to_another(engine: Engine, server: ChatServer) -> None:
    settings = dataclasses.replace(engine.settings, llm_url=server.url, llm_model="m")
    add(engine, LAVA, SAME)
    job = engine.jobs.submit_dedup("me")
    batch = claim_now(engine.database, settings, now=1.0)
    assert batch is not None
    using = handlers_for(engine.database, FakeScorer(), settings)
    using[batch.stage].prepare(batch.items[0])  # type: ignore[union-attr]
    assert engine.notes.of("me").merges().total == 1, "merged, but the item did not end"
    reclaim_expired_leases(engine.database, settings, now=1.0 + 2 * settings.lease_seconds)
    run(engine, settings)
    assert engine.jobs.get(job.id).status is JobStatus.succeeded
    assert engine.notes.of("me").merges().total == 1


def test_item_may_wait_for_an_endpoint_for_long(engine: Engine) -> None:
    add(engine, LAVA, SAME)
    engine.jobs.submit_dedup("me")
    claim_now(engine.database, engine.settings)
    [held] = leases(engine.database)
    assert claims.is_local(held.owner)
    assert time_limit(held, engine.settings) == engine.settings.task_time_limit
