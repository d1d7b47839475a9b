"""kombu's filesystem transport, made safe for several processes.

As it comes, a message is written under its final name, so a consumer may take it while it is still empty: the
JSON error that follows ends the worker. And taken messages pass through the system's temporary folder, which may
be another file system, full, or shared with other users. Here a message appears complete or not at all, is
taken by one rename within its folder, and one that cannot be read is thrown away: nothing is lost with it, since
the reconciler sends what is missing.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem

from shoal.jobs.transport.messages import is_message

MESSAGE_SUFFIX = ".msg"
"""What kombu's own methods (`_size`, `_purge`) look for, after the name of the queue."""

STALE_SECONDS = 60.0
"""Leftovers of a process that died between two steps are older than any step takes."""

MOST_DRAIN_SECONDS = 0.1
"""A worker looks whether it is to end between two waits for messages, twice before it does. Celery's two seconds
a wait would be a pause of four after a Ctrl-C."""


class Channel(filesystem.Channel):
    """A queue is the files `MOMENT_UUID.QUEUE.msg` of one folder, oldest first."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override] # kombu disagrees with itself
        folder = Path(self.data_folder_out)
        name = f"{time.time_ns() // 1_000_000:015d}_{uuid.uuid4()}"
        draft = folder / f"{name}.tmp"
        try:
            draft.write_text(json.dumps(payload))
            draft.rename(folder / f"{name}.{queue}{MESSAGE_SUFFIX}")
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise ChannelError(f"cannot write a message: {error.strerror}") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for path in self._messages(queue):
            taken = path.with_name(f"{path.name.partition('.')[0]}.taken")
            try:
                path.rename(taken)
            except OSError:
                # Another consumer was faster.
                continue
            message = _read(taken)
            with contextlib.suppress(OSError):
                taken.unlink()
            if message is not None:
                return message
        raise Empty

    def _messages(self, queue: str) -> list[Path]:
        ending = f".{queue}{MESSAGE_SUFFIX}"
        try:
            return sorted(path for path in Path(self.data_folder_in).iterdir() if path.name.endswith(ending))
        except OSError:
            return []


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> Any:
        """As kombu's, but back after MOST_DRAIN_SECONDS where a consumer would wait longer."""
        most = None if timeout is None else min(timeout, MOST_DRAIN_SECONDS)
        return super().drain_events(connection, most)  # type: ignore[no-untyped-call]


def _read(path: Path) -> Any:
    """The message of a file, None for anything that kombu could not take apart."""
    try:
        message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return message if is_message(message) else None


def remove_leftovers(folder: Path) -> int:
    """Remove what processes left that died while they wrote or took a message; how many files."""
    removed = 0
    for path in [*folder.glob("*.tmp"), *folder.glob("*.taken")]:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
                removed += 1
    return removed
