"""How a setting is declared."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.settings.checks import Check


def setting(default: Any, meaning: str, check: Check | None = None, *, secret: bool = False) -> Any:
    """Declare a setting: its default, meaning and check. The value of a `secret` is never shown."""
    metadata = {"meaning": meaning, "check": check, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)
