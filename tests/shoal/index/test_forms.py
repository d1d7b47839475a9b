"""The dictionary of forms has every form with its numbers, however many there are."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from examples import examples
from hypothesis import given, settings
from index_model import TERMS, ModelChunk, ModelDocument

from shoal.index.building import IndexedDocument, Words, segment_bytes
from shoal.index.format import LONG, MAX_FORM_BYTES
from shoal.index.index import Index
from shoal.index.matching import count_form, forms_starting_with, is_name, near_forms
from shoal.index.segment import NO_TERM, Segment

forms = st.dictionaries(
    st.text(st.sampled_from("abé京"), min_size=2, max_size=6),
    st.tuples(st.sampled_from([1, 2, LONG - 1, LONG, 700]), st.floats(0, 1)),
    max_size=60,
)


def segment_of(counts: dict[str, tuple[int, int]]) -> Segment:
    """A segment of one text: how often each form occurs, and how often with a capital letter."""
    document = ModelDocument(1, "", {}, [ModelChunk(1, 0, "", {})]).indexed()
    ids = np.repeat(np.arange(len(counts)), [n for n, _ in counts.values()]).astype(np.int32)
    capitals = [np.arange(n) < n_capitals for n, n_capitals in counts.values()]
    words = Words(
        list(counts),
        ids,
        np.ones(len(ids), dtype=np.uint8),
        np.array([0, len(ids)]),
        np.concatenate([np.empty(0, dtype=np.bool_), *capitals]),
    )
    fields = {name: getattr(document, name) for name in IndexedDocument.__slots__}
    return Segment(segment_bytes([IndexedDocument(**{**fields, "words": words})], TERMS), verify=True)


@given(forms)
@settings(deadline=None, max_examples=examples(50))
def test_every_form_has_its_numbers(drawn: dict[str, tuple[int, float]]) -> None:
    expected = {form: (n, int(share * n)) for form, (n, share) in drawn.items()}
    dictionary = segment_of(expected).forms
    ordered = sorted(expected, key=str.encode)
    n = len(ordered)
    assert [form.decode() for form in dictionary.between()] == ordered
    assert [dictionary.text(number).decode() for number in range(n)] == ordered
    assert [dictionary.number(form.encode()) for form in ordered] == list(range(n))
    assert dictionary.n_letters.tolist() == [len(form) for form in ordered]
    for first, end in ((0, n), (n // 3, n // 2), (n, n)):
        own = ordered[first:end]
        assert [form.decode() for form in dictionary.between(first, end)] == own
        assert dictionary.counts(first, end).tolist() == [expected[form][0] for form in own]
        assert dictionary.capitals(first, end).tolist() == [expected[form][1] for form in own]
    low, high = dictionary.starting_with(b"ab")
    assert ordered[low:high] == [form for form in ordered if form.startswith("ab")]


def test_frequent_forms_are_counted_without_a_limit() -> None:
    index = Index([(segment_of({"charon": (1000, 900), "charm": (300, 10)}), ())] * 2)
    assert (count_form(index, "charon"), count_form(index, "charm"), count_form(index, "char")) == (
        2000,
        600,
        0,
    )
    assert (is_name(index, "charon"), is_name(index, "charm")) == (True, False)
    assert forms_starting_with(index, "char", 2) == [("charon", 2000), ("charm", 600)]
    assert [near.n for near in near_forms(index, "charn", 2)] == [2000, 600]


def test_encoded_data_is_no_form() -> None:
    long, longer = "a" * MAX_FORM_BYTES, "b" * (MAX_FORM_BYTES + 1)
    dictionary = segment_of({long: (1, 0), longer: (1, 0), "c": (1, 0), "cc": (1, 0)}).forms
    assert list(dictionary.between()) == [long.encode(), b"cc"]
    assert dictionary.number(longer.encode()) == NO_TERM
