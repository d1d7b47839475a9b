"""kombu's filesystem transport, made safe for several processes.

kombu writes a message under its final name, so a consumer may read it while it is empty; the JSON error then
ends the worker. kombu also moves received messages through the system's temporary folder, which may be on
another file system, full, or shared with other users. Here a message appears complete or not at all, and a
consumer takes it by one rename within its folder. Unreadable messages are discarded without loss, because the
reconciler notifies workers again.
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

from shoal.jobs.transport import is_message

MESSAGE_SUFFIX = ".msg"
"""Suffix after the queue name that kombu's own methods (`_size`, `_purge`) expect."""

STALE_SECONDS = 60.0
"""Age of temporary files that only a dead process can have left: longer than any step takes."""

MAX_DRAIN_SECONDS = 0.1
"""Longest wait for messages. A worker checks for shutdown between waits and needs two of them to end, so
Celery's wait of two seconds would delay a Ctrl-C by four."""


class Channel(filesystem.Channel):
    """A queue consists of the files `MILLISECONDS_UUID.QUEUE.msg` of one folder, oldest first."""

    # kombu's own signatures of `_put` differ.
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
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
                # Another consumer has taken it.
                continue
            message = _read(taken)
            with contextlib.suppress(OSError):
                taken.unlink()
            if message is not None:
                return message
        raise Empty

    def _messages(self, queue: str) -> list[Path]:
        suffix = f".{queue}{MESSAGE_SUFFIX}"
        try:
            return sorted(path for path in Path(self.data_folder_in).iterdir() if path.name.endswith(suffix))
        except OSError:
            return []


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> Any:
        """Wait for messages for at most MAX_DRAIN_SECONDS."""
        wait_seconds = None if timeout is None else min(timeout, MAX_DRAIN_SECONDS)
        return super().drain_events(connection, wait_seconds)  # type: ignore[no-untyped-call]


def _read(path: Path) -> Any:
    """Return the message in a file, or None if kombu could not process it."""
    try:
        message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return message if is_message(message) else None


def remove_stale_files(folder: Path) -> int:
    """Remove files of processes that died while they wrote or took a message; return the number of files."""
    removed = 0
    for path in [*folder.glob("*.tmp"), *folder.glob("*.taken")]:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
                removed += 1
    return removed
