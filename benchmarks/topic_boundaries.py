"""Accuracy of the topic boundaries of `analyze`: `python benchmarks/topic_boundaries.py CORPORA [--data DIR]`

CORPORA has `wikipedia/NAME.txt` and `wikipedia-vital-1k.jsonl.gz` (default: $SHOAL_TEST_CORPORA/corpora).
Runs of sentences from sections of different articles are concatenated into a plain text without paragraphs,
and the borders between the runs are to be found:

    mixed    8 to 20 pieces of 3 to 15 sentences
    choi     10 pieces of 3 to 11 sentences, each from the start of a section (after Choi 2000)
    short    10 to 20 pieces of 3 to 5 sentences
    long     5 to 10 pieces of 10 to 25 sentences
    article  the sections of one article in their order, without headings: other boundaries may be right too,
             so this is for comparison only and has no limit

Measures are Pk and WindowDiff over sentences, lower is better, means over documents. `analyze` with its
default options is compared with:

    random       the right number of boundaries at random positions
    every N      N is the mean length of the document's own pieces, or the best N for all documents of the
                 shape
    TextTiling   nltk's, with Shoal's stop words, every sentence a paragraph so that it can cut between any
                 two; with its default settings and with the best ones on documents from other articles

Only `analyze` and TextTiling do not use the answer. Articles are divided at random with a fixed seed:
`--tuning` reports on the half that parameters may be chosen on, the default on the other half. Exits 1 unless
`analyze` has the lowest mean of both measures in every shape but the last.

`--chunk-tokens 300-800` measures chunks within a range of tokens (`shoal.chunking.token_ranges`) instead,
against cuts by length: the same number of chunks, of as equal tokens as sentences allow. Exits 1 if a cut by
length has the lower mean of both measures in a shape, or if fewer than 90 % of the chunks of the documents
that are long enough are within the range.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from nltk.tokenize.texttiling import TextTilingTokenizer

import lagoon
from benchmarks.segmentation_measures import pk, window_diff
from lagoon.sentences import sentence_spans
from shoal.chunking.token_ranges import SentenceSizes, cut_in_range
from shoal.models.documents import SentenceSpan
from shoal.models.files import TokenRange

SHAPES: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "mixed": ((8, 20), (3, 15)),
    "choi": ((10, 10), (3, 11)),
    "short": ((10, 20), (3, 5)),
    "long": ((5, 10), (10, 25)),
}
# Sections of lists rather than prose.
_LISTS = re.compile(
    r"see also|references|notes|further reading|external|bibliography|sources|works", re.IGNORECASE
)
_HEADING = re.compile(r"^=+ *(.*?) *=+$", re.MULTILINE)
_WHOLE = re.compile(r"^[\"'(\[]*[A-Z0-9].*[.!?][\"')\]]*$", re.DOTALL)
LEAST_WORDS = 5
"""Shorter sentences are mostly captions and fragments of tables."""

ARTICLE = "article"
SHORTEST_SECTION, FEWEST_SECTIONS = 4, 5

# Words of a block, blocks compared, and the stricter policy (1): the other, and other sizes, never were the
# best.
TILING_SETTINGS = [(w, k, 1) for w in (15, 20, 30) for k in (3, 6, 10)]
TILING_DOCUMENTS = 20
RANDOM_DRAWS = 20
LONGEST_N = 60
LEAST_WITHIN = 0.9


@dataclass(frozen=True)
class Document:
    """Sentences, and the indices of those that begin a piece, except the first."""

    sentences: tuple[str, ...]
    boundaries: tuple[int, ...]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def n(self) -> int:
        return len(self.sentences)


Sections = list[list[str]]
Splitter = Callable[[Document], list[int]]


def read_articles(corpora: Path) -> Iterator[Sections]:
    """Sections of each article as whole sentences, without parts that are not prose."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((corpora / "wikipedia").glob("*.txt"))]
    packed = corpora / "wikipedia-vital-1k.jsonl.gz"
    if packed.exists():
        with gzip.open(packed, "rt", encoding="utf-8") as stream:
            texts += [json.loads(line)["text"] for line in stream]
    for text in texts:
        parts = _HEADING.split(text)
        sections = [
            run
            for title, body in zip(["", *parts[1::2]], parts[::2], strict=True)
            if not _LISTS.match(title)
            for run in _runs(body)
        ]
        if sections:
            yield sections


def _runs(body: str) -> Iterator[list[str]]:
    """Longest runs of consecutive whole sentences."""
    run: list[str] = []
    for sentence in lagoon.split_sentences(body):
        words = " ".join(sentence.text.split())
        if _WHOLE.match(words) and words.count(" ") >= LEAST_WORDS - 1:
            run.append(words)
            continue
        if len(run) >= SHAPES["short"][1][0]:
            yield run
        run = []
    if len(run) >= SHAPES["short"][1][0]:
        yield run


def make_documents(articles: list[Sections], shape: str, n: int, seed: int) -> list[Document]:
    """Documents of a shape, no two pieces of one from the same article."""
    random = np.random.default_rng(seed)
    if shape == ARTICLE:
        return _whole_articles(articles, n, random)
    (fewest, most), lengths = SHAPES[shape]
    documents: list[Document] = []
    while len(documents) < n:
        wanted = int(random.integers(fewest, most + 1))
        pieces: list[list[str]] = []
        for article in random.permutation(len(articles)).tolist():
            length = int(random.integers(lengths[0], lengths[1] + 1))
            fitting = [run for run in articles[article] if len(run) >= length]
            if not fitting:
                continue
            run = fitting[random.integers(len(fitting))]
            start = 0 if shape == "choi" else int(random.integers(len(run) - length + 1))
            pieces.append(run[start : start + length])
            if len(pieces) == wanted:
                break
        if len(pieces) < wanted:
            raise ValueError(f"too few articles with {lengths[0]} sentences or more in a row")
        documents += _readable(pieces)
    return documents


def _whole_articles(articles: list[Sections], n: int, random: np.random.Generator) -> list[Document]:
    documents: list[Document] = []
    for article in random.permutation(len(articles)).tolist():
        sections = [section for section in articles[article] if len(section) >= SHORTEST_SECTION]
        if len(sections) >= FEWEST_SECTIONS:
            documents += _readable(sections)
        if len(documents) == n:
            break
    return documents


def _readable(pieces: list[list[str]]) -> list[Document]:
    """Join the pieces to a document; None if its text splits into other sentences, the unit of the
    measures."""
    starts = np.cumsum([len(piece) for piece in pieces])[:-1]
    document = Document(tuple(s for piece in pieces for s in piece), tuple(starts.tolist()))
    read = [sentence.text for sentence in lagoon.split_sentences(document.text)]
    return [document] if read == list(document.sentences) else []


def at_random(seed: int) -> Splitter:
    random = np.random.default_rng(seed)

    def split(document: Document) -> list[int]:
        chosen = random.choice(np.arange(1, document.n), len(document.boundaries), replace=False)
        return sorted(chosen.tolist())

    return split


def every(n: float) -> Splitter:
    def split(document: Document) -> list[int]:
        starts = np.rint(np.arange(n, document.n - 0.5, n)).astype(int)
        return sorted({int(start) for start in starts if 0 < start < document.n})

    return split


def every_true_mean(document: Document) -> list[int]:
    return every(document.n / (len(document.boundaries) + 1))(document)


class Tiling(TextTilingTokenizer):  # type: ignore[misc]
    """nltk's TextTiling with its slowest step vectorized."""

    def _block_comparison(self, tokseqs: Sequence[Any], token_table: Mapping[str, Any]) -> list[float]:
        counts = np.zeros((len(tokseqs) + 1, len(token_table)))
        for column, entry in enumerate(token_table.values()):
            for row, occurrences in entry.ts_occurences:
                counts[row + 1, column] = occurrences
        before = np.cumsum(counts, axis=0)
        n = len(tokseqs)
        gaps = np.arange(n - 1)
        sizes = np.where(gaps < self.k - 1, gaps + 1, np.minimum(n - 1 - gaps, self.k))
        left = before[gaps + 1] - before[gaps + 1 - sizes]
        right = before[np.minimum(gaps + 1 + sizes, n)] - before[gaps + 1]
        norms = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
        dots = (left * right).sum(axis=1)
        scores: list[float] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0).tolist()
        return scores


def tiling(w: int, k: int, policy: int) -> Splitter:
    """Run TextTiling; its boundaries, which are between words, move to the nearest start of a sentence."""
    stop_words = set(lagoon.STOP_WORDS)
    tokenizer = Tiling(w=w, k=k, stopwords=stop_words, cutoff_policy=policy, demo_mode=True)

    def split(document: Document) -> list[int]:
        # It counts words as runs of these characters; a break somewhere is required.
        counts = [
            len(re.findall(r"\w+", re.sub(r"[^a-z\-' \n\t]", "", sentence.lower())))
            for sentence in document.sentences
        ]
        starts = np.cumsum([0, *counts])[:-1]
        try:
            marks = tokenizer.tokenize("\n\n".join(document.sentences))[3]
        except ValueError:  # a text shorter than its blocks
            return []
        places = (np.flatnonzero(marks) + 1) * w
        nearest = {int(np.argmin(np.abs(starts - place))) for place in places.tolist()}
        return sorted(nearest - {0})

    return split


class InRange:
    """Cuts within a range of tokens, and what share of chunks is within it."""

    def __init__(self, scorer: lagoon.ReefScorer, tokens: TokenRange) -> None:
        self._scorer = scorer
        self._tokens = tokens
        self.n_chunks = self.n_within = 0

    def __call__(self, document: Document) -> list[int]:
        sizes = _sizes(document)
        cosines = self._scorer.gap_cosines(document.text)
        firsts = cut_in_range(sizes, cosines, [], [0], self._tokens)
        if int(sizes.of(0, document.n)) >= self._tokens.low:
            chunks = [int(sizes.of(a, b)) for a, b in itertools.pairwise([*firsts, document.n])]
            self.n_chunks += len(chunks)
            self.n_within += sum(self._tokens.low <= size <= self._tokens.high for size in chunks)
        return firsts[1:]


def by_length(splitter: Splitter) -> Splitter:
    """As many chunks as `splitter` makes, of as equal tokens as sentences allow."""

    def split(document: Document) -> list[int]:
        sizes = _sizes(document)
        n_chunks = len(splitter(document)) + 1
        ends = np.array([int(sizes.of(0, i)) for i in range(1, document.n)])
        wanted = np.arange(1, n_chunks) * int(sizes.of(0, document.n)) / n_chunks
        return sorted({int(np.abs(ends - each).argmin()) + 1 for each in wanted})

    return split


def _sizes(document: Document) -> SentenceSizes:
    spans = [SentenceSpan(start, end, 0) for start, end in zip(*sentence_spans(document.text), strict=True)]
    return SentenceSizes(document.text, spans)


def report_range(
    scorer: lagoon.ReefScorer, shape: str, documents: list[Document], tokens: TokenRange
) -> bool:
    """Print how well boundaries within a range are placed; returns whether they are as they must be."""
    in_range = InRange(scorer, tokens)
    ours = mean_measures(in_range, documents)
    share = in_range.n_within / max(in_range.n_chunks, 1)
    length = mean_measures(by_length(InRange(scorer, tokens)), documents)
    print(f"\n{shape}: {len(documents)} documents, {in_range.n_chunks} chunks, {share:.1%} within {tokens}")
    print(f"  {'':44}{'Pk':>7}{'WindowDiff':>12}")
    for name, (p, w) in {"cut by length": length, f"within {tokens}": ours}.items():
        print(f"  {name:44}{p:7.3f}{w:12.3f}")
    return ours <= length and sum(ours) <= sum(length) and share >= LEAST_WITHIN


def with_reefs(scorer: lagoon.ReefScorer) -> Splitter:
    return lambda document: scorer.analyze(document.text).boundaries


def mean_measures(split: Splitter, documents: list[Document]) -> tuple[float, float]:
    """Mean Pk and WindowDiff."""
    splits = [split(document) for document in documents]
    pairs = list(zip(documents, splits, strict=True))
    return (
        float(np.mean([pk(document.boundaries, cuts, document.n) for document, cuts in pairs])),
        float(np.mean([window_diff(document.boundaries, cuts, document.n) for document, cuts in pairs])),
    )


def best(splitters: dict[str, Splitter], documents: list[Document]) -> tuple[str, Splitter]:
    """The splitter with the lowest sum of both measures."""
    return min(splitters.items(), key=lambda item: sum(mean_measures(item[1], documents)))


def report(scorer: lagoon.ReefScorer, shape: str, documents: list[Document], others: list[Document]) -> bool:
    """Print the results of all splitters for a shape; returns whether `analyze` is best. `others` are
    documents of the same shape from other articles."""
    lengths = f"every N, best N of 2 to {LONGEST_N}", "TextTiling, best settings"
    n_best, every_best = best({str(n): every(n) for n in range(2, LONGEST_N + 1)}, documents)
    tiling_best, tiles = best(
        {
            f"w {w}, k {k}, {'HC' if policy else 'LC'}": tiling(w, k, policy)
            for w, k, policy in TILING_SETTINGS
        },
        others,
    )
    random = at_random(0)
    draws = [mean_measures(random, documents) for _ in range(RANDOM_DRAWS)]
    rivals = {
        "random, right number": (
            float(np.mean([d[0] for d in draws])),
            float(np.mean([d[1] for d in draws])),
        ),
        "every N, the right mean": mean_measures(every_true_mean, documents),
        f"{lengths[0]}: {n_best}": mean_measures(every_best, documents),
        "TextTiling, defaults": mean_measures(tiling(20, 10, 1), documents),
        f"{lengths[1]}: {tiling_best}": mean_measures(tiles, documents),
    }
    ours = mean_measures(with_reefs(scorer), documents)
    cuts = sum(len(scorer.analyze(document.text).boundaries) for document in documents)
    true = sum(len(document.boundaries) for document in documents)
    print(f"\n{shape}: {len(documents)} documents, {true} boundaries, {cuts} found by analyze")
    print(f"  {'':44}{'Pk':>7}{'WindowDiff':>12}")
    for name, (p, w) in {**rivals, "analyze": ours}.items():
        print(f"  {name:44}{p:7.3f}{w:12.3f}")
    return all(ours[0] < p and ours[1] < w for p, w in rivals.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, help="a built model; default: the packaged one")
    parser.add_argument("--documents", type=int, default=60, help="of each shape")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunk-tokens", type=TokenRange.of, help="measure a range such as 300-800")
    parser.add_argument("--tuning", action="store_true", help="report on the half for choosing parameters")
    options = parser.parse_args()
    corpora: Path | None = options.corpora
    if corpora is None and "SHOAL_TEST_CORPORA" in os.environ:
        corpora = Path(os.environ["SHOAL_TEST_CORPORA"]) / "corpora"
    if corpora is None:
        parser.error("name the folder, or set SHOAL_TEST_CORPORA")
    articles = list(read_articles(corpora))
    halves = np.random.default_rng(0).permutation(len(articles)) % 2
    chosen = [article for article, half in zip(articles, halves, strict=True) if half == options.tuning]
    evaluated = [article for article, half in zip(articles, halves, strict=True) if half != options.tuning]
    scorer = lagoon.load(options.data)
    print(f"{len(chosen)} articles, seed {options.seed}")
    if options.chunk_tokens is not None:
        bad = [
            shape
            for shape in [*SHAPES, ARTICLE]
            if not report_range(
                scorer,
                shape,
                make_documents(chosen, shape, options.documents, options.seed),
                options.chunk_tokens,
            )
        ]
        return int(bool(bad))
    missed = [
        shape
        for shape in [*SHAPES, ARTICLE]
        if not report(
            scorer,
            shape,
            make_documents(chosen, shape, options.documents, options.seed),
            make_documents(evaluated, shape, TILING_DOCUMENTS, options.seed + 1),
        )
        and shape != ARTICLE
    ]
    if missed:
        print(f"\nanalyze is not the best: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
