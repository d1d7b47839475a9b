"""JSON as stored in the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def compact_json(value: Any) -> str:
    """Format compact JSON with unescaped letters; headings and metadata are searched in this form."""
    if isinstance(value, Mapping):
        value = dict(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
