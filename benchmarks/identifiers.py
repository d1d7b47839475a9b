"""Identifiers: whether a search finds one that is stored, and admits that it has not found a neighbour of it.

usage: python -m benchmarks.identifiers FOLDER... [--n 500] [--seed 1] [--keep DATABASE]

Builds a library from folders of texts, and draws identifiers that stand in at most three passages: numbers of
four digits or more, codes of letters and digits, versions, dates. For each it searches for the identifier,
alone, behind two words of the passage before it, or behind eight, in turn, and for three neighbours: the
identifier with one other digit or letter, that no passage has. Prints

    first     share of the identifiers whose first result has it, with a relevance of at least .8
    claimed   share of the neighbours whose first result has a relevance of .5 or more
    named     share of the neighbours that a warning names

Exits 1 if `first` is below .99 or `claimed` above .01.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import string
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from shoal import Engine
from shoal.formats.drafts import FORMAT_OF_SUFFIX
from shoal.words.analysis import content_words, folded, words_of

IDENTIFIER = re.compile(r"(?<![\w.,/:\\-])(?:[A-Za-z]{1,8}-?)?\d[\w.:-]*\w(?![\w/-])")
MOST_HOLDING = 3
LEAST_LENGTH = 4
N_NEIGHBOURS = 3
N_WORDS_BEFORE = (0, 2, 8)
BEFORE_CHARS = 240
RELEVANT, CLAIMED = 0.8, 0.5
LEAST_FIRST, MOST_CLAIMED = 0.99, 0.01
TEXTS = "SELECT id, text FROM chunks ORDER BY id"


class Drawn(NamedTuple):
    """An identifier, the passages with it, and what stands before it in one of them."""

    text: str
    holding: frozenset[int]
    before: str


def identifiers(engine: Engine) -> list[Drawn]:
    """The identifiers in few passages; 12,000 and 12000 are one."""
    holding: dict[str, set[int]] = collections.defaultdict(set)
    found: dict[str, tuple[str, str]] = {}
    with engine.database.snapshot() as snapshot:
        for chunk_id, text in snapshot.tuples(TEXTS):
            for form in {word.form for word in words_of(text)}:
                holding[form].add(chunk_id)
            for match in IDENTIFIER.finditer(text):
                if len(match.group()) >= LEAST_LENGTH:
                    before = text[max(match.start() - BEFORE_CHARS, 0) : match.start()]
                    found.setdefault(folded(match.group()), (match.group(), before))
    return [
        Drawn(text, frozenset(holding[form]), before)
        for form, (text, before) in sorted(found.items())
        if len(holding[form]) <= MOST_HOLDING
    ]


def neighbours(generator: random.Random, identifier: str, stored: Collection[str]) -> list[str]:
    """Identifiers with one other digit or letter whose folded form is not among the stored ones."""
    places = [place for place, char in enumerate(identifier) if char.isalnum()]
    found: dict[str, None] = {}
    for _ in range(50):
        place = generator.choice(places)
        kind = string.digits if identifier[place].isdigit() else string.ascii_uppercase
        other = identifier[:place] + generator.choice(kind) + identifier[place + 1 :]
        if folded(other) not in stored:
            found[other] = None
        if len(found) == N_NEIGHBOURS:
            break
    return list(found)


def measure(engine: Engine, n: int, seed: int) -> dict[str, object]:
    """Search for identifiers and their neighbours."""
    generator = random.Random(seed)
    drawn = identifiers(engine)
    chosen = generator.sample(drawn, min(n, len(drawn)))
    missed: list[str] = []
    claims: list[str] = []
    n_neighbours = n_named = 0
    with engine.database.snapshot() as snapshot:
        stored = {word.form for _, text in snapshot.tuples(TEXTS) for word in words_of(text)}
    others = [neighbours(generator, each.text, stored) for each in chosen]
    for number, (each, near) in enumerate(zip(chosen, others, strict=True)):
        words = [each.before[word.start : word.end] for word in content_words(each.before)]
        words = [word for word in words if word.isalpha() and len(word) >= LEAST_LENGTH]
        n_words = N_WORDS_BEFORE[number % len(N_WORDS_BEFORE)]
        prefix = " ".join([*words[len(words) - min(n_words, len(words)) :], ""]) if n_words else ""
        results = engine.search(prefix + each.text).results
        is_first = bool(results) and results[0].chunk_id in each.holding and results[0].relevance >= RELEVANT
        if not is_first:
            missed.append(prefix + each.text)
        for other in near:
            response = engine.search(prefix + other)
            n_neighbours += 1
            n_named += any(other in warning for warning in response.warnings)
            if response.results and response.results[0].relevance >= CLAIMED:
                claims.append(f"{prefix}{other} ({each.text})")
    return {
        "identifiers": len(chosen),
        "neighbours": n_neighbours,
        "first": round(1 - len(missed) / max(len(chosen), 1), 4),
        "claimed": round(len(claims) / max(n_neighbours, 1), 4),
        "named": round(n_named / max(n_neighbours, 1), 4),
        "missed": missed[:12],
        "claims": claims[:12],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a database to build once and use again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.keep or Path(scratch) / "identifiers.db"
        with Engine(db_path=path) as engine:
            if not engine.status().n_documents:
                files = (file for folder in arguments.folders for file in sorted(folder.rglob("*")))
                engine.ingest_many(
                    {"title": file.stem, "content": file.read_text(), "source_path": str(file)}
                    for file in files
                    if file.suffix in FORMAT_OF_SUFFIX
                )
            found = measure(engine, arguments.n, arguments.seed)
    print(json.dumps(found, ensure_ascii=False))
    if found["first"] < LEAST_FIRST or found["claimed"] > MOST_CLAIMED:  # type: ignore[operator]
        raise SystemExit(1)


if __name__ == "__main__":
    main()
