"""Passages that the caller of an upload has cut, as stored with its item and its document."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shoal.models.passages import Passage
from shoal.storage.json_text import compact_json


def passages_to_json(passages: Sequence[Passage]) -> str | None:
    """Return passages as stored; None for a text that is not cut yet."""
    return compact_json(passages) if passages else None


def passages_from_json(text: str | None) -> tuple[Passage, ...]:
    """Return stored passages."""
    return () if text is None else tuple(map(Passage.of_row, json.loads(text)))
