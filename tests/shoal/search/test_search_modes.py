"""Lexical and hybrid rankings equal those computed chunk by chunk in plain Python."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from fake_scorer import FakeScorer
from generated_libraries import (
    MANY,
    N_REEFS,
    SCORER,
    WORDS,
    Library,
    filters,
    libraries,
    open_library,
    queries,
)
from hypothesis import given
from hypothesis import strategies as st

from shoal.models import DocFormat, QueryInfo, QueryReef, SearchFilters, SearchMode
from shoal.search import fusion as fusion_module
from shoal.search import lexical_ranking, ordering, postings
from shoal.search.filters import compile_filters
from shoal.search.fusion import Weights
from shoal.search.query_analysis import ONE_SIGNAL, AnalyzedQuery
from shoal.search.query_language import ParsedQuery, Term, parse_query
from shoal.search.query_profile import QueryProfile
from shoal.search.ranking import Ranked, Ranking, rank
from shoal.search.request import Fusion
from shoal.search.term_statistics import find_term_statistics
from shoal.storage.database import Snapshot

K1, B = 1.2, 0.75
"""Parameters of SQLite's BM25."""

# Mostly plain words, because many required terms leave no results.
pieces = st.one_of(
    *[st.sampled_from(WORDS)] * 6,
    st.sampled_from(WORDS).map("title:{}".format),
    st.sampled_from(WORDS).map("-{}".format),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(lambda words: f'"{" ".join(words)}"'),
)
query_texts = st.lists(pieces, min_size=1, max_size=5).map(" ".join)
weights = st.builds(
    Weights,
    *[st.sampled_from([0.0, 0.1, 0.3, 1.0, 5.0])] * 3,  # type: ignore[arg-type]
).map(Weights.normalized)
modes = st.sampled_from(SearchMode)
fusions = st.sampled_from(Fusion)


def analyze(
    query: str, reefs: Sequence[QueryReef], mode: SearchMode, hybrid_weights: Weights
) -> AnalyzedQuery:
    info = QueryInfo(None, 0.0, 1.0, tuple(reefs), ())
    profile = QueryProfile(tuple(reefs), info, matched_words=1, topic=FakeScorer().score(""))
    parsed = parse_query(query, max_words=64)
    return AnalyzedQuery(parsed, profile, None, ONE_SIGNAL.get(mode, hybrid_weights), None, ())


def load(snapshot: Snapshot) -> postings.Postings | None:
    cache = postings.PostingsCache()
    cache.load(snapshot, N_REEFS)
    return cache.of(snapshot, N_REEFS)


def ranking_of(
    snapshot: Snapshot,
    query: AnalyzedQuery,
    mode: SearchMode,
    fusion: Fusion = Fusion.blend,
    search_filters: SearchFilters = SearchFilters(),  # noqa: B008 - frozen
    *,
    in_memory: bool = False,
) -> Ranking:
    compiled_filters = compile_filters(search_filters, SCORER, label_threshold=0.5).and_of_query(
        query.parsed, with_required=mode is not SearchMode.reef
    )
    query = dataclasses.replace(query, term_statistics=find_term_statistics(snapshot, query.parsed.terms))
    loaded = load(snapshot) if in_memory else None
    return rank(snapshot, query, compiled_filters, loaded, mode=mode, fusion=fusion)


class Stored(NamedTuple):
    """A stored chunk: its columns as lists of words, the tags of its document, and its profile."""

    id: int
    document_id: int
    columns: tuple[list[str], list[str], list[str]]
    tags: set[str]
    reefs: dict[int, float]


def all_chunks(snapshot: Snapshot) -> list[Stored]:
    chunks = []
    for row in snapshot.rows("SELECT * FROM chunk_texts ORDER BY chunk_id"):
        columns = (row["title"], " ".join(json.loads(row["headings"])), row["text"])
        tags = snapshot.rows(
            "SELECT tag FROM document_tags WHERE document_id = :id", {"id": row["document_id"]}
        )
        reefs = snapshot.rows(
            "SELECT reef_id, z_score FROM chunk_reefs WHERE chunk_id = :id", {"id": row["chunk_id"]}
        )
        words = [column.lower().split() for column in columns]
        chunks.append(
            Stored(
                row["chunk_id"],
                row["document_id"],
                (words[0], words[1], words[2]),
                {tag for (tag,) in tags},
                dict(map(tuple, reefs)),
            )
        )
    return chunks


def counts(chunk: Stored, term: Term) -> tuple[int, ...]:
    """How often a term occurs in each column."""
    n = len(term.tokens)
    runs = [sum(tuple(words[i : i + n]) == term.tokens for i in range(len(words))) for words in chunk.columns]
    return (runs[0], 0, 0) if term.in_title else tuple(runs)


def bm25(chunks: Sequence[Stored], terms: Sequence[Term]) -> dict[int, float]:
    column_weights = (
        lexical_ranking.TITLE_WEIGHT,
        lexical_ranking.HEADINGS_WEIGHT,
        lexical_ranking.TEXT_WEIGHT,
    )
    lengths = {chunk.id: sum(map(len, chunk.columns)) for chunk in chunks}
    mean = sum(lengths.values()) / max(1, len(chunks))
    scores: dict[int, float] = defaultdict(float)
    for term in terms:
        by_chunk = {chunk.id: counts(chunk, term) for chunk in chunks if any(counts(chunk, term))}
        n = len(by_chunk)
        idf = max(1e-6, math.log((len(chunks) - n + 0.5) / (n + 0.5)))
        for chunk_id, term_counts in by_chunk.items():
            tf = sum(weight * count for weight, count in zip(column_weights, term_counts, strict=True))
            scores[chunk_id] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[chunk_id] / mean))
    return scores


def overlap(chunk: Stored, reefs: Sequence[QueryReef]) -> float:
    norm = math.sqrt(sum(z * z for z in chunk.reefs.values())) or 1.0
    return sum(chunk.reefs.get(reef.reef_id, 0.0) / norm * reef.z_score for reef in reefs)


def field_boost(chunk: Stored, terms: Sequence[Term]) -> float:
    is_boosted = [
        any(counts(chunk, term)[:2]) or (term.text in chunk.tags and not term.in_title) for term in terms
    ]
    return sum(is_boosted) / len(terms) if terms else 0.0


def relative_to_best(scores: dict[int, float]) -> dict[int, float]:
    best = max(scores.values(), default=0.0)
    return {chunk_id: score / best if best else 0.0 for chunk_id, score in scores.items()}


def meets_query(chunk: Stored, parsed: ParsedQuery, mode: SearchMode) -> bool:
    """Whether a chunk has the required terms of the query and none of the excluded ones."""
    required = parsed.required if mode is not SearchMode.reef else ()
    return all(any(counts(chunk, term)) for term in required) and not any(
        any(counts(chunk, term)) for term in parsed.excluded
    )


@MANY
@given(library=libraries, query=query_texts, reefs=queries, chosen=weights)
def test_hybrid_score_is_the_weighted_sum_of_the_normalized_scores(
    library: Library, query: str, reefs: list[QueryReef], chosen: Weights
) -> None:
    analyzed = analyze(query, reefs, SearchMode.hybrid, chosen)
    terms = analyzed.parsed.terms
    with open_library(library) as database, database.snapshot() as snapshot:
        chunks = all_chunks(snapshot)
        raw = bm25(chunks, terms)
        by_words = relative_to_best(raw)
        by_reefs = relative_to_best({chunk.id: overlap(chunk, reefs) for chunk in chunks})
        expected = {}
        for chunk in chunks:
            normalized = (by_words.get(chunk.id, 0.0), by_reefs[chunk.id], field_boost(chunk, terms))
            final = sum(weight * score for weight, score in zip(chosen, normalized, strict=True))
            is_found = chunk.id in raw or by_reefs[chunk.id] > 0
            if is_found and final > 1e-12 and meets_query(chunk, analyzed.parsed, SearchMode.hybrid):
                expected[chunk.id] = (final, *normalized)
        results = ranking_of(snapshot, analyzed, SearchMode.hybrid).first(1000, None)
        assert {result.chunk_id for result in results} == set(expected)
        for result in results:
            boost = result.field_boost if chosen.field_boost else 0.0
            *scores, expected_boost = expected[result.chunk_id]
            expected_boost = expected_boost if chosen.field_boost else 0.0
            assert (result.score, result.lexical, result.reef, boost) == pytest.approx(
                (*scores, expected_boost), abs=1e-4
            )
            assert result.lexical_raw == pytest.approx(raw.get(result.chunk_id, 0.0), rel=1e-4)
        in_order = [(-result.score, result.chunk_id) for result in results]
        assert in_order == sorted(in_order)


@MANY
@given(library=libraries, query=query_texts)
def test_lexical_ranking_is_bm25(library: Library, query: str) -> None:
    analyzed = analyze(query, (), SearchMode.lexical, Weights(1.0, 0.0, 0.0))
    with open_library(library) as database, database.snapshot() as snapshot:
        chunks = all_chunks(snapshot)
        raw = bm25(chunks, analyzed.parsed.terms)
        results = ranking_of(snapshot, analyzed, SearchMode.lexical).first(1000, None)
        expected = {
            chunk.id
            for chunk in chunks
            if chunk.id in raw and meets_query(chunk, analyzed.parsed, SearchMode.lexical)
        }
        assert {result.chunk_id for result in results} == expected
        assert [result.score for result in results] == pytest.approx(
            [raw[result.chunk_id] for result in results], rel=1e-4
        )
        in_order = [(-result.score, result.chunk_id) for result in results]
        assert in_order == sorted(in_order)


@MANY
@given(
    library=libraries,
    query=query_texts,
    reefs=queries,
    chosen=weights,
    mode=modes,
    fusion=fusions,
    search_filters=filters,
    limit=st.none() | st.integers(1, 3),
    n=st.integers(1, 9),
)
def test_filters_and_pages_select_from_the_same_ranking(
    library: Library,
    query: str,
    reefs: list[QueryReef],
    chosen: Weights,
    mode: SearchMode,
    fusion: Fusion,
    search_filters: SearchFilters,
    limit: int | None,
    n: int,
) -> None:
    """In every mode and fusion, with excluded and required terms, in memory and in SQL."""
    analyzed = analyze(query, reefs, mode, chosen)
    plain = AnalyzedQuery(
        ParsedQuery(analyzed.parsed.about, analyzed.parsed.terms, (), ()),
        analyzed.profile,
        None,
        analyzed.weights,
        None,
        (),
    )
    with open_library(library) as database, database.snapshot() as snapshot:
        chunks = {chunk.id: chunk for chunk in all_chunks(snapshot)}
        compiled_filters = compile_filters(search_filters, SCORER, label_threshold=0.5)
        eligible = set(chunks)
        if compiled_filters:
            rows = snapshot.rows(compiled_filters.eligible, compiled_filters.parameters)
            eligible = {row[0] for row in rows}
        remaining = [
            chunk
            for chunk in ranking_of(snapshot, plain, mode, fusion).first(1000, None)
            if chunk.chunk_id in eligible and meets_query(chunks[chunk.chunk_id], analyzed.parsed, mode)
        ]
        expected = at_most(limit, remaining)
        for in_memory in (False, True):
            ranking = ranking_of(snapshot, analyzed, mode, fusion, search_filters, in_memory=in_memory)
            assert ranking.first(n, limit) == expected[:n]
            pages = [ranking.first(end, limit)[end - 3 :] for end in range(3, len(expected) + 3, 3)]
            assert list(itertools.chain(*pages)) == expected
            for rank, chunk in enumerate(expected, start=1):
                assert ranking.rank_of(chunk.chunk_id, limit) == rank
                assert ranking.of(chunk.chunk_id, chunk.document_id) == chunk


def at_most(per_document: int | None, ranked: list[Ranked]) -> list[Ranked]:
    counts: dict[int, int] = defaultdict(int)
    kept = []
    for chunk in ranked:
        counts[chunk.document_id] += 1
        if per_document is None or counts[chunk.document_id] <= per_document:
            kept.append(chunk)
    return kept


@MANY
@given(
    library=libraries, query=query_texts, reefs=queries, chosen=weights, mode=modes, limit=st.integers(1, 2)
)
def test_chunks_beyond_the_limit_per_document_have_no_rank(
    library: Library, query: str, reefs: list[QueryReef], chosen: Weights, mode: SearchMode, limit: int
) -> None:
    with open_library(library) as database, database.snapshot() as snapshot:
        ranking = ranking_of(snapshot, analyze(query, reefs, mode, chosen), mode)
        within_limit = {chunk.chunk_id for chunk in ranking.first(1000, limit)}
        for chunk in ranking.first(1000, None):
            has_rank = ranking.rank_of(chunk.chunk_id, limit) is not None
            assert has_rank == (chunk.chunk_id in within_limit)


raws = st.lists(st.tuples(*[st.integers(0, 50)] * 2, st.integers(0, 4)), min_size=1, max_size=12)


@given(
    raw=raws,
    chosen=weights,
    fusion=fusions,
    which=st.integers(0, 2),
    place=st.integers(0, 11),
    more=st.integers(1, 60),
)
def test_higher_score_of_one_signal_never_lowers_the_rank(
    raw: list[tuple[int, int, int]], chosen: Weights, fusion: Fusion, which: int, place: int, more: int
) -> None:
    place %= len(raw)
    table = np.array(raw, dtype=np.int64)

    def finals(table: Any) -> Any:
        by_words, by_reefs = (fusion_module.parts(table[:, column], fusion) for column in (0, 1))
        return fusion_module.blend(by_words, by_reefs, np.minimum(table[:, 2] / 4, 1.0), chosen)

    def n_before(scores: Any) -> int:
        ahead = scores > scores[place] + 1e-12
        return int(ahead.sum())

    before = n_before(finals(table))
    table[place, which] += more
    after = finals(table)
    assert n_before(after) <= before
    assert (after >= 0).all()
    assert (after <= 1 + 1e-12).all()


def test_reciprocal_ranks_give_equal_scores_equal_ranks() -> None:
    parts = fusion_module.parts(np.array([7, 0, 9, 7, 1]), Fusion.rrf)
    assert parts.tolist() == [61 / 62, 0.0, 1.0, 61 / 62, 61 / 64]


def test_weights_follow_the_strength_of_the_profile() -> None:
    def reef_weight(strength: float, **arguments: Any) -> float:
        defaults = {"preset": fusion_module.Preset.balanced, "given": None, "fusion": Fusion.blend}
        chosen = fusion_module.choose_weights(**(defaults | arguments), strength=strength)
        assert sum(chosen) == pytest.approx(1.0)
        return chosen.reef

    by_strength = [reef_weight(z) for z in (0.0, 0.1, 1.0, 4.0, 12.0, 100.0)]
    assert by_strength[0] == 0
    assert by_strength == sorted(by_strength)
    assert by_strength[-1] <= fusion_module.PRESETS[fusion_module.Preset.balanced].reef
    presets = [reef_weight(5, preset=preset) for preset in ("precise", "balanced", "conceptual")]
    assert presets == sorted(presets)
    assert reef_weight(1, given={"reef": 1, "lexical": 3}) == 0.25, "given weights are used as they are"
    assert reef_weight(1, fusion=Fusion.rrf) == 0.5


@pytest.mark.parametrize("mode", SearchMode)
def test_long_document_does_not_crowd_out_the_others(
    mode: SearchMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "FIRST_DEPTH", 2)
    monkeypatch.setattr(ordering, "DEPTH_FACTOR", 2)
    flat = (0.0, 0.0, 0.0, 0.0)
    long = ([({1: 1.0}, 1.0, flat, "rain rain")] * 50, set(), 1.0, DocFormat.markdown, "")
    short = (
        [({1: 1.0, 2: 3.0}, 1.0, flat, "rain storm storm king")] * 4,
        set(),
        1.0,
        DocFormat.plaintext,
        "",
    )
    others = [([({5: 1.0}, 1.0, flat, "lava")] * 80, set(), 1.0, DocFormat.plaintext, "")]
    analyzed = analyze("rain", [QueryReef(1, "reef 1", 2.0)], mode, Weights(0.6, 0.4, 0.0))
    with open_library([long, short, *others]) as database, database.snapshot() as snapshot:  # type: ignore[list-item]
        for in_memory in (True, False):
            results = ranking_of(snapshot, analyzed, mode, in_memory=in_memory).first(5, 2)
            assert [result.document_id for result in results] == [1, 1, 2, 2]


@pytest.mark.parametrize("fusion", Fusion)
def test_chunk_matched_by_one_signal_is_a_result(fusion: Fusion) -> None:
    flat = (0.0, 0.0, 0.0, 0.0)
    profiles = [({1: 1.0}, "rain"), ({1: 1.0}, "lava"), ({5: 1.0}, "rain"), ({5: 1.0}, "lava")]
    chunks = [(reefs, 1.0, flat, text) for reefs, text in profiles]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "")]
    analyzed = analyze("rain", [QueryReef(1, "reef 1", 2.0)], SearchMode.hybrid, Weights(0.6, 0.4, 0.0))
    with open_library(library) as database, database.snapshot() as snapshot:
        for in_memory in (True, False):
            ranking = ranking_of(snapshot, analyzed, SearchMode.hybrid, fusion, in_memory=in_memory)
            assert [(result.chunk_id, result.score) for result in ranking.first(9, None)] == [
                (1, pytest.approx(1.0)),
                (3, pytest.approx(0.6)),
                (2, pytest.approx(0.4)),
            ]


@pytest.mark.parametrize("mode", SearchMode)
def test_equal_scores_are_ordered_by_id(mode: SearchMode) -> None:
    alike = [({1: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "rain")]
    other = [({5: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "lava")]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "") for chunks in (alike * 2, alike, other * 5)]
    analyzed = analyze("rain", [QueryReef(1, "reef 1", 2.0)], mode, Weights(0.6, 0.4, 0.0))
    with open_library(library) as database, database.snapshot() as snapshot:
        ranking = ranking_of(snapshot, analyzed, mode)
        assert [result.chunk_id for result in ranking.first(9, None)] == [1, 2, 3]
        assert [ranking.rank_of(chunk_id, None) for chunk_id in (1, 2, 3)] == [1, 2, 3]
        assert [ranking.rank_of(chunk_id, 1) for chunk_id in (1, 2, 3)] == [1, None, 2]


def test_ranking_is_empty_without_a_match() -> None:
    """In an empty library, and in one without a match."""
    analyzed = analyze("rain", [QueryReef(1, "reef 1", 2.0)], SearchMode.hybrid, Weights(0.5, 0.4, 0.1))
    flat = (0.0, 0.0, 0.0, 0.0)
    for library in ([], [([({5: 1.0}, 1.0, flat, "lava")], set(), 1.0, DocFormat.markdown, "")]):
        with open_library(library) as database, database.snapshot() as snapshot:  # type: ignore[arg-type]
            for in_memory in (True, False):
                ranking = ranking_of(snapshot, analyzed, SearchMode.hybrid, in_memory=in_memory)
                assert ranking.first(5, 2) == []
                assert ranking.rank_of(1, 2) in (None, 1)
                assert ranking.of(1, 1).score == 0.0
