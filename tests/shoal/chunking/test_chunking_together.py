"""Analyzing several drafts with given chunk boundaries equals analyzing each alone."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from teaching_texts import about

import lagoon
from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import (
    AnalyzedDocument,
    analyze,
    cut,
    rescore,
    rescore_many,
    scored_document,
)
from shoal.chunking.packed_documents import pack, unpack
from shoal.models.documents import DocFormat, DocumentDraft, ScoredDocument
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
    return {text: analyze(draft(text), base, OPTIONS).cuts for text in TEXTS}


def parsed(text: str, cuts: list[int]) -> AnalyzedDocument:
    document = cut(draft(text), cuts, OPTIONS)
    assert document is not None
    return document


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
def test_drafts_analyzed_together_equal_drafts_analyzed_alone(
    scorer: ReefScorer, cuts: dict[str, list[int]], texts: list[str]
) -> None:
    documents = [parsed(text, cuts[text]) for text in texts]
    together = rescore_many(documents, scorer, OPTIONS)
    for document, analyzed in zip(documents, together, strict=True):
        assert scored(analyzed, scorer) == scored(rescore(document, scorer, OPTIONS), scorer)


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
    read = packed_and_unpacked(first)
    assert not read.parsed.masked, "the text is not read again"
    again = rescore(read, learned, OPTIONS)
    afresh = rescore(parsed(LONG, first.cuts), learned, OPTIONS)
    assert scored(again, learned) == scored(afresh, learned)
    assert scored(rescore(first, learned, OPTIONS), learned) == scored(afresh, learned)
    before = scored_document(first, scorer, vocabulary_version=1)
    assert scored(again, learned).chunks[1].profile != before.chunks[1].profile, "learned words count"


def test_a_read_draft_can_be_reused_several_times(scorer: ReefScorer) -> None:
    first = analyze(draft(LONG), scorer.without_custom_words(), OPTIONS)
    read = packed_and_unpacked(first)
    expected = scored(rescore(parsed(LONG, first.cuts), scorer, OPTIONS), scorer)
    for _ in range(2):
        assert scored(rescore(read, scorer, OPTIONS), scorer) == expected


def test_documents_packed_with_other_data_are_read_again(scorer: ReefScorer) -> None:
    packed = pack(analyze(draft(LONG), scorer, OPTIONS), "one build")
    assert packed is not None, "long enough to be worth it"
    assert unpack(packed, draft(LONG), "another build", OPTIONS) is None


@settings(deadline=None, max_examples=examples(30))
@given(
    st.text(max_size=300),
    st.lists(st.sampled_from(["zorblat", "frob tandle", "Zorblat's"])),
)
def test_packing_keeps_structure_and_scores_of_any_text(
    scorer: ReefScorer, text: str, words: list[str]
) -> None:
    learned = scorer.with_custom_words([scorer.lookup_word("zorblat")])  # type: ignore[list-item]
    learned.add_custom_word("frob tandle", [(5, 1.0)])
    first = analyze(draft(text + LONG + " ".join(words)), scorer.without_custom_words(), OPTIONS)
    read = packed_and_unpacked(first)
    assert dataclasses.replace(read.parsed, masked=first.parsed.masked) == first.parsed
    assert (read.cuts, read.sections) == (first.cuts, first.sections)
    afresh = rescore(parsed(first.draft.content, first.cuts), learned, OPTIONS)
    assert scored(rescore(read, learned, OPTIONS), learned) == scored(afresh, learned)


def packed_and_unpacked(analyzed: AnalyzedDocument) -> AnalyzedDocument:
    packed = pack(analyzed, "build")
    assert packed is not None, "long enough to be worth it"
    document = unpack(packed, analyzed.draft, "build", OPTIONS)
    assert document is not None
    return document


def scored(analyzed: AnalyzedDocument, scorer: ReefScorer) -> ScoredDocument:
    return scored_document(analyzed, scorer, vocabulary_version=1)


@pytest.mark.parametrize("wrong", [[0, 5], [5], [], [-1]])
def test_mismatched_cuts_give_no_document(wrong: list[int]) -> None:
    assert cut(draft(TEXTS[1]), wrong, OPTIONS) is None


def test_each_document_keeps_its_own_text(scorer: ReefScorer, cuts: dict[str, list[int]]) -> None:
    texts = TEXTS[:3]
    together = rescore_many([parsed(text, cuts[text]) for text in texts], scorer, OPTIONS)
    for text, analyzed in zip(texts, together, strict=True):
        assert scored(analyzed, scorer).draft.content == text
        assert scored(analyzed, scorer).chunks[-1].end_char == len(text.rstrip())
    assert rescore_many([], scorer, OPTIONS) == []
