"""Library values as JSON, in the same form as HTTP API responses."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence, Set
from typing import Any


def json_form(value: Any) -> Any:
    """Convert dataclasses and named tuples to objects, enums to values, sequences and sets to arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_form(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_form(value._asdict())
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): json_form(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Sequence | Set):
        return [json_form(item) for item in value]
    return value
