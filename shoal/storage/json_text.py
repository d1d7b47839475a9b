"""JSON as the database holds it. Apart from what writes rows, because searches need it, and need no SQLAlchemy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def compact_json(value: Any) -> str:
    """Compact JSON with letters as they are: headings and metadata are searched in this form."""
    if isinstance(value, Mapping):
        value = dict(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
