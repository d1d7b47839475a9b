"""Calibration of z-scores and confidence by text length: `python benchmarks/calibration.py CORPORA`

CORPORA has running text: `wikipedia/NAME.txt`, `wikipedia-vital-1k.jsonl.gz`, `books/NAME.md` (default:
$SHOAL_TEST_CORPORA/corpora). Pieces of 5 to 2,000 words are drawn from random positions, in eight bands of
length; lengths are uniform on a logarithmic scale, texts are drawn by their length. Prints for articles and
for books:

- |z| > 2: the share over all pieces and reefs. In a normal distribution it is 4.6 %; every band must be
  within 2 % and 8 %;
- the median z of the strongest reef, which should not depend on the length;
- confidence (z of the strongest reef minus z of the second): the share of pieces that are low and high by the
  thresholds of the documentation.

"No subject" are pieces of the same lengths made of words drawn independently from all texts: they show
confidence by chance. The thresholds are right if pieces of chunk size without a subject are mostly low and
hardly ever high.

`--half 0` or `1` measures on every second text, beginning with the first or second. The dispersion is then
fitted on the other texts (see `lagoon.build.counting`), so that no text is used for both.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import lagoon
from lagoon.bm25 import BM25_SCALE, WEIGHT_SCALE
from lagoon.build.counting import dispersion, read_texts, sample_windows
from lagoon.build.pipeline import SAMPLE_SIZES, Parameters
from lagoon.model import Model, load_model
from lagoon.scorer import PACKAGED_DATA
from lagoon.vocabulary import BaseVocabulary

BANDS = ((5, 10), (10, 20), (20, 50), (50, 100), (100, 200), (200, 500), (500, 1000), (1000, 2000))
"""Numbers of words, inclusive."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.08
LOW, HIGH = 1.0, 3.0
"""Most texts without a subject are below LOW, and hardly any of them is above HIGH."""
CHUNK_WORDS = 100
"""From this length on, a piece is a chunk rather than a query, and the thresholds must hold."""
LEAST_LOW, MOST_HIGH = 0.85, 0.01
"""Least share of low pieces, and largest share of high pieces, among those without a subject."""

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Texts:
    """Texts of one kind and the spans of their words."""

    name: str
    texts: list[str]
    spans: list[NDArray[np.int64]]

    @staticmethod
    def of(name: str, texts: list[str]) -> Texts:
        spans = [np.array([match.span() for match in _WORD.finditer(text)], dtype=np.int64) for text in texts]
        kept = [index for index, words in enumerate(spans) if len(words) >= BANDS[0][0]]
        return Texts(name, [texts[index] for index in kept], [spans[index] for index in kept])

    def pieces(self, lengths: NDArray[np.int64], random: np.random.Generator) -> list[str]:
        """Runs of `lengths` words from random positions; shorter if the text is shorter."""
        sizes = np.array([len(words) for words in self.spans])
        chosen = random.choice(len(sizes), size=len(lengths), p=sizes / sizes.sum())
        pieces = []
        for text, target in zip(chosen.tolist(), lengths.tolist(), strict=True):
            length = min(target, int(sizes[text]))
            first = int(random.integers(sizes[text] - length + 1))
            words = self.spans[text]
            pieces.append(self.texts[text][words[first, 0] : words[first + length - 1, 1]])
        return pieces


def without_subject(kinds: list[Texts], lengths: NDArray[np.int64], random: np.random.Generator) -> list[str]:
    """Pieces of `lengths` words, each word from another random position."""
    words = [
        word
        for kind, n in zip(kinds, random.multinomial(lengths.sum(), shares(kinds)), strict=True)
        for word in kind.pieces(np.ones(n, dtype=np.int64), random)
    ]
    mixed = [words[index] for index in random.permutation(len(words)).tolist()]
    ends = np.cumsum(lengths)
    return [" ".join(mixed[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def shares(kinds: list[Texts]) -> NDArray[np.float64]:
    """Share of each kind among all words."""
    words = np.array([sum(map(len, kind.spans)) for kind in kinds], dtype=np.float64)
    return np.asarray(words / words.sum())


def lengths_of(band: tuple[int, int], n: int, random: np.random.Generator) -> NDArray[np.int64]:
    drawn = np.exp(random.uniform(np.log(band[0]), np.log(band[1] + 1), n)).astype(np.int64)
    return np.asarray(np.clip(drawn, *band))


def z_scores(scorer: lagoon.ReefScorer, texts: list[str]) -> NDArray[np.float64]:
    return np.array([result.z_scores for result in scorer.score_batch(texts)])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, help="folder of a built model; default: the packaged data")
    parser.add_argument("--pieces", type=int, default=600, help="pieces of each kind and band")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", type=int, choices=(0, 1))
    options = parser.parse_args()
    corpora: Path | None = options.corpora
    if corpora is None and "SHOAL_TEST_CORPORA" in os.environ:
        corpora = Path(os.environ["SHOAL_TEST_CORPORA"]) / "corpora"
    if corpora is None:
        parser.error("give the folder, or set SHOAL_TEST_CORPORA")
    articles = read([corpora / "wikipedia", corpora / "wikipedia-vital-1k.jsonl.gz"])
    books = read([corpora / "books"])
    model = load_model(options.data or PACKAGED_DATA)
    if options.half is not None:
        sample = [*articles[1 - options.half :: 2], *books[1 - options.half :: 2]]
        model = replace(model, dispersion=fit_dispersion(model, sample))
        articles, books = articles[options.half :: 2], books[options.half :: 2]
    rate, exponent = model.dispersion
    print(f"dispersion: rate {rate:.4f}, exponent {exponent:.4f}")
    kinds = [Texts.of("articles", articles), Texts.of("books", books)]
    scorer = lagoon.ReefScorer(model)
    random = np.random.default_rng(options.seed)
    missed = []
    header = f"{'words':>12}{'|z| > 2':>9}{'z < -2':>8}{'strongest':>11}{'low':>7}{'high':>7}"
    for name in [*(kind.name for kind in kinds), "no subject"]:
        print(f"\n{name}\n{header}   quartiles of confidence")
        for band in BANDS:
            lengths = lengths_of(band, options.pieces, random)
            kind = next((kind for kind in kinds if kind.name == name), None)
            pieces = kind.pieces(lengths, random) if kind else without_subject(kinds, lengths, random)
            z = z_scores(scorer, pieces)
            share = float((np.abs(z) > 2).mean())
            ordered = np.sort(z, axis=1)
            confidence = ordered[:, -1] - ordered[:, -2]
            low, high = float((confidence < LOW).mean()), float((confidence > HIGH).mean())
            wrong = kind is not None and not LEAST_SHARE <= share <= MOST_SHARE
            if kind is None and band[0] >= CHUNK_WORDS:
                wrong = low < LEAST_LOW or high > MOST_HIGH
            quartiles = " ".join(f"{value:.2f}" for value in np.percentile(confidence, [25, 50, 75]))
            print(
                f"{band[0]:6} - {band[1]:<4}{share:8.1%}{(z < -2).mean():8.1%}"
                f"{np.median(ordered[:, -1]):11.1f}"
                f"{low:7.0%}{high:7.1%}   {quartiles}{'   missed' if wrong else ''}"
            )
            if wrong:
                missed.append(f"{name} of {band[0]} to {band[1]} words")
    print(f"\nlow: confidence below {LOW}; high: above {HIGH}")
    if missed:
        print("missed: " + "; ".join(missed))
    return int(bool(missed))


def read(paths: list[Path]) -> list[str]:
    """Texts of the existing paths."""
    return list(read_texts([path for path in paths if path.exists()]))


def fit_dispersion(model: Model, texts: list[str]) -> NDArray[np.float64]:
    """Dispersion of texts, as measured by the build."""
    bm25 = model.row_bm25 / BM25_SCALE * np.repeat(model.weights / WEIGHT_SCALE, np.diff(model.row_starts))
    rows = (bm25, model.row_reefs.astype(np.int32), model.row_starts.astype(np.int64))
    contributions = sparse.csr_matrix(rows, (model.n_words, model.n_reefs))
    spacing = Parameters().sample_spacing
    return dispersion(
        sample_windows(BaseVocabulary(model), texts, SAMPLE_SIZES, spacing), contributions, model.background
    )


if __name__ == "__main__":
    sys.exit(main())
