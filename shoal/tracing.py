"""The id of the request at hand: on its log lines, and on the job it makes, so that workers can log it too."""

from __future__ import annotations

from contextvars import ContextVar

TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)
"""None where nobody asked for anything, as in a worker between two batches."""
