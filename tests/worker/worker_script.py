"""A worker whose scorer blocks, exhausts memory or kills its process for certain documents.

A document with STUCK in it blocks until the file named by the RELEASE variable exists, so that a test can
observe the worker at work. A document with ENDLESS in it holds the interpreter forever, so that no other
thread of the process runs. Arguments: `deaf` receives no message, `patient` does nothing without one,
`hurried` stops within two seconds.
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

from fake_scorer import FakeScorer

from shoal.jobs.transport import filesystem_transport
from shoal.settings import Settings
from shoal_worker import process, reconciler

DEADLY = "cyanide"
GREEDY = "locust"
GREEDY_BYTES = 1 << 40
STUCK = "amber"
ENDLESS = "quicksand"
RELEASE = "SHOAL_TEST_RELEASE"
LOOK_SECONDS = 0.02


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

    filesystem_transport.Channel._get = receive_nothing  # type: ignore[method-assign]
    reconciler.IDLE_CLAIM_SECONDS = 0.5


if __name__ == "__main__":
    if "deaf" in sys.argv:
        ignore_messages()
    if "patient" in sys.argv:
        reconciler.IDLE_CLAIM_SECONDS = math.inf
    if "hurried" in sys.argv:
        process.STOP_SECONDS = 2
    sys.exit(process.main(Settings.from_environment(), scorer=TestScorer()))
