"""Follows a folder as it changes. Needs the package watchfiles, of the extra `watch`.

A change is only the occasion for a sync, which compares the whole folder. So no list of changes grows, and a
lost event is made up for by the next sync.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.conversion.folder_listing import GITIGNORE, Selection, list_folder
from shoal.errors import ShoalError
from shoal.formats.decoding import clean

if TYPE_CHECKING:
    from watchfiles import Change

QUIET_MS = 300
"""A sync begins when nothing has changed for this time."""
MAX_DELAY_MS = 3_000
"""A sync begins so long after a change, even if changes go on."""
WAKE_MS = 300
"""How often it is checked whether the folder is still there."""
POLL_MS = 2_000
"""Time between two listings, where the system reports no changes."""
RETRY_SECONDS = 60.0
"""Time from a failed sync to the next one, if nothing changes."""
SETTLE_SECONDS = 2.0
"""Time between the return of a folder and its sync, since it may still be filled."""
MAX_REST_SECONDS = 60.0
"""After each sync, the next one waits as long as the sync took, but not longer than this."""


class WatchError(ShoalError, code="watch_failed"):
    """The folder cannot be followed."""


def require_watchfiles() -> None:
    """Raise WatchError if the package is missing."""
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise WatchError(
            "--watch needs the package watchfiles, which is not installed: pip install 'shoal[watch]'"
        ) from error


def follow_folder(
    folder: Path,
    selection: Selection,
    *,
    own_files: str,
    synchronize: Callable[[], bool],
    notice: Callable[[str], None],
) -> None:
    """Call `synchronize` now and after each change, until KeyboardInterrupt.

    It returns whether it succeeded; if not, it is called again after a while. While the folder is gone, its
    return is awaited. Only folders that are listed are watched, so no link is followed. `own_files`: how the
    paths of the library's files begin, whose changes do not count. `notice` gets lines for the user. Raises
    WatchError.
    """
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - links are not resolved, as in the listing
    is_polling = False
    while True:
        identity = _wait_for(root, notice)
        folders = _watched_folders(root, selection, own_files)

        def counts(_change: Change, path: str, folders: Collection[Path] = folders) -> bool:
            return _counts(Path(path), root, selection, folders, own_files)

        with closing(_changes(folders, counts, is_polling=is_polling)) as changes:
            try:
                next(changes)  # from here on, no change is missed
            except FileNotFoundError:
                continue  # a folder vanished after it was listed
            except (OSError, RuntimeError) as error:
                if is_polling:
                    raise WatchError(f"{root} cannot be watched: {error}") from error
                notice(f"the system does not report changes ({error}); looking every {POLL_MS // 1000} s")
                is_polling = True
                continue
            began = time.monotonic()
            succeeded = synchronize()
            ended = time.monotonic()
            if _watched_folders(root, selection, own_files) == folders:
                retry_at = None if succeeded else ended + RETRY_SECONDS
                _wait_for_change(changes, root, identity, retry_at)
        time.sleep(max(0.0, ended + min(ended - began, MAX_REST_SECONDS) - time.monotonic()))


def _wait_for(folder: Path, notice: Callable[[str], None]) -> tuple[int, int]:
    """Return the identity of the folder as soon as it exists."""
    identity = _identity(folder)
    if identity is None:
        notice(f"{folder} is gone; waiting for it")
        while identity is None:
            time.sleep(SETTLE_SECONDS)
            identity = _identity(folder)
        notice(f"{folder} is back")
    return identity


def _identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode, which change if another folder or a disk takes the place; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if folder.is_dir() else None


def _watched_folders(root: Path, selection: Selection, own_files: str) -> frozenset[Path]:
    folders = list_folder(root, selection).folders
    return frozenset([root, *(folder for folder in folders if not str(folder).startswith(own_files))])


def _changes(
    folders: Collection[Path], counts: Callable[[Change, str], bool], *, is_polling: bool
) -> Generator[object, None, None]:
    """Yield a value that is true after changes that count, and false every WAKE_MS without any."""
    from watchfiles import watch

    changes: Generator[object, None, None] = watch(
        *folders,
        watch_filter=counts,
        debounce=MAX_DELAY_MS,
        step=QUIET_MS,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        recursive=False,
        force_polling=is_polling or None,
        poll_delay_ms=POLL_MS,
    )
    return changes


def _counts(path: Path, root: Path, selection: Selection, folders: Collection[Path], own_files: str) -> bool:
    """Whether a change of this path may change the result of a sync."""
    if str(path).startswith(own_files) or not path.is_relative_to(root):
        return False
    if path in folders:
        return True
    below = clean(path.relative_to(root).as_posix())
    if path.name == GITIGNORE:
        return selection.gitignore
    if path.name.startswith("."):
        return False
    return path.is_dir() or selection.reason_against(below) is None


def _wait_for_change(
    changes: Iterator[object], root: Path, identity: tuple[int, int], retry_at: float | None
) -> None:
    """Return after a change, if the folder is gone or another one, or at `retry_at`."""
    with suppress(
        RuntimeError
    ):  # of watchfiles, when it lost its watches: they are set anew after each change
        for changed in changes:
            is_due = retry_at is not None and time.monotonic() >= retry_at
            if changed or is_due or _identity(root) != identity:
                return
