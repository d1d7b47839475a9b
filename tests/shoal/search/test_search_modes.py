"""Filters, pages, limits, weights and fusion in every mode; test_search_ranking.py holds the scores."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from generated_libraries import (
    MANY,
    SCORER,
    WORDS,
    Library,
    filters,
    index_of,
    libraries,
    open_library,
    queries,
    rank_query,
)
from hypothesis import given
from hypothesis import strategies as st
from ranking_model import ModelRanking

from shoal import SearchFilters
from shoal.models.documents import DocFormat
from shoal.models.queries import QueryReef
from shoal.models.search import BUILT_IN, Fusion, SearchMode, Weights
from shoal.search import ordering
from shoal.search import signals as fusion_module
from shoal.search.filters import compile_filters
from shoal.search.library_index import LibraryIndex
from shoal.search.query_analysis import ONE_SIGNAL
from shoal.search.ranking import Ranked, Ranking
from shoal.search.signals import DenseCosines
from shoal.storage.database import Snapshot

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
    dense=st.just(0.0),
).map(Weights.normalized)
WITHOUT_VECTORS = [mode for mode in SearchMode if mode is not SearchMode.dense]
modes = st.sampled_from(WITHOUT_VECTORS)
fusions = st.sampled_from(Fusion)


class Query(NamedTuple):
    """A query with its profile and the weights of a hybrid search."""

    text: str
    reefs: Sequence[QueryReef]
    weights: Weights


def ranking_of(
    snapshot: Snapshot,
    library: LibraryIndex,
    query: Query,
    mode: SearchMode,
    fusion: Fusion = Fusion.blend,
    search_filters: SearchFilters = SearchFilters(),  # noqa: B008 - frozen
) -> Ranking:
    compiled_filters = compile_filters(search_filters, SCORER, label_threshold=0.5)
    return rank_query(
        snapshot,
        library,
        query.text,
        query.reefs,
        compiled_filters,
        mode=mode,
        weights=ONE_SIGNAL.get(mode, query.weights),
        fusion=fusion,
    )


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
    """In every mode and fusion, with excluded and required terms."""
    asked = Query(query, reefs, chosen)
    with open_library(library) as database, database.snapshot() as snapshot:
        index, model = index_of(database, snapshot), ModelRanking(snapshot)
        compiled_filters = compile_filters(search_filters, SCORER, label_threshold=0.5)
        eligible = set(
            index.index.chunk_ids(np.flatnonzero(compiled_filters.met_by(snapshot, index))).tolist()
        )
        everything = model.ranked(
            query, reefs, mode=mode, weights=ONE_SIGNAL.get(mode, chosen), fusion=fusion
        )
        expected = at_most(limit, [chunk for chunk in everything if chunk.chunk_id in eligible])
        ranking = ranking_of(snapshot, index, asked, mode, fusion, search_filters)
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
        ranking = ranking_of(snapshot, index_of(database, snapshot), Query(query, reefs, chosen), mode)
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
        arguments["preset"] = BUILT_IN[arguments.get("preset", "balanced")]
        defaults = {"given": None, "fusion": Fusion.blend}
        chosen = fusion_module.choose_weights(**(defaults | arguments), strength=strength)
        assert sum(chosen) == pytest.approx(1.0)
        return chosen.reef

    by_strength = [reef_weight(z) for z in (0.0, 0.1, 1.0, 4.0, 12.0, 100.0)]
    assert by_strength[0] == 0
    assert by_strength == sorted(by_strength)
    assert by_strength[-1] <= BUILT_IN["balanced"].weights.reef
    presets = [reef_weight(5, preset=preset) for preset in ("precise", "balanced", "conceptual")]
    assert presets == sorted(presets)
    assert reef_weight(1, given={"reef": 1, "lexical": 3}) == 0.25, "given weights are used as they are"
    assert reef_weight(1, fusion=Fusion.rrf) == 0.5


TODAY = {
    "balanced": (0.5643564356435643, 0.37623762376237624, 0.05940594059405941),
    "job_matching": (0.55, 0.35, 0.1),
}


@pytest.mark.parametrize("preset", TODAY)
def test_without_vectors_the_weights_are_what_they_were_before_there_were_any(preset: str) -> None:
    chosen = fusion_module.choose_weights(BUILT_IN[preset], None, Fusion.blend, 8.0)
    assert chosen == (*TODAY[preset], 0.0)


@pytest.mark.parametrize("preset", ["balanced", "conceptual"])
def test_reefs_of_adaptive_presets_count_less_the_more_passages_have_vectors(preset: str) -> None:
    left = 0.25

    def reef_to_lexical(vector_share: float | None) -> float:
        weights = fusion_module.choose_weights(
            BUILT_IN[preset], None, Fusion.blend, 8.0, vector_share=vector_share
        )
        assert sum(weights) == pytest.approx(1.0)
        assert (weights.dense > 0) == (vector_share is not None)
        return weights.reef / weights.lexical

    without = reef_to_lexical(None)
    assert reef_to_lexical(0.0) == pytest.approx(without)
    assert reef_to_lexical(0.5) == pytest.approx(without * (1 + left) / 2)
    assert reef_to_lexical(1.0) == pytest.approx(without * left)


@pytest.mark.parametrize("preset", ["job_matching", "corpus"])
@pytest.mark.parametrize("vector_share", [None, 0.0, 0.5, 1.0])
def test_vectors_of_a_fixed_preset_take_their_weight_from_reefs(
    preset: str, vector_share: float | None
) -> None:
    given = BUILT_IN[preset].weights
    chosen = fusion_module.choose_weights(
        BUILT_IN[preset], None, Fusion.blend, 8.0, vector_share=vector_share
    )
    assert (chosen.lexical, chosen.field_boost) == pytest.approx((given.lexical, given.field_boost))
    assert chosen.reef + chosen.dense == pytest.approx(given.reef)
    assert chosen.dense == pytest.approx(given.reef * 0.75 * (vector_share or 0.0))


def test_given_weights_and_ranks_count_the_same_beside_vectors() -> None:
    given = {"lexical": 1.0, "reef": 1.0, "dense": 2.0}
    choose = fusion_module.choose_weights
    chosen = choose(BUILT_IN["balanced"], given, Fusion.blend, 8.0, vector_share=1.0)
    assert chosen == (0.25, 0.25, 0.0, 0.5)
    by_ranks = choose(BUILT_IN["balanced"], None, Fusion.rrf, 8.0, vector_share=1.0)
    assert by_ranks.lexical == by_ranks.reef == by_ranks.dense


@pytest.mark.parametrize(
    ("preset", "weights"), [("job_matching", (0.55, 0.35, 0.1)), ("corpus", (0.35, 0.55, 0.1))]
)
def test_weights_of_a_fixed_preset_count_as_they_are(preset: str, weights: tuple[float, ...]) -> None:
    for strength in (0.1, 4.0, 100.0):
        chosen = fusion_module.choose_weights(BUILT_IN[preset], None, Fusion.blend, strength)
        assert chosen[:3] == pytest.approx(weights)
        assert chosen.dense == 0.0
    without_reefs = fusion_module.choose_weights(BUILT_IN[preset], None, Fusion.blend, 0.0)
    assert without_reefs.reef == 0.0
    assert sum(without_reefs) == pytest.approx(1.0)


@pytest.mark.parametrize("mode", WITHOUT_VECTORS)
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
    asked = Query("rain", [QueryReef(1, "reef 1", 2.0)], Weights(0.6, 0.4, 0.0))
    with open_library([long, short, *others]) as database, database.snapshot() as snapshot:  # type: ignore[list-item]
        results = ranking_of(snapshot, index_of(database, snapshot), asked, mode).first(5, 2)
        assert [result.document_id for result in results] == [1, 1, 2, 2]


@pytest.mark.parametrize("fusion", Fusion)
def test_chunk_matched_by_one_signal_is_a_result(fusion: Fusion) -> None:
    flat = (0.0, 0.0, 0.0, 0.0)
    profiles = [({1: 1.0}, "rain"), ({1: 1.0}, "lava"), ({5: 1.0}, "rain"), ({5: 1.0}, "lava")]
    chunks = [(reefs, 1.0, flat, text) for reefs, text in profiles]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "")]
    asked = Query("rain", [QueryReef(1, "reef 1", 2.0)], Weights(0.6, 0.4, 0.0))
    with open_library(library) as database, database.snapshot() as snapshot:
        ranking = ranking_of(snapshot, index_of(database, snapshot), asked, SearchMode.hybrid, fusion)
        assert [(result.chunk_id, result.score) for result in ranking.first(9, None)] == [
            (1, pytest.approx(1.0)),
            (3, pytest.approx(0.6)),
            (2, pytest.approx(0.4)),
        ]


@pytest.mark.parametrize("mode", WITHOUT_VECTORS)
def test_equal_scores_are_ordered_by_id(mode: SearchMode) -> None:
    alike = [({1: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "rain")]
    other = [({5: 1.0}, 1.0, (0.0, 0.0, 0.0, 0.0), "lava")]
    library = [(chunks, set(), 1.0, DocFormat.markdown, "") for chunks in (alike * 2, alike, other * 5)]
    asked = Query("rain", [QueryReef(1, "reef 1", 2.0)], Weights(0.6, 0.4, 0.0))
    with open_library(library) as database, database.snapshot() as snapshot:
        ranking = ranking_of(snapshot, index_of(database, snapshot), asked, mode)
        assert [result.chunk_id for result in ranking.first(9, None)] == [1, 2, 3]
        assert [ranking.rank_of(chunk_id, None) for chunk_id in (1, 2, 3)] == [1, 2, 3]
        assert [ranking.rank_of(chunk_id, 1) for chunk_id in (1, 2, 3)] == [1, None, 2]


def test_ranking_is_empty_without_a_match() -> None:
    """In an empty library, and in one without a match."""
    asked = Query("rain", [QueryReef(1, "reef 1", 2.0)], Weights(0.5, 0.4, 0.1))
    flat = (0.0, 0.0, 0.0, 0.0)
    for library in ([], [([({5: 1.0}, 1.0, flat, "lava")], set(), 1.0, DocFormat.markdown, "")]):
        with open_library(library) as database, database.snapshot() as snapshot:  # type: ignore[arg-type]
            ranking = ranking_of(snapshot, index_of(database, snapshot), asked, SearchMode.hybrid)
            assert ranking.first(5, 2) == []
            assert ranking.rank_of(1, 2) in (None, 1)
            assert ranking.of(1, 1).score == 0.0


@MANY
@given(
    library=libraries,
    query=query_texts,
    reefs=queries,
    chosen=weights,
    fusion=fusions,
    dense_weight=st.sampled_from([0.1, 0.5]),
    floor=st.integers(0, 600_000),
    data=st.data(),
)
def test_dense_scores_join_the_others_chunk_by_chunk(
    library: Library,
    query: str,
    reefs: list[QueryReef],
    chosen: Weights,
    fusion: Fusion,
    dense_weight: float,
    floor: int,
    data: st.DataObject,
) -> None:
    scaled = Weights(*(weight * (1 - dense_weight) for weight in chosen[:3]), dense=dense_weight)
    with open_library(library) as database, database.snapshot() as snapshot:
        index = index_of(database, snapshot)
        n = len(index)
        drawn = data.draw(st.lists(st.none() | st.integers(0, 1_000_000), min_size=n, max_size=n))
        has_vector = np.array([cosine is not None for cosine in drawn], dtype=np.bool_)
        raw = np.array([cosine or 0 for cosine in drawn], dtype=np.int64)
        arguments: dict[str, Any] = {"mode": SearchMode.hybrid, "weights": scaled, "fusion": fusion}
        without = rank_query(snapshot, index, query, reefs, **arguments)
        ranking = rank_query(
            snapshot, index, query, reefs, **arguments, cosines=DenseCosines(raw, has_vector, floor)
        )
        above = [max(cosine - floor, 0) if cosine is not None else 0 for cosine in drawn]
        best = max(above, default=0) or 1
        for place, chunk_id in enumerate(index.index.chunk_ids(np.arange(n)).tolist()):
            others = float(without.order.keys[place])
            if drawn[place] is None:
                dense = others / sum(scaled[:3]) if any(scaled[:3]) else 0.0
            elif fusion is Fusion.rrf and above[place]:
                dense = 61 / (61 + sum(other > above[place] for other in above))
            else:
                dense = above[place] / best
            ranked = ranking.of(chunk_id, 0)
            assert ranked.score == pytest.approx(others + dense_weight * dense)
            assert ranked.dense == pytest.approx(dense)
            assert ranked.dense_raw == (None if drawn[place] is None else drawn[place] / 1e6)  # type: ignore[operator]
            is_found = bool(without.is_found[place]) or above[place] > 0
            assert bool(ranking.is_found[place]) == is_found
