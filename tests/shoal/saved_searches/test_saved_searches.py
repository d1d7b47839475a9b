"""Saved searches see what is new once, and report what matches."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_scorer import FakeScorer
from faked_clock import fake_clock
from saved_search_parts import Receiver

from shoal import Engine
from shoal.errors import NotFoundError, QueryError
from shoal.models.saved_searches import DeliveryStatus
from shoal.saved_searches import delivering, matching, saved_searches
from shoal.saved_searches.delivering import Answer, Deliverer, WebhookSender, pause
from shoal.settings import Settings

LAVA = "Lava rose in the volcano. Ash fell on the rock."
LAW = "The judge read the law to the court."
SEARCH = {"query": "lava", "mode": "lexical", "min_relevance": 0.0}
SECRET = "a-secret-of-the-test"


def save(engine: Engine, receiver: Receiver, name: str = "Lava", **options: Any) -> int:
    search = options.pop("search", SEARCH)
    return engine.saved_searches.create(
        name, search, url=receiver.url, secret=SECRET, **options
    ).saved_search.id


def test_new_documents_that_match_are_reported_once(engine: Engine, receiver: Receiver) -> None:
    engine.ingest(content="Old lava was here before.")
    search_id = save(engine, receiver)
    assert engine.saved_searches.run() == 0
    engine.ingest(content=LAVA, title="Fire", source_path="fire.txt")
    engine.ingest(content=LAW)
    assert engine.saved_searches.get(search_id).is_pending is False
    assert engine.saved_searches.run() == 1
    assert engine.saved_searches.run() == 0
    (event,) = receiver.events()
    (passage,) = event["passages"]
    assert (event["event"], event["saved_search"]["id"], event["has_more"]) == ("match", search_id, False)
    assert event["saved_search"]["search"] == SEARCH
    assert (passage["text"], passage["document_title"], passage["source_path"]) == (LAVA, "Fire", "fire.txt")
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.attempts, delivery.response_status) == ("delivered", 1, 204)
    assert delivery.delivery_id == event["delivery_id"]


def test_only_new_passages_of_a_replaced_document_are_reported(engine: Engine, receiver: Receiver) -> None:
    save(engine, receiver)
    first = "# One\n\nThe lava of the north is old.\n\n# Two\n\nThe whale swims."
    second = "# One\n\nThe lava of the north is old.\n\n# Two\n\nThe lava of the south is new."
    for content in (first, second):
        engine.ingest_many(
            [{"content": content, "title": "T", "source_path": "t.md", "format": "markdown"}],
            on_conflict="replace",
        )
        engine.saved_searches.run()
    assert receiver.texts() == [["The lava of the north is old."], ["The lava of the south is new."]]


def test_documents_of_a_job_are_reported_together_and_bounded(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MAX_PASSAGES", 2)
    monkeypatch.setattr(matching, "MAX_TEXT_CHARS", 4)
    save(engine, receiver)
    engine.ingest_many([{"content": f"Lava number {i}.", "title": f"T{i}"} for i in range(4)])
    assert engine.saved_searches.run() == 1
    (event,) = receiver.events()
    assert [passage["text"] for passage in event["passages"]] == ["Lava", "Lava"]
    assert event["has_more"]
    assert event["passages"][0]["is_text_cut"]


def test_filters_scores_and_inactive_searches_hold(engine: Engine, receiver: Receiver) -> None:
    save(engine, receiver, "tagged", search={**SEARCH, "filter": 'tags = "sea"'})
    save(engine, receiver, "relevant", search={**SEARCH, "min_relevance": 1.0})
    save(engine, receiver, "inactive", is_active=False)
    engine.ingest(content=LAVA)
    engine.ingest(content="The lava meets the ocean.", tags=["sea"])
    assert engine.saved_searches.run() == 1
    assert [event["saved_search"]["name"] for event in receiver.events()] == ["tagged"]
    inactive = next(s for s in engine.saved_searches.list().saved_searches if s.name == "inactive")
    engine.saved_searches.change(inactive.id, is_active=True)
    assert engine.saved_searches.run() == 0
    engine.ingest(content="More lava today.")
    assert engine.saved_searches.run() == 1
    assert receiver.texts()[-1] == ["More lava today."]


def test_what_all_have_seen_is_forgotten(engine: Engine, receiver: Receiver) -> None:
    save(engine, receiver)
    engine.ingest(content=LAVA)
    engine.saved_searches.run()
    with engine.database.snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM saved_search_changes") == 0


def test_library_without_saved_searches_notes_nothing(engine: Engine) -> None:
    engine.ingest(content=LAVA)
    with engine.database.snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM saved_search_changes") == 0


def test_signature_covers_time_and_body(engine: Engine, receiver: Receiver) -> None:
    save(engine, receiver)
    engine.ingest(content=LAVA)
    engine.saved_searches.run()
    ((_, headers),) = receiver.server.requests
    moment, signature = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["shoal-signature"]).groups()  # type: ignore[union-attr]
    signed = f"{moment}.".encode() + receiver.server.bodies[0]
    assert hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest() == signature
    assert headers["shoal-event"] == "match"
    assert headers["content-type"] == "application/json"


def test_a_pause_that_is_no_number_does_not_undo_a_delivery(engine: Engine, receiver: Receiver) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    receiver.answer("200 OK", Retry_After="\xb2")
    assert engine.saved_searches.run() == 1
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.response_status) == ("delivered", 200)


def test_a_webhook_that_cannot_be_sent_has_an_outcome(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)

    def fail(*_given: object, **_named: object) -> Answer:
        raise ValueError

    monkeypatch.setattr(WebhookSender, "send", fail)
    assert engine.saved_searches.run() == 1
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.error) == ("failed", "the request failed: ValueError")


def test_failed_webhooks_are_tried_again_under_their_id_then_given_up(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    receiver.answer("503 Service Unavailable", Retry_After="100")
    assert engine.saved_searches.run() == 1
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.error) == ("waiting", "the receiver answered with status 503")
    assert delivery.next_try_at is not None
    assert engine.saved_searches.run() == 0
    now = time.time()
    fake_clock(monkeypatch, lambda: now + 99)
    assert engine.saved_searches.run() == 0
    for _ in range(engine.settings.webhook_attempts - 1):
        now += delivering.LONGEST_PAUSE_SECONDS + 200
        assert engine.saved_searches.run() == 1
    now += 10 * delivering.LONGEST_PAUSE_SECONDS
    assert engine.saved_searches.run() == 0
    (delivery,) = engine.saved_searches.deliveries(search_id, status="failed").deliveries
    assert delivery.attempts == engine.settings.webhook_attempts
    assert len({headers["shoal-delivery"] for _, headers in receiver.server.requests}) == 1
    receiver.answer("200 OK")
    again = engine.saved_searches.redeliver(search_id, delivery.delivery_id)
    assert (again.status, again.attempts) == ("waiting", 0)
    assert engine.saved_searches.run() == 1
    assert engine.saved_searches.delivery(search_id, delivery.delivery_id).status == DeliveryStatus.delivered


def test_the_age_of_a_webhook_is_by_the_clock_of_the_database(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `datetime.now`, the clock of this process, is four days behind.
    fake_clock(monkeypatch, lambda: datetime.now(UTC).timestamp() + 4 * delivering.DAY_SECONDS)
    search_id = save(engine, receiver)
    receiver.answer("503 Service Unavailable")
    engine.ingest(content=LAVA)
    assert engine.saved_searches.run() == 1
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.attempts) == ("waiting", 1)


def test_an_old_webhook_that_is_sent_again_has_all_its_tries(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    fake_clock(monkeypatch, lambda: now)
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    receiver.answer("410 Gone")
    engine.saved_searches.run()
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    now += 2 * delivering.LONGEST_WAIT.total_seconds()
    receiver.answer("503 Service Unavailable")
    engine.saved_searches.redeliver(search_id, delivery.delivery_id)
    assert engine.saved_searches.run() == 1
    again = engine.saved_searches.delivery(search_id, delivery.delivery_id)
    assert (again.status, again.attempts, again.body) == ("waiting", 1, receiver.server.bodies[0].decode())


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found"])
def test_redirects_are_not_followed(engine: Engine, receiver: Receiver, status: str) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    receiver.answer(status, Location=receiver.server.url("/elsewhere"))
    engine.saved_searches.run()
    assert [target for target, _ in receiver.server.requests] == ["/hook"]
    assert engine.saved_searches.get(search_id).n_waiting == 1


def test_receiver_that_is_gone_gets_no_more(engine: Engine, receiver: Receiver) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    receiver.answer("410 Gone")
    engine.saved_searches.run()
    assert engine.saved_searches.get(search_id).n_failed == 1


def test_private_addresses_are_refused_when_sending(watching: Settings, receiver: Receiver) -> None:
    sender = WebhookSender(watching, lambda host, port: ["127.0.0.1"])
    with pytest.raises(Exception, match="SHOAL_WEBHOOK_PRIVATE"):
        sender.send(
            f"http://example.org:{receiver.server.port}/",
            SECRET,
            b"{}",
            delivery_id="d",
            event="test",
            moment=1,
        )
    assert not receiver.server.requests


def test_a_delivery_to_a_refused_address_is_given_up_at_once(engine: Engine, receiver: Receiver) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    engine.saved_searches.run()
    elsewhere = Deliverer(engine.database, Settings(webhook_hosts="example.org"))
    engine.saved_searches.test(search_id)
    assert elsewhere.deliver_one()
    newest = engine.saved_searches.deliveries(search_id).deliveries[0]
    assert newest.status == "failed"
    assert "SHOAL_WEBHOOK_HOSTS" in str(newest.error)


def test_test_sends_the_best_matches_of_the_library(engine: Engine, receiver: Receiver) -> None:
    engine.ingest(content=LAVA)
    search_id = save(engine, receiver)
    delivery = engine.saved_searches.test(search_id)
    assert (delivery.event, delivery.n_passages, delivery.status) == ("test", 1, "waiting")
    engine.saved_searches.run()
    assert [event["event"] for event in receiver.events()] == ["test"]
    assert json.loads(str(delivery.body)) == receiver.events()[0]


def test_secrets_are_shown_at_creation_only(engine: Engine, receiver: Receiver) -> None:
    created = engine.saved_searches.create("Lava", SEARCH, url=receiver.url)
    assert len(created.secret) > 40
    shown = [engine.saved_searches.get(created.saved_search.id), engine.saved_searches.list()]
    engine.ingest(content=LAVA)
    engine.saved_searches.run()
    shown.append(engine.saved_searches.deliveries(created.saved_search.id))  # type: ignore[arg-type]
    assert created.secret not in repr(shown)
    assert created.secret.encode() not in receiver.server.bodies[0]


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("url", {"url": "http://10.0.0.1.example"}),
        ("url", {"url": "ftp://127.0.0.1/"}),
        ("url", {"url": "http://user:word@127.0.0.1/"}),
        ("url", {"url": None}),
        ("secret", {"secret": "short"}),
        ("secret", {"secret": "with spaces in between it"}),
        ("name", {"name": ""}),
        ("name", {"name": "x" * 201}),
        ("name", {"name": 7}),
        ("min_score", {"min_score": 2}),
        ("query", {"search": {}}),
        ("filter", {"search": {"query": "lava", "filter": "tags ="}}),
        ("offset", {"search": {"query": "lava", "offset": 3}}),
        ("nonsense", {"search": {"query": "lava", "nonsense": 3}}),
        ("mode", {"search": {**SEARCH, "mode": "dense"}}),
        (
            "filters.document_ids",
            {"search": {"query": "lava", "filters": {"document_ids": list(range(1, 10_002))}}},
        ),
    ],
)
def test_bad_input_is_refused_by_field(watching: Settings, field: str, arguments: dict[str, Any]) -> None:
    strict = Settings(**{**vars_of(watching), "webhook_hosts": "127.0.0.1:*"})
    with Engine(settings=strict, scorer=FakeScorer()) as engine:
        values = {"name": "N", "search": SEARCH, "url": "http://127.0.0.1:9/", **arguments}
        with pytest.raises(QueryError) as caught:
            engine.saved_searches.create(values.pop("name"), values.pop("search"), **values)
        assert caught.value.field == field
        assert engine.saved_searches.list().total == 0


def vars_of(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}


def test_names_are_unique_and_numbers_limited(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_id = save(engine, receiver)
    with pytest.raises(QueryError, match="has the name 'Lava'"):
        save(engine, receiver)
    monkeypatch.setattr(saved_searches, "MAX_SAVED_SEARCHES", 1)
    with pytest.raises(QueryError, match="the limit"):
        save(engine, receiver, "other")
    engine.saved_searches.delete(search_id)
    for call in (engine.saved_searches.get, engine.saved_searches.delete, engine.saved_searches.test):
        with pytest.raises(NotFoundError):
            call(search_id)


def test_webhooks_are_off_by_default(settings: Settings, watching: Settings) -> None:
    with (
        Engine(settings=settings, scorer=FakeScorer()) as engine,
        pytest.raises(QueryError, match="webhooks are off"),
    ):
        engine.saved_searches.create("N", SEARCH, url="https://example.org/")


def test_search_that_settings_no_longer_allow_says_so(
    engine: Engine, receiver: Receiver, watching: Settings
) -> None:
    with_preset = Settings(**{**vars_of(watching), "presets": "mine=1,0,0"})
    with Engine(settings=with_preset, scorer=FakeScorer()) as other:
        search_id = save(other, receiver, search={"query": "lava", "preset": "mine"})
    engine.ingest(content=LAVA)
    assert engine.saved_searches.run() == 0
    assert "'mine' is not one of" in str(engine.saved_searches.get(search_id).error)


def test_search_with_many_waiting_webhooks_waits_and_then_sees_all(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MAX_WAITING", 1)
    search_id = save(engine, receiver)
    receiver.answer("500 Internal Server Error")
    for i in range(3):
        engine.ingest(content=f"Lava number {i}.")
        engine.saved_searches.run()
    assert engine.saved_searches.get(search_id).is_pending
    receiver.answer("200 OK")
    (delivery,) = engine.saved_searches.deliveries(search_id).deliveries
    engine.saved_searches.redeliver(search_id, delivery.delivery_id)
    engine.saved_searches.run()
    engine.saved_searches.run()
    delivered = [set(texts) for texts in receiver.texts()[1:]]
    assert delivered == [{"Lava number 0."}, {"Lava number 1.", "Lava number 2."}]


def test_new_webhooks_wait_behind_those_that_a_failing_receiver_postponed(
    engine: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    fake_clock(monkeypatch, lambda: now)
    search_id = save(engine, receiver)
    receiver.answer("500 Internal Server Error")
    for number in range(2):
        engine.ingest(content=f"Lava number {number}.")
        engine.saved_searches._matcher().match_batch()
    assert engine.saved_searches.run() == 1
    receiver.answer("204 No Content")
    now += 1
    engine.ingest(content="Lava number 2.")
    assert engine.saved_searches.run() == 0
    engine.saved_searches.test(search_id)
    assert engine.saved_searches.run() == 1, "a test does not wait"
    now += delivering.FIRST_PAUSE_SECONDS
    assert engine.saved_searches.run() == 3
    in_order = [[f"Lava number {number}."] for number in (0, 0, 1, 2)]
    assert [event["event"] for event in receiver.events()] == ["match", "test", *["match"] * 3]
    assert [receiver.texts()[0], *receiver.texts()[2:]] == in_order


def test_pauses_grow_to_hours() -> None:
    assert [pause(n) for n in (1, 2, 3)] == [10, 40, 160]
    assert pause(20) == pause(1, 1e9) == delivering.LONGEST_PAUSE_SECONDS


def test_old_deliveries_are_deleted(engine: Engine, receiver: Receiver) -> None:
    search_id = save(engine, receiver)
    engine.ingest(content=LAVA)
    engine.saved_searches.run()
    with engine.database.write() as transaction:
        transaction.execute("UPDATE webhook_deliveries SET updated_at = '2020-01-01T00:00:00.000Z'")
    assert Deliverer(engine.database, engine.settings).prune() == 1
    assert engine.saved_searches.deliveries(search_id).total == 0


def test_answer_of_a_receiver_is_not_kept(engine: Engine, receiver: Receiver) -> None:
    search_id = save(engine, receiver)
    engine.saved_searches.test(search_id)
    receiver.server.answers["/hook"] = b"HTTP/1.1 500 x\r\nContent-Length: 6\r\n\r\nhidden"
    engine.saved_searches.run()
    assert "hidden" not in repr(engine.saved_searches.deliveries(search_id))
    assert Answer(500, None).status == 500
