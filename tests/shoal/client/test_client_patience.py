"""The client retries while a service is unavailable or busy, and raises typed errors for refusals."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import email.utils
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_service import BROKEN, JOB, Response, ScriptedService, problem

from shoal.client import (
    AsyncClient,
    BusyError,
    Client,
    ClientError,
    ConflictError,
    InvalidError,
    JobFailedError,
    JobTimeoutError,
    KeyRefusedError,
    NotFoundError,
    NotShoalError,
    TooLargeError,
    UnavailableError,
    UnreachableError,
    errors,
)
from shoal.client.flows import Pause, Request
from shoal.errors import NotFoundError as LibraryNotFoundError

AWAY = problem(503, "the database is away")
LOST: Response = (BROKEN, {}, b"")
ACCEPTED: Response = (202, {}, {"job": {**JOB, "status": "enqueued"}})
JOBS: Response = (200, {}, {"jobs": [], "total": 0})


def state(status: str, etag: str, **fields: Any) -> Response:
    return (200, {"ETag": f'"{etag}"'}, {**JOB, "status": status, **fields})


def test_wait_for_job_survives_unchanged_responses_and_a_restart(
    server: ScriptedService,
) -> None:
    server.will_respond(
        state("enqueued", "1"), (304, {}, b""), LOST, AWAY, state("processing", "2"), state("partial", "3")
    )
    seen: list[str] = []
    with Client(server.url) as client:
        job = client.wait_for_job(7, seen=lambda job: seen.append(job.status))
    assert job.status == "partial"
    assert job.progress.failed == 1
    assert seen == ["enqueued", "processing", "partial"]
    assert [request.headers.get("If-None-Match") for request in server.requests][:3] == [None, '"1"', '"1"']


def test_watch_job_survives_a_restart_in_an_event_loop(server: ScriptedService) -> None:
    server.will_respond(state("enqueued", "1"), LOST, AWAY, state("processing", "2"), state("succeeded", "3"))

    async def follow() -> list[str]:
        async with AsyncClient(server.url) as client:
            return [job.status async for job in client.watch_job(7)]

    assert asyncio.run(follow()) == ["enqueued", "processing", "succeeded"]


def test_watch_job_pauses_between_immediate_responses() -> None:
    """A service without a free thread answers at once that nothing has changed."""
    with Client("http://127.0.0.1") as client:
        steps = Client.watch_job.stream(client, 7)
        n_requests, pauses = 0, 0.0
        step, began = next(steps), time.monotonic()
        while n_requests < 4:
            if isinstance(step, Request):
                n_requests += 1
                step = steps.send(
                    _response(200 if n_requests == 1 else 304, {**JOB, "status": "enqueued"}, ETag='"1"')
                )
            else:
                pauses += step.seconds if isinstance(step, Pause) else 0
                step = next(steps)
        assert pauses + time.monotonic() - began > 3 * 0.09


def test_wait_for_job_raises_after_its_timeout(server: ScriptedService) -> None:
    server.will_respond(state("processing", "1"), (304, {}, b""))
    with Client(server.url) as client, pytest.raises(JobTimeoutError, match="has not ended within") as caught:
        client.wait_for_job(7, timeout=0.3)
    assert caught.value.job.status == "processing"


def test_wait_for_job_with_check_names_the_failed_items(server: ScriptedService) -> None:
    item = {
        "seq": 1, "title": "line 2", "source_path": None, "bytes": 4, "status": "failed", "stage": None,
        "document_id": None, "attempts": 0, "error": "is not JSON",
        "error_code": "malformed_json",
    }  # fmt: skip
    server.will_respond(state("partial", "1"), (200, {}, {"items": [item], "total": 1}))
    with Client(server.url) as client, pytest.raises(JobFailedError) as caught:
        client.wait_for_job(7, check=True)
    assert str(caught.value) == "job 7 ended as partial: line 2: is not JSON"
    assert [(item.seq, item.error_code) for item in caught.value.items] == [(1, "malformed_json")]


@pytest.mark.parametrize(
    "failure", [AWAY, LOST, problem(429, "too many requests"), problem(502, "no"), problem(504, "no")]
)
def test_temporary_failures_are_retried(server: ScriptedService, failure: Response) -> None:
    server.will_respond(failure, failure, JOBS)
    retries: list[tuple[bool, float]] = []
    with Client(server.url, retrying=lambda reason, pause: retries.append((reason.is_away, pause))) as client:
        assert client.jobs().total == 0
    assert len(server.requests) == 3
    assert [is_away for is_away, _ in retries] == [True, True]
    assert all(pause > 0 for _, pause in retries)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422, 500, 507])
def test_permanent_failures_are_not_retried(server: ScriptedService, status: int) -> None:
    server.will_respond(problem(status, "no"))
    with Client(server.url) as client, pytest.raises(ClientError) as caught:
        client.jobs()
    assert caught.value.status == status
    assert not caught.value.is_away
    assert len(server.requests) == 1


def test_retries_end_after_patience(server: ScriptedService) -> None:
    server.will_respond(AWAY)
    with (
        Client(server.url, patience=0.5) as client,
        pytest.raises(UnavailableError, match="the database is away"),
    ):
        client.wait_for_job(1)
    assert len(server.requests) > 1
    server.requests.clear()
    with Client(server.url, patience=0) as client, pytest.raises(UnavailableError):
        client.search("bees")
    assert len(server.requests) == 1


def test_retry_after_sets_the_pause(server: ScriptedService) -> None:
    assert _pauses_after(429, Retry_After="7") == [7, 7, 7, 7], "their sum stays below patience, 30 seconds"
    server.will_respond(problem(429, "the queue is full", Retry_After="3600"))
    with Client(server.url) as client, pytest.raises(BusyError) as caught:
        client.jobs()
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1, "a pause of an hour exceeds patience"


def test_pauses_grow_to_a_limit_and_are_random() -> None:
    pauses, other_pauses = _pauses_after(503), _pauses_after(503)
    assert pauses != other_pauses
    for number, pause in enumerate(pauses):
        full = min(5.0, 0.2 * 2**number)
        assert full / 2 <= pause <= full
    assert 20 < sum(pauses) <= 30, "retries use most of patience"


def _pauses_after(status: int, **headers: str) -> list[float]:
    """The pauses of a call within its patience, if every response has this status."""
    now = 1000.0
    pauses: list[float] = []
    with pytest.MonkeyPatch.context() as patched, Client("http://127.0.0.1") as client:
        patched.setattr("shoal.client.flows.monotonic", lambda: now)
        steps = Client.job.flow(client, 1)
        with contextlib.suppress(ClientError):
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    pauses.append(step.seconds)
                    now += step.seconds
                    step = next(steps)
                else:
                    step = steps.send(_response(status, {"detail": "away"}, **headers))
    return pauses


def _response(status: int, body: object, **headers: str) -> httpx.Response:
    header_names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("GET", "http://127.0.0.1/")
    return httpx.Response(status, json=body, headers=header_names, request=request)


def test_timeout_is_retried_only_while_following_a_job() -> None:
    """A retry would slow an overloaded service further, but a long poll is expected to be silent."""
    silence = httpx.ReadTimeout("silence")
    with Client("http://127.0.0.1") as client:
        steps = Client.search.flow(client, "lava")
        next(steps)
        with pytest.raises(UnreachableError, match="took too long") as caught:
            steps.throw(silence)
        assert caught.value.was_sent
        following = Client.wait_for_job.flow(client, 7)
        next(following)
        assert isinstance(following.throw(silence), Pause)


def test_uploads_and_long_polls_have_longer_timeouts(tmp_path: Path) -> None:
    timeouts: dict[str, float] = {}

    def respond(request: httpx.Request) -> httpx.Response:
        request.read()
        timeouts[request.url.path] = request.extensions["timeout"]["read"]
        if "/jobs/" in request.url.path:
            return httpx.Response(200, json={**JOB, "status": "succeeded"}, headers={"ETag": '"1"'})
        return httpx.Response(202, json={"job": {**JOB, "status": "enqueued"}})

    (tmp_path / "note.txt").write_text("a note")
    with Client("http://127.0.0.1", timeout=5, transport=httpx.MockTransport(respond)) as client:
        client.upload([tmp_path / "note.txt"])
        client.submit_document("a note")
        client.wait_for_job(7)
    assert timeouts["/api/v1/documents"] == 5
    assert timeouts["/api/v1/documents/bulk"] > 60, "the response comes after all documents are stored"
    assert timeouts["/api/v1/jobs/7"] > 5


def test_retry_after_may_be_a_date(server: ScriptedService) -> None:
    retry_at = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    server.will_respond((503, {"Retry-After": email.utils.format_datetime(retry_at, usegmt=True)}, b"<html>"))
    with Client(server.url) as client, pytest.raises(UnavailableError) as caught:
        client.jobs()
    assert 3500 < caught.value.retry_after <= 3600


def test_an_unknown_commit_is_repeated_only_if_that_stores_nothing_twice(server: ScriptedService) -> None:
    status, headers, body = problem(503, "it may be stored or not")
    unknown: Response = (status, headers, {**body, "code": "commit_unknown"})
    server.will_respond(unknown, ACCEPTED)
    with Client(server.url) as client:
        client.submit_document("a note")
        assert len(server.requests) == 2
        server.requests.clear()
        server.will_respond(unknown, ACCEPTED)
        with pytest.raises(UnavailableError) as caught:
            client.create_collection("a")
    assert caught.value.code == "commit_unknown"
    assert len(server.requests) == 1


def test_retries_of_an_upload_send_the_same_key_and_bytes(server: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"a note " * 100_000)
    reported: list[int] = []
    server.will_respond(LOST, AWAY, ACCEPTED)
    with Client(server.url) as client:
        assert client.upload([tmp_path / "note.txt"], tags=["a"], sent=reported.append).id == 7
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    bodies = {request.body for request in server.requests}
    assert (len(server.requests), len(keys), len(bodies)) == (3, 1, 1)
    assert sum(reported) == 700_000, "bytes of failed tries are taken back"
    server.requests.clear()
    with Client(server.url) as client:
        client.upload([tmp_path / "note.txt"])
        client.upload([tmp_path / "note.txt"], idempotency_key="mine")
    assert server.requests[0].headers["Idempotency-Key"] not in keys
    assert server.requests[1].headers["Idempotency-Key"] == "mine"


def test_retries_of_an_addition_send_the_same_key(server: ScriptedService) -> None:
    with Client(server.url) as client:
        for add in (client.rescore, lambda: client.submit_document("a note")):
            server.requests.clear()
            server.will_respond(LOST, ACCEPTED)
            add()
            first, second = (request.headers["Idempotency-Key"] for request in server.requests)
            assert first == second


@pytest.mark.parametrize("n_lines", [3, 40_000])
def test_retry_sends_documents_of_a_generator_again(server: ScriptedService, n_lines: int) -> None:
    """40,000 documents are more than the client keeps in memory."""

    def lines() -> Iterator[dict[str, object]]:
        for number in range(n_lines):
            yield {"title": f"Note {number}", "content": "tide and sea " * 20}

    server.will_respond(AWAY, ACCEPTED)
    with Client(server.url) as client:
        client.upload_documents(lines())
    first, second = (request.body for request in server.requests)
    assert first == second
    assert second.count(b"\n") == n_lines


def test_upload_from_an_event_loop_is_retried(server: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"a note " * 100_000)
    server.will_respond(AWAY, LOST, ACCEPTED)

    async def send() -> None:
        async with AsyncClient(server.url) as client:
            await client.upload([tmp_path / "note.txt"])

    asyncio.run(send())
    assert len({request.body for request in server.requests}) == 1
    assert len(server.requests) == 3


def test_non_idempotent_request_is_not_retried_after_a_lost_response(
    server: ScriptedService,
) -> None:
    server.will_respond(LOST)
    with Client(server.url) as client:
        with pytest.raises(UnreachableError) as caught:
            client.retry_job(7)
        assert caught.value.was_sent
        with pytest.raises(UnreachableError):
            client.delete_documents(tag="old")
        assert len(server.requests) == 2
        server.will_respond(AWAY, ACCEPTED)
        assert client.retry_job(7).id == 7, "a 503 means that nothing was done"


def test_retried_deletion_returns_false_after_a_lost_response(server: ScriptedService) -> None:
    server.will_respond(LOST, problem(404, "there is no document 3"))
    with Client(server.url) as client:
        assert client.delete_document(3) is False
    assert [request.method for request in server.requests] == ["DELETE"] * 2


def test_unreachable_service_fails_at_once_without_waits_for_start(server: ScriptedService) -> None:
    with Client("http://127.0.0.1:9", waits_for_start=False, patience=3600) as client:
        with pytest.raises(UnreachableError, match="`shoal up` starts one") as caught:
            client.jobs()
        assert not caught.value.was_sent
    server.will_respond(JOBS, LOST, JOBS)
    with Client(server.url, waits_for_start=False) as client:
        client.jobs()
        client.jobs()
    assert len(server.requests) == 3, "a service that was reached before is retried"


def test_retries_of_an_unreachable_service_end_after_patience() -> None:
    with Client("http://127.0.0.1:9", patience=0.3) as client, pytest.raises(UnreachableError):
        client.jobs()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, KeyRefusedError),
        (403, KeyRefusedError),
        (404, NotFoundError),
        (409, ConflictError),
        (413, TooLargeError),
        (422, InvalidError),
        (429, BusyError),
        (503, UnavailableError),
    ],
)
def test_each_refusal_status_has_an_error_class(
    server: ScriptedService, status: int, kind: type[ClientError]
) -> None:
    server.will_respond(problem(status, "no"))
    with Client(server.url, patience=0) as client, pytest.raises(kind) as caught:
        client.status()
    assert type(caught.value) is kind
    assert kind in vars(errors).values()


def test_missing_document_raises_the_error_of_the_library(server: ScriptedService) -> None:
    server.will_respond(problem(404, "there is no document 9"))
    with Client(server.url) as client, pytest.raises(LibraryNotFoundError, match="no document 9") as caught:
        client.document(9)
    assert caught.value.code is None, "an older service sends no code"


def test_error_has_the_message_of_the_service(server: ScriptedService) -> None:
    body = {
        "title": "Unprocessable",
        "detail": "a field is wrong",
        "trace_id": "t1",
        "code": "invalid_query",
        "errors": {"top_k": ["at most 100"]},
    }
    server.will_respond((422, {}, body))
    with Client(server.url) as client, pytest.raises(ClientError) as caught:
        client.search("bees", top_k=1000)
    assert str(caught.value) == "a field is wrong; top_k: at most 100"
    assert caught.value.errors == {"top_k": ("at most 100",)}
    assert caught.value.trace_id == "t1"
    assert caught.value.code == "invalid_query"


@pytest.mark.parametrize(
    "response",
    [
        (404, {}, b"<html>not here</html>"),
        (200, {}, b"<html>hello</html>"),
        (200, {}, [1]),
        (200, {}, {"jobs": 3, "total": 0}),
        (200, {}, {"jobs": [{"id": "seven"}], "total": 1}),
        (302, {"Location": "/login"}, b""),
    ],
)
def test_response_of_another_service_raises_not_shoal_error(
    server: ScriptedService, response: Response
) -> None:
    server.will_respond(response)
    with Client(server.url) as client, pytest.raises(NotShoalError):
        client.jobs()


@pytest.mark.parametrize("address", ["http://", "http://host:port", "ftp://127.0.0.1", ""])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ClientError, match="is not the address of a service"):
        Client(address)
    with pytest.raises(ClientError, match="is not the address of a service"):
        AsyncClient(address)


def test_unknown_fields_of_a_newer_service_are_ignored(server: ScriptedService) -> None:
    job_json = {**JOB, "status": "paused", "colour": "blue", "progress": {**JOB["progress"], "mood": 3}}
    server.will_respond((200, {}, job_json))
    with Client(server.url) as client:
        job = client.job(7)
    assert (job.status, job.progress.total, job.ended) == ("paused", 2, False)
