"""What both ends of the pipes between `process` and `child` must know."""

from __future__ import annotations

import struct

REQUEST_HEAD = struct.Struct(">IQ")
"""Lengths in bytes of a request's JSON and of the file after it."""

ANSWER_HEAD = struct.Struct(">Q")
"""Length in bytes of an answer's JSON, and of each report before it: an object with only `share`, 0 to 1."""

OUT_OF_MEMORY_STATUS = 77
"""Exit status of a child that reached its limit of memory."""
