"""Whoever has a database to itself for something has it alone, and leaves nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shoal.errors import ReadOnlyDatabaseError
from shoal.storage.file_lock import alone


def test_one_after_the_other_is_alone_though_each_removes_the_file(tmp_path: Path) -> None:
    database = tmp_path / "shoal.db"
    inside: list[int] = []
    seen: list[int] = []

    def enter(number: int) -> None:
        for _ in range(50):
            with alone(database, "sync"):
                inside.append(number)
                seen.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 300
    assert list(tmp_path.iterdir()) == []


def test_a_lock_left_by_one_that_was_killed_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "shoal.db.migrate-lock").touch()
    with alone(tmp_path / "shoal.db", "migrate"):
        assert (tmp_path / "shoal.db.migrate-lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_where_no_lock_can_be_made_the_folder_is_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ReadOnlyDatabaseError, match=r"cannot write to shoal\.db or its folder"):  # noqa: SIM117
        with alone(tmp_path / "gone" / "shoal.db", "sync"):
            pytest.fail("there is no folder")
