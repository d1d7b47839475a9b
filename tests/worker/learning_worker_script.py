"""A worker with lagoon's scorer that learns in many small transactions.

With the arguments FILE and N, it blocks forever in write N of a learn stage and creates FILE as a signal.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from shoal.jobs.stages import learn
from shoal.settings import Settings
from shoal_worker.process import main

learn.EVIDENCE_ROWS = 4
learn.LEARNED_WORDS = 2


def stop_at(n: int, sign: Path) -> None:
    """Block in the n-th write (from 1): earlier writes are committed, this one is not."""
    write = learn.Learning._write
    left = n

    def counting(self: Any, owner: str, rows: Any) -> None:
        def stopping(connection: Any) -> None:
            nonlocal left
            left -= 1
            rows(connection)
            if left == 0:
                sign.touch()
                while True:
                    signal.pause()

        write(self, owner, stopping)

    learn.Learning._write = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        stop_at(int(sys.argv[2]), Path(sys.argv[1]))
    sys.exit(main(Settings.from_environment()))
