"""Event streams of jobs: updates, reconnection, limits and shutdown."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Worker, assert_problem

from shoal.engine import Engine
from shoal.errors import DatabaseUnavailableError
from shoal.jobs.queue import queries
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.events import Listeners, seen_revision
from shoal_api.service import EXTENSION, Service

MakeClient = Callable[..., FlaskClient]


@pytest.fixture
def make_client(settings: Settings, engine: Engine) -> MakeClient:
    """Return a function that creates a client of a service with changed settings."""
    return lambda **changed: create_app(replace(settings, **changed), engine=engine).test_client()


def upload(client: FlaskClient, *texts: str) -> str:
    """Upload the texts and return the URL of the job."""
    lines = b"".join(json.dumps({"content": text}).encode() + b"\n" for text in texts)
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    return str(response.headers["Location"])


def events(response: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the name, id and data of each event as it arrives; comments have the name `:`."""
    text = ""
    for data in response.response:
        text += data.decode()
        while "\n\n" in text:
            block, _, text = text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if block.startswith(":"):
                yield ":", None, block
            elif "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
            else:
                assert fields == {"retry": "2000"}


def test_stream_sends_the_state_each_change_and_the_end(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO, FLOWER, "")
    assert client.get(address).get_json()["links"]["events"] == f"{address}/events"
    response = client.get(f"{address}/events")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Accel-Buffering"] == "no"
    stream = events(response)
    name, first_id, first = next(stream)
    assert name == "job"
    assert first["status"] == "enqueued"
    assert set(first) == set(client.get(address).get_json())
    worker.work()
    rest = list(stream)
    assert [name for name, _, _ in rest] == ["job", "end"]
    _, last_id, last = rest[0]
    assert last == client.get(address).get_json()
    assert last["status"] == "partial"
    assert int(last_id or 0) > int(first_id or 0)
    assert rest[1][2] == {"status": "partial"}


def test_stream_sends_increasing_progress(client: FlaskClient, busy_worker: Worker, engine: Engine) -> None:
    address = upload(client, *(f"{VOLCANO} {n}" for n in range(50)))
    states = [event for name, _, event in events(client.get(f"{address}/events")) if name == "job"]
    fractions = [event["progress"]["fraction"] for event in states]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    assert states[-1]["status"] == "succeeded"


def test_reconnected_client_receives_only_new_events(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO)
    _, last_id, _ = next(events(client.get(f"{address}/events")))
    worker.work()
    reconnected = client.get(f"{address}/events", headers={"Last-Event-ID": str(last_id)})
    names = [(name, event_id) for name, event_id, _ in events(reconnected)]
    assert [name for name, _ in names] == ["job", "end"]
    end_id = str(names[0][1])
    # Browsers reconnect after the end of a stream until they receive a 204.
    done = client.get(f"{address}/events", headers={"Last-Event-ID": end_id})
    assert (done.status_code, done.get_data()) == (204, b"")
    for invalid_id in ("", "none", "-1", "9" * 400, "1.5", "٣"):
        response = client.get(f"{address}/events", environ_overrides={"HTTP_LAST_EVENT_ID": invalid_id})
        assert [name for name, _, _ in events(response)] == ["job", "end"], invalid_id


def test_unchanged_job_is_sent_once_and_heartbeats_follow(make_client: MakeClient) -> None:
    client = make_client(event_heartbeat_seconds=0.05)
    address = upload(client, VOLCANO)
    stream = events(client.get(f"{address}/events"))
    assert [next(stream)[0] for _ in range(4)] == ["job", ":", ":", ":"]


def test_stream_ends_after_its_time_limit(make_client: MakeClient) -> None:
    client = make_client(event_stream_seconds=0.2)
    address = upload(client, VOLCANO)
    assert [name for name, _, _ in events(client.get(f"{address}/events"))] == ["job"]


def test_missing_job_has_no_events(client: FlaskClient) -> None:
    assert_problem(client.get(f"{API}/jobs/1/events"), 404)
    assert_problem(client.get(f"{API}/jobs/{2**70}/events"), 404)


def test_streams_over_the_limit_return_503(make_client: MakeClient, worker: Worker) -> None:
    client = make_client(max_event_streams=2)
    address = upload(client, VOLCANO)
    open_responses = [client.get(f"{address}/events") for _ in range(2)]
    for response in open_responses:
        next(iter(response.response))
    refused = client.get(f"{address}/events")
    problem = assert_problem(refused, 503)
    assert "?wait=" in problem["detail"]
    assert int(refused.headers["Retry-After"]) > 0
    # A closed response frees its slot, no matter how much of its stream was read.
    open_responses[0].close()
    third = client.get(f"{address}/events")
    assert third.status_code == 200
    third.close()
    third.close()
    assert client.head(f"{address}/events").status_code == 200
    worker.work()
    list(events(open_responses[1]))
    open_responses[1].close()
    for _ in range(5):
        response = client.get(f"{address}/events")
        assert response.status_code == 200
        response.close()


def test_limit_of_zero_disables_streams(make_client: MakeClient) -> None:
    client = make_client(max_event_streams=0)
    assert_problem(client.get(f"{upload(client, VOLCANO)}/events"), 503)


def test_service_shutdown_ends_streams(make_client: MakeClient) -> None:
    client = make_client()
    service = client.application.extensions[EXTENSION]
    assert isinstance(service, Service)
    response = client.get(f"{upload(client, VOLCANO)}/events")
    stream = events(response)
    assert next(stream)[0] == "job"
    shutdown = threading.Timer(0.2, service.end)
    shutdown.start()
    assert list(stream) == []
    shutdown.join()


def test_unavailable_database_does_not_end_a_stream(
    make_client: MakeClient, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(event_heartbeat_seconds=0.05)
    stream = events(client.get(f"{upload(client, VOLCANO)}/events"))
    next(stream)

    def raise_unavailable(*_: object, **__: object) -> None:
        raise DatabaseUnavailableError("secret /srv/shoal.db")

    with monkeypatch.context() as patched:
        patched.setattr(queries, "wait_for_change", raise_unavailable)
        assert [next(stream)[0] for _ in range(3)] == [":", ":", ":"]
    worker.work()
    names = [name for name, _, _ in stream if name != ":"]
    assert names == ["job", "end"]


def test_removed_job_ends_its_stream(make_client: MakeClient, engine: Engine) -> None:
    client = make_client()
    address = upload(client, VOLCANO)
    stream = events(client.get(f"{address}/events"))
    next(stream)
    with engine.database.write() as transaction:
        transaction.execute("DELETE FROM jobs")
    assert list(stream) == [("end", None, {"status": None})]


def test_job_text_cannot_forge_events(make_client: MakeClient, engine: Engine) -> None:
    client = make_client()
    address = upload(client, LAW)
    with engine.database.write() as transaction:
        error = {"error": "a\n\r\nevent: end"}
        transaction.execute("UPDATE jobs SET status = 'failed', error = :error", error)
    names = [name for name, _, _ in events(client.get(f"{address}/events"))]
    assert names == ["job", "end"]


@pytest.mark.parametrize(
    ("header", "revision"),
    [("12", 12), ("0", 0), (None, None), ("", None), ("1e3", None), (" 5", None), ("²", None)],
)
def test_invalid_last_event_id_is_ignored(header: str | None, revision: int | None) -> None:
    assert seen_revision(header) == revision


def test_stream_slot_is_released_once(settings: Settings) -> None:
    listeners = Listeners(replace(settings, max_event_streams=1))
    release = listeners.acquire()
    release()
    release()
    listeners.acquire()
    with pytest.raises(Exception, match="all 1 event streams"):
        listeners.acquire()
