"""Targets with different faults, for tests of the fuzzer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz_process import PEAK_BYTES, Outcome, hold


def open_targets(_own: Path, _shared: Path) -> tuple[dict[str, Callable[[bytes], Outcome]], list[Any]]:
    """Like `fuzz_targets.open_targets`."""

    def spin(_data: bytes) -> Outcome:
        while True:
            pass

    def wait(_data: bytes) -> Outcome:
        time.sleep(60)
        return Outcome("")

    def die(_data: bytes) -> Outcome:
        os.abort()

    def fail(data: bytes) -> Outcome:
        return Outcome(str(1 / len(data)))

    def fill(_data: bytes) -> Outcome:
        return Outcome(str(len(b"1" * (2 * PEAK_BYTES))))

    def promise(_data: bytes) -> Outcome:
        return Outcome("", check=lambda: hold(False, "it holds"))

    return {
        "spins": spin,
        "waits": wait,
        "dies": die,
        "fails": fail,
        "fills": fill,
        "promises": promise,
        "is well": lambda _data: Outcome("well"),
    }, []
