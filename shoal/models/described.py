"""What the fields of a record say besides their types, in `Annotated`: a description, and marks.

A text is the description of the field for every surface that shows the record: `Annotated[int, "from 1"]`. A
tuple has all texts that the field may be. "Null" in a description is JSON's, which is None in Python. Names
that mean the same in every record, such as `chunk_id`, have one description (`shoal.models.vocabulary`).
"""

from __future__ import annotations

import enum
from typing import Annotated


class Presence(enum.Enum):
    """When the JSON of a record lacks a field. Without such a mark, it always has it."""

    IF_SET = enum.auto()
    """Where it is None."""
    ON_REQUEST = enum.auto()
    """Unless the request asks for it; then it may be null."""


class Format(enum.Enum):
    """What a text holds."""

    TIME = enum.auto()


Time = Annotated[str, Format.TIME]
"""A time in UTC, ISO 8601: `2026-01-31T00:00:00.000Z`."""
