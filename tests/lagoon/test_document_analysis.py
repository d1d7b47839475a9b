import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import raw_and_z, read

from lagoon import LagoonError, ReefScorer, SectionStart, Sentence, split_sentences
from lagoon.model import Model

BODY = "The heart and the blood. A doctor for blood. A heart attack is bad. My doctor has a heart. "
STARS = "Stars and planets. One star, two planets. The planet has a star. Every day a star. "
SENTENCES = st.lists(
    st.sampled_from(
        [
            *BODY.split(". ")[:-1],
            *STARS.split(". ")[:-1],
            "War",
            "A blorg",
            "Heart",
            "Attack",
            "It is",
            "Money, bank",
        ]
    ).map(lambda words: words + "."),
    max_size=30,
)


def test_a_change_of_topic_is_a_boundary(small: ReefScorer) -> None:
    analysis = small.analyze(BODY + STARS, smooth_window=1)
    assert 4 in analysis.boundaries
    assert [segment.start_idx for segment in analysis.segments] == [0, *analysis.boundaries]
    assert analysis.segments[0].topic.top_reefs[0].name == "body"
    assert analysis.segments[-1].topic.top_reefs[0].name == "stars"


@given(SENTENCES)
def test_segments_partition_the_sentences(small: ReefScorer, sentences: list[str]) -> None:
    text = " ".join(sentences)
    analysis = small.analyze(text, max_chunk_sentences=5)
    assert list(analysis.sentences) == split_sentences(text)
    assert analysis.n_sentences == len(split_sentences(text))
    assert analysis.n_segments == len(analysis.segments) == len(analysis.topics)
    flat = [sentence for segment in analysis.segments for sentence in segment.sentences]
    assert flat == split_sentences(text)
    assert all(
        len(segment.sentences) == segment.end_idx - segment.start_idx <= 5 for segment in analysis.segments
    )


@given(SENTENCES)
def test_every_result_equals_that_of_its_text_alone(small: ReefScorer, sentences: list[str]) -> None:
    text = " ".join(sentences)
    for segment in small.analyze(text, max_chunk_sentences=7).segments:
        span = text[segment.sentences[0].start : segment.sentences[-1].end]
        pairs = [(segment.topic, small.score(span))]
        assert len(segment.sentence_results) == len(segment.sentences)
        for result, sentence in zip(segment.sentence_results, segment.sentences, strict=True):
            pairs.append((result, small.score(sentence.text)))
        for result, alone in pairs:
            assert np.array_equal(result.z_scores, alone.z_scores)
            assert result.top_reefs == alone.top_reefs
            assert result.matched_word_ids == alone.matched_word_ids
            assert result.unknown_words == alone.unknown_words
            assert (result.n_words, result.matched_words) == (alone.n_words, alone.matched_words)


@given(SENTENCES)
def test_given_sentences_give_the_analysis_of_their_text(small: ReefScorer, sentences: list[str]) -> None:
    text = " ".join(sentences)
    whole = small.analyze(text)
    from_sentences = small.analyze(split_sentences(text))
    assert from_sentences.boundaries == whole.boundaries
    assert list(from_sentences.sentences) == list(whole.sentences)
    for one, other in zip(from_sentences.segments, whole.segments, strict=True):
        assert np.array_equal(one.topic.z_scores, other.topic.z_scores)


def test_plain_strings_count_as_sentences(small: ReefScorer) -> None:
    analysis = small.analyze(["heart and blood", "stars"])
    assert list(analysis.sentences) == [Sentence("heart and blood", 0, 15), Sentence("stars", 16, 21)]


def test_an_empty_document_has_no_segments(small: ReefScorer) -> None:
    for empty in ("", " \n ", []):
        analysis = small.analyze(empty)
        assert (analysis.n_sentences, analysis.n_segments) == (0, 0)
        assert analysis.segments == []
        assert analysis.boundaries == []


def test_sections_always_begin_a_segment(small: ReefScorer) -> None:
    sentences = split_sentences(BODY * 3)
    analysis = small.analyze(sentences, sections=[SectionStart(1), SectionStart(6)], sensitivity=100)
    assert analysis.boundaries == [1, 6]


def test_neighbouring_sections_do_not_affect_boundaries(small: ReefScorer) -> None:
    # Even with a wide window, the text of another section must not change the boundaries of this section.
    own = BODY + STARS
    for other in (STARS * 2, "War and soldiers. " * 8):
        sentences = split_sentences(own + other)
        analysis = small.analyze(
            sentences, sections=[SectionStart(8)], smooth_window=3, sensitivity=-5, min_chunk_sentences=1
        )
        alone = small.analyze(own, smooth_window=3, sensitivity=-5, min_chunk_sentences=1)
        assert [cut for cut in analysis.boundaries if cut < 8] == alone.boundaries


def test_context_counts_once_into_the_topic_only(small: ReefScorer, small_model: Model) -> None:
    text = "A heart, a heart. My blood is warm."
    context = "War and heart"
    for weight in (1.0, 0.25):
        analysis = small.analyze(text, sections=[SectionStart(0, context)], context_weight=weight)
        plain = small.analyze(text)
        own, both = read(text).tf, read(text).tf + Counter(read(context).tf)

        def m(tf: int) -> float:
            return 1 + math.log(tf) if tf else 0.0

        z = expected_z(
            {word: m(own[word]) + weight * (m(both[word]) - m(own[word])) for word in both}, small_model
        )
        topic = analysis.segments[0].topic
        assert topic.z_scores == pytest.approx(z, abs=2e-3)
        before = plain.segments[0].topic
        assert topic.matched_word_ids == before.matched_word_ids
        assert (topic.n_words, topic.matched_words) == (before.n_words, before.matched_words)
        for one, other in zip(
            analysis.segments[0].sentence_results, plain.segments[0].sentence_results, strict=True
        ):
            assert np.array_equal(one.z_scores, other.z_scores)


def expected_z(multiplicities: dict[str, float], model: Model) -> list[float]:
    units = {word: raw_and_z(Counter([word]), model)[0] for word in multiplicities}
    m1, m2 = sum(multiplicities.values()), sum(m * m for m in multiplicities.values())
    mean, variance = model.background
    rate, exponent = model.dispersion
    count_variance = m2 * (1 + rate * max(m1 - 1, 0) ** exponent)
    return [
        (sum(m * units[word][reef] for word, m in multiplicities.items()) - m1 * mean[reef])
        / math.sqrt(count_variance * variance[reef])
        for reef in range(model.n_reefs)
    ]


def test_full_context_scores_like_context_and_text_together(small: ReefScorer) -> None:
    sections = [SectionStart(0, "Love"), SectionStart(4, "Money and banks")]
    analysis = small.analyze(BODY + STARS, sections=sections, max_chunk_sentences=2, top_k=6)
    assert analysis.n_segments == 4
    for segment in analysis.segments:
        context = sections[segment.start_idx >= 4].context
        text = "\n\n".join([context, *(sentence.text for sentence in segment.sentences)])
        assert segment.topic.top_reefs == small.score(text, top_k=6).top_reefs


def test_invalid_sections_are_rejected(small: ReefScorer) -> None:
    for sections in ([SectionStart(99)], [SectionStart(-1)], [SectionStart(1), SectionStart(1)]):
        with pytest.raises(LagoonError):
            small.analyze(BODY, sections=sections)
    with pytest.raises(LagoonError, match="context_weight"):
        small.analyze(BODY, sections=[SectionStart(0, "x")], context_weight=2.0)


def test_characters_limit_the_size_of_segments(small: ReefScorer) -> None:
    text = "word " * 5000
    analysis = small.analyze(text, max_chunk_chars=5000)
    for segment in analysis.segments:
        assert segment.sentences[-1].end - segment.sentences[0].start <= 5000


@given(st.text(max_size=300))
def test_any_text_can_be_analyzed(small: ReefScorer, text: str) -> None:
    analysis = small.analyze(text)
    assert [s for segment in analysis.segments for s in segment.sentences] == split_sentences(text)
    for segment in analysis.segments:
        assert np.isfinite(segment.topic.z_scores).all()
