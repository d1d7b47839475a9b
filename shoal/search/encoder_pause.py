"""The time in which searches leave an encoder alone that has failed."""

from __future__ import annotations

import threading
from time import monotonic

PAUSE_SECONDS = 10.0
"""After a failure searches do not ask the encoder for this time, unless it named another."""
MAX_PAUSE_SECONDS = 300.0


class EncoderPause:
    """The pause of one encoder, for all that ask it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends_at = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the encoder may be asked again; 0 if it may be asked now."""
        with self._lock:
            return max(0.0, self._ends_at - monotonic())

    def begin(self, error: Exception) -> None:
        """Leave the encoder alone after an error, for the time that the error names."""
        asked = getattr(error, "retry_after", None) or PAUSE_SECONDS
        with self._lock:
            self._ends_at = monotonic() + min(asked, MAX_PAUSE_SECONDS)
