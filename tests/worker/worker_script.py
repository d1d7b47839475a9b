"""A worker whose scorer blocks, exhausts memory or kills its process for certain documents.

A document with STUCK in it blocks until the file named by the RELEASE variable exists, so that a test can
observe the worker at work. A document with ENDLESS in it holds the interpreter forever, so that no other
thread of the process runs. Arguments: `deaf` receives no message, `patient` does nothing without one,
`restless` soon works without one, `hurried` stops within two seconds, `unhurried` takes its time to stop,
`newer` is of a version that migrated the database to NEWER, `insistent` soon tries a denied queue of
RabbitMQ again, `embedding` has an encoder.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import time
from pathlib import Path
from queue import Empty
from typing import Any

from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders import encoder
from shoal.jobs.transport import broker, rabbitmq_consumer, redis_transport
from shoal.settings import Settings
from shoal.storage import migrate
from shoal_worker import process, reconciler

DEADLY = "cyanide"
GREEDY = "locust"
GREEDY_BYTES = 1 << 40
STUCK = "amber"
ENDLESS = "quicksand"
RELEASE = "SHOAL_TEST_RELEASE"
LOOK_SECONDS = 0.02
NEWER = "9999"


class TestScorer(FakeScorer):
    def analyze(self, sentences: Any, **rest: Any) -> Any:
        text = " ".join(getattr(s, "text", s) for s in sentences)
        if DEADLY in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if GREEDY in text:
            bytearray(GREEDY_BYTES)
        if ENDLESS in text:
            re.match("(?:a|aa)+$", "a" * 200 + "b")
        while STUCK in text and not Path(os.environ[RELEASE]).exists():
            time.sleep(LOOK_SECONDS)
        return super().analyze(sentences, **rest)


def ignore_messages() -> None:
    def receive_nothing(*_: Any, **__: Any) -> None:
        raise Empty

    broker.Channel._get = receive_nothing  # type: ignore[method-assign]
    reconciler.IDLE_CLAIM_SECONDS = 0.5


if __name__ == "__main__":
    if "deaf" in sys.argv:
        ignore_messages()
    if "restless" in sys.argv:
        reconciler.IDLE_CLAIM_SECONDS = redis_transport.RETRY_SECONDS = 0.5
    if "patient" in sys.argv:
        reconciler.IDLE_CLAIM_SECONDS = math.inf
    if "embedding" in sys.argv:
        encoder.open_encoder = lambda _: FakeEncoder()
    if "hurried" in sys.argv:
        process.STOP_SECONDS = 2
    if "unhurried" in sys.argv:
        process.STOP_SECONDS = 600
    if "newer" in sys.argv:
        migrate.HEAD = NEWER
    if "insistent" in sys.argv:
        rabbitmq_consumer.RETRY_SECONDS = 0.5
    sys.exit(process.main(Settings.from_environment(), scorer=TestScorer()))
