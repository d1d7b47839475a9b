"""Damaged bytes give a DamagedIndexError, and hostile texts a segment of a size in proportion to the text."""

from __future__ import annotations

import contextlib
import io
import time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from index_model import TERMS, ModelChunk, ModelDocument, ModelIndex, kernels_of

from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.building import segment_bytes
from shoal.index.format import read_sections
from shoal.index.index import Index
from shoal.index.matching import IndexTerm, find, forms_starting_with, near_forms
from shoal.index.merging import merge_segments
from shoal.index.scoring import Bm25, WeightedTerm, find_overlaps, score_terms
from shoal.index.segment import Field, Segment
from shoal.words.analysis import terms_of


def document(*texts: str, title: str = "Bees", document_id: int = 1) -> ModelDocument:
    chunks = [ModelChunk(100 * document_id + i, 0, text, {3: 700, 5: 90}) for i, text in enumerate(texts)]
    return ModelDocument(document_id, title, {0: "of the sea"}, chunks)


def built(*documents: ModelDocument) -> bytes:
    return segment_bytes([each.indexed() for each in documents], TERMS)


SMALL = built(document("the bee and the plant", "a plant by the sea"), document("the sea", document_id=2))


def use(data: bytes, *, verify: bool = False) -> None:
    """Search a segment and merge it."""
    segment = Segment(data, verify=verify)
    index = Index([(segment, [2])])
    terms = [IndexTerm(("the",)), IndexTerm(("the", "plant")), IndexTerm(("sea",))]
    score_terms(index, [WeightedTerm(matches) for matches in find(index, terms)], Bm25())
    find_overlaps(index, {3: 1.0, 5: 2.0})
    near_forms(index, "plamt", 3)
    forms_starting_with(index, "s", 3)
    merge_segments([(segment, [])], io.BytesIO())


@pytest.mark.parametrize("n_kept", range(0, len(SMALL), 7))
def test_a_cut_segment_is_refused(n_kept: int) -> None:
    with pytest.raises(DamagedIndexError):
        Segment(SMALL[:n_kept])


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
@settings(deadline=None)
def test_a_changed_byte_is_found_or_harmless(kernel: str, place: int, change: int) -> None:
    damaged = bytearray(SMALL)
    damaged[place] ^= change
    # Without `verify`, damage may go unnoticed or look like a document that is in two segments.
    with contextlib.suppress(DamagedIndexError, ValueError), kernels_of(kernel):
        use(bytes(damaged))
    try:
        Segment(bytes(damaged), verify=True)
    except DamagedIndexError:
        return
    # Only the padding between sections has no checksum.
    assert SMALL[place] == 0


def test_a_segment_of_another_format_is_refused() -> None:
    with pytest.raises(DamagedIndexError, match="format 99"):
        Segment(SMALL[:8] + (99).to_bytes(4, "little") + SMALL[12:])


def test_bytes_at_an_odd_address_are_read() -> None:
    use(memoryview(b"x" + SMALL)[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
def test_an_ordinal_out_of_range_is_refused_by_the_kernels(kernel: str) -> None:
    if kernel == "compiled" and not kernels.use_compiled():
        pytest.skip("numba is not installed")
    try:
        ordinals, frequencies = np.array([0, 9], dtype=np.uint16), np.ones(2, dtype=np.uint8)
        totals, nothing = np.zeros(3, dtype=np.int64), np.empty(0, dtype=np.uint8)
        ones, units = np.ones(3, dtype=np.float32), np.arange(3, dtype=np.uint16)
        lengths = units.astype(np.uint32)
        postings = ordinals, frequencies, nothing, nothing
        active, formula = kernels.active(), kernels.Formula(1, 1, 0.5)
        factors = kernels.Factors(lengths, ones, units, ones, units, ones, units, ones)
        assert not active.add_impacts(totals, totals.copy(), *postings, factors, formula)
        in_range = (ordinals[:1], frequencies[:1], nothing, nothing)
        beyond = factors._replace(length_of=lengths + 3)
        assert not active.add_impacts(totals, totals.copy(), *in_range, beyond, formula)
        assert active.add_impacts(totals, totals.copy(), *in_range, factors, formula)
        reefs, shared = np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.uint8)
        for starts in ([0, 2], [0, 3], [1, 0]):
            bounds = np.array(starts, dtype=np.uint32)
            assert not active.add_overlaps(totals, shared, bounds, ordinals, ordinals, reefs, reefs)
    finally:
        kernels.use_numpy()


HOSTILE = {
    "one word many times": document("bee " * 200_000),
    "many different words": document(" ".join(f"w{i}" for i in range(70_000))),
    "nothing": document("", "..."),
    "a long title": document("bee", title="sea bee " * 5_000),
    "a word without end": document("x" * 1_000_000, "́" * 10_000),
    "apostrophes": document("a'" * 100_000),
}


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_have_the_scores_of_the_model(name: str, kernel: str) -> None:
    hostile = HOSTILE[name]
    data = built(hostile, document("the bee", document_id=2))
    assert len(data) < 8 * (len(hostile.title) + sum(len(chunk.text) for chunk in hostile.chunks)) + 10_000
    file = io.BytesIO()
    merge_segments([(Segment(data, verify=True), [])], file)
    assert file.getvalue() == data
    index, model = Index([(Segment(data), [])]), ModelIndex([hostile, document("the bee", document_id=2)])
    for term in (IndexTerm(("bee",)), IndexTerm(("w1",)), IndexTerm(("a",))):
        with kernels_of(kernel):
            totals = score_terms(index, [WeightedTerm(*find(index, [term]))], Bm25())
        assert {
            int(chunk_id): int(score)
            for chunk_id, score in zip(index.parts[0].segment.chunk_ids, totals, strict=True)
            if score
        } == model.impacts(term, 1.0, Bm25())


@pytest.mark.parametrize("n", [1, 255, 256, 257, 4_095, 4_096, 4_097, 30_000])
def test_every_occurrence_has_its_position(n: int) -> None:
    words = [("bee", "sea", "lamp")[i * i % 7 % 3] for i in range(n)]
    segment = Segment(built(document(" ".join(words), "sea " * 300)))
    merged = io.BytesIO()
    merge_segments([(segment, [])], merged)
    for field in (segment.text, Segment(merged.getvalue()).text):
        everywhere = np.ones(2, dtype=np.bool_)
        for word in set(words):
            occurrences = field.occurrences(field.terms.number(word.encode()), everywhere).tolist()
            expected = [i for i, other in enumerate(words, 1) if other == word]
            if word == "sea":
                expected += [(1 << 16) + i for i in range(1, 301)]
            assert occurrences == expected


def test_a_position_without_its_exception_is_damage() -> None:
    sections = dict(read_sections(built(document("bee sea " * 5_000)), verify=True))
    sections["text.far_starts"] = sections["text.far_starts"] + 100_000
    field = Field(sections, "text")
    with pytest.raises(DamagedIndexError, match="position"):
        field.occurrences(field.terms.number(b"sea"), np.ones(1, dtype=np.bool_))


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
def test_phrases_are_found_as_far_as_positions_go(kernel: str) -> None:
    text = "bee " * 65_000 + "the sea " + "bee " * 10_000 + "the plant"
    index = Index([(Segment(built(document(text))), [])])
    plant = terms_of("plant")[0]
    with kernels_of(kernel):
        sea, beyond = find(index, [IndexTerm(("the", "sea")), IndexTerm(("the", plant))])
        bees, over = find(index, [IndexTerm(("bee", "the")), IndexTerm(("bee", "sea"))])
    assert (sea.n_chunks, beyond.n_chunks, bees.n_chunks, over.n_chunks) == (1, 0, 1, 0)
    assert find(index, [IndexTerm((plant,))])[0].n_chunks == 1


def test_building_is_linear_in_the_text() -> None:
    def seconds(n: int) -> float:
        indexed = document(*("sea plant bee " * 100,) * n).indexed()
        started = time.process_time()
        segment_bytes([indexed], TERMS)
        return time.process_time() - started

    assert min(seconds(800) for _ in range(3)) < 8 * max(0.005, min(seconds(200) for _ in range(3)))


def test_more_chunks_than_a_segment_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="65536"):
        built(document(*("",) * 65_537))


def test_a_document_that_is_live_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two segments"):
        merge_segments([(Segment(SMALL), []), (Segment(SMALL), [2])], io.BytesIO())
