"""Learned names shown with a reef: what Shoal learned of Marius says nothing about Marius.

usage: python -m benchmarks.learned_names FOLDER [--n 200] [--seed 31] [--database FILE]

Ingests the texts of FOLDER (.md, .txt), or opens `--database` if it exists, and draws learned words that the
library writes as names. Each is looked at where a person may meet it: in the vocabulary, in the explanation
of a query of the name alone, and in the reasons of its first ten results. Prints how many are shown with a
reef that the name itself is the evidence for; in *aunt Harriet*, the aunt may have one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shoal import Engine
from shoal.models.scores import ReasonKind

MOST_LISTED = 1_000
"""Learned words of a page of the vocabulary."""


def names(engine: Engine) -> list[str]:
    """The learned words of a library that are names, in order."""
    found: list[str] = []
    while True:
        page = engine.vocabulary.list(limit=MOST_LISTED, offset=len(found))
        found += [entry.word if entry.is_name else "" for entry in page.words]
        if len(found) >= page.total or not page.words:
            return sorted(filter(None, found))


def places(engine: Engine, name: str) -> Iterator[str]:
    """Where a name is shown with a reef."""
    if engine.vocabulary.get(name).reefs:
        yield "vocabulary"
    words = engine.explain(name).words
    if any(word.reefs for word in words if word.learned is not None and word.learned.is_name):
        yield "explanation"
    results = engine.search(name, include_scores=True).results
    reefs = [reef for result in results for reef in result.shared_reefs or () if reef.is_reason]
    if any(name in map(str.lower, reef.query_words) for reef in reefs):
        yield "reasons by reefs"
    if any(reason.kind is ReasonKind.learned for result in results for reason in result.reasons):
        yield "sentences"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--database", type=Path, help="library of these texts, built if it is missing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = options.database or Path(scratch) / "names.db"
        is_new = not database.exists()
        with Engine(db_path=database) as engine:
            if is_new:
                files = sorted(p for p in options.folder.iterdir() if p.suffix in {".md", ".txt"})
                engine.ingest_many(
                    {"content": path.read_text(encoding="utf-8"), "source_path": path.name} for path in files
                )
            known = names(engine)
            drawn = random.Random(options.seed).sample(known, min(options.n, len(known)))
            shown = {name: found for name in drawn if (found := list(places(engine, name)))}
    print(f"{len(known)} learned names, {len(drawn)} drawn, {len(shown)} shown with a reef")
    for name, found in shown.items():
        print(f"  {name}: {', '.join(found)}")


if __name__ == "__main__":
    main()
