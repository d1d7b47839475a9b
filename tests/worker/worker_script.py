"""A worker whose scorer can be told by the documents to stand still, to want too much memory or to take its process down.

A document with STUCK in it is held until the file of the RELEASE variable exists, so that a test finds the worker
in the middle of its work for as long as it looks. A document with ENDLESS in it holds the interpreter for ever, so that
no other thread of the process runs. With the argument `deaf` no message ever reaches it, and with `patient` it does
nothing without one. With `hurried` it ends soon after it was told to.
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


class Moody(FakeScorer):
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


def be_deaf() -> None:
    def hear_nothing(*_: Any, **__: Any) -> None:
        raise Empty

    filesystem_transport.Channel._get = hear_nothing  # type: ignore[method-assign]
    reconciler.IDLE_CLAIM_SECONDS = 0.5


if __name__ == "__main__":
    if "deaf" in sys.argv:
        be_deaf()
    if "patient" in sys.argv:
        reconciler.IDLE_CLAIM_SECONDS = math.inf
    if "hurried" in sys.argv:
        process.STOP_SECONDS = 2
    sys.exit(process.main(Settings.from_environment(), scorer=Moody()))
