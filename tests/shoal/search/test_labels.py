"""Labels: only reefs whose probability reaches the threshold are shown, counted and filtered by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from scored_documents import make_scored

from shoal.charts.reef_map import UNKNOWN
from shoal.charts.ribbon import strip_svg
from shoal.engine import Engine
from shoal.models.vocabulary import Label
from shoal.settings import Settings
from shoal.storage import document_writer, statistics
from shoal.support.clock import timestamp

TEXTS = ["Rain falls on the plain.", "Rain falls again.", "Rain and nothing.", "Rain xq."]
REEFS = [{3: 5.0, 5: 3.0, 8: 2.0}, {3: 4.0}, {8: 6.0}, {}]
PROBABILITIES = [{3: 0.6, 5: 0.9, 8: 0.2}, {3: 0.7}, {8: 0.3}, {}]
"""The most probable reef of the first chunk is not the strongest."""

Open = Callable[[float], Engine]


@pytest.fixture
def open_with(tmp_path: Path) -> Iterator[Open]:
    """Opens a library of five chunks with a threshold."""
    documents = [
        make_scored(TEXTS, REEFS, probabilities=PROBABILITIES, title="Rain"),
        make_scored(["Rain on the sea."], [{3: 5.0, 5: 1.0}], probabilities=[{3: 0.8, 5: 0.1}], title="Sea"),
    ]
    engines: list[Engine] = []

    def opened(label_threshold: float) -> Engine:
        settings = Settings(label_threshold=label_threshold)
        engines.append(Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=settings))
        return engines[-1]

    engine = opened(0.5)
    with engine.database.write() as transaction:
        for document in documents:
            document_writer.insert_document(transaction, document, now=timestamp())
    yield opened
    for engine in engines:
        engine.close()


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.25, [[(5, 0.9), (3, 0.6)], [(3, 0.7)], [(8, 0.3)], []]),
        (0.5, [[(5, 0.9), (3, 0.6)], [(3, 0.7)], [], []]),
        (0.6, [[(5, 0.9), (3, 0.6)], [(3, 0.7)], [], []]),
        (0.8, [[(5, 0.9)], [], [], []]),
        (0.95, [[], [], [], []]),
    ],
)
def test_labels_reach_the_threshold_and_start_with_the_most_probable(
    open_with: Open, threshold: float, expected: list[list[tuple[int, float]]]
) -> None:
    engine = open_with(threshold)
    labels = [tuple(Label(reef, f"reef {reef}", chance) for reef, chance in chunk) for chunk in expected]
    firsts = [(label[0].reef_id, label[0].reef_name) if label else (None, None) for label in labels]
    chunks = engine.documents.chunks(1, n_reefs=1).chunks
    assert [chunk.labels for chunk in chunks] == labels
    assert [(chunk.top_reef_id, chunk.top_reef_name) for chunk in chunks] == firsts
    details = [engine.documents.chunk(chunk.id).chunk for chunk in chunks]
    assert [chunk.labels for chunk in details] == labels
    response = engine.search("rain", mode="lexical", max_per_document=0)
    by_chunk = {result.chunk_id: result for result in response.results}
    # A search takes the names from the scorer, which this library has not stored.
    names = {reef.id: reef.name for reef in engine.scorer.reefs}
    labels = [tuple(Label(reef, names[reef], chance) for reef, chance in chunk) for chunk in expected]
    assert [by_chunk[chunk.id].labels for chunk in chunks] == labels
    assert [by_chunk[chunk.id].top_reef_name for chunk in chunks] == [
        names.get(reef_id) for reef_id, _ in firsts
    ]


def test_reefs_of_a_chunk_stay_ordered_by_z(open_with: Open) -> None:
    chunk = open_with(0.5).documents.chunk(1).chunk
    assert [(reef.reef_id, reef.probability) for reef in chunk.reefs] == [(3, 0.6), (5, 0.9), (8, 0.2)]


@pytest.mark.parametrize(
    ("filters", "threshold", "chunk_ids"),
    [
        ({"reef_ids": [3]}, 0.5, {2, 5}),
        ({"reef_ids": [3]}, 0.75, {5}),
        ({"reef_ids": [8]}, 0.5, set()),
        ({"reef_ids": [8]}, 0.3, {3}),
        ({"reef_ids": [3, 5]}, 0.5, {1, 2, 5}),
        ({"island_ids": [2]}, 0.5, {1}),
        ({"island_ids": [1, 2]}, 0.75, {1, 5}),
        ({"island_ids": [4]}, 0.5, set()),
        ({"island_ids": [4], "reef_ids": [8]}, 0.3, {3}),
    ],
)
def test_topic_filters_mean_the_first_label(
    open_with: Open, filters: dict[str, list[int]], threshold: float, chunk_ids: set[int]
) -> None:
    response = open_with(threshold).search("rain", mode="lexical", filters=filters, max_per_document=0)
    assert {result.chunk_id for result in response.results} == chunk_ids


@pytest.mark.parametrize(("threshold", "reasons"), [(0.3, []), (0.5, ["filter"])])
def test_explanation_names_the_topic_filter_that_a_chunk_does_not_meet(
    open_with: Open, threshold: float, reasons: list[str]
) -> None:
    explanation = open_with(threshold).explain("rain", chunk_id=3, filters={"reef_ids": [8]})
    assert explanation.target is not None
    assert [kept_out.reason for kept_out in explanation.target.kept_out] == reasons


@pytest.mark.parametrize(
    ("threshold", "counts"), [(0.25, {3: 2, 5: 1, 8: 1}), (0.5, {3: 2, 5: 1}), (0.8, {3: 1, 5: 1}), (1, {})]
)
def test_reefs_are_counted_by_first_label(open_with: Open, threshold: float, counts: dict[int, int]) -> None:
    reefs = open_with(threshold).vocabulary.reefs().reefs
    assert {reef.id: reef.n_chunks for reef in reefs if reef.n_chunks} == counts


def test_main_reefs_are_counted_by_first_label(open_with: Open) -> None:
    main = {
        threshold: open_with(threshold).documents.main_reefs([1, 2], 3) for threshold in (0.25, 0.8, 0.95)
    }
    ids = {
        threshold: {document: [reef.reef_id for reef in reefs] for document, reefs in by_document.items()}
        for threshold, by_document in main.items()
    }
    assert ids == {0.25: {1: [3, 5, 8], 2: [3]}, 0.8: {1: [5], 2: [3]}, 0.95: {}}


def test_chunks_of_a_reef_have_it_as_first_label_most_probable_first(open_with: Open) -> None:
    chunks = open_with(0.5).vocabulary.reef_chunks(3, 10)
    assert [(chunk.chunk_id, chunk.probability) for chunk in chunks] == [(5, 0.8), (2, 0.7)]
    assert [chunk.chunk_id for chunk in open_with(0.5).vocabulary.reef_chunks(3, 1)] == [5]
    assert [chunk.chunk_id for chunk in open_with(0.75).vocabulary.reef_chunks(3, 10)] == [5]
    assert open_with(0.5).vocabulary.reef_chunks(8, 10) == ()


def test_chunks_of_a_word_name_their_first_label(open_with: Open) -> None:
    chunks = open_with(0.5).vocabulary.word_chunks("rain", 10)
    assert [(chunk.top_reef_id, chunk.top_reef_name) for chunk in chunks] == [
        (5, "reef 5"),
        (3, "reef 3"),
        (None, None),
        (None, None),
        (3, "reef 3"),
    ]


def test_similar_chunks_name_their_first_label(open_with: Open) -> None:
    assert [chunk.top_reef_name for chunk in open_with(0.5).similar(1)] == ["reef 3"]
    assert [chunk.top_reef_name for chunk in open_with(0.85).similar(1)] == [None]


def test_ribbon_shows_labels_only(open_with: Open) -> None:
    ribbon = open_with(0.5).documents.ribbon(1)
    assert [piece.island_id for piece in ribbon.pieces] == [2, 1, None, None]
    assert UNKNOWN in strip_svg(ribbon)
    assert {row.reef_id for row in ribbon.rows} == {3, 5}
    assert {row.reef_id for row in open_with(0.25).documents.ribbon(1).rows} == {3, 5, 8}
    assert open_with(0.95).documents.ribbon(1).rows == ()


def test_chunks_scored_before_there_were_probabilities_have_no_labels(open_with: Open) -> None:
    engine = open_with(0.5)
    with engine.database.write() as transaction:
        stored = transaction.value("SELECT profile FROM chunks WHERE id = 1")
        without = b"".join(stored[i : i + 6] + b"\0" for i in range(0, len(stored), 7))
        transaction.execute(
            "UPDATE chunks SET profile = :profile, top_reef_probability = 0", {"profile": without}
        )
    chunk = engine.documents.chunk(1).chunk
    assert (chunk.labels, chunk.top_reef_id, len(chunk.reefs)) == ((), None, 3)
    assert not engine.documents.main_reefs([1], 3)
    assert not engine.search("rain", filters={"reef_ids": [3]}).results


def test_thresholds_are_read_from_an_index(open_with: Open) -> None:
    engine = open_with(0.5)
    values = {"label_threshold": 0.5, "reef_id": 3, "limit": 10, "n_chars": 240}
    statements = [
        (statistics.CHUNKS_OF_REEF, values),
    ]
    with engine.database.snapshot() as snapshot:
        for statement, parameters in statements:
            plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert any("USING COVERING INDEX idx_chunks_top_reef" in step for step in plan), plan
            assert not {"SCAN chunks", "SCAN c"} & set(plan), plan
