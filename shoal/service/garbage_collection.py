"""Tuning of Python's garbage collector for processes that ingest."""

from __future__ import annotations

import gc

THRESHOLDS = (100_000, 20, 100)
"""Thresholds of the three generations (`gc.set_threshold`). A book becomes a few hundred thousand small
values without any cycle; repeated collections took a quarter of the processor time of ingestion (4.2 s
against 3.1 s for War and Peace)."""


def reduce_collections() -> None:
    """Collect garbage less often in this process. For processes that ingest, not for library code."""
    gc.set_threshold(*THRESHOLDS)
