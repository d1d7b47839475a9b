"""Truth of learned words: hide known words, learn them from text, and compare with the dictionary.

usage: python -m benchmarks.masked_words FOLDER... [--words 2000] [--seed 1] [--fit] [--set NAME=VALUE ...]

Draws words of the dictionary that occur in the texts, removes them from the scorer, and learns them from the
texts like any unknown word. A learned reef is right if it is one of the word's reefs in the dictionary, with
at least half the strength of the word's strongest reef; a learned island is right if it holds such a reef.
Words are split by their number of occurrences, and into names (at least nine tenths of the occurrences
inside sentences are capitalised) and common words. The calibration compares the probability of all learned
reefs with the share of right ones, in ten bins. `--fit` prints the constants of `associations._agreement` as
fitted on these words. `--set` changes settings of Shoal by their names without
SHOAL_.

FOLDER has texts (.md, .txt), or articles as `.jsonl.gz` (fields `title`, `text`).
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lagoon
from benchmarks.label_truth import logistic_regression
from benchmarks.vocabulary_learning import with_values
from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import analyze
from shoal.errors import DocumentError
from shoal.formats.drafts import FORMAT_OF_SUFFIX, draft_from_file, make_draft
from shoal.learning import Evidence, EvidenceRow, LearnedWord, discover, learn
from shoal.learning.vocabulary import EXCESS, INTERCEPT, OCCURRENCES, STRENGTH
from shoal.models.documents import DocumentDraft
from shoal.settings import Settings

BUCKETS = (3, 10, 30, 100)
"""Least occurrences of each group of words."""
NAME_SHARE = 0.9
RIGHT_SHARE = 0.5
"""Least strength of a right reef, as a share of the word's strongest."""

BINS = 10

_IN_SENTENCE = re.compile(r"(?<=[a-z,;] )([A-Za-z]{3,})\b")


class HiddenWord(NamedTuple):
    """A word of the dictionary with its right reefs, and whether the texts use it as a name."""

    word: str
    reefs: frozenset[int]
    is_name: bool


def read_drafts(folders: Iterable[Path], settings: Settings) -> Iterator[DocumentDraft]:
    for folder in folders:
        if folder.suffix == ".gz":
            with gzip.open(folder, "rt", encoding="utf-8") as lines:
                for article in map(json.loads, lines):
                    yield make_draft(
                        content=article["text"], title=article["title"], format="plaintext", settings=settings
                    )
        else:
            for path in sorted(folder.iterdir()):
                if path.suffix in FORMAT_OF_SUFFIX:
                    yield draft_from_file(path, settings=settings)


def capitalised_shares(drafts: Iterable[DocumentDraft]) -> Mapping[str, tuple[int, float]]:
    """Occurrences of each form inside sentences, and the share of them that begins with a capital."""
    lower: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for draft in drafts:
        for match in _IN_SENTENCE.findall(draft.content):
            (capital if match[0].isupper() else lower)[match.lower()] += 1
    return {
        form: (lower[form] + capital[form], capital[form] / (lower[form] + capital[form]))
        for form in lower.keys() | capital.keys()
    }


def hide(
    scorer: ReefScorer, drafts: list[DocumentDraft], n: int, seed: int
) -> tuple[ReefScorer, list[HiddenWord]]:
    """A scorer without `n` drawn words; words whose form has the stem of another word stay."""
    shares = capitalised_shares(drafts)
    model = scorer._model  # a benchmark may look inside
    dictionary = {model.words[i]: i for i in range(model.n_words - model.n_compounds)}
    drawn = sorted(
        form for form, (occurrences, _) in shares.items() if form in dictionary and occurrences >= BUCKETS[0]
    )
    random.Random(seed).shuffle(drawn)
    ids = np.array([dictionary[form] for form in drawn[: 2 * n]])
    kept_form, kept_stem = ~np.isin(model.form_words, ids), ~np.isin(model.stem_words, ids)
    reduced = dataclasses.replace(
        model,
        form_hashes=model.form_hashes[kept_form],
        form_words=model.form_words[kept_form],
        stem_hashes=model.stem_hashes[kept_stem],
        stem_words=model.stem_words[kept_stem],
    )
    masked = ReefScorer(reduced)
    hidden = []
    for form in drawn[: 2 * n]:
        info = scorer.lookup_word(form)
        if info is None or not info.reefs or masked.lookup_word(form) is not None:
            continue
        strongest = info.reefs[0][1]
        right = frozenset(reef for reef, bm25_q in info.reefs if bm25_q >= RIGHT_SHARE * strongest)
        hidden.append(HiddenWord(form, right, shares[form][1] >= NAME_SHARE))
    return masked, hidden[:n]


def observe(drafts: Iterable[DocumentDraft], scorer: ReefScorer, settings: Settings) -> list[EvidenceRow]:
    rows: list[EvidenceRow] = []
    for draft in drafts:
        try:
            rows += discover(analyze(draft, scorer, settings), settings)
        except DocumentError:
            continue
    return rows


class Score(NamedTuple):
    """Precision of the first reef, of the first three, and of their islands; 0..1."""

    n: int
    reef_1: float
    reef_3: float
    island_1: float
    island_3: float


def score(pairs: list[tuple[HiddenWord, LearnedWord]], island_of: list[int]) -> Score:
    counts = np.zeros(4)
    for hidden, learned in pairs:
        reefs = [reef.reef_id for reef in sorted(learned.reefs, key=lambda reef: -reef.strength)[:3]]
        islands = {island_of[reef] for reef in hidden.reefs}
        counts += (
            reefs[0] in hidden.reefs,
            np.mean([reef in hidden.reefs for reef in reefs]),
            island_of[reefs[0]] in islands,
            np.mean([island_of[reef] in islands for reef in reefs]),
        )
    return Score(len(pairs), *(counts / max(len(pairs), 1)).tolist())


def report_calibration(pairs: list[tuple[HiddenWord, LearnedWord]]) -> None:
    """Print the mean probability and the share of right reefs of ten bins of equal size."""
    chances = np.array([reef.probability for _, learned in pairs for reef in learned.reefs])
    right = np.array([reef.reef_id in hidden.reefs for hidden, learned in pairs for reef in learned.reefs])
    bins = np.array_split(np.argsort(chances, kind="stable"), BINS)
    means = [(float(chances[part].mean()), float(right[part].mean())) for part in bins]
    error = sum(abs(chance - share) for chance, share in means) / BINS
    print(f"calibration error {error:.3f}: " + " ".join(f"{p:.2f}/{share:.2f}" for p, share in means))


def fit(pairs: list[tuple[HiddenWord, LearnedWord]]) -> None:
    """Print the constants of `associations._agreement`, fitted on these words."""
    inputs, right = [], []
    for hidden, learned in pairs:
        occurrences = np.log(learned.n_occurrences)
        # Learned words keep no excess; the probability of the strongest reef gives it back.
        odds = np.log(learned.reefs[0].probability / (1.0 - learned.reefs[0].probability))
        largest = (odds - INTERCEPT - OCCURRENCES * occurrences - STRENGTH) / EXCESS
        for rank, reef in enumerate(learned.reefs):
            inputs.append((largest + np.log(reef.strength), occurrences, np.log1p(rank), reef.strength))
            right.append(reef.reef_id in hidden.reefs)
    constants = logistic_regression(np.array(inputs), np.array(right, dtype=np.float64))
    names = ("INTERCEPT", "EXCESS", "OCCURRENCES", "RANK", "STRENGTH")
    print(", ".join(f"{name} {value:.3f}" for name, value in zip(names, constants, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = with_values(Settings(), options.set)
    scorer = lagoon.load()
    drafts = list(read_drafts(options.folders, settings))
    masked, hidden = hide(scorer, drafts, options.words, options.seed)
    evidence = Evidence.of(observe(drafts, masked, settings))
    learned = {item.word: item for item in learn(evidence, evidence.words, masked, settings)}
    island_of = [reef.island_id for reef in scorer.reefs]
    pairs = [(word, learned[word.word]) for word in hidden if word.word in learned]
    print(f"{len(hidden):,} words hidden, {len(pairs):,} of them learned")
    print(
        f"{'words':<10}{'occurrences':>12}{'n':>7}{'reef@1':>9}{'reef@3':>9}{'island@1':>10}{'island@3':>10}"
    )
    for is_name in (False, True):
        for least, below in zip(BUCKETS, (*BUCKETS[1:], np.inf), strict=True):
            group = [
                (word, item)
                for word, item in pairs
                if word.is_name == is_name and least <= item.n_occurrences < below
            ]
            result = score(group, island_of)
            print(
                f"{'names' if is_name else 'common':<10}{f'{least}+':>12}{result.n:>7}"
                + "".join(
                    f"{value:>{width}.3f}" for value, width in zip(result[1:], (9, 9, 10, 10), strict=True)
                )
            )
    report_calibration(pairs)
    if options.fit:
        fit(pairs)


if __name__ == "__main__":
    main()
