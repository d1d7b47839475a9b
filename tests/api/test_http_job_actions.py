"""Actions on jobs over HTTP: rescore, cancel, retry."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.models.jobs import ItemStatus

JOBS = f"{API}/jobs"


def upload(client: FlaskClient, *texts: str) -> int:
    lines = b"".join(b'{"content": "%s"}\n' % text.encode() for text in texts)
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    assert response.status_code == 202
    return int(response.get_json()["job"]["id"])


def job_of(response: Any) -> dict[str, Any]:
    """Return the job of a 202 response; check its Location."""
    assert response.status_code == 202, response.get_data(as_text=True)
    job: dict[str, Any] = response.get_json()["job"]
    assert response.headers["Location"] == f"{JOBS}/{job['id']}"
    return job


def fail_all(engine: Engine) -> None:
    """Claim all items and report each as failed."""
    while batch := claim(engine.database, new_owner(), engine.settings):
        with engine.database.write() as transaction:
            outcome = Outcome(ItemStatus.failed, error="the worker was out of luck")
            finish_items(transaction, [(item, outcome) for item in batch.items], batch.owner)


def test_rescore_is_a_job_that_ends_at_once_if_nothing_changed(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    store(LAW)
    job = job_of(client.post(JOBS, json={"kind": "rescore"}))
    assert (job["kind"], job["status"], job["progress"]["total"]) == ("rescore", "succeeded", 0)


def test_rescore_of_an_empty_library_succeeds(client: FlaskClient, worker: Worker) -> None:
    job = job_of(client.post(JOBS, json={"kind": "rescore"}))
    worker.work()
    assert client.get(f"{JOBS}/{job['id']}").get_json()["status"] == "succeeded"


def test_repeated_idempotency_key_returns_the_same_rescore(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    headers = {"Idempotency-Key": "once"}
    first = job_of(client.post(JOBS, json={"kind": "rescore"}, headers=headers))
    assert job_of(client.post(JOBS, json={"kind": "rescore"}, headers=headers))["id"] == first["id"]
    other = job_of(client.post(JOBS, json={"kind": "rescore"}))
    assert other["id"] != first["id"]
    assert_problem(client.post(f"{API}/documents", json={"content": FLOWER}, headers=headers), 409)


@pytest.mark.parametrize("body", [{}, {"kind": "ingest"}, {"kind": 1}, {"kind": None}])
def test_other_kinds_of_jobs_are_refused(empty: FlaskClient, body: dict[str, Any]) -> None:
    assert_problem(empty.post(JOBS, json=body), 422, "kind")
    assert_problem(empty.post(JOBS, json={"kind": "rescore", "all": True}), 422, "all")


def test_canceled_job_ends_at_once(client: FlaskClient, worker: Worker) -> None:
    job_id = upload(client, VOLCANO, FLOWER)
    job = job_of(client.post(f"{JOBS}/{job_id}/cancel"))
    assert (job["status"], job["progress"]["done"]) == ("canceled", 2)
    worker.work()
    assert client.get(f"{API}/documents").get_json()["total"] == 0
    repeated = job_of(client.post(f"{JOBS}/{job_id}/cancel"))
    assert repeated == job
    assert job_of(client.delete(f"{JOBS}/{job_id}")) == job
    items = client.get(f"{JOBS}/{job_id}/items?status=canceled").get_json()
    assert items["total"] == 2


def test_delete_cancels_a_job_in_the_same_form(client: FlaskClient) -> None:
    answers = [
        client.post(f"{JOBS}/{upload(client, VOLCANO)}/cancel"),
        client.delete(f"{JOBS}/{upload(client, FLOWER)}"),
    ]
    assert {answer.status_code for answer in answers} == {202}
    assert job_of(answers[0]).keys() == job_of(answers[1]).keys()
    assert [answer.headers["Location"] for answer in answers] == [f"{JOBS}/1", f"{JOBS}/2"]
    assert [job_of(answer)["status"] for answer in answers] == ["canceled", "canceled"]


def test_a_canceled_job_goes_on_with_a_retry(client: FlaskClient, worker: Worker) -> None:
    job_id = upload(client, VOLCANO, FLOWER)
    client.delete(f"{JOBS}/{job_id}")
    job = job_of(client.post(f"{JOBS}/{job_id}/retry"))
    assert (job["status"], job["progress"]["canceled"]) == ("enqueued", 0)
    worker.work()
    assert client.get(f"{JOBS}/{job_id}").get_json()["status"] == "succeeded"


def test_canceling_an_ended_job_is_a_conflict(client: FlaskClient, worker: Worker) -> None:
    job_id = upload(client, VOLCANO)
    worker.work()
    problem = assert_problem(client.post(f"{JOBS}/{job_id}/cancel"), 409)
    assert "succeeded" in problem["detail"]
    assert_problem(client.delete(f"{JOBS}/{job_id}"), 409)


def test_retry_processes_failed_items_in_the_same_job(
    client: FlaskClient, worker: Worker, engine: Engine
) -> None:
    job_id = upload(client, VOLCANO, FLOWER)
    fail_all(engine)
    assert client.get(f"{JOBS}/{job_id}").get_json()["status"] == "failed"
    job = job_of(client.post(f"{JOBS}/{job_id}/retry"))
    assert (job["id"], job["status"], job["progress"]["failed"]) == (job_id, "enqueued", 0)
    worker.work()
    job = client.get(f"{JOBS}/{job_id}").get_json()
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert client.get(f"{API}/documents").get_json()["total"] == 2


def test_retry_without_retryable_items_is_a_conflict(
    client: FlaskClient, worker: Worker, engine: Engine
) -> None:
    job_id = upload(client, VOLCANO)
    problem = assert_problem(client.post(f"{JOBS}/{job_id}/retry"), 409)
    assert "no failed or canceled items" in problem["detail"]
    refused = upload(client, "", FLOWER)
    worker.work()
    assert "no usable text" in assert_problem(client.post(f"{JOBS}/{refused}/retry"), 409)["detail"]


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_action_on_a_missing_job_returns_404(empty: FlaskClient, action: str) -> None:
    assert_problem(empty.post(f"{JOBS}/4711/{action}"), 404)
    assert_problem(empty.delete(f"{JOBS}/4711"), 404)
    assert_problem(empty.post(f"{JOBS}/{2**63}/{action}"), 404)
    assert_problem(empty.get(f"{JOBS}/1/{action}"), 405)


def test_embed_is_one_job_that_is_continued(client: FlaskClient, store: Store) -> None:
    first = job_of(client.post(JOBS, json={"kind": "embed"}))
    assert (first["kind"], first["status"]) == ("embed", "succeeded")
    store(VOLCANO)
    opened = job_of(client.post(JOBS, json={"kind": "embed"}))
    assert (opened["kind"], opened["status"], opened["progress"]["total"]) == ("embed", "enqueued", 1)
    again = client.post(JOBS, json={"kind": "embed"}, headers={"Idempotency-Key": "k"})
    assert job_of(again)["id"] == opened["id"]
