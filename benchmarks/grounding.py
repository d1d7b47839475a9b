"""How well `verify` tells supported statements from others, on the sample articles.

usage: python benchmarks/grounding.py [--tune] [--show]

`judgements/grounding.jsonl` has 167 statements on the sixteen articles of `shoal/sample_corpus`, each with
words of the passages that it cites. They were written with the article at hand, before anything was tuned:

    supported      says what the passage says, in the same or in other words
    number         a supported statement with another number
    unsupported    plausible and on the subject, and the passage does not say it
    contradicted   the opposite of what the passage says, mostly in its own words
    unreferenced   true, and cites nothing

Every second article, by name, is for tuning (`--tune` prints the share of right verdicts by threshold); the
numbers of the documentation are those of the other eight. `--show` lists the wrong verdicts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal import Engine
from shoal.models.verdicts import MIN_COVERAGE, StatementVerdict, Verdict

JUDGED = Path(__file__).parent / "judgements" / "grounding.jsonl"
CORPUS = Path(__file__).parents[1] / "shoal" / "sample_corpus"
CHUNKS = """
    SELECT c.id, c.text, d.source_path FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY c.id
"""
LABELS = ("supported", "number", "unsupported", "contradicted", "unreferenced")
Judged = Mapping[str, Any]


def read_judged() -> tuple[list[Judged], list[Judged]]:
    """Return the statements for tuning and those held out."""
    rows = [json.loads(line) for line in JUDGED.read_text(encoding="utf-8").splitlines()]
    for_tuning = set(sorted({row["document"] for row in rows})[::2])
    return [row for row in rows if row["document"] in for_tuning], [
        row for row in rows if row["document"] not in for_tuning
    ]


def verdicts_on(engine: Engine, rows: Sequence[Judged]) -> list[StatementVerdict]:
    """Verify each statement against the chunk that it cites."""
    with engine.database.snapshot() as snapshot:
        chunks = [(row["id"], row["text"], row["source_path"]) for row in snapshot.rows(CHUNKS)]
    statements = []
    for row in rows:
        cited = [
            next(each for each, text, path in chunks if path.endswith(row["document"]) and passage in text)
            for passage in row["passages"]
        ]
        statements.append({"text": row["statement"], "references": [f"chunk {each}" for each in cited]})
    return list(engine.verify(statements=statements).statements)


def is_right(row: Judged, verdict: StatementVerdict, min_coverage: float = MIN_COVERAGE) -> bool:
    """Whether a statement is accepted if and only if it is labelled supported."""
    if row["label"] == "unreferenced":
        return verdict.verdict is Verdict.unreferenced
    has_other = any(problem.code != "coverage" for problem in verdict.problems)
    return (verdict.coverage >= min_coverage and not has_other) == (row["label"] == "supported")


def report(name: str, rows: Sequence[Judged], verdicts: Sequence[StatementVerdict]) -> None:
    """Print the right verdicts by label, and precision and recall of `supported`."""
    right: Counter[str] = Counter()
    total = Counter(row["label"] for row in rows)
    for row, verdict in zip(rows, verdicts, strict=True):
        right[row["label"]] += is_right(row, verdict)
    n_accepted = right["supported"] + sum(
        total[label] - right[label] for label in LABELS[1:] if label != "unreferenced"
    )
    shares = {label: f"{right[label]}/{total[label]}" for label in LABELS}
    recall = right["supported"] / total["supported"]
    precision = right["supported"] / max(n_accepted, 1)
    print(
        json.dumps(
            {
                "statements": name,
                "right": shares,
                "precision": round(precision, 3),
                "recall": round(recall, 3),
            }
        )
    )


def tune(rows: Sequence[Judged], verdicts: Sequence[StatementVerdict]) -> None:
    """Print, by threshold, the mean share of right verdicts on supported and on other cited statements."""
    for percent in range(40, 100, 5):
        shares = []
        for is_supported in (True, False):
            chosen = [
                is_right(row, verdict, percent / 100)
                for row, verdict in zip(rows, verdicts, strict=True)
                if row["label"] != "unreferenced" and (row["label"] == "supported") is is_supported
            ]
            shares.append(sum(chosen) / len(chosen))
        print(json.dumps({"min_coverage": percent / 100, "supported": shares[0], "others": shares[1]}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    for_tuning, held_out = read_judged()
    with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
        engine.ingest_many(
            {"title": path.stem, "content": path.read_text(encoding="utf-8"), "source_path": path.name}
            for path in sorted(CORPUS.iterdir())
            if path.suffix in (".md", ".txt")
        )
        for name, rows in (("tuning", for_tuning), ("held out", held_out)):
            if args.tune and rows is held_out:
                continue
            verdicts = verdicts_on(engine, rows)
            report(name, rows, verdicts)
            if args.tune:
                tune(rows, verdicts)
            for row, verdict in zip(rows, verdicts, strict=True):
                if args.show and not is_right(row, verdict):
                    codes = [problem.code for problem in verdict.problems]
                    print(row["label"], verdict.coverage, codes, row["statement"], sep=" | ")


if __name__ == "__main__":
    main()
