"""Numbers of examples: few in every run, because they are the same each time; all in the long one."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
SHARE = 4


def examples(most: int) -> int:
    """Return `most` in the long run, otherwise a quarter."""
    return most if LONG else -(-most // SHARE)
