"""Small libraries for the tests of operating one, and programs that are killed at a chosen moment."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.maintenance.sync import Synced, sync

TEXTS = {
    "Fire": "# Fire\n\nA volcano throws lava and ash.\n\n## Stone\n\nGranite is a rock. Basalt is a rock.\n",
    "Weather": "Rain and storm. Wind over the sea. A cloud brings rain.",
    "Courts": "A judge and a jury weigh evidence of the crime. The court hears a witness.",
    "Garden": "A flower grows from a seed. Pollen travels from petal to petal.",
}


def documents(n: int = len(TEXTS)) -> list[dict[str, Any]]:
    """The first `n` of the texts as they are handed in."""
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
    """A library with the first `n` texts."""
    path.write_bytes(_made(n))
    return path


@functools.cache
def _made(n: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shoal.db")
        with Engine(db_path=path, scorer=FakeScorer()) as engine:
            assert all(result.error is None for result in engine.ingest_many(documents(n)))
        return path.read_bytes()


def exported(path: Path) -> list[str]:
    """All that a library holds."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return list(engine.export())


def titles(path: Path) -> list[str]:
    """The titles of a library, by id."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return [document.title for document in engine.documents().documents]


def run_until_killed(program: str, *arguments: object) -> None:
    """Run a program that kills itself."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -9, done.stderr


def follow(library: Path, folder: Path, **options: Any) -> Synced:
    """Let the library follow the folder."""
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return sync(engine, folder, **options)
