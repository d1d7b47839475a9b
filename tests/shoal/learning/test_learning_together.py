"""Observing several texts at once equals observing each alone."""

from __future__ import annotations

from collections import Counter

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_texts import text

from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import analyze, analyze_many
from shoal.formats.drafts import make_draft
from shoal.learning.observations import discover, discover_many
from shoal.models.documents import DocumentDraft
from shoal.settings import Settings

OPTIONS = Settings(short_document_words=120)
NAMES = ("zorblax", "quimble", "zorblax's", "frob tandle", "frob tandle's", "il-17")


@pytest.fixture(scope="module")
def drafts() -> list[DocumentDraft]:
    bodies = [
        text(1, "sea", ["zorblax", "quimble", "zorblax", "zorblax's"]),
        text(2, "money", ["frob tandle", "zorblax", "frob tandle"]),
        "# Zorblax\n\n"
        + text(3, "plant", ["quimble"])
        + "\n\n## Frob\n\n"
        + text(4, "sea", ["il-17", "il-17"]),
        "Nothing known: qqxv zzyzx.",
        "One word",
        text(5, "money", list(NAMES) * 3, n_sentences=40),
        "12 34",
        "# Quimble\n\n" + text(6, "plant", []),
    ]
    return [
        make_draft(content=body, title=f"Zorblax {n}", format="markdown", settings=OPTIONS)
        for n, body in enumerate(bodies)
    ] + [
        make_draft(content=bodies[5], title="Range", chunk_tokens="60-130", settings=OPTIONS),
        make_draft(content=bodies[0], title="Short for a range", chunk_tokens="300-800", settings=OPTIONS),
        make_draft(title="Given", chunks=[{"text": body} for body in bodies[:3]], settings=OPTIONS),
    ]


@settings(deadline=None, max_examples=examples(40))
@given(picked=st.lists(st.integers(0, 10), min_size=1, max_size=10))
def test_observing_texts_at_once_equals_observing_each(
    scorer: ReefScorer, drafts: list[DocumentDraft], picked: list[int]
) -> None:
    selected = [drafts[number] for number in picked]
    together = [
        observed
        for documents, analysis in analyze_many(selected, scorer, OPTIONS)
        for observed in zip(documents, discover_many(analysis, OPTIONS), strict=True)
    ]
    assert Counter(analyzed.draft.title for analyzed, _ in together) == Counter(
        draft.title for draft in selected
    )
    for analyzed, actual in together:
        alone = analyze(analyzed.draft, scorer, OPTIONS)
        assert analyzed.cuts == alone.cuts
        assert analyzed.contexts == alone.contexts
        assert actual == discover(alone, OPTIONS)


def test_drafts_without_text_are_left_out(scorer: ReefScorer, drafts: list[DocumentDraft]) -> None:
    empty = make_draft(content="<!-- only a comment -->\n", format="markdown", settings=OPTIONS)
    [(together, analysis)] = analyze_many([empty, drafts[0], empty], scorer, OPTIONS)
    assert [analyzed.draft for analyzed in together] == [drafts[0]]
    assert len(discover_many(analysis, OPTIONS)) == 1
    assert analyze_many([empty], scorer, OPTIONS) == []
