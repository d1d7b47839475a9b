"""`sync --watch` follows a folder as it changes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.cli.app import run
from shoal.conversion.folder_listing import Selection
from shoal.maintenance.sync import folder_watch

PROGRAM = """
import sys
from fake_scorer import FakeScorer
import shoal.engine
original = shoal.engine.Engine
shoal.engine.Engine = lambda **options: original(**options, scorer=FakeScorer())
from shoal.cli.app import run
from shoal.maintenance.sync import folder_watch
folder_watch.QUIET_MS = folder_watch.WAKE_MS = 60
folder_watch.SETTLE_SECONDS = 0.2
sys.exit(run(sys.argv[1:]))
"""


class Watching:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def wait_for(self, pattern: str, count: int = 1) -> None:
        """Wait until the output has so many matches."""
        deadline = time.monotonic() + 60
        while len(re.findall(pattern, self.log.read_text())) < count:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "sub").mkdir(parents=True)
    (folder / "rain.md").write_text("Rain over the sea.\n")
    return folder


@contextmanager
def watching(tmp_path: Path, folder: Path, *options: str) -> Iterator[Watching]:
    pytest.importorskip("watchfiles")
    log = tmp_path / "log"
    # The program receives Ctrl-C, even if this process inherited an ignored SIGINT.
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                "--db",
                str(folder / "shoal.db"),
                "sync",
                str(folder),
                "--watch",
                *options,
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        signal.signal(signal.SIGINT, previous_handler)
        try:
            yield Watching(process, log)
        finally:
            process.kill()
            process.wait()


def interrupt(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=30)


@pytest.mark.timeout(120)
def test_changes_are_followed_until_ctrl_c(tmp_path: Path, folder: Path) -> None:
    with watching(tmp_path, folder) as watch:
        watch.wait_for("1 new")
        for number in range(20):
            (folder / f"burst{number}.md").write_text(f"Storm number {number}.\n")
        watch.wait_for(r"new +\S+burst\d+\.md", 20)
        (folder / "rain.md").write_text("Rain over the land.\n")
        watch.wait_for(r"changed +\S+rain\.md")
        (folder / "later").mkdir()
        (folder / "later" / "lava.md").write_text("A volcano throws lava.\n")
        watch.wait_for(r"new +\S+lava\.md")
        (folder / "later" / "ash.md").write_text("Ash over the town.\n")
        watch.wait_for(r"new +\S+ash\.md")
        (folder / "rain.md").unlink()
        watch.wait_for(r"gone +\S+rain\.md")
        assert interrupt(watch.process) == 0
        text = watch.log.read_text()
        assert "stopped watching" in text
        assert "deleted  " not in text
        assert "Traceback" not in text


@pytest.mark.timeout(120)
def test_a_folder_that_vanishes_is_awaited_and_nothing_is_deleted(tmp_path: Path, folder: Path) -> None:
    with watching(tmp_path, folder, "--delete", "--include", "*.md") as watch:
        watch.wait_for("1 new")
        shutil.move(folder, tmp_path / "elsewhere")
        watch.wait_for("is gone; waiting")
        (tmp_path / "elsewhere" / "storm.md").write_text("A storm and its wind.\n")
        shutil.move(tmp_path / "elsewhere", folder)
        watch.wait_for(r"new +\S+storm\.md")
        assert "deleted  " not in watch.log.read_text()
        assert interrupt(watch.process) == 0


@pytest.mark.timeout(60)
def test_an_unchanged_folder_causes_no_sync(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("watchfiles")
    monkeypatch.setattr(folder_watch, "QUIET_MS", 40)
    monkeypatch.setattr(folder_watch, "WAKE_MS", 40)
    (folder / ".git").mkdir()
    (folder / "far").symlink_to(tmp_path)
    calls: list[float] = []
    own = folder / "shoal.db"

    def synchronize() -> bool:
        calls.append(time.monotonic())
        own.write_text("library")  # as a sync does
        (folder / "shoal.db-wal").write_text("log")
        return True

    def stop_after(seconds: float) -> Callable[[int, object], None]:
        def raise_interrupt(_signal: int, _frame: object) -> None:
            raise KeyboardInterrupt

        signal.setitimer(signal.ITIMER_REAL, seconds)
        return raise_interrupt

    previous = signal.signal(signal.SIGALRM, stop_after(1))
    try:
        with pytest.raises(KeyboardInterrupt):
            folder_watch.follow_folder(
                folder, Selection(), own_files=str(own), synchronize=synchronize, notice=lambda _: None
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(calls) == 1


def test_only_changes_of_files_to_read_count(folder: Path) -> None:
    folders = frozenset([folder, folder / "sub"])

    def counts(name: str, selection: Selection) -> bool:
        return folder_watch._counts(folder / name, folder, selection, folders, str(folder / "shoal.db"))

    everything = Selection()
    assert [name for name in ("a.md", "sub/b.txt", "sub") if counts(name, everything)] == [
        "a.md",
        "sub/b.txt",
        "sub",
    ]
    for name in ("a.tmp", ".a.md", ".gitignore", "shoal.db-wal", "shoal.db", "x.png", "gone"):
        assert not counts(name, everything), name
    assert not folder_watch._counts(folder.parent / "a.md", folder, everything, folders, "own")
    assert counts(".gitignore", Selection(gitignore=True))
    assert not counts("a.md", Selection.of((), ("a.*",)))
    assert counts("a.tmp", Selection.of(("*.tmp",)))


def test_missing_package_is_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    arguments = ["--db", str(tmp_path / "shoal.db"), "sync", str(folder), "--watch"]
    assert run(arguments) == 1
    assert "pip install 'shoal[watch]'" in capsys.readouterr().err
    for option in ("--json", "--dry-run", "--strict"):
        assert run([*arguments, option]) == 2
        assert option in capsys.readouterr().err
