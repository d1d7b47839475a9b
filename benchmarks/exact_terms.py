"""Recall of exact terms: names, numbers and codes that occur in few passages.

usage: python benchmarks/exact_terms.py DATABASE|FOLDER... [--n 200] [--seed 1] [--modes hybrid,lexical]

Takes a library, or builds one from folders of texts. Draws tokens that occur in at most ten passages, a third
each of names (capitalized everywhere), numbers (three digits or more) and codes (letters and digits), and
searches for each token with the defaults and no limit per document. Recall@10 is the share of the passages
with the token that are among the first ten results. Exits 1 unless the mean of every mode is at least 0.95.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import statistics
import tempfile
from pathlib import Path

from lagoon.tokens import STOP_WORDS
from shoal import Engine
from shoal.formats.drafts import FORMAT_OF_SUFFIX

TOKEN = re.compile(r"[^\W_]+")
MOST_HOLDING = 10
LEAST_RECALL = 0.95
KINDS = ("name", "number", "code")
TEXTS = "SELECT id, text FROM chunks"


def kind_of(forms: set[str]) -> str | None:
    """Kind of a token, by all its forms in the library; None for ordinary words."""
    if all(form.isdigit() for form in forms):
        return "number" if all(len(form) >= 3 for form in forms) else None
    if any(character.isdigit() for form in forms for character in form):
        return "code"
    capitalised = all(form[0].isupper() and form[1:].islower() for form in forms)
    return "name" if capitalised and all(len(form) >= 3 for form in forms) else None


def rare_tokens(engine: Engine) -> dict[str, dict[str, set[int]]]:
    """Tokens by kind, in lower case, with the chunks they occur in."""
    holding: dict[str, set[int]] = collections.defaultdict(set)
    forms: dict[str, set[str]] = collections.defaultdict(set)
    with engine.database.snapshot() as snapshot:
        for chunk_id, text in snapshot.tuples(TEXTS):
            for form in set(TOKEN.findall(text)):
                token = form.lower()
                if len(holding[token]) <= MOST_HOLDING:
                    holding[token].add(chunk_id)
                    forms[token].add(form)
    tokens_by_kind: dict[str, dict[str, set[int]]] = {kind: {} for kind in KINDS}
    for token, chunks in sorted(holding.items()):
        kind = None if token in STOP_WORDS else kind_of(forms[token])
        if kind is not None and len(chunks) <= MOST_HOLDING:
            tokens_by_kind[kind][token] = chunks
    return tokens_by_kind


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default="hybrid,lexical")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        library = options.sources[0] if options.sources[0].is_file() else None
        with Engine(db_path=library or Path(scratch) / "exact.db") as engine:
            if library is None:
                paths = sorted(p for folder in options.sources for p in folder.rglob("*"))
                with engine.ingest_session() as ingest_session:
                    for path in paths:
                        if path.suffix in FORMAT_OF_SUFFIX:
                            ingest_session.add(
                                {"content": path.read_text(encoding="utf-8", errors="replace")}
                                | {"source_path": str(path)}
                            )
                    ingest_session.finish()
            engine.start()
            return _measure(engine, options.n, options.seed, options.modes.split(","))


def _measure(engine: Engine, n: int, seed: int, modes: list[str]) -> int:
    tokens = rare_tokens(engine)
    generator = random.Random(seed)
    drawn = {
        kind: generator.sample(list(tokens[kind]), min(len(tokens[kind]), -(-n // len(KINDS))))
        for kind in KINDS
    }
    worst = 1.0
    for mode in modes:
        recalls: dict[str, list[float]] = collections.defaultdict(list)
        missed = []
        for kind in KINDS:
            for token in drawn[kind]:
                holding = tokens[kind][token]
                results = engine.search(token, mode=mode, max_per_document=0).results
                recalls[kind].append(len(holding & {result.chunk_id for result in results}) / len(holding))
                if recalls[kind][-1] < 1:
                    missed.append(token)
        mean = statistics.mean(recall for values in recalls.values() for recall in values)
        worst = min(worst, mean)
        line = {
            "mode": mode,
            "chunks": engine.status().n_chunks,
            "tokens": sum(map(len, drawn.values())),
            "recall@10": round(mean, 4),
            **{kind: round(statistics.mean(values), 4) for kind, values in recalls.items() if values},
            "not all found": missed[:20],
        }
        print(json.dumps(line), flush=True)
    return int(worst < LEAST_RECALL)


if __name__ == "__main__":
    raise SystemExit(main())
