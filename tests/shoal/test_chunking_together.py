"""Drafts whose chunks are known are analysed together; each comes out as it would alone."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teaching_texts import about

import lagoon
from lagoon.scorer import ReefScorer
from shoal.chunking import CutDraft, analyse, analyse_cut, analyse_cuts, cuts_of, scored_document
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
    return {text: cuts_of(analyse(draft(text), base, OPTIONS)) for text in TEXTS}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
def test_drafts_analysed_together_come_out_as_alone(
    scorer: ReefScorer, cuts: dict[str, list[int]], texts: list[str]
) -> None:
    together = analyse_cuts([CutDraft(draft(text), cuts[text], None) for text in texts], scorer, OPTIONS)
    for text, analysed in zip(texts, together, strict=True):
        alone = analyse_cut(draft(text), cuts[text], scorer, OPTIONS)
        assert analysed is not None
        assert alone is not None
        assert scored(analysed, scorer) == scored(alone, scorer)


def scored(analysed: object, scorer: ReefScorer) -> ScoredDocument:
    return scored_document(analysed, scorer, vocabulary_version=1)  # type: ignore[arg-type]


def test_a_draft_that_is_read_otherwise_does_not_disturb_the_others(
    scorer: ReefScorer, cuts: dict[str, list[int]]
) -> None:
    texts = TEXTS[:3]
    asked = [CutDraft(draft(text), cuts[text], None) for text in texts]
    asked[1] = asked[1]._replace(cuts=[0, 5])
    first, second, third = analyse_cuts(asked, scorer, OPTIONS)
    assert second is None
    for text, analysed in ((texts[0], first), (texts[2], third)):
        assert analysed is not None
        assert scored(analysed, scorer).draft.content == text
        assert scored(analysed, scorer).chunks[-1].end_char == len(text.rstrip())
    assert analyse_cuts([asked[1]], scorer, OPTIONS) == [None]
    assert analyse_cuts([], scorer, OPTIONS) == []
