"""Whether explanations are faithful: do the words that they show decide the rank?

usage: python -m benchmarks.faithfulness FOLDER [COLLECTION...] [--queries 20] [--seed 31] [--half report]
    [--encoder FOLDER]

Three rankings of the same passages are explained. `shoal` ranks by words and reefs; its explanation is what
a result shows, in this order: the words of the query that the passage holds, and the words that show its
reasons. `shoal, by parts` orders all words of the passage by what they add to the score. `bm25` ranks by
words alone, and its explanation is the highlighted words. `vectors` ranks by the cosine of a neural
encoder; its explanation is by occlusion: the words whose removal lowers the cosine most. It needs
--encoder, a folder that `shoal encoder convert` wrote, and is left out without one.

The title of a document is the beginning of its text here, so that every word can be taken away. Queries are
used that have a passage which all rankings have among their first ten; one such passage is drawn by the seed.
The queries of a collection are split by the seed: one half served for developing, the other is reported.

deletion   rank of the passage without the first k words that the explanation shows, in any inflection, and
           without as many words drawn from the passage (stop words aside). The passage is indexed, scored and
           ranked again. Higher numbers are better: the shown words mattered.
insertion  rank of a passage drawn from the collection, none of the first ten, with the first k words that the
           explanation of the other passage shows added at the end, and with as many words drawn from that
           passage. Lower numbers are better.
reader     of two of the first four results of `shoal`, a reader who sees the explanations alone says which
           the ranking has first. This is a simulated reader: it takes the result with more words of the query
           among those shown, then the one with more words shown, else either with equal chance.

Ranks are geometric means over the queries; a passage that is not found has the last rank. The difference is
between shown and drawn words, as a power of two of the rank, mean over k: 1 means twice the rank. The
interval is a bootstrap over queries, 95 %. FOLDER keeps the libraries and vectors between runs. Without
collections, those under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.hybrid import collection_folders
from benchmarks.judged_library import read_collection
from lagoon.tokens import STOP_WORDS
from shoal.encoders.encoder import Encoder, TextKind, open_encoder
from shoal.engine import Engine
from shoal.models.search import SearchMode, SearchResult
from shoal.search.counterfactuals import (
    Words,
    shown_word,
    strongest_words,
    with_text,
    without_words,
    words_of_passage,
)
from shoal.search.library_index import LibraryView
from shoal.search.request import make_request
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal.words.analysis import stems_of, tokens_of

FIRST = 10
KS = (1, 2, 3, 5)
READ = 4
"""First results of a query that the reader compares."""
DRAWS = 2
"""Random choices of words that are averaged."""
BOOTSTRAPS = 1_000
NOT_FOUND = 1 << 30
Doubles = npt.NDArray[np.float64]


class Ranker(Protocol):
    """A ranking of passages for one query."""

    def rank(self, chunk_id: int, text: str | None = None) -> int:
        """Return the rank of a passage, as it is or with another text, from 1, or `NOT_FOUND`."""
        ...


class IndexRanker:
    """A ranking of Shoal."""

    def __init__(self, searcher: Searcher, view: LibraryView, query: str, mode: str) -> None:
        request = make_request(query, settings=view.settings, mode=mode, top_k=FIRST)
        self._prepared = searcher.prepare(request)
        self._searcher, self._view = searcher, view
        self.search = searcher.rank(view, self._prepared)

    def rank(self, chunk_id: int, text: str | None = None) -> int:
        search = self.search
        if text is not None:
            library = with_text(self._view, chunk_id, text)
            search = self._searcher.rank(self._view._replace(library=library), self._prepared)
        return search.ranking.rank_of(chunk_id, None) or NOT_FOUND


class VectorRanker:
    """A ranking by the cosine of vectors, f32 (n, dimension), of the passages `chunk_ids`, ascending."""

    def __init__(self, encoder: Encoder, chunk_ids: Doubles, vectors: Any, query: str) -> None:
        self._encoder = encoder
        self._query = encoder.embed([query], TextKind.query)[0]
        self._chunk_ids, self._cosines = chunk_ids, vectors @ self._query

    def rank(self, chunk_id: int, text: str | None = None) -> int:
        own = int(np.searchsorted(self._chunk_ids, chunk_id))
        cosine = self._cosines[own] if text is None else self.cosines([text])[0]
        return 1 + int(np.count_nonzero(np.delete(self._cosines, own) > cosine))

    def cosines(self, texts: Sequence[str]) -> Any:
        """Return the cosines of some texts with the query."""
        return self._encoder.embed(texts, TextKind.document) @ self._query


def content_words(words: Words) -> list[str]:
    """Return the stems of a passage without stop words and numbers, in a fixed order."""
    return sorted(
        stem
        for stem, found in words.items()
        if all(each.form.isalpha() and each.form not in STOP_WORDS for each in found)
    )


def words_shown(result: SearchResult, words: Words) -> list[str]:
    """Return the stems of the words that a result shows as its reasons and that its text has, in order."""
    matched = [term.term for term in result.matched_terms or ()]
    synonyms = [word for term in result.matched_terms or () for word in term.synonyms]
    reasons = [word for reef in result.shared_reefs or () if reef.is_reason for word in reef.passage_words]
    return _stems([*matched, *synonyms, *reasons], words)


def words_highlighted(result: SearchResult, words: Words) -> list[str]:
    """Return the stems of the highlighted words of a result, in the order of the text."""
    return _stems([result.text[start:end] for start, end in result.highlights], words)


def _stems(shown: Sequence[str], words: Words) -> list[str]:
    stems = (stem for text in shown for stem in stems_of(tokens_of(text)))
    return [stem for stem in dict.fromkeys(stems) if stem in words]


def words_occluded(ranker: VectorRanker, text: str, words: Words, n: int) -> list[str]:
    """Return the `n` words without which the cosine of a text is lowest, strongest first."""
    candidates = content_words(words)
    if not candidates:
        return []
    cosines = ranker.cosines([without_words(text, words, [stem]) for stem in candidates])
    return [candidates[i] for i in np.argsort(cosines, kind="stable")[:n].tolist()]


@dataclass
class Curves:
    """For each query, the binary logarithm of the rank without a change and after each of `KS` words.

    Words of the explanation, or as many random ones, are taken away or added elsewhere; f64 (1 + k,) each.

    shown      words of the explanation of each passage
    predicted  share of the pairs of results that the reader predicts, (1,) for each query
    """

    deletion: list[Doubles] = field(default_factory=list)
    random_deletion: list[Doubles] = field(default_factory=list)
    insertion: list[Doubles] = field(default_factory=list)
    random_insertion: list[Doubles] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    predicted: list[Doubles] = field(default_factory=list)


def measure_passage(
    curves: Curves,
    ranker: Ranker,
    chunk_id: int,
    text: str,
    shown: Sequence[str],
    other: tuple[int, str],
    n_passages: int,
    generator: random.Random,
) -> None:
    """Add the curves of one passage. `other`: id and text of the passage that words are added to;
    `n_passages`: in the collection."""
    words = words_of_passage(text)
    content = content_words(words)
    draws = [generator.sample(content, len(content)) for _ in range(DRAWS)]
    sizes = [min(k, len(shown)) for k in (0, *KS)]

    @functools.cache  # Without a change, and with fewer words than are asked for, texts repeat.
    def log_rank(chunk_id: int, text: str) -> float:
        return math.log2(min(ranker.rank(chunk_id, text), n_passages))

    def without(stems: Sequence[str]) -> float:
        return log_rank(chunk_id, without_words(text, words, stems))

    def with_words(stems: Sequence[str]) -> float:
        added = " ".join(shown_word(text, words[stem]) for stem in stems)
        return log_rank(other[0], f"{other[1]} {added}")

    curves.shown.append(len(shown))
    curves.deletion.append(np.array([without(shown[:k]) for k in sizes]))
    curves.insertion.append(np.array([with_words(shown[:k]) for k in sizes]))
    for name, run in (("random_deletion", without), ("random_insertion", with_words)):
        runs = [[run(draw[:k]) for k in sizes] for draw in draws]
        getattr(curves, name).append(np.mean(runs, axis=0))


def predict(ranks: Sequence[int], explanations: Sequence[Sequence[str]], query: str) -> float:
    """Return the share of pairs of results that a reader of the explanations puts in the order of `ranks`."""
    of_query = set(stems_of(tokens_of(query)))
    keys = [(sum(stem in of_query for stem in shown), len(shown)) for shown in explanations]
    scores = [
        0.5 if keys[i] == keys[j] else float((keys[i] > keys[j]) == (ranks[i] < ranks[j]))
        for i, j in itertools.combinations(range(len(ranks)), 2)
        if ranks[i] != ranks[j]
    ]
    return float(np.mean(scores)) if scores else 0.5


class Collection:
    """The passages of a collection in a library, with vectors if there is an encoder."""

    def __init__(self, folder: Path, scratch: Path, encoder: Encoder | None) -> None:
        documents, self.texts, _ = read_collection(folder)
        scratch.mkdir(parents=True, exist_ok=True)
        self.engine = Engine(db_path=scratch / f"{folder.name}.db")
        if not self.engine.status().n_documents:
            self.engine.ingest_many(map(without_title, documents))
        with self.engine.database.snapshot() as snapshot:
            self.passages: dict[int, str] = dict(snapshot.tuples("SELECT id, text FROM chunks ORDER BY id"))
        self._chunk_ids = np.array(list(self.passages))
        self._encoder = encoder
        self._vectors: Any = None
        if encoder is not None:
            path = scratch / f"{folder.name}.npy"
            if not path.exists():
                np.save(path, encoder.embed(list(self.passages.values()), TextKind.document))
            self._vectors = np.load(path)

    @contextmanager
    def rankers(self, query: str) -> Iterator[dict[str, Any]]:
        """The rankings of a query by name."""
        searcher = self.engine._library.searcher
        prepared = searcher.prepare(make_request(query, settings=self.engine.settings))
        with searcher.open([prepared]) as view:
            found: dict[str, Any] = {
                "shoal": IndexRanker(searcher, view, query, SearchMode.hybrid.value),
                "bm25": IndexRanker(searcher, view, query, SearchMode.lexical.value),
            }
            if self._encoder is not None:
                found["vectors"] = VectorRanker(self._encoder, self._chunk_ids, self._vectors, query)
            yield found


def without_title(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document whose text begins with its title, and whose title is a number."""
    title, text = document["title"], document["content"]
    whole = text if title == document["source_path"] or text.startswith(title) else f"{title}. {text}"
    return {**document, "title": document["source_path"], "content": whole}


def measure_query(
    collection: Collection, query: str, curves: Mapping[str, Curves], generator: random.Random
) -> bool:
    """Add the curves of one query; False if the rankings have no passage in common among their first ten."""
    engine = collection.engine
    results = engine.search(query, top_k=FIRST, include_scores=True, max_per_document=0).results
    lexical = {
        result.chunk_id: result
        for result in engine.search(query, top_k=FIRST, mode="lexical", max_per_document=0).results
    }
    with collection.rankers(query) as rankers:
        common = [
            result
            for result in results
            if result.chunk_id in lexical
            and all(ranker.rank(result.chunk_id) <= FIRST for ranker in rankers.values())
        ]
        if not common:
            return False
        result = generator.choice(common)
        others = [
            chunk_id
            for chunk_id in generator.sample(sorted(collection.passages), min(len(collection.passages), 50))
            if all(ranker.rank(chunk_id) > FIRST for ranker in rankers.values())
        ]
        if not others:
            return False
        other = others[0], collection.passages[others[0]]
        n = len(collection.passages)
        for name, ranker in rankers.items():
            read = {each.chunk_id: each for each in (*results[:READ], result)}
            explained = {chunk_id: _explain(name, ranker, each, lexical) for chunk_id, each in read.items()}
            shown = [explained[each.chunk_id] for each in results[:READ]]
            ranks = [ranker.rank(each.chunk_id) for each in results[:READ]]
            curves[name].predicted.append(np.array([predict(ranks, shown, query)]))
            own = explained[result.chunk_id]
            measure_passage(curves[name], ranker, result.chunk_id, result.text, own, other, n, generator)
        words = words_of_passage(result.text)
        search = rankers["shoal"].search
        (chunk,) = [each for each in search.ranking.first(FIRST, None) if each.chunk_id == result.chunk_id]
        parts = strongest_words(search, chunk, result.text, words)[: KS[-1]]
        by_parts = curves["shoal, by parts"]
        measure_passage(by_parts, rankers["shoal"], result.chunk_id, result.text, parts, other, n, generator)
    return True


def _explain(name: str, ranker: Any, result: SearchResult, lexical: Mapping[int, SearchResult]) -> list[str]:
    """The stems of the words that the explanation of a ranking shows of a result, in its order."""
    words = words_of_passage(result.text)
    if name == "vectors":
        return words_occluded(ranker, result.text, words, KS[-1])
    if name == "bm25":
        # A passage that words rank lower has the same highlights in the search by words and reefs.
        return words_highlighted(lexical.get(result.chunk_id, result), words)
    return words_shown(result, words)


def halves(texts: Sequence[str], seed: int) -> dict[str, list[str]]:
    """Split queries by a seed."""
    shuffled = random.Random(seed).sample(list(texts), len(texts))
    return {"develop": shuffled[: len(texts) // 2], "report": shuffled[len(texts) // 2 :]}


def interval(values: Doubles, seed: int) -> tuple[float, float]:
    """The bootstrap interval of a mean over queries, 95 %."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(values), size=(BOOTSTRAPS, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def rows(curves: Mapping[str, Curves], seed: int) -> Iterator[str]:
    """Yield the lines of the table."""
    head = " | ".join(map(str, KS))
    yield f"| ranking | curve | words shown | rank | {head} | drawn: {head} | difference |"
    yield f"|---|---|{'---|' * (2 * len(KS) + 3)}"
    for name, each in curves.items():
        for what, sign in (("deletion", 1), ("insertion", -1)):
            shown, drawn = np.array(getattr(each, what)), np.array(getattr(each, f"random_{what}"))
            differences = sign * (shown - drawn)[:, 1:].mean(axis=1)
            low, high = interval(differences, seed)
            means = [*shown.mean(axis=0), *drawn.mean(axis=0)[1:]]
            cells = " | ".join(f"{2**mean:.0f}" for mean in means)
            yield (
                f"| {name} | {what} | {np.mean(each.shown):.1f} | {cells} | "
                f"{differences.mean():.1f} ({low:.1f} to {high:.1f}) |"
            )
    for name, each in curves.items():
        if each.predicted:
            shares = np.concatenate(each.predicted)
            low, high = interval(shares, seed)
            yield f"{name}: the reader predicts {shares.mean():.0%} of the pairs ({low:.0%} to {high:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument("--queries", type=int, default=20, help="of each collection")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--half", choices=("develop", "report"), default="report")
    parser.add_argument("--encoder", type=Path)
    options = parser.parse_args()
    encoder = None
    if options.encoder is not None:
        encoder = open_encoder(Settings.from_environment(encoder=f"local:{options.encoder.absolute()}"))
    else:
        print("vectors: left out, because --encoder names no folder of an encoder")
    names = ["shoal", "shoal, by parts", "bm25", *(["vectors"] if encoder else [])]
    curves = {name: Curves() for name in names}
    for folder in collection_folders(options.collections):
        collection = Collection(folder, options.folder, encoder)
        generator = random.Random(options.seed)
        n = 0
        for query in halves(collection.texts, options.seed)[options.half]:
            n += measure_query(collection, query, curves, generator)
            if n == options.queries:
                break
        print(f"{folder.name}: {n} queries, {len(collection.passages):,} passages", flush=True)
        collection.engine.close()
    print(*rows(curves, options.seed), sep="\n")


if __name__ == "__main__":
    main()
