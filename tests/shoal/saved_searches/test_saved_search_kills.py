"""Killed between two steps, a process loses no match and reports none under two ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from fake_scorer import FakeScorer
from faked_clock import fake_clock
from saved_search_parts import Receiver

from shoal import Engine
from shoal.saved_searches import delivering, matching
from shoal.settings import Settings

SEARCH = {"query": "lava", "mode": "lexical", "min_relevance": 0.0}

PROGRAM = """
    import dataclasses, os, signal, sys
    from fake_scorer import FakeScorer
    from shoal import Engine
    from shoal.settings import Settings
    from shoal.saved_searches import delivering

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(delivering, sys.argv[2], die)
    settings = Settings(database_url=sys.argv[1], learning=False, webhook_hosts="*:*", webhook_private="127.0.0.1")
    Engine(settings=settings, scorer=FakeScorer()).saved_searches.run()
"""


@pytest.mark.parametrize(("step", "n_sent_before"), [("insert", 0), ("end", 1)])
def test_killed_process_loses_and_doubles_nothing(
    engine: Engine,
    watching: Settings,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    n_sent_before: int,
) -> None:
    search_id = engine.saved_searches.create("Lava", SEARCH, url=receiver.url).saved_search.id
    engine.ingest(content="Lava rose in the volcano.")
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), watching.database_url, step],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(receiver.server.bodies) == n_sent_before
    # The dead process still holds its lease.
    assert engine.saved_searches.run() == 0
    now = time.time()
    later = max(matching.LEASE_SECONDS, watching.webhook_seconds + delivering.LEASE_SLACK_SECONDS) + 1
    fake_clock(monkeypatch, lambda: now + later)
    with Engine(settings=watching, scorer=FakeScorer()) as other:
        assert other.saved_searches.run() == 1
        assert other.saved_searches.run() == 0
        (delivery,) = other.saved_searches.deliveries(search_id).deliveries
    assert (delivery.status, delivery.attempts) == ("delivered", 1 + n_sent_before)
    assert {headers["shoal-delivery"] for _, headers in receiver.server.requests} == {delivery.delivery_id}
