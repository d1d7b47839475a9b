"""Analyzing several drafts with given chunk boundaries equals analyzing each alone."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teaching_texts import about

import lagoon
from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import (
    CutDraft,
    ReadDraft,
    analyze,
    analyze_cut,
    analyze_cuts,
    chunk_starts,
    scored_document,
)
from shoal.models import DocFormat, DocumentDraft, ScoredDocument
from shoal.settings import Settings

OPTIONS = Settings(database_url="sqlite:///unused.db")
TEXTS = (
    *(about(topic, "zorblat", 6) for topic in ("fire", "sea", "law", "bees")),
    "# Rain\n\nThe zorblat rains. A storm comes.\n\n## Snow\n\nIt snows on the mountain.\n",
    "One word",
    "Nothing known: qqxv zzyzx.",
)


def draft(text: str) -> DocumentDraft:
    data = text.encode()
    return DocumentDraft(
        title=text[:9],
        content=text,
        format=DocFormat.markdown,
        content_hash=hashlib.sha256(data).hexdigest(),
        n_bytes=len(data),
    )


@pytest.fixture(scope="module")
def scorer() -> ReefScorer:
    learned = lagoon.load().without_custom_words()
    learned.add_custom_word("zorblat", [(3, 1.0), (7, 0.5)])
    return learned


@pytest.fixture(scope="module")
def cuts(scorer: ReefScorer) -> dict[str, list[int]]:
    base = scorer.without_custom_words()
    return {text: chunk_starts(analyze(draft(text), base, OPTIONS)) for text in TEXTS}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
def test_drafts_analyzed_together_equal_drafts_analyzed_alone(
    scorer: ReefScorer, cuts: dict[str, list[int]], texts: list[str]
) -> None:
    together = analyze_cuts([CutDraft(draft(text), cuts[text], None) for text in texts], scorer, OPTIONS)
    for text, analyzed in zip(texts, together, strict=True):
        alone = analyze_cut(draft(text), cuts[text], scorer, OPTIONS)
        assert analyzed is not None
        assert alone is not None
        assert scored(analyzed, scorer) == scored(alone, scorer)


LONG = "\n\n".join(
    [
        *(f"# The {topic}\n\n" + about(topic, "zorblat", 6) for topic in ("fire", "sea")),
        "## Sea of glass\n\nMr. Frob Tandle's zorblats saw a heart attack. Frob Tandle rose!",
        about("law", "frob tandle", 5),
        about("bees", "unheard", 9),
    ]
)


def test_reusing_a_read_draft_gives_the_same_scores(scorer: ReefScorer) -> None:
    learned = scorer.with_custom_words([scorer.lookup_word("zorblat")])  # type: ignore[list-item]
    learned.add_custom_word("frob tandle", [(5, 1.0)])
    first = analyze(draft(LONG), scorer.without_custom_words(), OPTIONS)
    read = ReadDraft.of(first)
    assert read.text is not None, "long enough to be worth it"
    again = analyze_cut(draft(LONG), chunk_starts(first), learned, OPTIONS, read=read)
    afresh = analyze_cut(draft(LONG), chunk_starts(first), learned, OPTIONS)
    assert again is not None
    assert afresh is not None
    assert scored(again, learned) == scored(afresh, learned)
    before = scored_document(first, scorer, vocabulary_version=1)
    assert scored(again, learned).chunks[1].reefs != before.chunks[1].reefs, "learned words count"
    assert analyze_cut(draft(LONG), [0, 7], learned, OPTIONS, read=read) is None


def test_a_read_draft_can_be_reused_several_times(scorer: ReefScorer) -> None:
    first = analyze(draft(LONG), scorer.without_custom_words(), OPTIONS)
    read = ReadDraft.of(first)
    for _ in range(2):
        again = analyze_cut(draft(LONG), chunk_starts(first), scorer, OPTIONS, read=read)
        expected = analyze_cut(draft(LONG), chunk_starts(first), scorer, OPTIONS)
        assert again is not None
        assert expected is not None
        assert scored(again, scorer) == scored(expected, scorer)


def scored(analyzed: object, scorer: ReefScorer) -> ScoredDocument:
    return scored_document(analyzed, scorer, vocabulary_version=1)  # type: ignore[arg-type]


def test_a_draft_with_mismatched_cuts_does_not_affect_the_others(
    scorer: ReefScorer, cuts: dict[str, list[int]]
) -> None:
    texts = TEXTS[:3]
    cut_drafts = [CutDraft(draft(text), cuts[text], None) for text in texts]
    cut_drafts[1] = cut_drafts[1]._replace(cuts=[0, 5])
    first, second, third = analyze_cuts(cut_drafts, scorer, OPTIONS)
    assert second is None
    for text, analyzed in ((texts[0], first), (texts[2], third)):
        assert analyzed is not None
        assert scored(analyzed, scorer).draft.content == text
        assert scored(analyzed, scorer).chunks[-1].end_char == len(text.rstrip())
    assert analyze_cuts([cut_drafts[1]], scorer, OPTIONS) == [None]
    assert analyze_cuts([], scorer, OPTIONS) == []
