"""Small libraries for the maintenance tests, and a runner for programs that kill themselves."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.maintenance.sync import SyncResult

TEXTS = {
    "Fire": "# Fire\n\nA volcano throws lava and ash.\n\n## Stone\n\nGranite is a rock. Basalt is a rock.\n",
    "Weather": "Rain and storm. Wind over the sea. A cloud brings rain.",
    "Courts": "A judge and a jury weigh evidence of the crime. The court hears a witness.",
    "Garden": "A flower grows from a seed. Pollen travels from petal to petal.",
}


def documents(n: int = len(TEXTS)) -> list[dict[str, Any]]:
    """The first `n` texts as arguments of an ingest."""
    return [
        {
            "title": title,
            "content": text,
            "format": "markdown",
            "tags": [title.lower()],
            "source_path": f"{title}.md",
        }
        for title, text in list(TEXTS.items())[:n]
    ]


def make(path: Path, n: int = len(TEXTS)) -> Path:
    """Create a library with the first `n` texts."""
    database, segments = _library_files(n)
    path.write_bytes(database)
    index_of(path).mkdir(exist_ok=True)
    for name, segment in segments.items():
        (index_of(path) / name).write_bytes(segment)
    return path


@functools.cache
def _library_files(n: int) -> tuple[bytes, dict[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shoal.db")
        with Engine(db_path=path, scorer=FakeScorer()) as engine:
            assert all(result.error is None for result in engine.ingest_many(documents(n)))
        return path.read_bytes(), {file.name: file.read_bytes() for file in index_of(path).glob("*")}


def index_of(path: Path) -> Path:
    """The folder of the index of a library."""
    return Path(f"{path}-index")


def copy(path: Path, target: Path) -> Path:
    """Copy a closed library with its index."""
    shutil.copy(path, target)
    shutil.copytree(index_of(path), index_of(target))
    return target


def exported(path: Path) -> list[str]:
    """The export of a library, by line."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return list(engine.maintenance.export())


def titles(path: Path) -> list[str]:
    """Titles of the documents of a library, in the order of ids."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return [document.title for document in engine.documents.list().documents]


def run_until_killed(program: str, *arguments: object) -> None:
    """Run a program and check that it killed itself."""
    process = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == -9, process.stderr


def follow(library: Path, folder: Path, **options: Any) -> SyncResult:
    """Sync the library with the folder."""
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return engine.maintenance.sync(folder, **options)
