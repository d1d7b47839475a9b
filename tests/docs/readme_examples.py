"""Write the command outputs in the README: `python tests/docs/readme_examples.py` runs the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
QUERY = "why do plants need insects"
BLOCK = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def examples(folder: Path) -> list[str]:
    """Return the text blocks of the README in order. `folder` is empty and will hold the database."""
    database = folder / "shoal.db"
    _shoal(database, "ingest-dir", "shoal/sample_corpus", "--tags", "sample")
    search_output = _shoal(database, "search", QUERY, "--top-k", "1", "--scores")
    explanation = _shoal(database, "explain", QUERY)
    # The last line of a search is its time. Of an explanation the README shows only the words.
    return [
        "\n".join(search_output[:-1]) + "\n",
        f'$ shoal explain "{QUERY}"\n' + "\n".join(explanation[: explanation.index("")]) + "\n",
    ]


def _shoal(database: Path, *arguments: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")} | {"COLUMNS": "100"}
    command = [sys.executable, "-m", "shoal.cli", "--db", str(database), *arguments]
    completed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return [line.rstrip() for line in completed.stdout.splitlines()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fresh = iter(examples(Path(folder)))
    README.write_text(BLOCK.sub(lambda _: next(fresh), README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
