"""Truth of reasons: how often a shared reef given as the reason of a search result is one, by judged reasons.

usage: python -m benchmarks.reason_truth CORPORA COLLECTIONS [--databases FOLDER] [--threshold 0.6] [--fit]

`judgements/search_reasons.jsonl` has the first results of 99 searches, drawn by a seed: 50 questions to
books and encyclopedia articles, written from a passage in words of their own, and 49 queries of four
retrieval collections. Two independent readings judged the eight shared reefs with the largest shares of
each result: `a` apt (query and passage are both about this), `l` loose or `w` wrong. The two agree on 89 %
of 792 (Cohen's kappa 0.82).

Builds the libraries (minutes), or uses those in `--databases`. A search counts if its first result covers
four fifths of the judged passage. Prints, for each half of the searches, the shares of apt and wrong reefs
in the order of their shares of the score and among the reasons, the number of reasons a result, and the
separation of apt from wrong ones (AUC). `--fit` prints the constants of `shoal.search.why`, fitted on
the half `choose`, and those of related words, fitted on `judgements/related_words.jsonl`: 500 pairs of a word
of a query and one of its first results, drawn from the likeliest ones of 350 searches in encyclopedia
articles and books, and judged by one reading in the sense of both texts, with the same letters. A loose pair
counts as half apt.

CORPORA has `books/`, `wikipedia/`, `more-books/` (unpacked) and `wikipedia-vital-1k.jsonl.gz`. COLLECTIONS
has `scifact`, `cranfield`, `medline` and `cacm`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import label_truth
from shoal import Engine
from shoal.learning.scorers import scorer_for
from shoal.search import why
from shoal.search.query_profile import make_profile

JUDGED = Path(__file__).parent / "judgements" / "search_reasons.jsonl"
PAIRS = JUDGED.with_name("related_words.jsonl")
CORPORA = "corpora"
RANKS = 4
LEAST_OVERLAP = 0.8


@dataclass(frozen=True)
class JudgedSearch:
    """A search and its first result; `verdicts`: two letters by name of a reef."""

    library: str
    query: str
    query_id: str | None
    source: str
    start: int
    end: int
    verdicts: dict[str, str]

    @property
    def half(self) -> str:
        return "choose" if hashlib.sha256(self.query.encode()).digest()[0] % 2 else "report"


@dataclass(frozen=True)
class Reason:
    """A shared reef of a result: its rank by share of the score, probabilities, and verdict."""

    search: JudgedSearch
    rank: int
    probability: float
    of_passage: float
    of_query: float
    apt: float
    wrong: float


def read_judged(collections: Path) -> list[JudgedSearch]:
    queries: dict[tuple[str, str], str] = {}
    for folder in sorted(collections.iterdir()):
        for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            query = json.loads(line)
            queries[folder.name, query["_id"]] = query["text"]
    searches = []
    for line in JUDGED.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        query_id = each.get("query_id")
        searches.append(
            JudgedSearch(
                each["library"],
                each["query"] if query_id is None else queries[each["library"], query_id],
                query_id,
                each["source"],
                each["start"],
                each["end"],
                each["reasons"],
            )
        )
    return searches


def build(engine: Engine, library: str, corpora: Path, collections: Path, sources: set[str]) -> None:
    """Ingest a collection, or the documents of the judged results and labels."""
    if library == CORPORA:
        judged = {chunk.source for chunk in label_truth.read_judged()}
        label_truth.build(engine, corpora, judged | sources)
        return
    lines = (collections / library / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    engine.ingest_many(
        {
            "content": document["text"] or document["title"],
            "title": document["title"] or document["_id"],
            "source_path": document["_id"],
        }
        for document in map(json.loads, lines)
    )


def shared_reefs(engine: Engine, searches: Sequence[JudgedSearch]) -> Iterator[list[Reason]]:
    """The shared reefs of each search whose first result is the judged one, largest share first."""
    for search in searches:
        results = engine.search(search.query, top_k=1, include_scores=True).results
        if not results or results[0].source_path != search.source:
            continue
        result = results[0]
        common = min(result.end_char, search.end) - max(result.start_char, search.start)
        if common < LEAST_OVERLAP * (max(result.end_char, search.end) - min(result.start_char, search.start)):
            continue
        of_passage = {
            reef.reef_id: reef.probability for reef in engine.documents.chunk(result.chunk_id).chunk.reefs
        }
        with engine.database.snapshot() as snapshot:
            scorer = scorer_for(search.query, snapshot, engine.scorer)
        n_reefs = engine.settings.reefs_per_query
        of_query = make_profile(search.query, scorer, reefs_per_query=n_reefs).probabilities
        by_share = sorted(result.shared_reefs or (), key=lambda reef: -reef.share)
        yield [
            Reason(
                search,
                rank,
                reef.probability,
                of_passage[reef.reef_id],
                of_query.get(reef.reef_id, 0.0),
                *_shares(search.verdicts.get(reef.reef_name, "")),
            )
            for rank, reef in enumerate(by_share)
        ]


def _shares(verdict: str) -> tuple[float, float]:
    n = len(verdict) or np.nan
    return verdict.count("a") / n, verdict.count("w") / n


def report(title: str, results: Sequence[Sequence[Reason]], threshold: float) -> None:
    print(f"\n{title}: {len(results)} searches")
    for rank in range(RANKS):
        _print_shares(f"reef {rank + 1} by share", [reefs[rank] for reefs in results if len(reefs) > rank])
    shown = [reef for reefs in results for reef in reefs if reef.probability >= threshold]
    _print_shares(f"reasons from {threshold}", shown)
    with_reason = sum(any(reef.probability >= threshold for reef in reefs) for reefs in results)
    n = max(len(results), 1)
    print(f"  {len(shown) / n:.2f} reasons a result; {with_reason} of {len(results)} results have one")
    known = [reef for reefs in results for reef in reefs if not np.isnan(reef.apt)]
    chances = np.array([reef.probability for reef in known])
    apt, wrong = np.array([reef.apt for reef in known]), np.array([reef.wrong for reef in known])
    print(f"  AUC of apt against wrong {label_truth.auc(chances[apt == 1], chances[wrong == 1]):.3f}")


def _print_shares(title: str, reefs: Sequence[Reason]) -> None:
    known = [reef for reef in reefs if not np.isnan(reef.apt)]
    apt, wrong = (float(np.mean([getattr(reef, name) for reef in known])) for name in ("apt", "wrong"))
    print(f"  {title:<18} {len(reefs):>4} shown, {len(known):>4} judged: apt {apt:4.0%}, wrong {wrong:4.0%}")


def fit(results: Sequence[Sequence[Reason]]) -> None:
    """Print the constants of `shoal.search.why`."""
    known = [
        reef
        for reefs in results
        for reef in reefs
        if not np.isnan(reef.apt) and reef.of_passage and reef.of_query
    ]
    inputs = np.array([[why.log_odds(reef.of_passage), why.log_odds(reef.of_query)] for reef in known])
    constants = label_truth.logistic_regression(inputs, np.array([reef.apt for reef in known]))
    _print_constants(("INTERCEPT", "PASSAGE", "QUERY"), constants)


def fit_pairs() -> None:
    """Print the constants of related words, fitted on all judged pairs."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    inputs = np.array(
        [
            [
                pair["support"],
                pair["cosine"],
                math.log(pair["of_passage"] + why.LEAST_OF_PASSAGE),
                pair["is_held"],
            ]
            for pair in pairs
        ]
    )
    targets = np.array(["wla".index(pair["verdict"]) / 2 for pair in pairs])
    constants = label_truth.logistic_regression(inputs, targets)
    _print_constants(("PAIR_INTERCEPT", "SUPPORT", "COSINE", "OF_PASSAGE", "HELD"), constants)


def _print_constants(names: Sequence[str], constants: label_truth.Doubles) -> None:
    print("\n" + ", ".join(f"{name} {value:.3f}" for name, value in zip(names, constants, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("collections", type=Path)
    parser.add_argument("--databases", type=Path, help="folder of the libraries, built if they are missing")
    parser.add_argument("--threshold", type=float, default=0.6)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    judged = read_judged(options.collections)
    results: list[list[Reason]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.databases or Path(scratch)
        for library in sorted({search.library for search in judged}):
            searches = [search for search in judged if search.library == library]
            database = folder / f"{library}.db"
            is_new = not database.exists()
            with Engine(db_path=database) as engine:
                if is_new:
                    sources = {search.source for search in searches}
                    build(engine, library, options.corpora, options.collections, sources)
                results += shared_reefs(engine, searches)
    halves = {half: [r for r in results if r and r[0].search.half == half] for half in ("choose", "report")}
    for half, of_half in halves.items():
        report(half, of_half, options.threshold)
    if options.fit:
        fit(halves["choose"])
        fit_pairs()


if __name__ == "__main__":
    main()
