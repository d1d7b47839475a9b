"""Faults at a chosen write: a process that is killed, and a disk that is full."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from shoal.errors import ShoalError
from shoal.index.format import SegmentWriter
from shoal.storage.database import Database
from shoal.storage.postgres.database import PostgresDatabase
from shoal.storage.sqlite.database import SqliteDatabase

KILLED = -signal.SIGKILL
DONE, FAILED, BROKEN = 0, 3, 4
"""Exit codes: the work was done, it raised an error of Shoal, or any other error."""
WRITES_OF_A_TRANSACTION = 3
"""Its beginning, its end and its commit."""


def killed_at(place: int, work: Callable[[], object]) -> tuple[int, str]:
    """Do some work in a process that kills itself at its `place`-th write, counted from 1; return its exit
    code and the message of its error.

    Writes are ends of segments, syncs and renames of files, and beginnings, ends and commits of transactions.
    `work` must open its databases itself.
    """
    return _in_process(place, lambda: os.kill(os.getpid(), signal.SIGKILL), work)


def killed_in_transaction(n_before: int, work: Callable[[], object]) -> tuple[int, str]:
    """As `killed_at`, at the end of the transaction after `n_before` others, for work that writes no files."""
    return killed_at(WRITES_OF_A_TRANSACTION * n_before + 2, work)


def full_from(place: int, work: Callable[[], object]) -> tuple[int, str]:
    """As `killed_at`, with a disk that is full from that write on: no file can be written."""
    return _in_process(place, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), work)


def _in_process(place: int, fault: Callable[[], object], work: Callable[[], object]) -> tuple[int, str]:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _work(place, fault, work, writing)
    os.close(writing)
    with os.fdopen(reading) as messages:
        message = messages.read()
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), message


def _work(place: int, fault: Callable[[], object], work: Callable[[], object], writing: int) -> NoReturn:
    code = BROKEN
    try:
        _arrange(place, fault)
        work()
        code = DONE
    except ShoalError as error:
        os.write(writing, str(error).encode())
        code = FAILED
    except BaseException:
        os.write(writing, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(code)


def _arrange(place: int, fault: Callable[[], object]) -> None:
    remaining = place

    def step() -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            fault()

    def before(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **kwargs: Any) -> Any:
            step()
            return function(*args, **kwargs)

        return stepping

    def stepping_write(write_of: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def write(database: Database) -> Iterator[Any]:
            step()
            with write_of(database) as transaction:
                yield transaction
                step()
            step()

        return write

    patch = pytest.MonkeyPatch()
    for store in (SqliteDatabase, PostgresDatabase):
        patch.setattr(store, "write", stepping_write(store.write))
    for owner, name in ((SegmentWriter, "finish"), (os, "fsync"), (os, "rename")):
        patch.setattr(owner, name, before(getattr(owner, name)))
