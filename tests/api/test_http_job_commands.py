"""Commands on jobs, against a running service."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator

import flask
import pytest
from flask.testing import FlaskClient
from structlog.testing import capture_logs
from surface import API, FLOWER, VOLCANO, Store, Worker
from werkzeug.serving import make_server

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.models.jobs import ItemStatus

Shoal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def server(app: flask.Flask) -> Iterator[str]:
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    # The log of the service would mix with the output of the commands.
    with capture_logs():
        yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], server: str) -> Shoal:
    def run_shoal(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([*map(str, arguments), "--server", server])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


@pytest.fixture
def job_id(client: FlaskClient) -> int:
    lines = json.dumps({"content": VOLCANO}) + "\n" + json.dumps({"content": FLOWER})
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    return int(response.get_json()["job"]["id"])


def fail_one(engine: Engine) -> None:
    batch = claim(engine.database, new_owner(), engine.settings)
    assert batch is not None
    with engine.database.write() as transaction:
        outcome = Outcome(ItemStatus.failed, error="the worker was out of luck")
        finish_items(transaction, [(item, outcome) for item in batch.items], batch.owner)


def test_job_is_canceled_by_its_number(shoal: Shoal, job_id: int) -> None:
    code, out, _ = shoal("jobs", job_id, "--cancel")
    assert code == 0
    assert f"job {job_id} canceled" in out
    code, out, _ = shoal("jobs", job_id, "--retry")
    assert code == 0
    assert "canceled" not in out


@contextlib.contextmanager
def at_work(worker: Worker) -> Iterator[None]:
    """Run the worker in a thread."""
    working = threading.Thread(target=worker.keep_working)
    working.start()
    try:
        yield
    finally:
        worker.stop()
        working.join()


def test_retried_job_is_followed_to_its_end(
    shoal: Shoal, job_id: int, engine: Engine, worker: Worker
) -> None:
    fail_one(engine)
    code, out, _ = shoal("jobs", job_id, "--retry")
    assert (code, "2 to do" in out) == (0, True)
    with at_work(worker):
        code, out, _ = shoal("jobs", job_id, "--wait", "--json")
    job = json.loads(out)
    assert (code, job["status"], job["failed_items"]) == (0, "succeeded", [])
    code, _, err = shoal("jobs", job_id, "--retry")
    assert (code, "no failed or canceled items" in err) == (1, True)


def test_rescore_command_starts_a_job(shoal: Shoal, store: Store, worker: Worker) -> None:
    store(VOLCANO)
    code, out, _ = shoal("rescore")
    assert code == 0
    assert "shoal jobs" in out
    with at_work(worker):
        code, out, _ = shoal("rescore", "--wait", "--json")
    job = json.loads(out)
    assert (code, job["kind"], job["status"]) == (0, "rescore", "succeeded")


@pytest.mark.parametrize(
    "wrong", [["jobs", "--cancel"], ["jobs", "--wait"], ["jobs", "7", "--cancel", "--retry"]]
)
def test_contradictory_actions_are_wrong_usage(shoal: Shoal, wrong: list[str]) -> None:
    code, _, err = shoal(*wrong)
    assert code == 2
    assert "job" in err
