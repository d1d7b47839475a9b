"""Truth of labels: how often a displayed reef is a subject of its chunk, by judged labels.

usage: python -m benchmarks.label_truth CORPORA [--database FILE] [--threshold 0.6] [--fit] [--unjudged FILE]
       [--document SOURCE]

`judgements/chunk_labels.jsonl` has 300 chunks, drawn by a seed, one document after another: half from books,
half from encyclopedia articles. Each has about eleven labels, proposed by several scorings and shuffled. Two
independent readings judged every label from the text alone: `a` apt (one would say that the text is about
this), `l` loose (an association) or `w` wrong. The two agree on 90 % of the 3,295 labels (Cohen's kappa
0.83).

Builds the library of these documents (minutes), or opens `--database` if it exists. Prints, for books and
articles and for each half of the documents: the share of apt and wrong labels by rank and above the
threshold, the number of labels shown, the separation of apt from wrong ones (AUC), and the calibration of
the probability. `--fit` prints the constants of `lagoon.results` and the trust of reefs
(`lagoon/build/reef_trust.toml`) as fitted on the half `choose`, or with `--fit both` on both; the half
`report` is for reporting. `--unjudged` writes labels above the threshold without a verdict, to be judged.
`--document` prints only the most frequent first labels of a document of any library `--database`.

CORPORA has `books/`, `wikipedia/`, `more-books/` (unpacked) and `wikipedia-vital-1k.jsonl.gz`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lagoon
from lagoon import SectionStart, results
from shoal import Engine
from shoal.learning.scorers import scorer_for
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import get_content

JUDGED = Path(__file__).parent / "judgements" / "chunk_labels.jsonl"
ARTICLES = ("wikipedia/", "vital/")
RANKS = 3
BINS = 10

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedChunk:
    """A chunk by its place in a document; `verdicts`: two letters by name of a reef."""

    source: str
    start: int
    end: int
    verdicts: dict[str, str]

    @property
    def group(self) -> str:
        return "articles" if self.source.startswith(ARTICLES) else "books"

    @property
    def half(self) -> str:
        return "choose" if hashlib.sha256(self.source.encode()).digest()[0] % 2 else "report"


@dataclass(frozen=True)
class Label:
    """A reef of a judged chunk with its probability and, if it was judged, its shares of apt and wrong."""

    chunk: JudgedChunk
    reef: str
    probability: float
    apt: float
    wrong: float


def read_judged() -> list[JudgedChunk]:
    records = map(json.loads, JUDGED.read_text(encoding="utf-8").splitlines())
    return [JudgedChunk(each["source"], each["start"], each["end"], each["labels"]) for each in records]


def build(engine: Engine, corpora: Path, sources: set[str]) -> None:
    """Ingest the documents of the judged chunks."""

    def documents() -> Iterator[dict[str, Any]]:
        for source in sorted(sources):
            folder, name = source.split("/", 1)
            if folder != "vital":
                path = corpora / folder / name
                markdown = path.suffix == ".md"
                yield {
                    "content": path.read_text(encoding="utf-8"),
                    "source_path": source,
                    "format": "markdown" if markdown else "plaintext",
                }
        with gzip.open(corpora / "wikipedia-vital-1k.jsonl.gz", "rt", encoding="utf-8") as lines:
            for article in map(json.loads, lines):
                if f"vital/{article['_id']}" in sources:
                    yield {
                        "content": f"{article['title']}\n\n{article['text']}",
                        "title": article["title"],
                        "source_path": f"vital/{article['_id']}",
                        "format": "plaintext",
                    }

    engine.ingest_many(documents())


def stored_labels(engine: Engine, judged: Sequence[JudgedChunk]) -> list[Label]:
    """All stored reefs of the judged chunks; a chunk counts if it covers four fifths of the judged span."""
    labels_of: list[Label] = []
    with engine.database.snapshot() as snapshot:
        for chunk in judged:
            rows = snapshot.rows(
                """SELECT r.reef_name, r.probability FROM chunk_reefs r
                JOIN chunks c ON c.id = r.chunk_id JOIN documents d ON d.id = c.document_id
                WHERE d.source_path = :source AND MIN(c.end_char, :end) - MAX(c.start_char, :start)
                      >= 0.8 * (MAX(c.end_char, :end) - MIN(c.start_char, :start))
                ORDER BY r.probability DESC, r.rank""",
                {"source": chunk.source, "start": chunk.start, "end": chunk.end},
            )
            for name, probability in rows:
                verdict = chunk.verdicts.get(name, "")
                n = len(verdict) or np.nan
                labels_of.append(
                    Label(chunk, name, probability, verdict.count("a") / n, verdict.count("w") / n)
                )
    return labels_of


def report(title: str, shown: Sequence[Label], threshold: float) -> None:
    """Print the tables of some chunks."""
    by_chunk: dict[tuple[str, int], list[Label]] = {}
    for label in shown:
        by_chunk.setdefault((label.chunk.source, label.chunk.start), []).append(label)
    print(f"\n{title}: {len(by_chunk)} chunks")
    for rank in range(RANKS):
        ranked = [labels_of[rank] for labels_of in by_chunk.values() if len(labels_of) > rank]
        print(f"  label {rank + 1:<17} {_shares(ranked)}")
        ranked = [label for label in ranked if label.probability >= threshold]
        print(f"  label {rank + 1} from {threshold:<8}   {_shares(ranked)}")
    above = [label for label in shown if label.probability >= threshold]
    print(f"  all from {threshold:<12}    {_shares(above)}, {len(above) / max(len(by_chunk), 1):.2f} a chunk")
    known = [label for label in shown if not np.isnan(label.apt)]
    chances = np.array([label.probability for label in known])
    apt = np.array([label.apt for label in known])
    wrong = np.array([label.wrong for label in known])
    print(f"  AUC of apt against wrong {auc(chances[apt == 1], chances[wrong == 1]):.3f}")
    order = np.array_split(np.argsort(chances, kind="stable"), BINS)
    pairs = [(float(chances[part].mean()), float(apt[part].mean())) for part in order]
    error = sum(abs(chance - share) for chance, share in pairs) / BINS
    print(f"  calibration error {error:.3f}: " + " ".join(f"{p:.2f}/{share:.2f}" for p, share in pairs))


def _shares(shown: Sequence[Label]) -> str:
    known = [label for label in shown if not np.isnan(label.apt)]
    if not known:
        return "none"
    apt, wrong = (float(np.mean([getattr(label, name) for label in known])) for name in ("apt", "wrong"))
    return f"{len(shown):>5} shown, {len(known):>5} judged: apt {apt:4.0%}, wrong {wrong:4.0%}"


def auc(positive: Doubles, negative: Doubles) -> float:
    """Probability that a positive value is above a negative one; ties count half."""
    values = np.sort(negative)
    below = np.searchsorted(values, positive, side="left")
    not_above = np.searchsorted(values, positive, side="right")
    return float((below + not_above).mean() / 2 / max(len(values), 1))


def fit(engine: Engine, judged: Sequence[JudgedChunk]) -> None:
    """Print the constants of `lagoon.results`, fitted on the half `choose`."""
    scorer = lagoon.load()
    reef_id = {reef.name: reef.id for reef in scorer.reefs}
    island_of = np.array([reef.island_id for reef in scorer.reefs])
    inputs, apt, reefs = [], [], []
    with engine.database.snapshot() as snapshot:
        for chunk in judged:
            title, passages, at = passages_around(snapshot, chunk)
            text = "\n\n".join((title, *passages))
            analysis = scorer_for(text, snapshot, scorer).analyze(
                passages,
                sections=[SectionStart(number, title) for number in range(len(passages))],
                min_chunk_sentences=len(passages) + 1,
                max_chunk_sentences=0,
                max_chunk_chars=0,
                context_weight=engine.settings.heading_weight,
            )
            ids = np.array([[reef_id[name] for name in chunk.verdicts]])
            inputs.append(results.features(analysis.topics[at].label_scores, ids, island_of)[0])
            apt += [verdict.count("a") / len(verdict) for verdict in chunk.verdicts.values()]
            reefs += ids[0].tolist()
    every, targets = np.concatenate(inputs), np.array(apt)
    of_reefs = np.eye(len(reef_id))[reefs]
    among_others, trust = regression_of_groups(every, targets, of_reefs)
    without_around = np.delete(every, results.AROUND, axis=1)
    alone = logistic_regression(without_around, targets, of_reefs @ trust)
    print("\nALONE", np.insert(alone, results.AROUND + 1, 0.0).round(2).tolist())
    print("AMONG_OTHERS", among_others.round(2).tolist())
    print("\n[readers]")
    for name, raised in zip(reef_id, trust.round(1).tolist(), strict=True):
        if raised:
            print(f'"{name}" = {raised}')


def passages_around(snapshot: Snapshot, chunk: JudgedChunk) -> tuple[str, list[str], int]:
    """(title of the document, a judged chunk and the chunks around it, place of the judged chunk)."""
    rows = snapshot.rows(
        """SELECT d.title, c.text, c.start_char, c.end_char, d.id AS document_id
        FROM chunks c
        JOIN documents d ON d.id = c.document_id WHERE d.source_path = :source ORDER BY c.start_char""",
        {"source": chunk.source},
    )
    title = rows[0]["title"]
    content = get_content(snapshot, rows[0]["document_id"])
    before = [text for _, text, start, end, _ in rows if (start + end) / 2 < chunk.start]
    after = [text for _, text, start, end, _ in rows if (start + end) / 2 > chunk.end]
    before, after = before[-results.REACH :], after[: results.REACH]
    return title, [*before, content[chunk.start : chunk.end], *after], len(before)


TRUST_SPREAD = 0.8
"""Deviation of the trust of reefs that is expected: fitted on either half, the other half is most likely with
this one (log loss 0.286; with 0.5 0.290, with 1.2 0.287, without trust 0.301)."""


def logistic_regression(inputs: Doubles, targets: Doubles, raised: Doubles | float = 0.0) -> Doubles:
    """Intercept and coefficients; `raised` (n,) is added to the logits."""
    return regression_of_groups(inputs, targets, np.empty((len(inputs), 0)), raised)[0]


def regression_of_groups(
    inputs: Doubles, targets: Doubles, groups: Doubles, raised: Doubles | float = 0.0, ridge: float = 2.0
) -> tuple[Doubles, Doubles]:
    """(intercept and coefficients, constant of each group) by Newton's method; `ridge` shrinks the
    coefficients of scaled inputs. `groups` (n, groups) marks the group of each input."""
    mean, deviation = inputs.mean(axis=0), inputs.std(axis=0)
    scaled = np.column_stack((np.ones(len(inputs)), (inputs - mean) / deviation, groups))
    n_inputs, n_groups = inputs.shape[1], groups.shape[1]
    penalty = np.diag([0.0, *[ridge] * n_inputs, *[TRUST_SPREAD**-2] * n_groups])
    weights = np.zeros(scaled.shape[1])
    for _ in range(30):
        chances = 1.0 / (1.0 + np.exp(-scaled @ weights - raised))
        gradient = scaled.T @ (chances - targets) + penalty @ weights
        curvature = (scaled * (chances * (1.0 - chances))[:, None]).T @ scaled + penalty
        weights -= np.linalg.solve(curvature, gradient)
    slopes = weights[1 : n_inputs + 1] / deviation
    return np.concatenate(([weights[0] - slopes @ mean], slopes)), weights[n_inputs + 1 :]


def report_document(engine: Engine, source: str, threshold: float) -> None:
    """Print the most frequent first labels of a document, as shares of its chunks."""
    with engine.database.snapshot() as snapshot:
        rows = snapshot.rows(
            """SELECT CASE WHEN top_reef_probability >= :threshold THEN top_reef_name END
            FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.source_path = :source""",
            {"source": source, "threshold": threshold},
        )
    labels_of = Counter(name or "(no label)" for (name,) in rows)
    print(f"{source}: {len(rows)} chunks")
    for name, n in labels_of.most_common(BINS + 1):
        print(f"  {n / len(rows):6.1%}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--database", type=Path, help="library of these documents, built if it is missing")
    parser.add_argument("--threshold", type=float, default=0.6)
    parser.add_argument("--fit", choices=("choose", "both"))
    parser.add_argument("--unjudged", type=Path, metavar="FILE")
    parser.add_argument("--document", metavar="SOURCE")
    options = parser.parse_args()
    judged = read_judged()
    with tempfile.TemporaryDirectory() as scratch:
        database = options.database or Path(scratch) / "judged.db"
        is_new = not database.exists()
        with Engine(db_path=database) as engine:
            if is_new:
                build(engine, options.corpora, {chunk.source for chunk in judged})
            if options.document:
                report_document(engine, options.document, options.threshold)
                return
            shown = stored_labels(engine, judged)
            for group in ("articles", "books"):
                for half in ("choose", "report"):
                    chosen = [
                        label for label in shown if (label.chunk.group, label.chunk.half) == (group, half)
                    ]
                    report(f"{group}, {half}", chosen, options.threshold)
            if options.fit:
                fit(engine, [chunk for chunk in judged if options.fit == "both" or chunk.half == "choose"])
    if options.unjudged:
        lines = [
            json.dumps({"source": label.chunk.source, "start": label.chunk.start, "label": label.reef})
            for label in shown
            if np.isnan(label.apt) and label.probability >= options.threshold
        ]
        options.unjudged.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
