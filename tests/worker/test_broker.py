"""Messages of the embedded broker appear complete or not at all; sending gives up quickly."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from shoal.errors import BrokerUnavailableError
from shoal.jobs.transport import broker
from shoal.jobs.transport.broker import make_celery, notify_workers, remove_stale_messages, worker_notifier
from shoal.settings import Settings


def message(body: Any) -> dict[str, Any]:
    properties = {"delivery_tag": "x", "delivery_info": {"exchange": "", "routing_key": "q"}}
    return {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": "x",
        "headers": {},
        "properties": properties,
    }


def channel(settings: Settings) -> Any:
    return make_celery(settings).connection_for_write().default_channel


def folder(settings: Settings) -> Path:
    return settings.data_path / "broker" / "messages"


def test_each_message_reaches_one_consumer_complete(settings: Settings) -> None:
    n, taken, done = 300, [], threading.Event()

    def send(part: int) -> None:
        mine = channel(settings)
        for i in range(n // 3):
            mine._put("q", message([part, i, "x" * 5000]))

    def take() -> None:
        mine = channel(settings)
        while True:
            # Asked before the look: a message may arrive between an empty look and the question.
            last_look = done.is_set()
            try:
                taken.append(tuple(mine._get("q")["body"][:2]))
            except Empty:
                if last_look:
                    return

    make_celery(settings)
    senders = [threading.Thread(target=send, args=(part,)) for part in range(3)]
    takers = [threading.Thread(target=take) for _ in range(3)]
    for thread in (*senders, *takers):
        thread.start()
    for thread in senders:
        thread.join()
    done.set()
    for thread in takers:
        thread.join()
    assert set(Counter(taken).values()) == {1}
    assert len(taken) == n
    assert list(folder(settings).iterdir()) == []


def test_unreadable_message_is_discarded_and_the_next_one_read(settings: Settings) -> None:
    mine = channel(settings)
    (folder(settings) / "000000000000001_a.q.msg").write_text('{"half')
    (folder(settings) / "000000000000002_b.q.msg").write_bytes(b"\xff")
    (folder(settings) / "000000000000003_c.q.msg").write_text("null")
    (folder(settings) / "000000000000004_d.q.msg").write_text("{}")
    mine._put("q", message("fine"))
    assert mine._get("q") == message("fine")
    with pytest.raises(Empty):
        mine._get("q")
    assert list(folder(settings).iterdir()) == []


def test_messages_keep_their_order_and_queue(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = channel(settings)
    for i in range(5):
        monkeypatch.setattr(time, "time_ns", lambda i=i: (1_000_000 + i) * 1_000_000)
        mine._put("q", message(i))
        mine._put("another-q", message(i))
    assert [mine._get("q")["body"] for _ in range(5)] == list(range(5))
    assert mine._size("another-q") == 5
    assert mine._purge("another-q") == 5


def test_old_files_of_a_dead_process_are_removed(settings: Settings) -> None:
    channel(settings)
    names = ("1_a.tmp", "1_b.taken", f"1_c.{settings.broker_queue}.msg")
    for name in names:
        (folder(settings) / name).write_text("x")
    remove_stale_messages(settings)
    assert len(list(folder(settings).iterdir())) == 3
    old = time.time() - 2 * broker.STALE_SECONDS
    for name in names:
        os.utime(folder(settings) / name, (old, old))
    remove_stale_messages(settings)
    assert [path.name for path in folder(settings).iterdir()] == [names[2]]


def test_second_message_is_not_sent_while_one_waits(settings: Settings) -> None:
    app = make_celery(settings)
    assert notify_workers(app)
    assert not notify_workers(app)
    assert len(list(folder(settings).iterdir())) == 1
    assert notify_workers(app, unless_waiting=False)


def test_unresponsive_or_unreachable_broker_is_reported(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        app = make_celery(dataclasses.replace(settings, broker_url=f"redis://127.0.0.1:{port}/0"))
        with pytest.raises(BrokerUnavailableError):
            notify_workers(app)
    with pytest.raises(BrokerUnavailableError):
        notify_workers(app)
    worker_notifier(app)()
    assert "workers not notified" in caplog.text


def test_missing_folder_makes_the_broker_unavailable(settings: Settings) -> None:
    app = make_celery(settings)
    shutil.rmtree(settings.data_path)
    with pytest.raises(BrokerUnavailableError):
        notify_workers(app)


def test_folder_that_cannot_be_created_is_reported(settings: Settings) -> None:
    settings.data_path.write_text("a file is in the way")
    with pytest.raises(BrokerUnavailableError, match="folder of the embedded broker"):
        make_celery(settings)


def test_kombu_transport_breaks_on_a_half_written_message(settings: Settings) -> None:
    """This is why Shoal has its own transport. If this test fails one day, it may no longer be needed."""
    make_celery(settings)
    (folder(settings) / "1_a.q.msg").write_text("")
    options = {"data_folder_in": str(folder(settings)), "data_folder_out": str(folder(settings))}
    with (
        Connection("filesystem://localhost//", transport_options=options) as connection,
        pytest.raises(ValueError, match="Expecting value"),
    ):
        connection.default_channel._get("q")
