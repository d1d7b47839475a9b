"""The file lock is exclusive and leaves no file behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shoal.errors import ReadOnlyDatabaseError
from shoal.storage.sqlite.database import alone


def test_the_lock_is_exclusive_although_each_holder_removes_the_file(tmp_path: Path) -> None:
    database = tmp_path / "shoal.db"
    holders: list[int] = []
    n_holders: list[int] = []

    def enter(number: int) -> None:
        for _ in range(50):
            with alone(database, "sync"):
                holders.append(number)
                n_holders.append(len(holders))
                holders.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert n_holders == [1] * 300
    assert list(tmp_path.iterdir()) == []


def test_the_lock_file_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "shoal.db.migrate-lock").touch()
    with alone(tmp_path / "shoal.db", "migrate"):
        assert (tmp_path / "shoal.db.migrate-lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_reported_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ReadOnlyDatabaseError, match=r"cannot write to shoal\.db or its folder"):  # noqa: SIM117
        with alone(tmp_path / "gone" / "shoal.db", "sync"):
            pytest.fail("there is no folder")
