"""Messages to workers, through Redis, RabbitMQ or a folder."""

from __future__ import annotations

from typing import Any

KEYS = {"body", "content-encoding", "content-type", "headers", "properties"}
"""Keys of every kombu message."""


def is_message(payload: Any) -> bool:
    """Whether a payload has the fields that kombu and Celery need."""
    if not (isinstance(payload, dict) and payload.keys() >= KEYS):
        return False
    headers, properties = payload["headers"], payload["properties"]
    if not (isinstance(headers, dict) and isinstance(properties, dict)):
        return False
    return isinstance(properties.get("delivery_info"), dict) and isinstance(
        properties.get("delivery_tag"), str
    )
