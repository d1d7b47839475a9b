"""A retrieval test collection as a library: scores of every signal, chunk and query as arrays.

Documents are ingested with `Engine.ingest_many`, queries are analyzed as in a search. Documents are ranked by
their best chunks. shoal stores documents with equal text once; here that document represents all of them.
"""

from __future__ import annotations

import collections
import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal import DocFormat, Engine
from shoal.index import scoring
from shoal.index.scoring import BM25, UNIT, Bm25, WeightedTerm
from shoal.learning.scorers import scorer_for
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import IndexCache
from shoal.search.query_language import ParsedQuery, Term, parse_query
from shoal.search.query_profile import make_profile
from shoal.search.signals import field_counts, find_matches, weighted_terms
from shoal.storage.profiles import MILLIONTHS, batches

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DEPTH = 10

PROFILES = "SELECT id, document_id, profile FROM chunks ORDER BY id"


class Query(NamedTuple):
    """The parsed query; strength, number of known words and lead of the strongest reef of the profile."""

    parsed: ParsedQuery
    strength: float
    known_words: int
    lead: float


class JudgedLibrary:
    """One collection.

    chunk_ids  i64 (c,), ascending; document (c,): number of a chunk's document; starts (d,): its first chunk
    weights    f64 (c, reefs): profiles of unit length
    own        f64 (q, reefs): profiles of the queries
    ingest_s   seconds of ingesting the documents, if the database had none
    demanded   bool (q, c): whether a chunk has the phrases of a query; otherwise it is not a lexical result
    """

    def __init__(self, folder: Path, database: Path, *, learning: bool) -> None:
        documents, self.texts, judged = read_collection(folder)
        self.name = folder.name
        self.engine = Engine(db_path=database, learning=learning)
        if not self.engine.status().n_documents:
            started = time.perf_counter()
            self.engine.ingest_many(documents)
            self.ingest_s = time.perf_counter() - started
        ids_of_text = collections.defaultdict(list)
        for document in documents:
            ids_of_text[document["content"]].append(document["source_path"])
        same = {document_id: ids for ids in ids_of_text.values() for document_id in ids}
        index_cache = IndexCache(self.engine.database)
        index_cache.prepare()
        with self.engine.database.snapshot() as snapshot:
            self.index = index_cache.of(snapshot)
            rows = snapshot.rows(
                "SELECT c.id, c.document_id, d.source_path FROM chunks c"
                " JOIN documents d ON d.id = c.document_id ORDER BY c.document_id, c.id"
            )
            self.chunk_ids = np.array([row[0] for row in rows])
            assert (np.diff(self.chunk_ids) > 0).all(), "the chunks of a document must be consecutive"
            numbers, self.document = np.unique([row[1] for row in rows], return_inverse=True)
            self.starts = np.searchsorted(self.document, np.arange(len(numbers)))
            live = np.flatnonzero(self.index.index.live())
            self._places = live[np.argsort(self.index.index.chunk_ids(live))]
            self.weights = np.zeros((len(rows), self.engine.scorer.n_reefs))
            for chunk_ids, _, profiles in batches(snapshot.tuples(PROFILES)):
                places = np.searchsorted(self.chunk_ids, chunk_ids)[profiles.chunks]
                self.weights[places, profiles.reef_ids] = profiles.weights / MILLIONTHS
            self.own = np.zeros((len(self.texts), self.engine.scorer.n_reefs))
            self.demanded = np.ones((len(self.texts), len(rows)), dtype=np.bool_)
            self.queries = [self._understand(snapshot, i, text) for i, text in enumerate(self.texts)]
        names = [same[rows[start][2]] for start in self.starts]
        self.gains = [[_gains(relevant, ids) for ids in names] for relevant in judged]
        self._ideal = [
            _discounted(sorted((2**rel - 1 for rel in relevant.values()), reverse=True))
            for relevant in judged
        ]

    def _understand(self, snapshot: Any, number: int, text: str) -> Query:
        parsed = parse_query(text, max_words=self.engine.settings.max_query_terms)
        profile = make_profile(
            parsed.about,
            scorer_for(parsed.about, snapshot, self.engine.scorer),
            reefs_per_query=self.engine.settings.reefs_per_query,
        )
        demands = CompiledFilters().and_of_query(parsed, with_required=True)
        self.demanded[number] = demands.met_by(snapshot, self.index)[self._places]
        for reef in profile.reefs:
            self.own[number, reef.reef_id] = reef.z_score
        return Query(parsed, profile.strength, profile.matched_words, profile.info.confidence)

    def lexical(self, bm25: Bm25 = BM25) -> Doubles:
        """(q, c): scores of the queries as in `shoal.search.signals`, with given constants."""
        return self._scores(
            [
                weighted_terms(self.index, query.parsed, find_matches(self.index, query.parsed.terms))
                for query in self.queries
            ],
            bm25,
        )

    def by_terms(self, terms: Sequence[Sequence[Term]]) -> Doubles:
        """(q, c): scores of other terms than those of the queries."""
        return self._scores(
            [
                [
                    WeightedTerm(found, has_context=True)
                    for found in find_matches(self.index, of_query).values()
                    if found.n_chunks
                ]
                for of_query in terms
            ],
            BM25,
        )

    def _scores(self, weighted: Iterable[Sequence[WeightedTerm]], bm25: Bm25) -> Doubles:
        rows = [scoring.score_terms(self.index.index, terms, bm25)[self._places] for terms in weighted]
        return np.stack(rows) / UNIT * self.demanded

    def holding(self, term: Term) -> Ints:
        """Numbers of the chunks that contain a term, ascending."""
        (found,) = find_matches(self.index, [term]).values()
        return np.flatnonzero(found.mask()[self._places])

    def field_boost(self) -> Doubles:
        """(q, c): field boost of every chunk."""
        with self.engine.database.snapshot() as snapshot:
            boosts = []
            for query in self.queries:
                matches = find_matches(self.index, query.parsed.terms)
                counts = field_counts(snapshot, self.index, matches)[self._places]
                boosts.append(counts / max(len(matches), 1))
        return np.stack(boosts) * self.demanded

    def overlap(self, profiles: Doubles) -> Doubles:
        """(q, c): overlap of profiles (q, reefs) with every chunk, regardless of required phrases."""
        return np.asarray(profiles @ self.weights.T)

    def candidates(self, signals: Iterable[Doubles], depth: int = 60) -> Ints:
        """(q, n): chunks among the best `depth` of any signal, padded with -1."""
        rows: list[set[int]] = [set() for _ in self.queries]
        for scores in signals:
            best = np.argpartition(-scores, min(depth, scores.shape[1] - 1), axis=1)[:, :depth]
            for row, places in zip(rows, best.tolist(), strict=True):
                row.update(places)
        padded = np.full((len(rows), max(map(len, rows))), -1)
        for i, chosen in enumerate(rows):
            padded[i, : len(chosen)] = sorted(chosen)
        return padded

    def ndcg(self, scores: Doubles, candidates: Ints | None = None) -> float:
        """Mean nDCG@10, gain 2^relevance - 1, of scores (q, c), or (q, n) of candidates. A score of 0 is no
        match."""
        return float(np.mean(self.ndcgs(scores, candidates)))

    def ndcg_of_chunks(self, query: int, chunk_ids: Sequence[int]) -> float:
        """nDCG@10 of the documents of some chunks, best first, for a query by its number."""
        numbers = self.document[np.searchsorted(self.chunk_ids, list(chunk_ids))].tolist()
        gains = [gain for document in dict.fromkeys(numbers) for gain in self.gains[query][document]]
        return _discounted(gains) / self._ideal[query] if self._ideal[query] else 0.0

    def ndcgs(self, scores: Doubles, candidates: Ints | None = None) -> Doubles:
        """(q,): nDCG@10 of each query."""
        ndcgs = []
        depth = 8 * DEPTH
        for i, row in enumerate(scores):
            order = np.argpartition(-row, depth)[:depth] if len(row) > depth else np.arange(len(row))
            order = order[row[order] > 0]
            chunks = order if candidates is None else candidates[i, order]
            ranked = [chunk for chunk, _ in sorted(zip(chunks, -row[order], strict=True), key=_by_score)]
            documents = dict.fromkeys(self.document[[chunk for chunk in ranked if chunk >= 0]].tolist())
            gains = [gain for document in documents for gain in self.gains[i][document]]
            ndcgs.append(_discounted(gains) / self._ideal[i] if self._ideal[i] else 0.0)
        return np.array(ndcgs)


def _by_score(pair: tuple[int, float]) -> tuple[float, int]:
    return pair[1], pair[0]


def of_best(scores: Doubles) -> Doubles:
    """Each row divided by its largest value."""
    best = scores.max(axis=1, keepdims=True)
    return np.asarray(np.divide(scores, best, out=np.zeros_like(scores), where=best > 0))


def at(scores: Doubles, candidates: Ints) -> Doubles:
    """(q, n): scores of the candidates, from scores (q, c)."""
    return np.where(candidates >= 0, np.take_along_axis(scores, np.maximum(candidates, 0), axis=1), 0.0)


def _gains(relevant: dict[str, int], ids: list[str]) -> list[int]:
    return [2 ** relevant.get(document_id, 0) - 1 for document_id in ids]


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:DEPTH]))


def read_collection(folder: Path) -> tuple[list[dict[str, Any]], list[str], list[dict[str, int]]]:
    """Documents for `ingest`, texts of the judged queries, and the relevant documents of each query."""

    def lines(name: str) -> list[dict[str, Any]]:
        with (folder / name).open(encoding="utf-8") as opened:
            return [json.loads(line) for line in opened]

    documents = [
        {
            "title": row.get("title") or row["_id"],
            "content": row["text"] or row.get("title") or "(empty)",
            "format": DocFormat.plaintext,
            "source_path": row["_id"],
        }
        for row in lines("corpus.jsonl")
    ]
    judged: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        query, document, relevance = line.split("\t")
        if relevance.lstrip("-").isdigit() and int(relevance) > 0:
            judged[query][document] = int(relevance)
    texts = {row["_id"]: row["text"] for row in lines("queries.jsonl")}
    query_ids = [query for query in judged if query in texts]
    return documents, [texts[query] for query in query_ids], [judged[query] for query in query_ids]
