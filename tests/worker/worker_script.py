"""A worker whose scorer can be told by the documents to be slow or to take its process down."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from fake_scorer import FakeScorer

from shoal.settings import Settings
from shoal_worker.process import main

DEADLY = "cyanide"
SLOW = "treacle"
SLOW_SECONDS = 0.15


class Moody(FakeScorer):
    def analyze(self, sentences: Any, **rest: Any) -> Any:
        text = " ".join(getattr(s, "text", s) for s in sentences)
        if DEADLY in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if SLOW in text:
            time.sleep(SLOW_SECONDS)
        return super().analyze(sentences, **rest)


if __name__ == "__main__":
    sys.exit(main(Settings.from_environment(), scorer=Moody()))
