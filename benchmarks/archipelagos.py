"""Archipelagos of known articles and books: `python benchmarks/archipelagos.py CORPORA [--data DIR]`

CORPORA has `wikipedia/NAME.txt` and `books/NAME.md` (default: $SHOAL_TEST_CORPORA/corpora). Every file is
parsed and chunked as during ingestion, and the archipelagos of its chunks are compared with the judgement of
a reader:

- For articles clearly about nature, the physical world, abstract systems or society, that archipelago is the
  strongest in at least 80 % of the clearer chunks. Clearer: confidence at or above the median of the chunks
  of all articles of the same archipelago.
- Articles on one subject have a lower spread over archipelagos and islands than cross-domain articles, and
  their chunks have a higher confidence. Spread: entropy in bits of an article's positive z over archipelagos
  (islands), each chunk with equal weight.
- The strongest reefs of two very different books differ.

For a review of the assignment of islands to archipelagos, it prints the islands behind wrong results. Exits 1
if an archipelago misses its 80 %, or if the means of the cross-domain articles are not wider and less clear.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import lagoon
from shoal.chunking.analysis import score_document
from shoal.formats.drafts import draft_from_file
from shoal.models.documents import Chunk
from shoal.settings import Settings
from shoal.storage.profiles import Profiles

WANTED_SHARE = 0.8

# By archipelago. An article that replaces a similar one of the specification's list names it.
EXPECTED: tuple[dict[str, str], ...] = (
    {
        "photosynthesis": "",
        "penicillin": "",
        "mitochondrion": "",
        "great-barrier-reef": "",
        "raven": "Corvidae",
    },
    {"earthquake": "", "jupiter": "", "granite": "", "volcano": "Volcanic eruption"},
    {
        "fourier-analysis": "Fourier transform",
        "game-theory": "",
        "algorithm": "",
        "natural-selection": "",
        "supply-and-demand": "",
        "thermodynamics": "",
    },
    {
        "french-revolution": "",
        "united-nations": "",
        "supreme-court-of-the-united-states": "",
        "olympic-games": "",
        "renaissance": "",
    },
)
CROSS_DOMAIN = ("coffee", "silk-road", "climate-change", "dna")
BOOKS = ("adventures-of-huckleberry-finn", "on-the-origin-of-species")


@dataclass(frozen=True)
class Article:
    """The chunks of a file. z (chunks, reefs): stored positive z-scores of each chunk; arches (chunks,
    archipelagos): their aggregates."""

    name: str
    chunks: tuple[Chunk, ...]
    z: NDArray[np.float64]
    arches: NDArray[np.float64]

    @property
    def strongest(self) -> NDArray[np.int64]:
        """Archipelago of each chunk."""
        return np.asarray(np.argmax(self.arches, axis=1))

    @property
    def confidences(self) -> NDArray[np.float64]:
        return np.array([chunk.confidence for chunk in self.chunks])


class Reader:
    """Reads files like the product; knows reefs and their groups by id."""

    def __init__(self, data: Path | None) -> None:
        self.scorer = lagoon.load(data)
        self._settings = Settings()
        self.island_of = np.array([reef.island_id for reef in self.scorer.reefs])
        self.archipelago_of_island = np.array([island.archipelago_id for island in self.scorer.islands])
        self.archipelago_of = self.archipelago_of_island[self.island_of]

    def article(self, path: Path) -> Article:
        scored = score_document(draft_from_file(path, settings=self._settings), self.scorer, self._settings)
        z = np.zeros((len(scored.chunks), self.scorer.n_reefs))
        profiles = Profiles.of([chunk.profile for chunk in scored.chunks])
        z[profiles.chunks, profiles.reef_ids] = profiles.z_scores
        return Article(path.stem, scored.chunks, z, np.array([chunk.arch_scores for chunk in scored.chunks]))


def spread(article: Article, group_of: NDArray[np.int64]) -> float:
    """Entropy in bits of the article's positive z over groups of reefs, each chunk with equal weight."""
    votes = article.z / np.maximum(article.z.sum(axis=1, keepdims=True), 1e-12)
    shares = np.bincount(group_of, weights=votes.sum(axis=0))
    shares = shares[shares > 0] / shares.sum()
    return float(-(shares * np.log2(shares)).sum())


def print_expected(reader: Reader, articles: dict[str, Article]) -> list[str]:
    """Print the share of chunks with the expected archipelago; returns the archipelagos below the limit."""
    missed = []
    print("Chunks whose strongest archipelago is the expected one")
    print(f"{'archipelago':34}{'chunks':>7}{'clearer':>9}{'expected of clearer':>21}{'of all':>8}")
    for expected, names in enumerate(EXPECTED):
        group = [articles[name] for name in names if name in articles]
        title = reader.scorer.archipelagos[expected].name
        if not group:
            print(f"{title:34} no article found")
            missed.append(title)
            continue
        clear, right = clear_and_right(group, expected)
        share = right[clear].mean()
        verdict = "" if share >= WANTED_SHARE else f"  below {WANTED_SHARE:.0%}"
        print(f"{title:34}{len(right):7}{clear.sum():9}{share:21.1%}{right.mean():8.1%}{verdict}")
        if verdict:
            missed.append(title)
    return missed


def clear_and_right(group: Sequence[Article], expected: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each chunk of the articles: whether its confidence is in the upper half; whether its archipelago is
    right."""
    confidences = np.concatenate([article.confidences for article in group])
    right = np.concatenate([article.strongest for article in group]) == expected
    return confidences >= np.median(confidences), right


def print_articles(reader: Reader, articles: dict[str, Article]) -> None:
    """Print a line for each article: archipelagos of its chunks, spread, confidence."""
    place = {name: expected for expected, names in enumerate(EXPECTED) for name in names}
    stands_for = {name: note for names in EXPECTED for name, note in names.items()}
    print("\nArticles: chunks by strongest archipelago in %, of clearer chunks in brackets; spread in bits")
    header = "".join(f"{archipelago.name.split()[0]:>13}" for archipelago in reader.scorer.archipelagos)
    print(f"{'':38}{'chunks':>6}{header}{'archip.':>9}{'islands':>8}{'median confidence':>19}")
    ranks = {name: (place.get(name, 4 if name in CROSS_DOMAIN else 5), name) for name in articles}
    before = -1
    for name in sorted(articles, key=ranks.__getitem__):
        rank = ranks[name][0]
        if rank != before:
            title = (
                reader.scorer.archipelagos[rank].name
                if rank < 4
                else ("across domains", "no expectation")[rank - 4]
            )
            print(f"  {title}")
            before = rank
        article = articles[name]
        clear = article.confidences >= np.median(article.confidences)
        cells = ""
        for number in range(4):
            here = article.strongest == number
            mark = "*" if number == rank else " "
            cells += f"{mark}{here.mean():7.0%} ({here[clear].mean():3.0%})".rjust(13)
        note = f"{name} (for {stands_for[name]})" if stands_for.get(name) else name
        print(
            f"  {note:36}{len(article.chunks):6}{cells}{spread(article, reader.archipelago_of):9.2f}"
            f"{spread(article, reader.island_of):8.2f}{np.median(article.confidences):19.2f}"
        )


def print_domains(reader: Reader, articles: dict[str, Article]) -> list[str]:
    """Compare cross-domain articles with those on one subject; returns the failed comparisons."""
    single = [articles[name] for names in EXPECTED for name in names if name in articles]
    cross = [articles[name] for name in CROSS_DOMAIN if name in articles]
    if not single or not cross:
        return ["articles across domains"]
    measures = {
        "spread over archipelagos, bits": lambda article: spread(article, reader.archipelago_of),
        "spread over islands, bits": lambda article: spread(article, reader.island_of),
        "median confidence": lambda article: float(np.median(article.confidences)),
    }
    missed = []
    print(f"\nMeans over articles{'':16}{'one subject':>12}{'across':>9}")
    for title, measure in measures.items():
        single_mean, cross_mean = (
            float(np.mean([measure(article) for article in group])) for group in (single, cross)
        )
        as_expected = cross_mean < single_mean if "confidence" in title else cross_mean > single_mean
        print(f"  {title:33}{single_mean:12.3f}{cross_mean:9.3f}{'' if as_expected else '  not as expected'}")
        if not as_expected:
            missed.append(title)
    return missed


def print_pulls(reader: Reader, articles: dict[str, Article], n_islands: int, n_reefs: int) -> None:
    """Print the islands that contributed most to wrong archipelagos in the clearer chunks, and shares of
    their reefs."""
    roots = np.sqrt(np.bincount(reader.archipelago_of))
    for expected, names in enumerate(EXPECTED):
        group = [articles[name] for name in names if name in articles]
        if not group:
            continue
        clear, right = clear_and_right(group, expected)
        wrong = clear & ~right
        print(f"\n{reader.scorer.archipelagos[expected].name}: {wrong.sum()} clearer chunks misplaced by")
        if not wrong.any():
            continue
        z = np.concatenate([article.z for article in group])[wrong]
        winner = np.concatenate([article.strongest for article in group])[wrong]
        pull = np.where(winner[:, None] == reader.archipelago_of, z / roots[reader.archipelago_of], 0.0)
        owner = np.repeat([article.name for article in group], [len(a.chunks) for a in group])[wrong]
        print_islands(reader, pull, owner, n_islands, n_reefs)


def print_islands(
    reader: Reader, pull: NDArray[np.float64], owner: NDArray[np.str_], n_islands: int, n_reefs: int
) -> None:
    by_reef = pull.sum(axis=0)
    by_island = np.bincount(reader.island_of, weights=by_reef)
    for island in np.argsort(-by_island)[:n_islands].tolist():
        if by_island[island] <= 0:
            break
        members = np.flatnonzero(reader.island_of == island)
        members = members[np.argsort(-by_reef[members])][:n_reefs]
        reefs = "; ".join(
            f"{reader.scorer.reefs[reef].name} {by_reef[reef] / by_island[island]:.0%}"
            for reef in members.tolist()
            if by_reef[reef] > 0
        )
        pulled = pull[:, reader.island_of == island].sum(axis=1)
        where = Counter({name: float(pulled[owner == name].sum()) for name in set(owner.tolist())})
        most = ", ".join(name for name, share in where.most_common(2) if share > 0)
        print(
            f"  {by_island[island] / by_island.sum():5.1%}  island {island} "
            f"{reader.scorer.islands[island].name} [{reader.archipelago_of_island[island]}]: {reefs} | {most}"
        )


def print_attraction(reader: Reader, articles: dict[str, Article]) -> None:
    """Print the mean z of every island's strongest reef over the chunks of each group of articles."""
    print("\nIslands: mean z of the island's reefs in the chunks of articles of each archipelago")
    groups = [
        np.concatenate([articles[name].z for name in names if name in articles])
        for names in EXPECTED
        if any(name in articles for name in names)
    ]
    if len(groups) < len(EXPECTED):
        return
    means = np.stack([group.mean(axis=0) for group in groups])
    for island in reader.scorer.islands:
        members = np.flatnonzero(reader.island_of == island.id)
        cells = "".join(f"{value:7.2f}" for value in means[:, members].mean(axis=1))
        best = int(np.argmax(means[:, members].mean(axis=1)))
        mark = " " if best == island.archipelago_id else "?"
        names = "; ".join(reader.scorer.reefs[reef].name for reef in members.tolist())
        print(f"  [{island.archipelago_id}]{cells} {mark} {island.id:2} {island.name}: {names}")


def print_book(reader: Reader, article: Article, n: int) -> None:
    """Print the reefs of a book with the shares of chunks in which they are first, and among the first
    three."""
    order = np.argsort(-article.z, axis=1, kind="stable")
    print(f"\n{article.name}: {len(article.chunks)} chunks; first in / among the first three in")
    first = Counter(order[:, 0].tolist())
    three = Counter(order[:, :3].ravel().tolist())
    for reef, count in sorted(first.items(), key=lambda item: (-item[1], item[0]))[:n]:
        total = len(article.chunks)
        print(f"  {count / total:6.1%} {three[reef] / total:6.1%}  {reader.scorer.reefs[reef].name}")
    shares = np.bincount(article.strongest, minlength=4) / len(article.chunks)
    names = (archipelago.name for archipelago in reader.scorer.archipelagos)
    print("  by archipelago: " + ", ".join(f"{n} {s:.0%}" for n, s in zip(names, shares, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, help="a built model; default: the packaged one")
    parser.add_argument("--islands", type=int, default=8, help="misleading islands to name")
    parser.add_argument("--reefs", type=int, default=10, help="reefs of a book to name")
    parser.add_argument("--review", action="store_true", help="print every island with its mean z by group")
    options = parser.parse_args()
    corpora: Path | None = options.corpora
    if corpora is None and "SHOAL_TEST_CORPORA" in os.environ:
        corpora = Path(os.environ["SHOAL_TEST_CORPORA"]) / "corpora"
    if corpora is None:
        parser.error("name the folder, or set SHOAL_TEST_CORPORA")
    reader = Reader(options.data)
    articles = {path.stem: reader.article(path) for path in sorted((corpora / "wikipedia").glob("*.txt"))}
    missed = print_expected(reader, articles)
    missed += print_domains(reader, articles)
    print_articles(reader, articles)
    print_pulls(reader, articles, options.islands, 4)
    if options.review:
        print_attraction(reader, articles)
    for name in BOOKS:
        path = corpora / "books" / f"{name}.md"
        if path.exists():
            print_book(reader, reader.article(path), options.reefs)
    if missed:
        print("\nmissed: " + "; ".join(missed))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
