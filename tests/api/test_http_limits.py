"""Rate limits and the limit of the queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, UNREAD, VOLCANO, Worker, assert_problem

from shoal.access.rate_limit import MAX_CALLERS, RateLimit
from shoal.engine import Engine
from shoal.jobs.queue import queries
from shoal.settings import Settings
from shoal_api import create_app, limits

DOCUMENTS = f"{API}/documents"
KEYS = "read:reader-0123456789abcdef,writer-0123456789abcdef"

MakeClient = Callable[..., FlaskClient]


@pytest.fixture
def make_client(settings: Settings, engine: Engine) -> MakeClient:
    """Return a function that creates a client of a service with changed settings."""
    return lambda **changed: create_app(replace(settings, **changed), engine=engine).test_client()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def retry_seconds(limit: RateLimit, caller: str) -> int | None:
    """Make a request as the caller; return the Retry-After seconds, or None if it is allowed."""
    excess = limit.take(caller)
    return None if excess is None else excess.seconds


def test_burst_of_one_minute_is_allowed_and_then_the_rate_applies() -> None:
    clock = Clock()
    limit = RateLimit(6, clock)
    assert [retry_seconds(limit, "1.2.3.4") for _ in range(8)] == [None] * 6 + [10, 10]
    assert retry_seconds(limit, "1.2.3.5") is None, "each caller has its own limit"
    clock.now += 9
    assert retry_seconds(limit, "1.2.3.4") == 1
    clock.now += 1
    assert retry_seconds(limit, "1.2.3.4") is None
    assert retry_seconds(limit, "1.2.3.4") == 10
    clock.now += 3600
    assert [retry_seconds(limit, "1.2.3.4") for _ in range(7)] == [None] * 6 + [10]


def test_ipv6_addresses_of_one_network_share_a_limit() -> None:
    limit = RateLimit(1, Clock())
    assert retry_seconds(limit, "2001:db8:1:2::1") is None
    assert retry_seconds(limit, "2001:db8:1:2:ffff::9%eth0")
    assert retry_seconds(limit, "2001:db8:1:3::1") is None
    assert retry_seconds(limit, "::ffff:10.0.0.1") is None
    assert retry_seconds(limit, "10.0.0.1") is not None


def test_number_of_remembered_callers_is_bounded() -> None:
    limit = RateLimit(1, Clock())
    for number in range(MAX_CALLERS + 500):
        limit.take(f"caller {number}")
    assert len(limit._buckets._buckets) == MAX_CALLERS


def test_rate_limit_of_zero_allows_everything() -> None:
    limit = RateLimit(0, Clock())
    assert {retry_seconds(limit, "1.2.3.4") for _ in range(1000)} == {None}


def test_too_many_requests_return_429_with_retry_after(make_client: MakeClient) -> None:
    client = make_client(rate_limit=2)
    responses = [client.get(f"{API}/jobs") for _ in range(20)]
    assert [response.status_code for response in responses[:2]] == [200, 200]
    problem = assert_problem(next(response for response in responses if response.status_code == 429), 429)
    assert "2 a minute" in problem["detail"]
    assert all(
        int(response.headers["Retry-After"]) >= 1 for response in responses if response.status_code == 429
    )
    # Health checks and other callers are not limited.
    assert client.get("/health").status_code == 200
    elsewhere = client.get(f"{API}/jobs", environ_base={"REMOTE_ADDR": "10.9.8.7"})
    assert elsewhere.status_code == 200


def test_each_key_has_its_own_limit_and_wrong_keys_share_that_of_their_address(
    make_client: MakeClient,
) -> None:
    client = make_client(rate_limit=2, api_keys=KEYS)

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
def test_forwarded_address_counts_only_behind_a_proxy(
    make_client: MakeClient, proxies: int, statuses: set[int]
) -> None:
    client = make_client(rate_limit=2, proxies=proxies)
    returned = {
        client.get(f"{API}/jobs", headers={"X-Forwarded-For": f"6.6.6.6, 10.0.0.{n}"}).status_code
        for n in range(12)
    }
    assert returned == statuses
    # Neither host nor scheme are ever taken from such headers.
    forged = {"Host": "evil.example", "X-Forwarded-Host": "localhost", "X-Forwarded-For": "10.1.1.1"}
    assert_problem(client.get(f"{API}/jobs", headers=forged), 403)


def add(client: FlaskClient, text: str, **headers: str) -> Any:
    return client.post(DOCUMENTS, json={"content": text}, headers=headers)


def bulk(client: FlaskClient, *texts: str) -> Any:
    lines = b"".join(json.dumps({"content": text}).encode() + b"\n" for text in texts)
    return client.post(f"{DOCUMENTS}/bulk", data=lines, content_type="application/x-ndjson")


@pytest.mark.parametrize("limit", [{"max_queue_items": 2}, {"max_queue_bytes": len(VOLCANO) + 1}])
def test_full_queue_refuses_documents_until_workers_process_some(
    make_client: MakeClient, worker: Worker, limit: dict[str, int]
) -> None:
    client = make_client(**limit)
    assert bulk(client, VOLCANO, FLOWER).status_code == 202
    for response in (add(client, LAW), bulk(client, LAW)):
        problem = assert_problem(response, 429)
        assert int(response.headers["Retry-After"]) > 0
        assert "2 documents wait" in problem["detail"]
    assert client.get(f"{API}/jobs").get_json()["total"] == 1
    # Other requests still work.
    assert client.post(f"{API}/search", json={"query": "lava"}).status_code == 200
    assert client.delete(f"{DOCUMENTS}?tag=none").status_code == 404
    worker.work()
    assert add(client, LAW).status_code == 202


def test_repeated_idempotency_key_returns_its_job_although_the_queue_is_full(make_client: MakeClient) -> None:
    client = make_client(max_queue_items=1)
    first = add(client, VOLCANO, **{"Idempotency-Key": "once"})
    assert first.status_code == 202
    repeated = add(client, VOLCANO, **{"Idempotency-Key": "once"})
    assert repeated.status_code == 202
    assert repeated.get_json()["job"]["id"] == first.get_json()["job"]["id"]
    assert_problem(add(client, FLOWER, **{"Idempotency-Key": "another"}), 429)


def test_full_queue_is_reported_before_the_body_is_read(make_client: MakeClient) -> None:
    client = make_client(max_queue_items=1)
    add(client, VOLCANO)

    response = client.post(
        f"{DOCUMENTS}/bulk", content_type="application/x-ndjson", environ_overrides=UNREAD.copy()
    )
    assert_problem(response, 429)


def test_deletions_do_not_count_toward_the_queue_limit(make_client: MakeClient, worker: Worker) -> None:
    client = make_client(max_queue_items=2)
    client.post(DOCUMENTS, json={"content": VOLCANO, "tags": ["old"]})
    client.post(DOCUMENTS, json={"content": FLOWER, "tags": ["old"]})
    worker.work()
    assert client.delete(f"{DOCUMENTS}?tag=old").status_code == 202
    assert add(client, LAW).status_code == 202


def test_many_open_jobs_are_not_counted_for_every_request(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANY_JOBS", 1)
    monkeypatch.setattr(limits, "COUNT_AGE_SECONDS", 1e9)
    counts = []
    count = queries.waiting
    monkeypatch.setattr(queries, "waiting", lambda database: counts.append(1) or count(database))
    client = make_client(max_queue_items=100)
    for number in range(10):
        assert add(client, f"{VOLCANO} {number}").status_code == 202
    assert len(counts) == 3, "counts with no, one and two jobs; then the last count is reused"


def test_every_route_that_accepts_documents_is_limited(make_client: MakeClient) -> None:
    """New routes that accept documents must be added to FILLS_QUEUE."""
    app = make_client().application
    rules = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in ("POST", "PUT")
        if method in (rule.methods or ()) and rule.rule.startswith(DOCUMENTS) and "tags" not in rule.rule
    }
    assert rules <= limits.FILLS_QUEUE
