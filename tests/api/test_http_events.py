"""A job that tells its changes by itself, to any number of listeners."""

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
from shoal.jobs.queue import queries as protocol
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.events import Listeners, seen_revision
from shoal_api.service import EXTENSION, Service

Make = Callable[..., FlaskClient]


@pytest.fixture
def make(settings: Settings, engine: Engine) -> Make:
    """A client of a service with other settings."""
    return lambda **others: create_app(replace(settings, **others), engine=engine).test_client()


def upload(client: FlaskClient, *texts: str) -> str:
    """Address of the job."""
    lines = b"".join(json.dumps({"content": text}).encode() + b"\n" for text in texts)
    answer = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    return str(answer.headers["Location"])


def events(answer: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Name, id and data of the events of an answer as they come; comments are named `:`."""
    text = ""
    for piece in answer.response:
        text += piece.decode()
        while "\n\n" in text:
            block, _, text = text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if block.startswith(":"):
                yield ":", None, block
            elif "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
            else:
                assert fields == {"retry": "2000"}


def test_a_job_tells_how_it_stands_every_change_and_its_end(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO, FLOWER, "")
    assert client.get(address).get_json()["links"]["events"] == f"{address}/events"
    answer = client.get(f"{address}/events")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    told = events(answer)
    name, first_id, first = next(told)
    assert name == "job"
    assert first["status"] == "enqueued"
    assert set(first) == set(client.get(address).get_json())
    worker.work()
    rest = list(told)
    assert [name for name, _, _ in rest] == ["job", "end"]
    _, last_id, last = rest[0]
    assert last == client.get(address).get_json()
    assert last["status"] == "partial"
    assert int(last_id or 0) > int(first_id or 0)
    assert rest[1][2] == {"status": "partial"}


def test_every_state_on_the_way_is_told(client: FlaskClient, busy_worker: Worker, engine: Engine) -> None:
    address = upload(client, *(f"{VOLCANO} {n}" for n in range(50)))
    told = [event for name, _, event in events(client.get(f"{address}/events")) if name == "job"]
    fractions = [event["progress"]["fraction"] for event in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    assert told[-1]["status"] == "succeeded"


def test_whoever_connects_again_is_told_only_what_is_new(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO)
    _, seen, _ = next(events(client.get(f"{address}/events")))
    worker.work()
    again = client.get(f"{address}/events", headers={"Last-Event-ID": str(seen)})
    names = [(name, event_id) for name, event_id, _ in events(again)]
    assert [name for name, _ in names] == ["job", "end"]
    last = str(names[0][1])
    # Browsers connect again after the end of a stream, until they are told that there is nothing more.
    done = client.get(f"{address}/events", headers={"Last-Event-ID": last})
    assert (done.status_code, done.get_data()) == (204, b"")
    for odd in ("", "none", "-1", "9" * 400, "1.5", "٣"):
        told = client.get(f"{address}/events", environ_overrides={"HTTP_LAST_EVENT_ID": odd})
        assert [name for name, _, _ in events(told)] == ["job", "end"], odd


def test_an_unchanged_job_is_not_told_twice_but_the_connection_is_kept_alive(make: Make) -> None:
    client = make(event_heartbeat_seconds=0.05)
    address = upload(client, VOLCANO)
    told = events(client.get(f"{address}/events"))
    assert [next(told)[0] for _ in range(4)] == ["job", ":", ":", ":"]


def test_a_stream_ends_after_its_time(make: Make) -> None:
    client = make(event_stream_seconds=0.2)
    address = upload(client, VOLCANO)
    assert [name for name, _, _ in events(client.get(f"{address}/events"))] == ["job"]


def test_a_job_of_nothing_has_no_events(client: FlaskClient) -> None:
    assert_problem(client.get(f"{API}/jobs/1/events"), 404)
    assert_problem(client.get(f"{API}/jobs/{2**70}/events"), 404)


def test_there_are_places_for_so_many_listeners_and_the_others_are_told(make: Make, worker: Worker) -> None:
    client = make(max_event_streams=2)
    address = upload(client, VOLCANO)
    sitting = [client.get(f"{address}/events") for _ in range(2)]
    for answer in sitting:
        next(iter(answer.response))
    refused = client.get(f"{address}/events")
    problem = assert_problem(refused, 503)
    assert "?wait=" in problem["detail"]
    assert int(refused.headers["Retry-After"]) > 0
    # Who goes makes room, whether he heard the end or not, or nothing at all.
    sitting[0].close()
    third = client.get(f"{address}/events")
    assert third.status_code == 200
    third.close()
    third.close()
    assert client.head(f"{address}/events").status_code == 200
    worker.work()
    list(events(sitting[1]))
    sitting[1].close()
    for _ in range(5):
        answer = client.get(f"{address}/events")
        assert answer.status_code == 200
        answer.close()


def test_no_places_are_no_streams(make: Make) -> None:
    client = make(max_event_streams=0)
    assert_problem(client.get(f"{upload(client, VOLCANO)}/events"), 503)


def test_listeners_go_home_when_the_service_ends(make: Make) -> None:
    client = make()
    service = client.application.extensions[EXTENSION]
    assert isinstance(service, Service)
    answer = client.get(f"{upload(client, VOLCANO)}/events")
    told = events(answer)
    assert next(told)[0] == "job"
    later = threading.Timer(0.2, service.end)
    later.start()
    assert list(told) == []
    later.join()


def test_a_database_that_is_away_for_a_while_ends_no_stream(
    make: Make, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make(event_heartbeat_seconds=0.05)
    told = events(client.get(f"{upload(client, VOLCANO)}/events"))
    next(told)

    def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailableError("secret /srv/shoal.db")

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "wait_for_change", away)
        assert [next(told)[0] for _ in range(3)] == [":", ":", ":"]
    worker.work()
    names = [name for name, _, _ in told if name != ":"]
    assert names == ["job", "end"]


def test_a_job_that_is_removed_ends_its_stream(make: Make, engine: Engine) -> None:
    client = make()
    address = upload(client, VOLCANO)
    told = events(client.get(f"{address}/events"))
    next(told)
    with engine.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")
    assert list(told) == [("end", None, {"status": None})]


def test_texts_of_a_job_cannot_forge_events(make: Make, engine: Engine) -> None:
    client = make()
    address = upload(client, LAW)
    with engine.database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE jobs SET status = 'failed', error = 'a' || char(10) || char(13) || char(10) || 'event: end'"
        )
    names = [name for name, _, _ in events(client.get(f"{address}/events"))]
    assert names == ["job", "end"]


@pytest.mark.parametrize(
    ("header", "seen"),
    [("12", 12), ("0", 0), (None, None), ("", None), ("1e3", None), (" 5", None), ("²", None)],
)
def test_an_id_that_is_none_was_not_seen(header: str | None, seen: int | None) -> None:
    assert seen_revision(header) == seen


def test_a_place_is_given_back_once(settings: Settings) -> None:
    listeners = Listeners(replace(settings, max_event_streams=1))
    release = listeners.acquire()
    release()
    release()
    listeners.acquire()
    with pytest.raises(Exception, match="all 1 event streams"):
        listeners.acquire()
