"""The request at hand: its id, on its log lines and on the job it makes, so that workers can log it too; and whose key
it came with, for the audit log."""

from __future__ import annotations

from contextvars import ContextVar

TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)
"""None where nobody asked for anything, as in a worker between two batches."""

KEY_NAME: ContextVar[str | None] = ContextVar("key_name", default=None)
"""`ApiKey.name` of the key that the request came with; None without one."""
