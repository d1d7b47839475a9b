"""Too many requests, and a queue that is full."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, UNREAD, VOLCANO, Worker, assert_problem

from shoal.engine import Engine
from shoal.jobs.queue import queries
from shoal.settings import Settings
from shoal_api import create_app, limits
from shoal_api.limits import MAX_CALLERS, RateLimit
from shoal_api.problems import ProblemError

DOCUMENTS = f"{API}/documents"
KEYS = "read:reader-0123456789abcdef,writer-0123456789abcdef"

Make = Callable[..., FlaskClient]


@pytest.fixture
def make(settings: Settings, engine: Engine) -> Make:
    """A client of a service with other settings."""
    return lambda **others: create_app(replace(settings, **others), engine=engine).test_client()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def refused(limit: RateLimit, caller: str) -> int | None:
    """Seconds after which the caller may come again; None if it may now."""
    try:
        limit.take(caller)
    except ProblemError as problem:
        return int(problem.headers["Retry-After"])
    return None


def test_a_minutes_worth_may_come_at_once_and_then_at_the_pace_of_the_limit() -> None:
    clock = Clock()
    limit = RateLimit(6, clock)
    assert [refused(limit, "1.2.3.4") for _ in range(8)] == [None] * 6 + [10, 10]
    assert refused(limit, "1.2.3.5") is None, "another caller has a limit of its own"
    clock.now += 9
    assert refused(limit, "1.2.3.4") == 1
    clock.now += 1
    assert refused(limit, "1.2.3.4") is None
    assert refused(limit, "1.2.3.4") == 10
    clock.now += 3600
    assert [refused(limit, "1.2.3.4") for _ in range(7)] == [None] * 6 + [10]


def test_whoever_has_one_ipv6_address_has_them_all() -> None:
    limit = RateLimit(1, Clock())
    assert refused(limit, "2001:db8:1:2::1") is None
    assert refused(limit, "2001:db8:1:2:ffff::9%eth0")
    assert refused(limit, "2001:db8:1:3::1") is None
    assert refused(limit, "::ffff:10.0.0.1") is None
    assert refused(limit, "10.0.0.1") is not None


def test_callers_without_number_take_no_memory_without_end() -> None:
    limit = RateLimit(1, Clock())
    for number in range(MAX_CALLERS + 500):
        limit.take(f"caller {number}")
    assert len(limit._buckets) == MAX_CALLERS


def test_no_limit_is_no_limit() -> None:
    limit = RateLimit(0, Clock())
    assert {refused(limit, "1.2.3.4") for _ in range(1000)} == {None}


def test_too_many_requests_are_refused_and_told_when_to_come_again(make: Make) -> None:
    client = make(rate_limit=2)
    answers = [client.get(f"{API}/jobs") for _ in range(20)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    problem = assert_problem(next(answer for answer in answers if answer.status_code == 429), 429)
    assert "2 a minute" in problem["detail"]
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)
    # Health checks go on, and so does everybody else.
    assert client.get("/health").status_code == 200
    elsewhere = client.get(f"{API}/jobs", environ_base={"REMOTE_ADDR": "10.9.8.7"})
    assert elsewhere.status_code == 200


def test_keys_have_limits_of_their_own_and_guesses_that_of_their_address(make: Make) -> None:
    client = make(rate_limit=2, api_keys=KEYS)

    def statuses(key: str) -> list[int]:
        headers = {"Authorization": f"Bearer {key}"}
        return [client.get(f"{API}/jobs", headers=headers).status_code for _ in range(12)]

    guesses = statuses("guess-0123456789abcdef")
    assert guesses[:2] == [401, 401]
    assert 429 in guesses
    for key in ("reader-0123456789abcdef", "writer-0123456789abcdef"):
        with_key = statuses(key)
        assert with_key[:2] == [200, 200]
        assert 429 in with_key


@pytest.mark.parametrize(("proxies", "statuses"), [(0, {200, 429}), (1, {200})])
def test_a_forwarded_address_counts_where_a_proxy_is_believed(
    make: Make, proxies: int, statuses: set[int]
) -> None:
    client = make(rate_limit=2, proxies=proxies)
    seen = {
        client.get(f"{API}/jobs", headers={"X-Forwarded-For": f"6.6.6.6, 10.0.0.{n}"}).status_code
        for n in range(12)
    }
    assert seen == statuses
    # Neither name nor scheme are ever taken from such a header.
    forged = {"Host": "evil.example", "X-Forwarded-Host": "localhost", "X-Forwarded-For": "10.1.1.1"}
    assert_problem(client.get(f"{API}/jobs", headers=forged), 403)


def add(client: FlaskClient, text: str, **headers: str) -> Any:
    return client.post(DOCUMENTS, json={"content": text}, headers=headers)


def bulk(client: FlaskClient, *texts: str) -> Any:
    lines = b"".join(json.dumps({"content": text}).encode() + b"\n" for text in texts)
    return client.post(f"{DOCUMENTS}/bulk", data=lines, content_type="application/x-ndjson")


@pytest.mark.parametrize("limit", [{"max_queue_items": 2}, {"max_queue_bytes": len(VOLCANO) + 1}])
def test_a_full_queue_takes_no_documents_until_workers_made_room(
    make: Make, worker: Worker, limit: dict[str, int]
) -> None:
    client = make(**limit)
    assert bulk(client, VOLCANO, FLOWER).status_code == 202
    for answer in (add(client, LAW), bulk(client, LAW)):
        problem = assert_problem(answer, 429)
        assert int(answer.headers["Retry-After"]) > 0
        assert "2 documents wait" in problem["detail"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1
    # Everything else goes on.
    assert client.post(f"{API}/search", json={"query": "lava"}).status_code == 200
    assert client.delete(f"{DOCUMENTS}?tag=none").status_code == 404
    worker.work()
    assert add(client, LAW).status_code == 202


def test_what_was_accepted_is_told_again_however_full_the_queue_is(make: Make) -> None:
    client = make(max_queue_items=1)
    first = add(client, VOLCANO, **{"Idempotency-Key": "once"})
    assert first.status_code == 202
    again = add(client, VOLCANO, **{"Idempotency-Key": "once"})
    assert again.status_code == 202
    assert again.get_json()["job"]["id"] == first.get_json()["job"]["id"]
    assert_problem(add(client, FLOWER, **{"Idempotency-Key": "another"}), 429)


def test_a_full_queue_is_told_before_the_body_is_read(make: Make) -> None:
    client = make(max_queue_items=1)
    add(client, VOLCANO)

    answer = client.post(
        f"{DOCUMENTS}/bulk", content_type="application/x-ndjson", environ_overrides=UNREAD.copy()
    )
    assert_problem(answer, 429)


def test_only_documents_count_that_wait_for_their_first_time(make: Make, worker: Worker) -> None:
    client = make(max_queue_items=2)
    client.post(DOCUMENTS, json={"content": VOLCANO, "tags": ["old"]})
    client.post(DOCUMENTS, json={"content": FLOWER, "tags": ["old"]})
    worker.work()
    assert client.delete(f"{DOCUMENTS}?tag=old").status_code == 202
    assert add(client, LAW).status_code == 202


def test_many_open_jobs_are_not_counted_for_every_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANY_JOBS", 1)
    monkeypatch.setattr(limits, "COUNT_AGE_SECONDS", 1e9)
    counts = []
    count = queries.waiting
    monkeypatch.setattr(queries, "waiting", lambda database: counts.append(1) or count(database))
    client = make(max_queue_items=100)
    for number in range(10):
        assert add(client, f"{VOLCANO} {number}").status_code == 202
    assert len(counts) == 3, "of none, of one, of two; then the last count serves"


def test_every_way_to_hand_documents_in_is_limited(make: Make) -> None:
    """Whoever adds another has to say so in FILLS_QUEUE."""
    app = make().application
    rules = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in ("POST", "PUT")
        if method in (rule.methods or ()) and rule.rule.startswith(DOCUMENTS) and "tags" not in rule.rule
    }
    assert rules <= limits.FILLS_QUEUE
