"""What the client does while a service is away, busy or in doubt, and what it makes of refusals."""

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
from scripted_service import BROKEN, JOB, Answer, ScriptedService, problem

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
from shoal.client.exchange import Pause, Request
from shoal.errors import NotFoundError as LibraryNotFoundError

AWAY = problem(503, "the database is away")
LOST: Answer = (BROKEN, {}, b"")
ACCEPTED: Answer = (202, {}, {"job": {**JOB, "status": "enqueued"}})
JOBS: Answer = (200, {}, {"jobs": [], "total": 0})


def state(status: str, etag: str, **fields: Any) -> Answer:
    return (200, {"ETag": f'"{etag}"'}, {**JOB, "status": status, **fields})


def test_a_job_is_followed_past_unchanged_answers_and_a_restart_of_the_service(
    server: ScriptedService,
) -> None:
    server.will_answer(
        state("enqueued", "1"), (304, {}, b""), LOST, AWAY, state("processing", "2"), state("partial", "3")
    )
    seen: list[str] = []
    with Client(server.url) as client:
        job = client.wait_for_job(7, seen=lambda job: seen.append(job.status))
    assert job.status == "partial"
    assert job.progress.failed == 1
    assert seen == ["enqueued", "processing", "partial"]
    assert [asked.headers.get("If-None-Match") for asked in server.asked][:3] == [None, '"1"', '"1"']


def test_a_job_is_followed_in_an_event_loop_too(server: ScriptedService) -> None:
    server.will_answer(state("enqueued", "1"), LOST, AWAY, state("processing", "2"), state("succeeded", "3"))

    async def follow() -> list[str]:
        async with AsyncClient(server.url) as client:
            return [job.status async for job in client.watch_job(7)]

    assert asyncio.run(follow()) == ["enqueued", "processing", "succeeded"]


def test_a_service_without_threads_to_spare_is_not_asked_without_end() -> None:
    """It answers at once that nothing has changed."""
    with Client("http://127.0.0.1") as client:
        steps = Client.watch_job.stream(client, 7)
        asked, pauses = 0, 0.0
        step, began = next(steps), time.monotonic()
        while asked < 4:
            if isinstance(step, Request):
                asked += 1
                step = steps.send(
                    _answer(200 if asked == 1 else 304, {**JOB, "status": "enqueued"}, ETag='"1"')
                )
            else:
                pauses += step.seconds if isinstance(step, Pause) else 0
                step = next(steps)
        assert pauses + time.monotonic() - began > 3 * 0.09


def test_a_job_that_takes_too_long_is_let_go(server: ScriptedService) -> None:
    server.will_answer(state("processing", "1"), (304, {}, b""))
    with Client(server.url) as client, pytest.raises(JobTimeoutError, match="has not ended within") as caught:
        client.wait_for_job(7, timeout=0.3)
    assert caught.value.job.status == "processing"


def test_a_job_that_had_to_succeed_tells_what_failed(server: ScriptedService) -> None:
    item = {
        "seq": 1, "title": "line 2", "source_path": None, "bytes": 4, "status": "failed", "stage": None,
        "document_id": None, "attempts": 0, "error": "is not JSON",
    }  # fmt: skip
    server.will_answer(state("partial", "1"), (200, {}, {"items": [item], "total": 1}))
    with Client(server.url) as client, pytest.raises(JobFailedError) as caught:
        client.wait_for_job(7, check=True)
    assert str(caught.value) == "job 7 ended as partial: line 2: is not JSON"
    assert [item.seq for item in caught.value.items] == [1]


@pytest.mark.parametrize("failure", [AWAY, LOST, problem(429, "too many requests"), problem(502, "no"), problem(504, "no")])  # fmt: skip
def test_what_passes_is_asked_again(server: ScriptedService, failure: Answer) -> None:
    server.will_answer(failure, failure, JOBS)
    told: list[tuple[bool, float]] = []
    with Client(server.url, retrying=lambda reason, pause: told.append((reason.is_away, pause))) as client:
        assert client.jobs().total == 0
    assert len(server.asked) == 3
    assert [is_away for is_away, _ in told] == [True, True]
    assert all(pause > 0 for _, pause in told)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422, 500, 507])
def test_what_does_not_pass_is_not_asked_again(server: ScriptedService, status: int) -> None:
    server.will_answer(problem(status, "no"))
    with Client(server.url) as client, pytest.raises(ClientError) as caught:
        client.jobs()
    assert caught.value.status == status
    assert not caught.value.is_away
    assert len(server.asked) == 1


def test_patience_with_a_service_that_stays_away_ends(server: ScriptedService) -> None:
    server.will_answer(AWAY)
    with (
        Client(server.url, patience=0.5) as client,
        pytest.raises(UnavailableError, match="the database is away"),
    ):
        client.wait_for_job(1)
    assert len(server.asked) > 1
    server.asked.clear()
    with Client(server.url, patience=0) as client, pytest.raises(UnavailableError):
        client.search("bees")
    assert len(server.asked) == 1


def test_the_service_says_when_to_come_again(server: ScriptedService) -> None:
    assert _pauses_after(429, Retry_After="7") == [7, 7, 7, 7], (
        "and no more of them than patience, of 30 seconds"
    )
    server.will_answer(problem(429, "the queue is full", Retry_After="3600"))
    with Client(server.url) as client, pytest.raises(BusyError) as caught:
        client.jobs()
    assert caught.value.retry_after == 3600
    assert len(server.asked) == 1, "nobody is kept waiting for an hour"


def test_pauses_grow_to_a_bound_and_are_never_the_same() -> None:
    one, other = _pauses_after(503), _pauses_after(503)
    assert one != other
    for number, pause in enumerate(one):
        full = min(5.0, 0.2 * 2**number)
        assert full / 2 <= pause <= full
    assert 20 < sum(one) <= 30, "what patience allows is made use of"


def _pauses_after(status: int, **headers: str) -> list[float]:
    """The pauses of a call that is answered so for ever, as far as it would make them within its patience."""
    now = 1000.0
    pauses: list[float] = []
    with pytest.MonkeyPatch.context() as patched, Client("http://127.0.0.1") as client:
        patched.setattr("shoal.client.exchange.monotonic", lambda: now)
        steps = Client.jobs.flow(client)
        with contextlib.suppress(ClientError):
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    pauses.append(step.seconds)
                    now += step.seconds
                    step = next(steps)
                else:
                    step = steps.send(_answer(status, {"detail": "away"}, **headers))
    return pauses


def _answer(status: int, body: object, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("GET", "http://127.0.0.1/")
    return httpx.Response(status, json=body, headers=named, request=request)


def test_silence_is_the_end_of_a_call_unless_a_job_is_followed() -> None:
    """Whoever is too slow for one request would be slower with two; a long poll is silent by nature."""
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


def test_what_takes_long_by_nature_is_waited_for_longer(tmp_path: Path) -> None:
    waits: dict[str, float] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        request.read()
        waits[request.url.path] = request.extensions["timeout"]["read"]
        if "/jobs/" in request.url.path:
            return httpx.Response(200, json={**JOB, "status": "succeeded"}, headers={"ETag": '"1"'})
        return httpx.Response(202, json={"job": {**JOB, "status": "enqueued"}})

    (tmp_path / "note.txt").write_text("a note")
    with Client("http://127.0.0.1", timeout=5, transport=httpx.MockTransport(answer)) as client:
        client.upload([tmp_path / "note.txt"])
        client.submit_document("a note")
        client.wait_for_job(7)
    assert waits["/api/v1/documents"] == 5
    assert waits["/api/v1/documents/bulk"] > 60, "it is answered once all of it is stored"
    assert waits["/api/v1/jobs/7"] > 5


def test_a_proxy_may_give_the_moment_as_a_date(server: ScriptedService) -> None:
    then = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    server.will_answer((503, {"Retry-After": email.utils.format_datetime(then, usegmt=True)}, b"<html>"))
    with Client(server.url) as client, pytest.raises(UnavailableError) as caught:
        client.jobs()
    assert 3500 < caught.value.retry_after <= 3600


def test_the_tries_of_an_upload_carry_one_key_and_the_same_bytes(
    server: ScriptedService, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_bytes(b"a note " * 100_000)
    told: list[int] = []
    server.will_answer(LOST, AWAY, ACCEPTED)
    with Client(server.url) as client:
        assert client.upload([tmp_path / "note.txt"], tags=["a"], sent=told.append).id == 7
    keys = {asked.headers["Idempotency-Key"] for asked in server.asked}
    bodies = {asked.body for asked in server.asked}
    assert (len(server.asked), len(keys), len(bodies)) == (3, 1, 1)
    assert sum(told) == 700_000, "what was sent in vain is taken back"
    server.asked.clear()
    with Client(server.url) as client:
        client.upload([tmp_path / "note.txt"])
        client.upload([tmp_path / "note.txt"], idempotency_key="mine")
    assert server.asked[0].headers["Idempotency-Key"] not in keys
    assert server.asked[1].headers["Idempotency-Key"] == "mine"


def test_whatever_adds_something_carries_one_key_in_all_its_tries(server: ScriptedService) -> None:
    with Client(server.url) as client:
        for add in (client.rescore, lambda: client.submit_document("a note")):
            server.asked.clear()
            server.will_answer(LOST, ACCEPTED)
            add()
            first, second = (asked.headers["Idempotency-Key"] for asked in server.asked)
            assert first == second


@pytest.mark.parametrize("n_lines", [3, 40_000])
def test_documents_of_a_generator_are_sent_again_as_they_were(server: ScriptedService, n_lines: int) -> None:
    """40,000 of them are more than is kept in memory."""

    def lines() -> Iterator[dict[str, object]]:
        for number in range(n_lines):
            yield {"title": f"Note {number}", "content": "tide and sea " * 20}

    server.will_answer(AWAY, ACCEPTED)
    with Client(server.url) as client:
        client.upload_documents(lines())
    first, second = (asked.body for asked in server.asked)
    assert first == second
    assert second.count(b"\n") == n_lines


def test_an_upload_from_an_event_loop_is_sent_again_too(server: ScriptedService, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"a note " * 100_000)
    server.will_answer(AWAY, LOST, ACCEPTED)

    async def send() -> None:
        async with AsyncClient(server.url) as client:
            await client.upload([tmp_path / "note.txt"])

    asyncio.run(send())
    assert len({asked.body for asked in server.asked}) == 1
    assert len(server.asked) == 3


def test_what_must_not_be_done_twice_is_not_asked_again_when_its_answer_is_lost(
    server: ScriptedService,
) -> None:
    server.will_answer(LOST)
    with Client(server.url) as client:
        with pytest.raises(UnreachableError) as caught:
            client.retry_job(7)
        assert caught.value.was_sent
        with pytest.raises(UnreachableError):
            client.delete_documents(tag="old")
        assert len(server.asked) == 2
        server.will_answer(AWAY, ACCEPTED)
        assert client.retry_job(7).id == 7, "nothing was done where the service said so"


def test_a_deletion_whose_answer_was_lost_is_done_after_all(server: ScriptedService) -> None:
    server.will_answer(LOST, problem(404, "there is no document 3"))
    with Client(server.url) as client:
        assert client.delete_document(3) is False
    assert [asked.method for asked in server.asked] == ["DELETE"] * 2


def test_whoever_does_not_wait_for_a_start_is_told_at_once(server: ScriptedService) -> None:
    with Client("http://127.0.0.1:9", waits_for_start=False, patience=3600) as client:
        with pytest.raises(UnreachableError, match="`shoal up` starts one") as caught:
            client.jobs()
        assert not caught.value.was_sent
    server.will_answer(JOBS, LOST, JOBS)
    with Client(server.url, waits_for_start=False) as client:
        client.jobs()
        client.jobs()
    assert len(server.asked) == 3, "one that was there is waited for"


def test_patience_with_a_service_that_never_comes_ends() -> None:
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
def test_every_refusal_has_a_class(server: ScriptedService, status: int, kind: type[ClientError]) -> None:
    server.will_answer(problem(status, "no"))
    with Client(server.url, patience=0) as client, pytest.raises(kind) as caught:
        client.status()
    assert type(caught.value) is kind
    assert kind in vars(errors).values()


def test_a_missing_document_is_the_error_that_the_library_raises(server: ScriptedService) -> None:
    server.will_answer(problem(404, "there is no document 9"))
    with Client(server.url) as client, pytest.raises(LibraryNotFoundError, match="no document 9"):
        client.document(9)


def test_a_refusal_is_told_in_the_words_of_the_server(server: ScriptedService) -> None:
    body = {"title": "Unprocessable", "detail": "a field is wrong", "trace_id": "t1", "errors": {"top_k": ["at most 100"]}}  # fmt: skip
    server.will_answer((422, {}, body))
    with Client(server.url) as client, pytest.raises(ClientError) as caught:
        client.search("bees", top_k=1000)
    assert str(caught.value) == "a field is wrong; top_k: at most 100"
    assert caught.value.errors == {"top_k": ("at most 100",)}
    assert caught.value.trace_id == "t1"


@pytest.mark.parametrize(
    "answer",
    [
        (404, {}, b"<html>not here</html>"),
        (200, {}, b"<html>hello</html>"),
        (200, {}, [1]),
        (200, {}, {"jobs": 3, "total": 0}),
        (200, {}, {"jobs": [{"id": "seven"}], "total": 1}),
        (302, {"Location": "/login"}, b""),
    ],
)
def test_something_that_is_no_shoal_service_is_recognised(server: ScriptedService, answer: Answer) -> None:
    server.will_answer(answer)
    with Client(server.url) as client, pytest.raises(NotShoalError):
        client.jobs()


@pytest.mark.parametrize("address", ["http://", "http://host:port", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ClientError, match="is not the address of a service"):
        Client(address)
    with pytest.raises(ClientError, match="is not the address of a service"):
        AsyncClient(address)


def test_what_a_newer_service_says_besides_is_passed_over(server: ScriptedService) -> None:
    newer = {**JOB, "status": "paused", "colour": "blue", "progress": {**JOB["progress"], "mood": 3}}
    server.will_answer((200, {}, newer))
    with Client(server.url) as client:
        job = client.job(7)
    assert (job.status, job.progress.total, job.ended) == ("paused", 2, False)
