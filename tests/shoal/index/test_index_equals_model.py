"""Segments, merges and deletions give the numbers of the plain model, however the documents are split."""

from __future__ import annotations

import io
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from index_model import TERMS, ModelChunk, ModelDocument, ModelIndex, kernels_of

from shoal.index import kernels
from shoal.index.building import segment_bytes
from shoal.index.format import read_sections
from shoal.index.index import NOWHERE, Index
from shoal.index.matching import EVERYWHERE, IndexTerm, find
from shoal.index.merging import merge_segments
from shoal.index.scoring import Bm25, FieldWeights, WeightedTerm, find_overlaps, score_terms
from shoal.index.segment import Segment
from shoal.words.analysis import terms_of

WORDS = ["plant", "plants", "bee", "Bées", "don't", "the", "U.S.", "sea"]
STEMS = sorted({stem for word in WORDS for stem in terms_of(word)})

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
reefs = st.dictionaries(st.integers(0, 6), st.integers(1, 4000), max_size=4)
weights = st.sampled_from([0.5, 1.0, 1.5, 2.0])
index_terms = st.builds(
    IndexTerm,
    st.lists(st.sampled_from(STEMS), min_size=1, max_size=3).map(tuple),
    st.sampled_from([EVERYWHERE, frozenset({"title"}), frozenset({"text", "headings"})]),
)


@st.composite
def libraries(draw: st.DrawFn) -> list[ModelDocument]:
    documents: list[ModelDocument] = []
    # A replaced document has old ids among new ones.
    ids = iter(draw(st.permutations(range(1, 25))))
    for number in range(draw(st.integers(0, 6))):
        chunks = [
            ModelChunk(next(ids), section, draw(texts), draw(reefs))
            for section in sorted(draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)))
        ]
        headings = draw(st.dictionaries(st.integers(0, 2), texts))
        documents.append(ModelDocument(10 + number, draw(texts), headings, chunks))
    return documents


def merged(sources: Sequence[tuple[bytes, Sequence[int]]]) -> bytes:
    file = io.BytesIO()
    merge_segments([(Segment(data), deleted) for data, deleted in sources], file)
    return file.getvalue()


def built(documents: Sequence[ModelDocument]) -> bytes:
    return segment_bytes([document.indexed() for document in documents], TERMS)


@pytest.fixture(params=["numpy", "compiled"])
def kernel(request: pytest.FixtureRequest):
    with kernels_of(request.param):
        yield


@given(st.data(), libraries())
@settings(deadline=None, max_examples=examples(50))
def test_merged_bytes_equal_those_built_at_once(data: st.DataObject, documents: list[ModelDocument]) -> None:
    n_segments = data.draw(st.integers(1, 4))
    home = [data.draw(st.integers(0, n_segments - 1)) for _ in documents]
    deleted = [document.document_id for document in documents if data.draw(st.booleans())]
    sources = [
        (built([document for document, at in zip(documents, home, strict=True) if at == number]), deleted)
        for number in range(n_segments)
    ]
    rest = [document for document in documents if document.document_id not in deleted]
    one, other = merged(sources), built(rest)
    if not deleted:
        assert one == other
    # The forms of words of deleted documents may stay.
    sections = read_sections(one, verify=True), read_sections(other, verify=True)
    for name in sections[0]:
        if not name.startswith("form"):
            assert sections[0][name].tolist() == sections[1][name].tolist()


@pytest.mark.usefixtures("kernel")
class TestSearch:
    @given(st.data(), libraries(), st.lists(index_terms, min_size=1, max_size=4, unique=True))
    @settings(deadline=None, max_examples=examples(50))
    def test_scores_are_those_of_the_model(
        self, data: st.DataObject, documents: list[ModelDocument], terms: list[IndexTerm]
    ) -> None:
        index, model = draw_index(data, documents)
        bm25 = Bm25(
            data.draw(st.sampled_from([0.9, 1.2])),
            data.draw(st.sampled_from([0.0, 0.4, 1.0])),
            FieldWeights(data.draw(weights), data.draw(weights), data.draw(weights)),
            data.draw(st.sampled_from([0.25, 0.5])),
        )
        term_weights = [data.draw(weights) for _ in terms]
        with_context = [data.draw(st.booleans()) for _ in terms]
        weighted = list(map(WeightedTerm, find(index, terms), term_weights, with_context))
        own = [model.impacts(term, weight, bm25) for term, weight in zip(terms, term_weights, strict=True)]
        of_blocks = [
            model.block_impacts(term, weight, bm25) if has_context else {}
            for term, weight, has_context in zip(terms, term_weights, with_context, strict=True)
        ]
        assert [match.matches.n_chunks for match in weighted] == list(map(len, own))
        totals = by_chunk(index, score_terms(index, weighted, bm25))
        for chunk_id in model.fields:
            expected = [
                impacts.get(chunk_id, 0) + blocks.get(chunk_id, 0)
                for impacts, blocks in zip(own, of_blocks, strict=True)
            ]
            is_match = any(chunk_id in impacts for impacts in own)
            assert totals.get(chunk_id, 0) == (sum(expected) if is_match else 0)

    @given(st.data(), libraries(), st.dictionaries(st.integers(0, 8), st.floats(0.1, 50), max_size=5))
    @settings(deadline=None, max_examples=examples(50))
    def test_overlaps_are_those_of_the_model(
        self, data: st.DataObject, documents: list[ModelDocument], query_z: dict[int, float]
    ) -> None:
        index, model = draw_index(data, documents)
        results = find_overlaps(index, query_z)
        sums = by_chunk(index, results.overlaps)
        shared = by_chunk(index, results.n_shared)
        expected = model.contributions(query_z)
        for chunk_id, total in sums.items():
            assert total == sum(expected.get(chunk_id, {}).values())
            assert shared[chunk_id] == len(expected.get(chunk_id, {}))


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
@given(st.data(), libraries(), st.lists(index_terms, max_size=3))
@settings(deadline=None, max_examples=examples(50))
def test_masks_are_those_of_the_model(
    kernel: str, data: st.DataObject, documents: list[ModelDocument], terms: list[IndexTerm]
) -> None:
    index, model = draw_index(data, documents)
    matches = [set(model.frequencies(term)) for term in terms]
    with kernels_of(kernel):
        all_found = find(index, terms)
    for term, match, expected in zip(terms, all_found, matches, strict=True):
        assert chunks_in(index, match.mask()) == expected
        places = index.places_of([*model.fields, -5])
        assert set(index.chunk_ids(places[match.are_in(places)]).tolist()) == expected
        counts = np.zeros(len(index), dtype=np.uint16)
        match.add_placed(counts)
        placed = {
            chunk_id
            for chunk_id, fields in model.frequencies(term).items()
            if fields["headings"] or fields["title"]
        }
        assert {chunk_id: int(chunk_id in placed) for chunk_id in model.fields} == by_chunk(index, counts)
        by_document = {
            document.document_id: n
            for document in documents
            if (n := len(expected & {chunk.chunk_id for chunk in document.chunks}))
        }
        assert (
            dict(zip(*(column.tolist() for column in match.count_by_document()), strict=True)) == by_document
        )


@given(st.data(), libraries())
@settings(deadline=None, max_examples=examples(50))
def test_chunks_and_documents_are_found(data: st.DataObject, documents: list[ModelDocument]) -> None:
    index, model = draw_index(data, documents)
    assert index.totals.n_chunks == len(model.fields)
    assert chunks_in(index, index.live()) == set(model.fields)
    for document in documents:
        chunk_ids = [chunk.chunk_id for chunk in document.chunks]
        is_live = chunk_ids[0] in model.fields
        places = index.places_of_document(document.document_id)
        assert index.chunk_ids(places).tolist() == (chunk_ids if is_live else [])
        assert index.document_ids(places).tolist() == [document.document_id] * len(places)
        assert index.places_of(chunk_ids).tolist() == (places.tolist() or [NOWHERE] * len(chunk_ids))
        assert chunks_in(index, index.of_chunks(np.array(chunk_ids)) & index.live()) == set(
            chunk_ids if is_live else []
        )
        assert chunks_in(index, index.of_documents([document.document_id])) == set(
            chunk_ids if is_live else []
        )


signals = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(0, 10**14), st.integers(0, 9), st.integers(0, 40)),
    max_size=20,
)


@given(signals, st.tuples(*[st.floats(0, 1)] * 3))
@settings(deadline=None, max_examples=examples(50))
def test_blends_have_the_same_bits_with_all_kernels(
    rows: list[tuple[int, ...]], weights: tuple[float, float, float]
) -> None:
    first, second, third, shared = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
    raw, n_shared = (first, second, third.astype(np.uint16)), shared.astype(np.uint8)
    best = tuple(float(column.max(initial=1)) for column in raw)
    sums = [
        [weight * (int(score) / top) for weight, score, top in zip(weights, row, best, strict=True)]
        for row in zip(*raw, strict=True)
    ]
    for name in ("numpy", "compiled"):
        final, is_found = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        with kernels_of(name):
            kernels.active().blend(final, is_found, raw, n_shared, best, weights)
        assert final.tolist() == [a + b + c for a, b, c in sums]
        assert is_found.tolist() == [
            score > 0 and (row[0] > 0 or row[3] > 0) for score, row in zip(final, rows, strict=True)
        ]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.booleans(), st.floats(0, 1), st.booleans()), max_size=20),
    st.tuples(st.floats(0, 1), st.floats(0, 2)),
)
@settings(deadline=None, max_examples=examples(50))
def test_dense_parts_have_the_same_bits_with_all_kernels(
    rows: list[tuple[int, bool, float, bool]], factors: tuple[float, float]
) -> None:
    weight, estimate = factors
    raw = np.array([score if has_vector else 0 for score, has_vector, _, _ in rows], dtype=np.int64)
    has_vectors = np.array([row[1] for row in rows], dtype=np.bool_)
    best = float(raw.max(initial=1))
    expected = [
        final + weight * (int(score) / best if has_vector else final * estimate)
        for score, (_, has_vector, final, _) in zip(raw, rows, strict=True)
    ]
    for name in ("numpy", "compiled"):
        final = np.array([row[2] for row in rows], dtype=np.float64)
        is_found = np.array([row[3] for row in rows], dtype=np.bool_)
        with kernels_of(name):
            kernels.active().add_dense(final, is_found, raw, has_vectors, best, weight, estimate)
        assert final.tolist() == expected
        assert is_found.tolist() == [
            was_found or score > 0 for score, (*_, was_found) in zip(raw, rows, strict=True)
        ]


def draw_index(data: st.DataObject, documents: list[ModelDocument]) -> tuple[Index, ModelIndex]:
    """The documents in several segments, some of them merged, with some documents deleted and some replaced
    by a copy in another segment."""
    n_segments = data.draw(st.integers(1, 3))
    contents: list[list[ModelDocument]] = [[] for _ in range(n_segments)]
    deleted: list[list[int]] = [[] for _ in range(n_segments)]
    live = []
    for document in documents:
        home = data.draw(st.integers(0, n_segments - 1))
        contents[home].append(document)
        fate = data.draw(st.sampled_from(["live", "deleted", "moved"]))
        if fate != "live":
            deleted[home].append(document.document_id)
        if fate == "moved" and home + 1 < n_segments:
            contents[home + 1].append(document)
        if fate == "live" or (fate == "moved" and home + 1 < n_segments):
            live.append(document)
    sources = list(zip(map(built, contents), deleted, strict=True))
    n_merged = data.draw(st.integers(0, n_segments))
    if n_merged:
        sources = [(merged(sources[:n_merged]), []), *sources[n_merged:]]
    return Index([(Segment(content), gone) for content, gone in sources]), ModelIndex(live)


def by_chunk(index: Index, values: np.ndarray) -> dict[int, int]:
    """The values of the live chunks; those of the others are 0 or say nothing."""
    places = np.flatnonzero(index.live())
    return dict(zip(index.chunk_ids(places).tolist(), values[places].tolist(), strict=True))


def chunks_in(index: Index, mask: np.ndarray) -> set[int]:
    return set(index.chunk_ids(np.flatnonzero(mask)).tolist())
