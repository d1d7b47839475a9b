"""Requests with an idempotency key that are interrupted, or run several times at once."""

from __future__ import annotations

import threading

import pytest
from fake_scorer import FakeScorer
from faults import KILLED, killed_in_transaction

from shoal import Engine
from shoal.errors import IdempotencyError
from shoal.models.notes import NoteOutcomes

ITEMS = [{"text": f"Note number {number}."} for number in range(40)]


def occurrences(engine: Engine) -> set[int]:
    return {note.occurrence_count for note in engine.notes.of("ann").list(limit=100).notes}


@pytest.mark.parametrize("n_transactions", [0, 1, 2])
def test_interrupted_request_continues_where_it_ended(engine: Engine, n_transactions: int) -> None:
    def upload() -> None:
        with Engine(engine.settings.database_path, scorer=FakeScorer(), learning=False) as other:
            other.notes.of("ann").once("k", "hash").add_many(iter(ITEMS))

    code, message = killed_in_transaction(n_transactions, upload)
    assert code == KILLED, message
    notes = engine.notes.of("ann")
    assert notes.status().n_active == 16 * n_transactions
    outcomes = notes.once("k", "hash").add_many(iter(ITEMS))
    assert (outcomes.n_added, outcomes.n_duplicates, len(outcomes.results)) == (40, 0, 40)
    assert occurrences(engine) == {1}
    assert notes.once("k", "hash").add_many(iter(ITEMS)) == outcomes


def test_request_that_runs_several_times_at_once_adds_each_note_once(engine: Engine) -> None:
    barrier, found = threading.Barrier(4), list[NoteOutcomes]()

    def add() -> None:
        request = engine.notes.of("ann").once("k", "hash")
        barrier.wait()
        found.append(request.add_many(iter(ITEMS)))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(outcomes == found[0] for outcomes in found)
    assert (engine.notes.of("ann").status().n_active, occurrences(engine)) == (40, {1})


def test_two_requests_with_one_key_do_not_mix(engine: Engine) -> None:
    notes = engine.notes.of("ann")
    notes.once("k", "hash").add_many(ITEMS[:1])
    with pytest.raises(IdempotencyError):
        notes.once("k", "other").add_many(ITEMS[1:2])
    assert notes.status().n_active == 1
