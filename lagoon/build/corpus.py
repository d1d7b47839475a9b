"""Running text: whole articles and books.

Used for counts only: windows with a word, and occurrences of words. The text itself is not stored.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path


def read_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Read the texts of ``.jsonl`` / ``.jsonl.gz`` files (field ``text``) and of folders of ``.txt`` /
    ``.md`` files.

    Raises:
        FileNotFoundError: if a path is missing.
        ValueError: if a file has another format.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.iterdir() if p.suffix in {".txt", ".md"}):
                yield file.read_text(encoding="utf-8", errors="replace")
        elif path.name.endswith((".jsonl", ".jsonl.gz")):
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8") as stream:
                for line in stream:
                    yield str(json.loads(line)["text"])
        elif not path.exists():
            raise FileNotFoundError(path)
        else:
            raise ValueError(f"{path}: neither a folder of texts nor a .jsonl file")
