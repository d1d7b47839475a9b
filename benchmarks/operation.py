"""Cost of maintenance: doctor, backup, restore, export, import, and a sync without changes.

    python benchmarks/operation.py FOLDER

FOLDER has texts (.md, .markdown, .txt). Prints wall seconds, processor seconds of this process, and the
longest wait of a writer during the doctor and the backup.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import lagoon
from shoal.engine import Engine
from shoal.maintenance.backup import create_backup, restore, size_of
from shoal.maintenance.doctor import CheckContext, run_checks
from shoal.settings import Settings
from shoal.storage.opening import open_database

TOUCH = "UPDATE learning SET revision = revision"
"""A write without effect."""


class Writer:
    """Writes repeatedly and records the longest duration."""

    def __init__(self, path: Path) -> None:
        self._database = open_database(f"sqlite:///{path}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.longest = 0.0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._database.close()

    def _write(self) -> None:
        while not self._stop.wait(0.01):
            began = time.perf_counter()
            with self._database.write() as transaction:
                transaction.execute(TOUCH)
            self.longest = max(self.longest, time.perf_counter() - began)


def timed(label: str, work: Callable[[], Any], writer: Writer | None = None) -> Any:
    began, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds = (
        f"{time.perf_counter() - began:7.1f} s {time.process_time() - processor:7.1f} s of the processor"
    )
    waited = f"   a writer waited {writer.longest:.1f} s at most" if writer else ""
    print(f"{label:<28}{seconds}{waited}", flush=True)
    return result


def examined(path: Path, *, quick: bool) -> None:
    with closing(CheckContext(Settings(database_url=f"sqlite:///{path}"), lagoon.load())) as patient:
        report = run_checks(patient, quick=quick)
    if not report.is_healthy:
        sys.exit(f"the doctor has findings: {report.findings}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        path, copy = Path(scratch, "shoal.db"), Path(scratch, "copy.db")
        with Engine(db_path=path) as engine:
            timed("sync, all new", lambda: engine.maintenance.sync(folder))
            timed("sync, nothing to do", lambda: engine.maintenance.sync(folder))
            exported = timed("export", lambda: "\n".join(engine.maintenance.export()).encode())
            canonical = list(engine.maintenance.export(canonical=True))
            status = engine.status()
        megabytes = status.content_bytes / 1e6, size_of(path) / 1e6
        print(
            f"{status.n_documents:,} documents, {status.n_chunks:,} passages, "
            f"{megabytes[0]:.1f} MB of text, ",
            end="",
        )
        print(f"{megabytes[1]:.0f} MB of database")
        with Writer(path) as writer:
            timed("doctor --quick", lambda: examined(path, quick=True), writer)
        with Writer(path) as writer:
            timed("doctor", lambda: examined(path, quick=False), writer)
        with Writer(path) as writer:
            timed("backup", lambda: create_backup(path, copy), writer)
        timed("restore", lambda: restore(path, copy))
        with Engine(db_path=Path(scratch, "imported.db")) as engine:
            timed("import", lambda: engine.maintenance.import_export(io.BytesIO(exported)))
            same = list(engine.maintenance.export(canonical=True)) == canonical
        print(f"the imported library is {'the same' if same else 'ANOTHER ONE'}")
        if not same:
            sys.exit(1)


if __name__ == "__main__":
    main()
