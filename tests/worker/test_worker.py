"""Real Celery workers process real documents from upload to stored chunks, whichever process dies."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from indexed_library import assert_indexed
from running_service import REDIS_SERVER, RedisServer, descendants, kill
from waiting import DEADLINE_SECONDS, until
from worker_parts import HERE, ROOT, Worker, count, is_alive, upload, wait_for_job
from worker_script import DEADLY, ENDLESS, GREEDY, NEWER, STUCK

from shoal.jobs.queue import queries
from shoal.jobs.transport.broker import make_celery, notify_workers
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_worker import health

StartWorker = Callable[..., Worker]

QUEUE_KEY = f"{Settings().broker_queue}:{Settings().broker_queue}"
"""Redis list with the messages of the default queue."""

TEXT = "A volcano throws out magma and lava. The rain of a monsoon falls on the forest number {}."


def texts(n: int, extra: str = "") -> list[str]:
    return [f"{TEXT.format(i)} {extra}" for i in range(n)]


def stuck_at(*places: int) -> list[str]:
    """Return forty texts; a worker blocks in those at `places` until it is released."""
    return [f"{text} {STUCK}" if i in places else text for i, text in enumerate(texts(40))]


STUCK_TWICE = stuck_at(7, 23)
"""In batches of five, two processes block after 15 of these, with 10 claimed."""


def progress(database: Database, job_id: int) -> tuple[int, int]:
    """Return the number of ended items and of claimed items, which are read later: an item is not both."""
    done = queries.get_job(database, job_id).progress.done
    return done, count(database, "SELECT COUNT(*) FROM job_items WHERE lease_owner IS NOT NULL")


def assert_stored_once(database: Database, n: int) -> None:
    assert count(database, "SELECT COUNT(*) FROM documents") == n
    assert count(database, "SELECT COUNT(DISTINCT content_hash) FROM documents") == n
    assert count(database, "SELECT COUNT(DISTINCT document_id) FROM chunks") == n
    twice = "SELECT COUNT(*) FROM (SELECT 1 FROM chunks GROUP BY document_id, start_char HAVING COUNT(*) > 1)"
    assert count(database, twice) == 0
    assert_indexed(database)
    # Only texts of failed items, which can be retried, are kept.
    failed = count(database, "SELECT COUNT(*) FROM job_items WHERE status = 'failed'")
    assert count(database, "SELECT COUNT(*) FROM job_item_contents") == failed


NONSENSE = (
    *("", "{", "[1]", "null", "{}"),
    '{"body": "", "content-encoding": "", "content-type": "", "headers": null, "properties": {}}',
)


def messages(settings: Settings) -> list[Path]:
    return sorted((settings.data_path / "broker" / "messages").iterdir())


def test_worker_ingests_documents_end_to_end(
    database: Database, broker_settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(broker_settings, workers=2, batch_items=8)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, [*texts(60), *texts(5), "<!-- only a comment -->"])
    notify_workers(make_celery(settings))
    job = wait_for_job(database, job_id)
    assert job.status is JobStatus.partial
    assert (job.progress.total, job.progress.done) == (66, 66)
    assert (job.progress.duplicate, job.progress.failed) == (5, 1)
    assert job.progress.bytes_done == job.progress.bytes_total
    assert_stored_once(database, 60)
    until(lambda: [seen.pid for seen in queries.live_workers(database, 600)] == [worker.pid])
    assert worker.stop() == 0
    assert queries.live_workers(database, 600) == []
    assert [event for event in worker.events() if event["level"] in ("error", "critical")] == []


# RabbitMQ delivers the messages of a dead worker again, the others have removed them.
@pytest.mark.chaos
@pytest.mark.parametrize("broker_settings", ["filesystem", "rabbitmq"], indirect=True)
def test_killed_worker_is_replaced_without_loss_or_duplicates(
    database: Database, broker_settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(broker_settings, workers=2, batch_items=5)
    job_id = upload(database, settings, STUCK_TWICE)
    first = start_worker(settings)
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (15, 10))
    first.kill_all()
    # No message is sent for the second worker; it finds the remaining work.
    first.release()
    start_worker(settings)
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.done) == (JobStatus.succeeded, 40)
    assert_stored_once(database, 40)
    # The end of the worker is not counted as an attempt of its items.
    assert count(database, "SELECT MAX(attempts) FROM job_items") == 0


@pytest.mark.chaos
def test_children_of_a_killed_parent_exit_and_another_worker_finishes(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, workers=2, batch_items=5)
    first = start_worker(settings)
    children = first.children(2)
    job_id = upload(database, settings, STUCK_TWICE)
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (15, 10))
    first.process.kill()
    first.process.wait()
    until(lambda: not any(is_alive(pid) for pid in children))
    assert progress(database, job_id) == (15, 10)
    first.release()
    start_worker(settings)
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    assert_stored_once(database, 40)


@pytest.mark.chaos
def test_document_that_kills_its_process_fails_and_the_worker_continues(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, max_attempts=2)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, [*texts(3), f"The antidote of {DEADLY} is known.", *texts(6)[3:]])
    notify_workers(make_celery(settings))
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.failed) == (JobStatus.partial, 1)
    failed = queries.get_items(database, job_id)[3]
    assert failed.attempts == 2
    assert failed.error is not None
    assert "died too often" in failed.error
    assert_stored_once(database, 6)
    assert worker.process.poll() is None
    later = upload(database, settings, ["A bee visits a flower."])
    notify_workers(make_celery(settings))
    assert wait_for_job(database, later).status is JobStatus.succeeded


def test_small_later_job_finishes_before_a_huge_one(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, batch_items=5)
    worker = start_worker(settings)
    huge = upload(database, settings, [*stuck_at(7), *texts(80)[40:]])
    notify_workers(make_celery(settings))
    until(lambda: progress(database, huge) == (5, 5))
    small = upload(database, settings, ["A bee visits a flower.", "A whale is an animal of the sea."])
    worker.release()
    assert wait_for_job(database, small).status is JobStatus.succeeded
    assert wait_for_job(database, huge).status is JobStatus.succeeded
    # Ids follow the order of storing: items done or claimed before, then the small job.
    assert [item.document_id for item in queries.get_items(database, small)] == [11, 12]


@pytest.mark.chaos
def test_document_that_exceeds_the_memory_limit_fails_alone(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    limit = 512 * 1024 * 1024
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, max_attempts=2, worker_memory_bytes=limit)
    worker = start_worker(settings)
    job_id = upload(database, settings, [*texts(3), f"A {GREEDY} eats the leaf of a plant.", *texts(6)[3:]])
    notify_workers(make_celery(settings))
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.failed) == (JobStatus.partial, 1)
    failed = queries.get_items(database, job_id)[3]
    assert failed.attempts == 2
    assert failed.error is not None
    assert "SHOAL_WORKER_MEMORY_BYTES" in failed.error
    assert_stored_once(database, 6)
    assert {event["limit"] for event in worker.events("out of memory: this process exits")} == {limit}


def test_lost_repeated_and_invalid_messages_do_no_harm(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, batch_items=5)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    # Lost: no message is sent.
    assert wait_for_job(database, upload(database, settings, texts(10))).status is JobStatus.succeeded
    # Repeated, and between unreadable messages.
    app = make_celery(settings)
    folder = settings.data_path / "broker" / "messages"
    for i in range(40):
        notify_workers(app, unless_waiting=False)
        (folder / f"{i:015d}_x.{settings.broker_queue}.msg").write_text(NONSENSE[i % len(NONSENSE)])
    job_id = upload(database, settings, texts(30))
    assert wait_for_job(database, job_id).progress.duplicate == 10
    until(lambda: messages(settings) == [])
    assert_stored_once(database, 30)
    assert worker.process.poll() is None
    assert worker.stop() == 0


def test_work_is_done_without_any_message(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, workers=2, batch_items=5)
    worker = start_worker(settings, [str(HERE / "worker_script.py"), "deaf"])
    job_id = upload(database, settings, texts(40))
    notify_workers(make_celery(settings))
    assert wait_for_job(database, job_id).progress.done == 40
    assert_stored_once(database, 40)
    assert worker.events("work claimed without a message")
    assert worker.stop() == 0


def test_stopping_worker_finishes_its_batch(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, batch_items=10)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, stuck_at(13))
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (10, 10))
    worker.process.terminate()
    until(lambda: "Warm shutdown" in worker.log.read_text())
    worker.release()
    assert worker.stop() == 0
    assert progress(database, job_id) == (20, 0)


def test_scorer_is_loaded_once_before_the_fork(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, workers=2, batch_items=2)
    worker = start_worker(settings, ["-m", "shoal_worker"])
    worker.children(2)
    sample = [path.read_text() for path in sorted((ROOT / "shoal" / "sample_corpus").glob("*.md"))]
    job_id = upload(database, settings, sample)
    notify_workers(make_celery(settings))
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    assert_stored_once(database, len(sample))
    assert [event["pid"] for event in worker.events("scorer loaded")] == [worker.pid]
    assert {event["parent"] for event in worker.events("worker process ready")} == {worker.pid}
    # The children map the model files at the same addresses as the parent, so they inherited them.
    models = {pid: _mapped_models(pid) for pid in (worker.pid, *worker.children(2))}
    assert models[worker.pid]
    assert all(mapped == models[worker.pid] for mapped in models.values())


def _mapped_models(pid: int) -> set[str]:
    """Return address and file of lagoon's data in the memory maps of a process."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {f"{line.split()[0]} {line.split()[-1]}" for line in lines if "lagoon/data" in line}


def test_worker_of_an_older_version_stops_claiming_and_waits(
    database: Database,
    settings: Settings,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = dataclasses.replace(settings, batch_items=10, reconcile_seconds=0.2)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, stuck_at(13))
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (10, 10))
    with database.write() as transaction:
        transaction.execute("UPDATE schema_revision SET revision = '9999'")
    worker.release()
    worker.wait_for("worker outdated: it claims and stores nothing")
    assert progress(database, job_id)[0] == 10, "the batch in progress is not stored either"
    with database.snapshot() as snapshot:
        seen_at = snapshot.value("SELECT MAX(seen_at) FROM workers")
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    for arguments, code in (([], 0), (["--ready"], 1)):
        monkeypatch.setattr(sys, "argv", ["health", *arguments])
        assert (health.main(), capsys.readouterr().err.startswith("outdated")) == (code, True)
    assert worker.process.poll() is None
    with database.snapshot() as snapshot:
        assert snapshot.value("SELECT MAX(seen_at) FROM workers") == seen_at
    assert worker.stop() == 0


def n_stops(worker: Worker) -> int:
    """Return how many signals to stop a worker has got."""
    return worker.log.read_text().count("Warm shutdown")


def test_workers_of_the_version_before_wait_or_end_while_those_of_the_next_one_work(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, batch_items=5, reconcile_seconds=0.2)
    script = str(HERE / "worker_script.py")
    early, late, waiting = (start_worker(settings, [script, "unhurried"]) for _ in range(3))
    for worker in (early, late, waiting):
        worker.wait_for("worker process ready")
    job_id = upload(database, settings, stuck_at(7, 17, 27))
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (15, 15))
    early.process.terminate()
    until(lambda: n_stops(early) == 1)
    with database.write() as transaction:
        transaction.execute("UPDATE schema_revision SET revision = :newer", {"newer": NEWER})
    until(lambda: n_stops(late) == 1)  # by itself, to wait
    late.process.terminate()
    until(lambda: n_stops(late) == 2)
    newer = start_worker(settings, [script, "newer"])
    # What no worker of the version before has claimed.
    until(lambda: progress(database, job_id) == (25, 15))
    newer.release()
    codes = [worker.process.wait(DEADLINE_SECONDS) for worker in (early, late)]
    assert codes == [0, 0], "workers that are being stopped end"
    waiting.wait_for("worker outdated: it claims and stores nothing")
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    until(lambda: sum(event["items"] for event in newer.events("batch processed")) == 25)
    assert_stored_once(database, 40)
    assert waiting.process.poll() is None
    assert [waiting.stop(), newer.stop()] == [0, 0]


def test_worker_without_a_usable_database_reports_it_and_exits(
    settings: Settings, start_worker: StartWorker
) -> None:
    worker = start_worker(settings, ["-m", "shoal_worker"])
    assert worker.process.wait(DEADLINE_SECONDS) == 1
    assert "shoal migrate" in worker.log.read_text()
    assert "Traceback" not in worker.log.read_text()


# Not with each broker: the worker learns of lost messages from none of them.
@pytest.mark.chaos
@pytest.mark.parametrize("broker_settings", ["fakeredis"], indirect=True)
def test_purged_queue_loses_no_work(
    database: Database, broker_settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(broker_settings, batch_items=5)
    worker = start_worker(settings)
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, stuck_at(7))
    app = make_celery(settings)
    notify_workers(app)
    until(lambda: progress(database, job_id) == (5, 5))
    with app.connection_for_write() as transaction:
        transaction.default_channel.queue_purge(settings.broker_queue)
    worker.release()
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    assert_stored_once(database, 40)


@pytest.mark.chaos
@pytest.mark.skipif(REDIS_SERVER is None, reason="there is no redis-server on this machine")
def test_worker_receives_messages_again_from_a_restarted_redis(
    database: Database, settings: Settings, start_worker: StartWorker, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path / "redis")
    try:
        settings = dataclasses.replace(settings, reconcile_seconds=0.1, batch_items=5, broker_url=server.url)
        worker = start_worker(settings, [str(HERE / "worker_script.py"), "patient"])
        job_id = upload(database, settings, stuck_at(7))
        notify_workers(make_celery(settings))
        until(lambda: progress(database, job_id) == (5, 5))
        # It finishes its work while Redis is down.
        server.kill()
        worker.release()
        until(lambda: progress(database, job_id) == (10, 0))
        server.restart()
        assert wait_for_job(database, job_id).status is JobStatus.succeeded
    finally:
        server.kill()


def answer_read_only(client: redis.Redis) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", "1")


def answer_wrong_type(client: redis.Redis) -> None:
    client.delete(QUEUE_KEY)
    client.hset(QUEUE_KEY, "field", "value")


def hold_nonsense(client: redis.Redis) -> None:
    whole = {"body": "e30=", "content-encoding": "utf-8", "content-type": "application/json"}
    delivery = {"delivery_tag": "1", "delivery_info": {"exchange": "", "routing_key": "q"}}
    client.rpush(
        QUEUE_KEY,
        "{half",
        b"\xff\xfe",
        *map(json.dumps, ([1], None, {}, {"body": 1}, whole | {"headers": {}, "properties": {}})),
        # An invalid body, and an unknown task.
        json.dumps(
            whole | {"headers": {}, "properties": delivery | {"body_encoding": "base64"}, "body": "!"}
        ),
        json.dumps(whole | {"headers": {"task": "other", "id": "1"}, "properties": delivery}),
    )


@pytest.mark.chaos
@pytest.mark.skipif(REDIS_SERVER is None, reason="there is no redis-server on this machine")
def test_worker_survives_redis_errors_and_continues(
    database: Database, settings: Settings, start_worker: StartWorker, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path / "redis")
    contents = iter(texts(60))

    def succeeds() -> bool:
        job_id = upload(database, settings, [next(contents) for _ in range(10)])
        return wait_for_job(database, job_id).status is JobStatus.succeeded

    try:
        settings = dataclasses.replace(settings, reconcile_seconds=0.1, broker_url=server.url)
        worker = start_worker(settings, [str(HERE / "worker_script.py"), "restless"])
        worker.wait_for("worker process ready")
        for spoil in (answer_read_only, answer_wrong_type, hold_nonsense):
            with redis.Redis(port=server.port) as client:
                until(lambda: "ready." in worker.log.read_text())
                spoil(client)
                assert succeeds(), spoil
                # After recovery, Redis delivers messages as before.
                client.execute_command("REPLICAOF", "NO", "ONE")
                client.delete(QUEUE_KEY)
            assert succeeds(), spoil
            assert worker.process.poll() is None, spoil
        assert worker.stop() == 0
    finally:
        server.kill()


@pytest.mark.chaos
def test_document_that_blocks_the_interpreter_fails_alone(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    # Leases that end before the time limit, and that the blocked process itself could not renew.
    settings = dataclasses.replace(
        settings,
        reconcile_seconds=0.1,
        batch_items=5,
        lease_seconds=3.0,
        max_attempts=2,
        item_time_limit=10.0,
    )
    # No fork: with its short waits, a worker whose process was killed did not stop in time once.
    worker = start_worker(settings, ["-P", str(HERE / "worker_script.py")])
    job_id = upload(database, settings, [*texts(3), f"No way out of {ENDLESS}.", *texts(12)[3:]])
    small_job = upload(database, settings, ["A whale is an animal of the sea."])
    assert wait_for_job(database, small_job).status is JobStatus.succeeded
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.failed, job.progress.done) == (JobStatus.partial, 1, 13)
    failed = queries.get_items(database, job_id)[3]
    assert failed.attempts == 2
    assert failed.error is not None
    assert "SHOAL_ITEM_TIME_LIMIT" in failed.error
    assert_stored_once(database, 13)
    # Once with other documents, twice alone.
    assert len({event["pid"] for event in worker.events("worker process ready")}) == 4
    assert worker.stop() == 0


@pytest.mark.chaos
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_blocked_worker_is_killed_on_stop_and_the_next_one_resumes(
    database: Database, settings: Settings, start_worker: StartWorker, signals: list[signal.Signals]
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, batch_items=5)
    command = [str(HERE / "worker_script.py"), *(["hurried"] if len(signals) == 1 else [])]
    worker = start_worker(settings, command)
    (child,) = worker.children()
    job_id = upload(database, settings, [*texts(3), f"No way out of {ENDLESS}."])
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (0, 4))
    for number in signals:
        worker.process.send_signal(number)
        until(lambda: "shutdown" in worker.log.read_text())
    assert worker.process.wait(DEADLINE_SECONDS) == 1
    assert worker.events("the worker is killed; the next one resumes its work")
    until(lambda: not is_alive(child))
    assert progress(database, job_id) == (0, 4)
    # The end of the whole worker does not count as an attempt.
    start_worker(dataclasses.replace(settings, item_time_limit=10.0, max_attempts=1))
    assert wait_for_job(database, job_id).progress.failed == 1
    assert_stored_once(database, 3)


@pytest.mark.chaos
def test_killed_watchdog_is_restarted_and_exits_with_its_worker(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, lease_seconds=60.0, reconcile_seconds=0.1, batch_items=5)
    worker = start_worker(
        settings, ["-P", str(HERE / "worker_script.py")]
    )  # no fork, whose watchdog is one, too
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, stuck_at(2))
    notify_workers(make_celery(settings))
    until(lambda: progress(database, job_id) == (0, 5))
    kill(watchdog_of(worker))
    until(lambda: worker.events("the watchdog died and is restarted"))
    restarted = time.time()
    # A watchdog renews a lease when a third of it has passed.
    with database.write() as transaction:
        transaction.execute(EARLIER, {"seconds": settings.lease_seconds / 2})
    until(lambda: leased(database)[0] > restarted + settings.lease_seconds)
    assert leased(database)[1] == 5
    second = watchdog_of(worker)
    worker.process.kill()
    worker.process.wait()
    until(lambda: not is_alive(second))


EARLIER = "UPDATE job_items SET lease_expires_at = lease_expires_at - :seconds WHERE lease_owner IS NOT NULL"


def leased(database: Database) -> tuple[float, int]:
    """Return the first expiry of the leases of items, in seconds since the epoch, and their number."""
    sql = "SELECT MIN(lease_expires_at), COUNT(*) FROM job_items WHERE lease_owner IS NOT NULL"
    with database.snapshot() as snapshot:
        return next(iter(snapshot.tuples(sql)))


def watchdog_of(worker: Worker) -> int:
    def find() -> int | None:
        started = descendants(worker.pid, direct=True).items()
        return next((pid for pid, line in started if "shoal_worker.reconciler" in line), None)

    pid: int = until(find)
    return pid
