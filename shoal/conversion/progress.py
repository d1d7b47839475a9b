"""How far a converter is in its file. Converters call `report`; the process around them passes it on."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_BETWEEN_REPORTS = 0.5


class _Reports:
    """Where the reports of this process go; None: nowhere."""

    def __init__(self) -> None:
        self.send: Callable[[float], None] | None = None
        self.next = 0.0


_reports = _Reports()


def report_to(send: Callable[[float], None] | None) -> None:
    """Send the reports of this process to a function; None: to nobody."""
    _reports.send, _reports.next = send, time.monotonic() + SECONDS_BETWEEN_REPORTS


def report(done: float, total: float) -> None:
    """Say that `done` of `total` parts of a file are read. Most calls return at once."""
    if _reports.send is None or total <= 0 or (now := time.monotonic()) < _reports.next:
        return
    _reports.next = now + SECONDS_BETWEEN_REPORTS
    _reports.send(min(max(done / total, 0.0), 1.0))
