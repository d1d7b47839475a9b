"""Speed of lagoon: start, scoring a query, analyzing a book and small notes, learning words.

    python benchmarks/lagoon_speed.py path/to/war-and-peace.md

Prints every number with its target, if it has one. Times are processor times of one core, medians of several
runs, so that other work on the machine has little influence. Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lagoon import ReefScorer

ROOT = Path(__file__).resolve().parent.parent
QUERY = "how do plants turn sunlight and water into sugar energy"
LOAD_SECONDS = 0.3
RESIDENT_MB = 120
DATA_MB = 8
QUERY_MICROSECONDS = 200
ANALYZE_MB_PER_SECOND = 6
BOOK_MB = 0.5
"""Shorter texts say little about speed and have no targets."""
SPEED_KEPT = 0.8
"""Least share of the speed of `analyze` that remains with 20,000 learned words."""

N_QUERIES = 2000
N_NOTES = 300
N_LEARNED = 20_000
N_LEARNED_COMPOUNDS = 2_000
REEFS_OF_LEARNED = 10
REEFS_STORED = 38
SEED = 1

COLD = f"""
import time
a = time.process_time()
import numpy
b = time.process_time()
import lagoon
c = time.process_time()
scorer = lagoon.load()
d = time.process_time()
scorer.score({QUERY!r}).top_reefs
e = time.process_time()
import resource
print(b - a, c - b, d - c, e - d, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@dataclass
class Report:
    """Prints lines and collects those that missed their target."""

    missed: list[str] = field(default_factory=list)

    def line(
        self,
        label: str,
        value: float,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        met = (most is None or value <= most) and (least is None or value >= least)
        target = "" if most is None else f"at most {most:g}"
        target = target if least is None else f"at least {least:g}"
        digits = 0 if value >= 100 else 1 if value >= 10 else 2
        verdict = "" if not target else "  met" if met else "  MISSED"
        print(f"{label:<52}{value:>9.{digits}f} {unit:<6}{target:>16}{verdict}")
        if not met:
            self.missed.append(label)


def seconds(work: Callable[[], Any], repetitions: int) -> float:
    """Median processor time."""
    times = []
    for _ in range(repetitions):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def median_of_each(work: Callable[[str], Any], texts: Iterable[str]) -> float:
    """Median microseconds for one text, wall time, which has the finer resolution."""
    times = []
    for text in texts:
        began = time.perf_counter()
        work(text)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def cold_starts(report: Report) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = []
    for _ in range(5):
        run = subprocess.run(
            [sys.executable, "-c", COLD], env=environment, capture_output=True, text=True, check=True
        )
        runs.append([float(field) for field in run.stdout.split()])
    numpy, lagoon, load, first, resident = (statistics.median(column) for column in zip(*runs, strict=True))
    print("A process of its own")
    report.line("import numpy", numpy * 1000, "ms")
    report.line("import lagoon", lagoon * 1000, "ms")
    report.line("load", load * 1000, "ms", most=LOAD_SECONDS * 1000)
    report.line("first score", first * 1000, "ms")
    report.line("resident memory, at its peak", resident, "MB", most=RESIDENT_MB)
    data = sum(path.stat().st_size for path in (ROOT / "lagoon" / "data").rglob("*") if path.is_file())
    report.line("lagoon/data", data / 1e6, "MB", most=DATA_MB)


def queries(report: Report, scorer: ReefScorer, words: list[str]) -> None:
    rng = random.Random(SEED)
    places = [rng.randrange(len(words) - 10) for _ in range(N_QUERIES)]
    various = [" ".join(words[at : at + 10]) for at in places]

    def score(text: str) -> object:
        return scorer.score(text).top_reefs

    def score_fully(text: str) -> object:
        result = scorer.score(text)
        return result.top_reefs, result.top_islands, result.arch_scores, result.confidence, result.coverage

    print("\nQueries of ten words, median")
    fresh = median_of_each(score, various)
    score(QUERY)
    again = median_of_each(score, [QUERY] * N_QUERIES)
    report.line("one query again and again, with its reefs", again, "us", most=QUERY_MICROSECONDS)
    report.line("queries never seen, with their reefs", fresh, "us", most=QUERY_MICROSECONDS)
    report.line("the same, islands, archipelagos, coverage too", median_of_each(score_fully, various), "us")


def stored_values(scorer: ReefScorer, text: str) -> list[object]:
    """Compute all stored values of a document: reefs, islands, archipelagos and confidence of every
    segment."""
    return [
        (topic.top_reefs, topic.top_islands, topic.arch_scores, topic.confidence, topic.coverage)
        for topic in scorer.analyze(text, top_k=REEFS_STORED).topics
    ]


def book(report: Report, scorer: ReefScorer, name: str, text: str) -> None:
    from lagoon.sentences import sentence_spans
    from lagoon.tokens import tokenise

    size = len(text.encode()) / 1e6
    print(f"\n{name}, {size:.1f} MB")
    least = ANALYZE_MB_PER_SECOND if size >= BOOK_MB else None
    first = seconds(lambda: scorer.analyze(text), 1)
    again = seconds(lambda: scorer.analyze(text), 9)
    report.line("analyze, its words seen for the first time", size / first, "MB/s", least=least)
    report.line("analyze, again", size / again, "MB/s", least=least)
    report.line("analyze, again", again * 1000, "ms")
    report.line("  of which finding sentences", seconds(lambda: sentence_spans(text), 9) * 1000, "ms")
    report.line("  of which finding tokens", seconds(lambda: tokenise(text), 9) * 1000, "ms")
    stored = seconds(lambda: stored_values(scorer, text), 5)
    report.line(f"analyze, with {REEFS_STORED} reefs and the rest of every segment", size / stored, "MB/s")
    analysis = scorer.analyze(text)
    print(f"{analysis.n_sentences} sentences, {analysis.n_segments} segments")


def notes(report: Report, scorer: ReefScorer, text: str) -> None:
    rng = random.Random(SEED)
    print("\nNotes, each analyzed with all that is stored of it, mean")
    for size in (200, 600, 2000):
        places = [rng.randrange(len(text) - size) for _ in range(N_NOTES)]
        texts = [text[at : at + size] for at in places]
        spent = seconds(lambda texts=texts: [stored_values(scorer, note) for note in texts], 5)  # type: ignore[misc]
        report.line(f"notes of {size} characters", spent / N_NOTES * 1e6, "us")


def made_up_words(n: int) -> list[str]:
    """Pronounceable invented words."""
    rng = random.Random(SEED)
    syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]
    made: dict[str, None] = {}
    while len(made) < n:
        made["".join(rng.choice(syllables) for _ in range(5)) + "x"] = None
    return list(made)


def learning(report: Report, scorer: ReefScorer, text: str) -> None:
    rng = random.Random(SEED)
    forms = [word for word in dict.fromkeys(text.split()) if word.isalpha()]
    unknown = list(dict.fromkeys(word.lower() for word in scorer.filter_unknown(forms)))
    singles = (unknown + made_up_words(N_LEARNED))[: N_LEARNED - N_LEARNED_COMPOUNDS]
    pool = singles[:N_LEARNED_COMPOUNDS]
    compounds = [" ".join(rng.sample(pool, 2)) for _ in range(2 * N_LEARNED_COMPOUNDS)]
    compounds = list(dict.fromkeys(compounds))[:N_LEARNED_COMPOUNDS]
    reefs = [
        [(reef, rng.random()) for reef in rng.sample(range(scorer.n_reefs), REEFS_OF_LEARNED)]
        for _ in range(100)
    ]
    learner = scorer.without_custom_words()

    def learn() -> None:
        for number, word in enumerate(singles + compounds):
            learner.add_custom_word(word, reefs[number % len(reefs)])

    spent = seconds(learn, 1)
    print(f"\n{learner.n_custom_words} words learned, {len(unknown)} of them in the book")
    report.line("adding a word", spent / learner.n_custom_words * 1e6, "us")

    def add_and_score() -> None:
        for number in range(500):
            word = f"{singles[number]}q"
            learner.add_custom_word(word, reefs[0])
            learner.score(f"{QUERY} {word}")

    report.line("adding a word and scoring a query with it", seconds(add_and_score, 1) / 500 * 1e6, "us")
    learner.analyze(text)
    # Alternate, so that other load of the machine affects both.
    times = [
        (seconds(lambda: scorer.analyze(text), 1), seconds(lambda: learner.analyze(text), 1))
        for _ in range(9)
    ]
    before, after = (statistics.median(column) for column in zip(*times, strict=True))
    report.line("speed of analyze that is left", before / after, "", least=SPEED_KEPT)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("book", type=Path, help="a long text, such as a novel")
    arguments = parser.parse_args()
    text = arguments.book.read_text(encoding="utf-8")

    report = Report()
    cold_starts(report)
    sys.path.insert(0, str(ROOT))
    import lagoon

    scorer = lagoon.load()
    book(report, scorer, arguments.book.name, text)
    queries(report, lagoon.load(), text.split())
    notes(report, scorer, text)
    learning(report, scorer, text)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of all this: {peak:.0f} MB")
    if report.missed:
        print("targets missed: " + "; ".join(report.missed))
    return int(bool(report.missed))


if __name__ == "__main__":
    raise SystemExit(main())
