"""Whether an agent finds the right code: needs about public repositories, and the definitions that meet them.

    python -m benchmarks.code_needs NAME FOLDER [--encoder NAME]

NAME is `flask` or `requests`, FOLDER a checkout of that repository (pallets/flask, psf/requests). The folder
is ingested, and each need of `code_needs.json` is searched with the defaults of `search_chunks`. A need is an
identifier or a sentence; it is met by a passage of the file that is part of one of the named definitions.
Prints the rank of the first such passage for each need, and how many are among the first three. Rules are
chosen on requests; flask reports them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from shoal import Engine
from shoal.models.search import SearchResult
from shoal.settings import Settings

FIRST = 3
NEEDS = Path(__file__).with_name("code_needs.json")


def meets(result: SearchResult, path: str, names: list[str]) -> bool:
    """Whether a passage is part of one of the definitions of a file."""
    if not (result.source_path or "").endswith(path):
        return False
    places = [*result.section_path, result.text]
    return any(
        re.search(rf"\b(?:def|class) {re.escape(name)}\b", place) for name in names for place in places
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    needs: dict[str, list[tuple[str, str, list[str]]]] = json.loads(NEEDS.read_text("utf-8"))
    parser.add_argument("name", choices=sorted(needs))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="", help="as in SHOAL_ENCODER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = Path(scratch) / "code.db"
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "--db",
            str(database),
            "ingest-dir",
            str(options.folder),
        ]
        subprocess.run(command, check=False, capture_output=True)
        given = {"encoder": options.encoder, "embed": True} if options.encoder else {}
        with Engine(settings=Settings(database_url=f"sqlite:///{database}", **given)) as engine:
            if options.encoder:
                engine.maintenance.embed()
            ranks = []
            for query, path, names in needs[options.name]:
                results = engine.search(query, syntax="plain", top_k=50, max_per_document=0).results
                first = engine.search(query, syntax="plain", top_k=10).results
                rank = next((n for n, each in enumerate(first, 1) if meets(each, path, names)), None)
                later = next((n for n, each in enumerate(results, 1) if meets(each, path, names)), None)
                ranks.append(rank)
                print(f"{rank or '-':>3} ({later or '-':>3} of all)  {query}  -> {path} {names[0]}")
    n_first = sum(rank is not None and rank <= FIRST for rank in ranks)
    print(f"{options.name}: {n_first} of {len(ranks)} needs among the first {FIRST}")


if __name__ == "__main__":
    main()
