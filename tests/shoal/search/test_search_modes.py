"""Rankings by words, and by words and reefs together, against the same computed chunk by chunk in plain Python."""

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
from hypothesis import given
from hypothesis import strategies as st
from made_libraries import MANY, N_REEFS, SCORER, WORDS, Library, a_library, filters, libraries, queries

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

K1, B = 1.2, 0.75  # of SQLite's BM25

# Plain words for the most part: what is demanded soon leaves no result.
pieces = st.one_of(
    *[st.sampled_from(WORDS)] * 6,
    st.sampled_from(WORDS).map("title:{}".format),
    st.sampled_from(WORDS).map("-{}".format),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(lambda words: f'"{" ".join(words)}"'),
)
typed = st.lists(pieces, min_size=1, max_size=5).map(" ".join)
weights = st.builds(
    Weights,
    *[st.sampled_from([0.0, 0.1, 0.3, 1.0, 5.0])] * 3,  # type: ignore[arg-type]
).map(Weights.normalized)
modes = st.sampled_from(SearchMode)
fusions = st.sampled_from(Fusion)


def analyzed_query(
    query: str, reefs: Sequence[QueryReef], mode: SearchMode, chosen: Weights
) -> AnalyzedQuery:
    info = QueryInfo(None, 0.0, 1.0, tuple(reefs), ())
    profile = QueryProfile(tuple(reefs), info, matched_words=1)
    parsed = parse_query(query, max_words=64)
    return AnalyzedQuery(parsed, profile, None, ONE_SIGNAL.get(mode, chosen), None, ())


def load(snapshot: Snapshot) -> postings.Postings | None:
    kept = postings.PostingsCache()
    kept.load(snapshot, N_REEFS)
    return kept.of(snapshot, N_REEFS)


def ranking_of(
    snapshot: Snapshot,
    what: AnalyzedQuery,
    mode: SearchMode,
    fusion: Fusion = Fusion.blend,
    asked: SearchFilters = SearchFilters(),  # noqa: B008 - frozen
    *,
    in_memory: bool = False,
) -> Ranking:
    demands = compile_filters(asked, SCORER).and_of_query(
        what.parsed, with_required=mode is not SearchMode.reef
    )
    what = dataclasses.replace(what, term_statistics=find_term_statistics(snapshot, what.parsed.terms))
    return rank(snapshot, what, demands, load(snapshot) if in_memory else None, mode=mode, fusion=fusion)


class Stored(NamedTuple):
    """A chunk with its columns as lists of words, the tags of its document, and its profile."""

    id: int
    document_id: int
    columns: tuple[list[str], list[str], list[str]]
    tags: set[str]
    reefs: dict[int, float]


def everything(snapshot: Snapshot) -> list[Stored]:
    found = []
    for row in snapshot.rows("SELECT * FROM chunk_texts ORDER BY chunk_id"):
        columns = (row["title"], " ".join(json.loads(row["headings"])), row["text"])
        tags = snapshot.rows(
            "SELECT tag FROM document_tags WHERE document_id = :id", {"id": row["document_id"]}
        )
        reefs = snapshot.rows(
            "SELECT reef_id, z_score FROM chunk_reefs WHERE chunk_id = :id", {"id": row["chunk_id"]}
        )
        words = [column.lower().split() for column in columns]
        found.append(
            Stored(
                row["chunk_id"],
                row["document_id"],
                (words[0], words[1], words[2]),
                {tag for (tag,) in tags},
                dict(map(tuple, reefs)),
            )
        )
    return found


def counts(chunk: Stored, term: Term) -> tuple[int, ...]:
    """How often a term stands in each column."""
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
        holding = {chunk.id: counts(chunk, term) for chunk in chunks if any(counts(chunk, term))}
        n = len(holding)
        idf = max(1e-6, math.log((len(chunks) - n + 0.5) / (n + 0.5)))
        for chunk_id, found in holding.items():
            tf = sum(weight * count for weight, count in zip(column_weights, found, strict=True))
            scores[chunk_id] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[chunk_id] / mean))
    return scores


def overlap(chunk: Stored, reefs: Sequence[QueryReef]) -> float:
    norm = math.sqrt(sum(z * z for z in chunk.reefs.values())) or 1.0
    return sum(chunk.reefs.get(reef.reef_id, 0.0) / norm * reef.z_score for reef in reefs)


def field_boost(chunk: Stored, terms: Sequence[Term]) -> float:
    placed = [
        any(counts(chunk, term)[:2]) or (term.text in chunk.tags and not term.in_title) for term in terms
    ]
    return sum(placed) / len(terms) if terms else 0.0


def of_best(scores: dict[int, float]) -> dict[int, float]:
    best = max(scores.values(), default=0.0)
    return {chunk_id: score / best if best else 0.0 for chunk_id, score in scores.items()}


def demanded(chunk: Stored, parsed: ParsedQuery, mode: SearchMode) -> bool:
    """Whether a chunk has what the query demands."""
    required = parsed.required if mode is not SearchMode.reef else ()
    return all(any(counts(chunk, term)) for term in required) and not any(
        any(counts(chunk, term)) for term in parsed.excluded
    )


@MANY
@given(library=libraries, query=typed, reefs=queries, chosen=weights)
def test_a_hybrid_score_is_the_weighted_sum_of_its_parts_over_every_chunk(
    library: Library, query: str, reefs: list[QueryReef], chosen: Weights
) -> None:
    what = analyzed_query(query, reefs, SearchMode.hybrid, chosen)
    terms = what.parsed.terms
    with a_library(library) as database, database.snapshot() as snapshot:
        chunks = everything(snapshot)
        raw = bm25(chunks, terms)
        by_words = of_best(raw)
        by_reefs = of_best({chunk.id: overlap(chunk, reefs) for chunk in chunks})
        expected = {}
        for chunk in chunks:
            parts = (by_words.get(chunk.id, 0.0), by_reefs[chunk.id], field_boost(chunk, terms))
            final = sum(weight * part for weight, part in zip(chosen, parts, strict=True))
            is_found = chunk.id in raw or by_reefs[chunk.id] > 0
            if is_found and final > 1e-12 and demanded(chunk, what.parsed, SearchMode.hybrid):
                expected[chunk.id] = (final, *parts)
        found = ranking_of(snapshot, what, SearchMode.hybrid).first(1000, None)
        assert {one.chunk_id for one in found} == set(expected)
        for one in found:
            parts = (one.score, one.lexical, one.reef, one.field_boost if chosen.field_boost else 0.0)
            wanted = expected[one.chunk_id]
            assert parts == pytest.approx((*wanted[:3], wanted[3] if chosen.field_boost else 0.0), abs=1e-4)
            assert one.lexical_raw == pytest.approx(raw.get(one.chunk_id, 0.0), rel=1e-4)
        in_order = [(-one.score, one.chunk_id) for one in found]
        assert in_order == sorted(in_order)


@MANY
@given(library=libraries, query=typed)
def test_a_lexical_ranking_is_bm25(library: Library, query: str) -> None:
    what = analyzed_query(query, (), SearchMode.lexical, Weights(1.0, 0.0, 0.0))
    with a_library(library) as database, database.snapshot() as snapshot:
        chunks = everything(snapshot)
        raw = bm25(chunks, what.parsed.terms)
        found = ranking_of(snapshot, what, SearchMode.lexical).first(1000, None)
        wanted = {
            one.id for one in chunks if one.id in raw and demanded(one, what.parsed, SearchMode.lexical)
        }
        assert {one.chunk_id for one in found} == wanted
        assert [one.score for one in found] == pytest.approx([raw[one.chunk_id] for one in found], rel=1e-4)
        in_order = [(-one.score, one.chunk_id) for one in found]
        assert in_order == sorted(in_order)


@MANY
@given(
    library=libraries,
    query=typed,
    reefs=queries,
    chosen=weights,
    mode=modes,
    fusion=fusions,
    asked=filters,
    most=st.none() | st.integers(1, 3),
    n=st.integers(1, 9),
)
def test_filters_and_pages_cut_a_ranking_and_change_nothing_else(
    library: Library,
    query: str,
    reefs: list[QueryReef],
    chosen: Weights,
    mode: SearchMode,
    fusion: Fusion,
    asked: SearchFilters,
    most: int | None,
    n: int,
) -> None:
    """In every mode and fusion, excluded and demanded terms included; in memory and in SQL."""
    what = analyzed_query(query, reefs, mode, chosen)
    plain = AnalyzedQuery(
        ParsedQuery(what.parsed.about, what.parsed.terms, (), ()), what.profile, None, what.weights, None, ()
    )
    with a_library(library) as database, database.snapshot() as snapshot:
        chunks = {chunk.id: chunk for chunk in everything(snapshot)}
        demands = compile_filters(asked, SCORER)
        eligible = set(chunks)
        if demands:
            eligible = {row[0] for row in snapshot.rows(demands.eligible, demands.parameters)}
        left = [
            one
            for one in ranking_of(snapshot, plain, mode, fusion).first(1000, None)
            if one.chunk_id in eligible and demanded(chunks[one.chunk_id], what.parsed, mode)
        ]
        expected = at_most(most, left)
        for in_memory in (False, True):
            found = ranking_of(snapshot, what, mode, fusion, asked, in_memory=in_memory)
            assert found.first(n, most) == expected[:n]
            pages = [found.first(end, most)[end - 3 :] for end in range(3, len(expected) + 3, 3)]
            assert list(itertools.chain(*pages)) == expected
            for rank, one in enumerate(expected, start=1):
                assert found.rank_of(one.chunk_id, most) == rank
                assert found.of(one.chunk_id, one.document_id) == one


def at_most(per_document: int | None, found: list[Ranked]) -> list[Ranked]:
    seen: dict[int, int] = defaultdict(int)
    kept = []
    for one in found:
        seen[one.document_id] += 1
        if per_document is None or seen[one.document_id] <= per_document:
            kept.append(one)
    return kept


@MANY
@given(library=libraries, query=typed, reefs=queries, chosen=weights, mode=modes, most=st.integers(1, 2))
def test_what_a_document_has_too_much_of_has_no_rank(
    library: Library, query: str, reefs: list[QueryReef], chosen: Weights, mode: SearchMode, most: int
) -> None:
    with a_library(library) as database, database.snapshot() as snapshot:
        found = ranking_of(snapshot, analyzed_query(query, reefs, mode, chosen), mode)
        every, kept = found.first(1000, None), {one.chunk_id for one in found.first(1000, most)}
        for one in every:
            assert (found.rank_of(one.chunk_id, most) is not None) == (one.chunk_id in kept)


raws = st.lists(st.tuples(*[st.integers(0, 50)] * 2, st.integers(0, 4)), min_size=1, max_size=12)


@given(
    raw=raws,
    chosen=weights,
    fusion=fusions,
    which=st.integers(0, 2),
    place=st.integers(0, 11),
    more=st.integers(1, 60),
)
def test_more_of_one_part_never_ranks_lower(
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


def test_weights_follow_what_is_known_of_the_query() -> None:
    def reef_weight(strength: float, **asked: Any) -> float:
        given = {"preset": fusion_module.Preset.balanced, "given": None, "fusion": Fusion.blend} | asked
        chosen = fusion_module.choose_weights(**given, strength=strength)
        assert sum(chosen) == pytest.approx(1.0)
        return chosen.reef

    by_strength = [reef_weight(z) for z in (0.0, 0.1, 1.0, 4.0, 12.0, 100.0)]
    assert by_strength[0] == 0
    assert by_strength == sorted(by_strength)
    assert by_strength[-1] <= fusion_module.PRESETS[fusion_module.Preset.balanced].reef
    presets = [reef_weight(5, preset=preset) for preset in ("precise", "balanced", "conceptual")]
    assert presets == sorted(presets)
    assert reef_weight(1, given={"reef": 1, "lexical": 3}) == 0.25, "given weights are taken as they are"
    assert reef_weight(1, fusion=Fusion.rrf) == 0.5


@pytest.mark.parametrize("mode", SearchMode)
def test_a_long_document_does_not_crowd_out_the_others(
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
    what = analyzed_query("rain", [QueryReef(1, "reef 1", 2.0)], mode, Weights(0.6, 0.4, 0.0))
    with a_library([long, short, *others]) as database, database.snapshot() as snapshot:  # type: ignore[list-item]
        for in_memory in (True, False):
            found = ranking_of(snapshot, what, mode, in_memory=in_memory).first(5, 2)
            assert [one.document_id for one in found] == [1, 1, 2, 2]


@pytest.mark.parametrize("fusion", Fusion)
def test_what_only_one_signal_finds_is_a_result_too(fusion: Fusion) -> None:
    flat = (0.0, 0.0, 0.0, 0.0)
    profiles = [({1: 1.0}, "rain"), ({1: 1.0}, "lava"), ({5: 1.0}, "rain"), ({5: 1.0}, "lava")]
    chunks = [(reefs, 1.0, flat, text) for reefs, text in profiles]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "")]
    what = analyzed_query("rain", [QueryReef(1, "reef 1", 2.0)], SearchMode.hybrid, Weights(0.6, 0.4, 0.0))
    with a_library(library) as database, database.snapshot() as snapshot:
        for in_memory in (True, False):
            found = ranking_of(snapshot, what, SearchMode.hybrid, fusion, in_memory=in_memory).first(9, None)
            assert [(one.chunk_id, one.score) for one in found] == [
                (1, pytest.approx(1.0)),
                (3, pytest.approx(0.6)),
                (2, pytest.approx(0.4)),
            ]


@pytest.mark.parametrize("mode", SearchMode)
def test_equal_scores_are_ranked_by_id(mode: SearchMode) -> None:
    alike = [({1: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "rain")]
    other = [({5: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "lava")]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "") for chunks in (alike * 2, alike, other * 5)]
    what = analyzed_query("rain", [QueryReef(1, "reef 1", 2.0)], mode, Weights(0.6, 0.4, 0.0))
    with a_library(library) as database, database.snapshot() as snapshot:
        found = ranking_of(snapshot, what, mode)
        assert [one.chunk_id for one in found.first(9, None)] == [1, 2, 3]
        assert [found.rank_of(chunk_id, None) for chunk_id in (1, 2, 3)] == [1, 2, 3]
        assert [found.rank_of(chunk_id, 1) for chunk_id in (1, 2, 3)] == [1, None, 2]


def test_nothing_stands_before_what_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty library, and one without a match."""
    what = analyzed_query("rain", [QueryReef(1, "reef 1", 2.0)], SearchMode.hybrid, Weights(0.5, 0.4, 0.1))
    flat = (0.0, 0.0, 0.0, 0.0)
    for library in ([], [([({5: 1.0}, 1.0, flat, "lava")], set(), 1.0, DocFormat.markdown, "")]):
        with a_library(library) as database, database.snapshot() as snapshot:  # type: ignore[arg-type]
            for in_memory in (True, False):
                found = ranking_of(snapshot, what, SearchMode.hybrid, in_memory=in_memory)
                assert found.first(5, 2) == []
                assert found.rank_of(1, 2) in (None, 1)
                assert found.of(1, 1).score == 0.0
