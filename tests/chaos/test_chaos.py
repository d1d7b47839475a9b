"""An upload completes, and stores each document once, while parts of the service are killed at random.

The long trial takes minutes: SHOAL_TEST_LONG=1. With SHOAL_TEST_CORPORA (see benchmarks/__main__.py) it
uploads the books of that folder. SHOAL_TEST_SEED changes the random choices.
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
from generated_documents import Text, articles, books, notes
from havoc import Havoc
from running_service import REDIS_SERVER, RedisServer, Service, shoal
from waiting import DEADLINE_SECONDS, until

from shoal.client import Client
from shoal.engine import Engine
from shoal.maintenance.export import export
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.byte_units import MIB

log = logging.getLogger("chaos")

SEED = int(os.environ.get("SHOAL_TEST_SEED", "7"))
LONG = bool(os.environ.get("SHOAL_TEST_LONG"))

# Completed and total bytes; the discover stage counts as half of the work of an item.
PROGRESS = """
    SELECT SUM(CASE WHEN status IN ('succeeded', 'duplicate', 'failed', 'canceled') THEN 2 * n_bytes
                    WHEN status IN ('discovered', 'scoring') THEN n_bytes ELSE 0 END), 2 * SUM(n_bytes)
    FROM job_items
"""
OPEN_JOBS = "SELECT COUNT(*) FROM jobs WHERE status NOT IN ('succeeded', 'partial', 'failed', 'canceled')"
ITEM_STATUSES = "SELECT status, COUNT(*) FROM job_items GROUP BY status"
LEFTOVERS = {
    "documents with the same content": "SELECT COUNT(*) - COUNT(DISTINCT content_hash) FROM documents",
    "chunks at the same offset": """
        SELECT COUNT(*) FROM (SELECT 1 FROM chunks GROUP BY document_id, start_char HAVING COUNT(*) > 1)""",
    "texts of ended items": "SELECT COUNT(*) FROM job_item_contents",
    "leases": "SELECT COUNT(*) FROM job_items WHERE lease_owner IS NOT NULL",
}


@dataclass(frozen=True)
class Trial:
    """The documents, the wave size, and the disturbance.

    `kills`: number of kills. `longest_pause`: seconds before each kill, at most. `seconds`: limit of each
    wait. `once_each`: make each of ONCE_EACH once instead of random kills.
    """

    library: Callable[[], list[Text]]
    wave_bytes: int
    kills: int
    longest_pause: float
    seconds: float
    once_each: bool


TRIALS = {
    "short": Trial(lambda: [*articles(), *notes(300, SEED)], 80_000, 3, 0.3, DEADLINE_SECONDS, True),
    "long": Trial(lambda: [*books(SEED), *notes(5000, SEED)], 4 * MIB, 20, 3.0, 1500, False),
}
ONCE_EACH = {
    "filesystem": ("a process of the worker", "the broker", "everything"),
    "redis": ("the worker", "the API", "the broker"),
}
"""What the short trials kill, by broker: the broker with both, because only its kill depends on it."""


@pytest.fixture(params=["filesystem", "redis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer | None]:
    """A private Redis server, or None for the embedded broker."""
    if request.param == "filesystem":
        yield None
        return
    if REDIS_SERVER is None:
        pytest.skip("there is no redis-server on this machine")
    server = RedisServer(tmp_path / "redis")
    yield server
    server.kill()


@pytest.fixture(scope="module", params=list(TRIALS))
def trial(request: pytest.FixtureRequest) -> Trial:
    if request.param == "long" and not LONG:
        pytest.skip("takes minutes: SHOAL_TEST_LONG=1")
    return TRIALS[request.param]


@pytest.fixture(scope="module")
def texts(trial: Trial) -> list[Text]:
    return trial.library()


@pytest.fixture(scope="module")
def expected(
    trial: Trial, texts: list[Text], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, str]]:
    """The line hashes of a library that this process ingests without kills."""
    path = tmp_path_factory.mktemp("undisturbed") / "shoal.db"
    with Engine(settings=Settings(database_url=f"sqlite:///{path}", wave_bytes=trial.wave_bytes)) as engine:
        engine.ingest_many(texts)
        return line_hashes(engine.maintenance.export(canonical=True))


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_upload_completes_exactly_once_despite_kills(
    trial: Trial,
    texts: list[Text],
    expected: list[tuple[str, str]],
    broker: RedisServer | None,
    tmp_path: Path,
) -> None:
    environment = {
        "SHOAL_BROKER_URL": broker.url if broker else "filesystem://",
        "SHOAL_WORKERS": "2",
        "SHOAL_WAVE_BYTES": str(trial.wave_bytes),
        "SHOAL_RECONCILE_SECONDS": "0.5",
        # A text may be processed alone during several kills, which must not exhaust its attempts.
        "SHOAL_MAX_ATTEMPTS": str(trial.kills + 1),
    }
    messages = tmp_path / "shoal.db-data" / "broker" / "messages"
    havoc = Havoc(lambda: Service(tmp_path, **environment), broker, messages)
    database = open_database(f"sqlite:///{tmp_path / 'shoal.db'}")
    rng = random.Random(SEED)
    try:
        with Client(havoc.service.url) as client:
            job = client.upload_documents(json.dumps(text).encode() + b"\n" for text in texts)
        for n, kind in enumerate(chosen_kills(havoc, trial, broker, rng)):
            share = (n + rng.random()) / (trial.kills + 1)
            until(lambda share=share: progress(database) >= share, trial.seconds)
            time.sleep(rng.uniform(0, trial.longest_pause))  # kill at a random moment
            log.info("at %.0f %%: %s", 100 * progress(database), kind)
            havoc.kills[kind](rng)
        until(lambda: value(database, OPEN_JOBS) == 0, trial.seconds)
        job_json = until(lambda: get_json(f"{havoc.service.url}/api/v1/jobs/{job.id}"))
        statuses = dict(rows(database, ITEM_STATUSES))
    finally:
        havoc.service.kill_all()
    n_texts = len({text["content"] for text in texts})
    assert job_json["status"] == "succeeded"
    assert job_json["progress"]["done"] == job_json["progress"]["total"] == len(texts)
    assert statuses == {"succeeded": n_texts, "duplicate": len(texts) - n_texts}
    assert {name: value(database, sql) for name, sql in LEFTOVERS.items()} == dict.fromkeys(LEFTOVERS, 0)
    assert line_hashes(export(database, canonical=True)) == expected
    doctor = shoal("--db", tmp_path / "shoal.db", "doctor", timeout=trial.seconds)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr


def chosen_kills(havoc: Havoc, trial: Trial, broker: RedisServer | None, rng: random.Random) -> list[str]:
    """The kinds of kills, in order."""
    if trial.once_each:
        return rng.sample(ONCE_EACH["redis" if broker else "filesystem"], trial.kills)
    return rng.choices(list(havoc.kills), k=trial.kills)


def line_hashes(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The beginning and the SHA-256 of each line; a long export does not fit in memory."""
    return [(line[:80], hashlib.sha256(line.encode()).hexdigest()) for line in lines]


def get_json(url: str) -> dict[str, object] | None:
    """The JSON response of the service, None while it is unavailable."""
    try:
        response = httpx.get(url, timeout=DEADLINE_SECONDS)
    except httpx.TransportError:
        return None
    return dict(response.json()) if response.is_success else None


def progress(database: Database) -> float:
    done, total = rows(database, PROGRESS)[0]
    return float(done) / float(total)


def value(database: Database, sql: str) -> int:
    return int(rows(database, sql)[0][0])


def rows(database: Database, sql: str) -> list[tuple[object, ...]]:
    with database.snapshot() as snapshot:
        return list(snapshot.tuples(sql))
