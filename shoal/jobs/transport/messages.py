"""What makes a message of the broker one that can be delivered."""

from __future__ import annotations

from typing import Any

KEYS = {"body", "content-encoding", "content-type", "headers", "properties"}
"""What every message of kombu has."""


def is_message(payload: Any) -> bool:
    """Whether kombu and Celery find what they need in a message, be it for them or not."""
    if not (isinstance(payload, dict) and payload.keys() >= KEYS):
        return False
    headers, properties = payload["headers"], payload["properties"]
    if not (isinstance(headers, dict) and isinstance(properties, dict)):
        return False
    return isinstance(properties.get("delivery_info"), dict) and isinstance(
        properties.get("delivery_tag"), str
    )
