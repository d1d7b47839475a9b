"""Context of the current request.

The trace id is on the request's log lines and on the job it creates, so that workers log it too. The key's
name is for the audit log.
"""

from __future__ import annotations

from contextvars import ContextVar

TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)
"""None outside a request, for example in a worker between two batches."""

KEY_NAME: ContextVar[str | None] = ContextVar("key_name", default=None)
"""`ApiKey.name` of the request's key; None without one."""
