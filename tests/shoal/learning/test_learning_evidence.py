from __future__ import annotations

import random

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.learning import Evidence, EvidenceError, EvidenceRow, Kind
from shoal.learning.evidence import N_PARTS

WORDS = ["blorg", "zzyzx", "frob", "blorg frob"]


@st.composite
def observed_rows(draw: st.DrawFn) -> list[EvidenceRow]:
    """Rows of one document."""
    words = draw(st.lists(st.sampled_from(WORDS), unique=True))
    rows = [_row(draw, Kind.totals, "")]
    rows += [_row(draw, Kind.compound if " " in word else Kind.word, word) for word in words]
    return rows


def _row(draw: st.DrawFn, kind: Kind, word: str) -> EvidenceRow:
    count = st.integers(1, 10**9)
    reefs = draw(st.lists(st.integers(0, 206), unique=True, max_size=6))
    parts = tuple(draw(count) for _ in range(N_PARTS)) if kind == Kind.compound else ()
    n = draw(count)
    return EvidenceRow(
        kind,
        word,
        n,
        draw(st.sampled_from([0, n])),
        1,
        draw(count),
        draw(st.integers(0, n)),
        parts,
        tuple(sorted(reefs)),
        tuple(draw(count) for _ in reefs),
    )


documents = st.lists(observed_rows(), min_size=1, max_size=6)


def total(documents: list[list[EvidenceRow]]) -> Evidence:
    return Evidence.of(row for rows in documents for row in rows)


@settings(max_examples=examples(60))
@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_documents_and_rows_does_not_matter(
    documents: list[list[EvidenceRow]], rng: random.Random
) -> None:
    rows = [row for document in documents for row in document]
    rng.shuffle(rows)
    assert Evidence.of(rows) == total(documents)


@settings(max_examples=examples(60))
@given(documents, documents)
def test_adding_evidence_equals_summing_all_rows(
    left: list[list[EvidenceRow]], right: list[list[EvidenceRow]]
) -> None:
    assert total(left) + total(right) == total(left + right)


@settings(max_examples=examples(60))
@given(documents, documents)
def test_subtraction_reverses_addition(left: list[list[EvidenceRow]], right: list[list[EvidenceRow]]) -> None:
    assert total(left + right) - total(right) == total(left)


@settings(max_examples=examples(60))
@given(documents)
def test_rows_of_evidence_restore_the_evidence(documents: list[list[EvidenceRow]]) -> None:
    evidence = total(documents)
    assert Evidence.of(evidence.rows()) == evidence
    assert evidence - evidence == Evidence.of([])
    assert evidence.keys == sorted(evidence.keys)


def test_subtracting_more_than_the_evidence_is_an_error() -> None:
    evidence = Evidence.of([EvidenceRow(Kind.word, "blorg", 2, 2, 1, 1, 0, (), (3, 7), (40, 50))])
    more = Evidence.of([EvidenceRow(Kind.word, "blorg", 1, 1, 1, 1, 0, (), (3, 8), (40, 50))])
    with pytest.raises(EvidenceError):
        evidence - more
    with pytest.raises(EvidenceError):
        evidence - evidence - evidence
    emptied = Evidence.of([EvidenceRow(Kind.word, "blorg", 2, 2, 1, 1, 0, (), (3,), (40,))])
    with pytest.raises(EvidenceError):
        evidence - emptied


def test_words_are_listed_without_the_totals() -> None:
    rows = [
        EvidenceRow(Kind.compound, "blorg frob", 2, 2, 1, 1, 0, (9, 2, 2, 2, 2), (), ()),
        EvidenceRow(Kind.word, "zzyzx", 2, 2, 1, 1, 0, (), (), ()),
        EvidenceRow(Kind.totals, "", 2, 2, 1, 1, 0, (), (), ()),
    ]
    assert Evidence.of(rows).words == ["zzyzx", "blorg frob"]
