"""Waiting until searches see what was written: on a standby of the database, and in the index of this
machine."""

from __future__ import annotations

import time

from shoal.errors import IndexBehindError, ReplicaBehindError
from shoal.library.library import Library
from shoal.storage import read_tokens

MAX_SECONDS = 2.0
"""Longest wait of a search for what its caller has written."""
POLL_SECONDS = 0.02


def await_written(library: Library, token: str) -> None:
    """Wait until searches see what a token of `shoal.storage.read_tokens` stands for.

    Raises InvalidFieldError, and ReplicaBehindError or IndexBehindError after MAX_SECONDS.
    """
    read_tokens.check_token(token, is_sqlite=library.database.is_sqlite)
    until = time.monotonic() + MAX_SECONDS
    while True:
        with library.read_database.snapshot() as snapshot:
            if read_tokens.has(snapshot, token):
                break
        if time.monotonic() > until:
            raise ReplicaBehindError(MAX_SECONDS)
        time.sleep(POLL_SECONDS)
    while library.follower is not None and not library.index.is_complete():
        if time.monotonic() > until:
            raise IndexBehindError(*library.follower.measure())
        time.sleep(POLL_SECONDS)
