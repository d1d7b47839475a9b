"""A library goes in while everything around it is killed at random: all of it is there in the end, once.

The long run takes minutes: SHOAL_TEST_LONG=1. With SHOAL_TEST_CORPORA (see benchmarks/__main__.py) it takes in the books
of that folder. SHOAL_TEST_SEED makes it another one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from havoc import Havoc
from made_library import Text, articles, books, notes
from running_service import REDIS_SERVER, RedisServer, Service, shoal
from waiting import DEADLINE_SECONDS, until

from shoal.client import Client
from shoal.engine import Engine
from shoal.settings import MIB, Settings
from shoal.storage.database import Database
from shoal.storage.export import export

log = logging.getLogger("chaos")

SEED = int(os.environ.get("SHOAL_TEST_SEED", "7"))
LONG = bool(os.environ.get("SHOAL_TEST_LONG"))

# Bytes of what is done, where a first look is half of it, and of all.
PROGRESS = """
    SELECT SUM(CASE WHEN status IN ('succeeded', 'duplicate', 'failed', 'canceled') THEN 2 * n_bytes
                    WHEN status IN ('discovered', 'scoring') THEN n_bytes ELSE 0 END), 2 * SUM(n_bytes)
    FROM job_items
"""
OPEN_JOBS = "SELECT COUNT(*) FROM jobs WHERE status NOT IN ('succeeded', 'partial', 'failed', 'canceled')"
ENDS = "SELECT status, COUNT(*) FROM job_items GROUP BY status"
TWICE = {
    "documents of the same content": "SELECT COUNT(*) - COUNT(DISTINCT content_hash) FROM documents",
    "chunks at the same place": """
        SELECT COUNT(*) FROM (SELECT 1 FROM chunks GROUP BY document_id, start_char HAVING COUNT(*) > 1)""",
    "entries in the full text": "SELECT ABS((SELECT COUNT(*) FROM chunk_fts) - (SELECT COUNT(*) FROM chunks))",
    "texts kept of what has ended": "SELECT COUNT(*) FROM job_item_contents",
    "leases": "SELECT COUNT(*) FROM job_items WHERE lease_owner IS NOT NULL",
}


@dataclass(frozen=True)
class Trial:
    """What goes in, in waves of which size, and how it is disturbed: what is killed (None: by chance), how often."""

    library: Callable[[], list[Text]]
    wave_bytes: int
    kills: int
    longest_pause: float
    seconds: float
    once_each: bool


TRIALS = {
    "short": Trial(lambda: [*articles(), *notes(300, SEED)], 80_000, 5, 0.3, DEADLINE_SECONDS, True),
    "long": Trial(lambda: [*books(SEED), *notes(5000, SEED)], 4 * MIB, 20, 3.0, 1500, False),
}


@pytest.fixture(params=["filesystem", "redis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer | None]:
    """A Redis of the test's own, or (None) the embedded broker."""
    if request.param == "filesystem":
        yield None
        return
    if REDIS_SERVER is None:
        pytest.skip("there is no redis-server on this machine")
    server = RedisServer(tmp_path / "redis")
    yield server
    server.kill()


@pytest.fixture(params=list(TRIALS))
def trial(request: pytest.FixtureRequest) -> Trial:
    if request.param == "long" and not LONG:
        pytest.skip("takes minutes: SHOAL_TEST_LONG=1")
    return TRIALS[request.param]


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_whatever_is_killed_all_of_an_upload_is_there_in_the_end_and_once(
    trial: Trial, broker: RedisServer | None, tmp_path: Path
) -> None:
    texts = trial.library()
    undisturbed = library_of(texts, trial, tmp_path / "undisturbed.db")
    environment = {
        "SHOAL_BROKER_URL": broker.url if broker else "filesystem://",
        "SHOAL_WORKERS": "2",
        "SHOAL_WAVE_BYTES": str(trial.wave_bytes),
        "SHOAL_RECONCILE_SECONDS": "0.5",
        # By chance a text may be hit again and again while it runs alone; no end from outside is to count as its fault.
        "SHOAL_MAX_ATTEMPTS": str(trial.kills + 1),
    }
    messages = tmp_path / "shoal.db-data" / "broker" / "messages"
    havoc = Havoc(lambda: Service(tmp_path, **environment), broker, messages)
    database = Database(f"sqlite:///{tmp_path / 'shoal.db'}")
    chance = random.Random(SEED)
    try:
        with Client(havoc.service.url) as client:
            job = client.upload_documents(json.dumps(text).encode() + b"\n" for text in texts)
        for n, kind in enumerate(kinds(havoc, trial, chance)):
            share = (n + chance.random()) / (trial.kills + 1)
            until(lambda share=share: progress(database) >= share, trial.seconds)
            time.sleep(chance.uniform(0, trial.longest_pause))  # any moment will do
            log.info("at %.0f %%: %s", 100 * progress(database), kind)
            havoc.kinds[kind](chance)
        until(lambda: value(database, OPEN_JOBS) == 0, trial.seconds)
        answer = until(lambda: asked(f"{havoc.service.url}/api/v1/jobs/{job.id}"))
        ended = dict(rows(database, ENDS))
    finally:
        havoc.service.kill_all()
    n_texts = len({text["content"] for text in texts})
    assert answer["status"] == "succeeded"
    assert answer["progress"]["done"] == answer["progress"]["total"] == len(texts)
    assert ended == {"succeeded": n_texts, "duplicate": len(texts) - n_texts}
    assert {name: value(database, sql) for name, sql in TWICE.items()} == dict.fromkeys(TWICE, 0)
    assert told(export(database, canonical=True)) == undisturbed
    looked = shoal("--db", tmp_path / "shoal.db", "doctor", timeout=trial.seconds)
    assert looked.returncode == 0, looked.stdout + looked.stderr


def kinds(havoc: Havoc, trial: Trial, chance: random.Random) -> list[str]:
    """What is killed, one after the other."""
    if trial.once_each:
        return chance.sample(list(havoc.kinds), trial.kills)
    return chance.choices(list(havoc.kinds), k=trial.kills)


def told(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Of each line of an export its beginning and the SHA-256 of all of it: all of a long one would not fit in memory."""
    return [(line[:80], hashlib.sha256(line.encode()).hexdigest()) for line in lines]


def library_of(texts: list[Text], trial: Trial, path: Path) -> list[tuple[str, str]]:
    """What this process makes of them, with nobody to disturb it."""
    with Engine(settings=Settings(database_url=f"sqlite:///{path}", wave_bytes=trial.wave_bytes)) as engine:
        engine.ingest_many(texts)
        return told(engine.export(canonical=True))


def asked(url: str) -> dict[str, object] | None:
    """The answer of the service, None while it is away."""
    try:
        answer = httpx.get(url, timeout=DEADLINE_SECONDS)
    except httpx.TransportError:
        return None
    return dict(answer.json()) if answer.is_success else None


def progress(database: Database) -> float:
    done, total = rows(database, PROGRESS)[0]
    return float(done) / float(total)


def value(database: Database, sql: str) -> int:
    return int(rows(database, sql)[0][0])


def rows(database: Database, sql: str) -> list[tuple[object, ...]]:
    with database.snapshot() as snapshot:
        return list(snapshot.tuples(sql))
