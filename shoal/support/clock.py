"""The format in which times are stored and shown: UTC, ISO 8601, milliseconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime | None = None) -> str:
    """Format `moment` (default: now) as `2026-01-31T00:00:00.000Z`; these strings sort chronologically.

    A moment without a time zone is taken as UTC.
    """
    if moment is None:
        moment = datetime.now(UTC)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def timestamp_at(seconds: float) -> str:
    """Format a moment in seconds since the epoch, such as one of the store's clock, like `timestamp`."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))
