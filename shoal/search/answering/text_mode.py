"""What a result has of its text."""

from __future__ import annotations

import enum


class TextMode(enum.StrEnum):
    """What a result has of the text of its chunk."""

    full = "full"
    snippet = "snippet"
    none = "none"
