"""The ranking of notes equals a model in plain Python, step by step."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from note_model import CATEGORIES, CHECKSUM, TAGS, WORDS, ModelNote, model_notes, rank, subsets

from shoal.models.notes import TagRelevance
from shoal.models.queries import QueryReef
from shoal.notes.environment import Environment
from shoal.notes.note_index import NoteIndex, TermNumbers
from shoal.notes.note_query import NoteQuery, QueryTerm, query_terms, speaks_of_self
from shoal.notes.ranking import OF_SELF, NoteFilters, NoteRanking, largest, rank_notes
from shoal.settings import Settings

SETTINGS = Settings()

queries = st.builds(
    NoteQuery,
    text=st.just("query"),
    terms=st.lists(st.sampled_from(WORDS), max_size=4, unique=True).map(
        lambda words: tuple(QueryTerm(word, word, frequency) for frequency, word in enumerate(words, 1))
    ),
    reefs=st.lists(st.integers(0, 4), max_size=3, unique=True).map(
        lambda ids: tuple(QueryReef(reef_id, str(reef_id), 1.5 + reef_id) for reef_id in ids)
    ),
    is_of_self=st.booleans(),
)
filters = st.builds(
    NoteFilters,
    environment=st.none()
    | st.builds(Environment, os=st.sampled_from(["", "linux"]), tags=subsets((*TAGS, "other"))),
    category=st.none() | st.sampled_from(CATEGORIES),
    kind=st.none() | st.sampled_from(["lesson", "atom"]),
    tags=st.just(()) | subsets(TAGS),
    turns=st.booleans(),
    shown=st.sets(st.integers(1, 12)).map(sorted).map(tuple),
)


def index_of(notes: list[ModelNote]) -> NoteIndex:
    index = NoteIndex.empty(TermNumbers())
    half = len(notes) // 2
    for change, part in enumerate((notes[:half], notes[half:]), 1):
        index = index.updated([note.row() for note in part], change, CHECKSUM)
    return index


@given(
    notes=st.lists(model_notes(st.integers(1, 30)), max_size=30, unique_by=lambda note: note.id),
    query=queries,
    filters=filters,
)
@given_settings(max_examples=examples(80))
def test_ranking_equals_model(notes: list[ModelNote], query: NoteQuery, filters: NoteFilters) -> None:
    ranking = rank_notes(index_of(notes), query, filters, SETTINGS)
    model = rank(notes, query, filters, SETTINGS)
    assert set(ranking.note_ids.tolist()) == set(model)
    for note_id, expected in model.items():
        ordinal = ranking.ordinal_of(note_id)
        assert ordinal is not None
        scores = ranking.scores(ordinal)
        assert scores.words_part == pytest.approx(expected.words_part)
        assert scores.passage_part == pytest.approx(expected.passage_part)
        assert scores.reefs_part == pytest.approx(expected.reefs_part)
        assert scores.turn_part == pytest.approx(expected.turn_part)
        assert scores.recency_part == pytest.approx(expected.recency_part)
        assert scores.fact_part == pytest.approx(expected.fact_part)
        assert scores.affinity == pytest.approx(expected.affinity)
        assert scores.relevance_part == pytest.approx(expected.relevance_part)
        failed = tuple(step.name for step in ranking.steps if not step.passes[ordinal])
        assert failed == expected.failed
        # The parts give the score exactly, as an explanation shows them.
        assert scores.signals == sum(scores.parts)
        assert scores.final == scores.signals * scores.affinity + scores.relevance_part
    check_order(ranking)
    check_order(ranking.with_similarities({i: (i % 7) / 10 for i in ranking.most(20)}))


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("the history of copper mining", False),
        ("exports of the US to Peru", False),
        ("the U.S. economy", False),
        ("this house is mine", True),
        ("what did she tell us", True),
        ("WHERE DO I LIVE", True),
        ("what I’ve read", True),
        ("My friends", True),
    ],
)
def test_words_of_the_one_who_asks_are_not_their_stems(text: str, speaks: bool) -> None:
    assert speaks_of_self(text) is speaks


def test_terms_of_other_words_do_not_show_who_asks() -> None:
    texts = {1: ("ash", "my"), 2: ("ash", "mine"), 3: ("ash", "us"), 4: ("ash", "user")}
    notes = [ModelNote(note_id, text=text) for note_id, text in texts.items()]
    query = NoteQuery("my ash", (QueryTerm("ash", "ash", 1),), (), is_of_self=True)
    ranking = rank_notes(index_of(notes), query, NoteFilters(), SETTINGS)
    parts = {int(ranking.note_ids[i]): ranking.scores(i).turn_part for i in range(len(texts))}
    assert parts == {1: OF_SELF, 2: 0.0, 3: 0.0, 4: OF_SELF}


def check_order(ranking: NoteRanking) -> None:
    order = ranking.first(len(ranking.places))
    keys = [(-ranking.final[ordinal], ranking.note_ids[ordinal]) for ordinal in order]
    assert keys == sorted(keys)
    assert len(order) == np.count_nonzero(ranking.is_result)
    for n in range(1, len(order)):
        assert ranking.first(n) == order[:n]
    assert [ranking.rank_of(ordinal) for ordinal in order] == list(range(1, len(order) + 1))


@given(
    raw=st.lists(st.integers(0, 5) | st.integers(0, 2**62), max_size=60),
    n=st.integers(1, 8),
    run=st.sampled_from([1, 2, 5, 256]),
)
def test_largest_scores_equal_those_of_a_sort(raw: list[int], n: int, run: int) -> None:
    scores = np.array(raw, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.notes.ranking.RUN", run)
        found = largest(scores, n).tolist()
    assert found == sorted((i for i, score in enumerate(raw) if score), key=lambda i: (-raw[i], i))[:n]


def one_match(tags: tuple[str, ...], relevance: dict[str, TagRelevance], n: int = 1) -> NoteRanking:
    """The ranking of one judged note among others, in an environment with the tag `go`."""
    notes = [ModelNote(1, text=("ash",), tags=tags, relevance=relevance)]
    notes += [ModelNote(2 + i, text=("bay",)) for i in range(n - 1)]
    query = NoteQuery("ash", (QueryTerm("ash", "ash", 1),), ())
    return rank_notes(index_of(notes), query, NoteFilters(Environment(tags=("go",))), SETTINGS)


def test_tag_affinity_goes_from_0_3_to_1_7() -> None:
    assert one_match(("go",), {}).scores(0).affinity == pytest.approx(1.7)
    assert one_match(("web",), {}).scores(0).affinity == pytest.approx(0.3)
    assert one_match((), {}).scores(0).affinity == 1.0
    neutral = one_match(("go",), {}).scores(0)
    assert neutral.final == neutral.signals * neutral.affinity


def test_relevance_adds_a_tenth_of_what_all_words_of_the_query_add() -> None:
    for n in (1, 100, 1_000):
        scores = one_match((), {"go": TagRelevance(1.0, 4, 0)}, n).scores(0)
        assert scores.relevance == 1.0
        assert scores.words_part == pytest.approx(1.0)
        assert scores.relevance_part == pytest.approx(0.1)


def test_note_has_a_share_of_the_words_of_those_around_it_in_its_session() -> None:
    texts = ("ash", "bay", "cod", "dew", "elk")
    sessions = ("monday", "monday", "tuesday", "monday", "monday")
    notes = [ModelNote(i, text=(text,), session=sessions[i - 1]) for i, text in enumerate(texts, 1)]
    query = NoteQuery("ash", (QueryTerm("ash", "ash", 1),), ())
    ranking = rank_notes(index_of(notes), query, NoteFilters(), SETTINGS)
    scores = {int(ranking.note_ids[i]): ranking.scores(i).words_part for i in range(len(ranking.places))}
    scores = {note_id: part for note_id, part in scores.items() if part}
    assert scores == pytest.approx({1: 1.0, 2: 0.5, 4: 0.4})


def test_similarity_counts_alike_whatever_filters_leave_out() -> None:
    notes = [ModelNote(i, text=("ash",), kind="lesson" if i % 2 else "atom") for i in range(1, 9)]
    query = NoteQuery("ash", (QueryTerm("ash", "ash", 1),), ())
    found = []
    for filters in (NoteFilters(), NoteFilters(kind="atom")):
        ranking = rank_notes(index_of(notes), query, filters, SETTINGS)
        similarity = {i: ranking.note_ids[i] / 10 for i in ranking.most(8)}
        compared = ranking.with_similarities(similarity)
        found.append([compared.scores(i).final for i in ranking.most(8)])
        assert compared.note_ids[compared.first(1)] == [8]
    assert found[0] == found[1]


def test_note_is_filtered_only_with_enough_evidence_against_it() -> None:
    for n_negative, score, is_result in ((2, -1.0, True), (3, -0.09, True), (3, -0.11, False)):
        ranking = one_match((), {"go": TagRelevance(score, 0, n_negative)})
        assert ranking.is_result.tolist() == [is_result], (n_negative, score)


def test_query_terms_are_stems_without_stop_words() -> None:
    terms = query_terms("The ashes and the ASH, then the volcanoes' lava; it's -lava \"quoted\"", 10)
    assert [(term.term, term.frequency) for term in terms] == [
        ("ash", 2),
        ("volcano", 1),
        ("lava", 2),
        ("quot", 1),
    ]
    assert terms[0].word == "ashes"
    assert len(query_terms("one two three four five six", 2)) == 2
    assert query_terms("the of and it", 10) == ()


def test_no_score_is_lost_by_rounding() -> None:
    assert not any(
        math.isnan(getattr(one_match(("go",), {}).scores(0), name)) for name in ("final", "signals")
    )
    assert dataclasses.asdict(one_match((), {}).scores(0))["relevance"] is None
