"""What the files for agents in a project say already, so that no lesson repeats it (002)."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.notes.hook_input import without_secrets
from shoal.support.regular_files import open_file

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
MAX_FOLDERS = 8
"""Folders from that of the session up to the root of its repository."""
MAX_FILE_BYTES = 16_000
MAX_CHARS = 16_000
"""Of all files. Those nearest to the session come first."""


def written_rules(folder: str) -> str:
    """Return the texts of the files for agents in a folder and those above it in its repository, without
    what looks like a secret; empty if there are none.

    Only files of the user of this process are read, and of each only the start.
    """
    if not folder or not Path(folder).is_absolute():
        return ""
    texts, seen = list[str](), set[tuple[int, int]]()
    for place in _folders(Path(folder)):
        for name in NAMES:
            text = _text_of(place / name, seen)
            if text and text not in texts:
                texts.append(text)
    return "\n\n".join(texts)[:MAX_CHARS]


def _folders(folder: Path) -> list[Path]:
    """The folder and those above it, up to the root of the repository; alone if it is in none."""
    folders = [folder, *folder.parents][:MAX_FOLDERS]
    for n_folders, each in enumerate(folders, 1):
        try:
            if (each / ".git").exists():
                return folders[:n_folders]
        except OSError:
            break
    return folders[:1]


def _text_of(path: Path, seen: set[tuple[int, int]]) -> str:
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            if status.st_uid != os.geteuid() or identity in seen:
                return ""
            seen.add(identity)
            data = file.read(MAX_FILE_BYTES)
    except (OSError, ValueError):
        return ""
    lines = data.decode("utf-8", "replace").splitlines()
    return "\n".join(without_secrets(line).rstrip() for line in lines).strip()
