"""Analyzing several texts at once gives results that are bit-identical to those of each text alone."""

import numpy as np
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lagoon import ReefScorer, SectionStart, Sentence, TextsAnalysis, TextSentences, split_sentences
from lagoon.segmentation import SegmentationOptions, cut_texts, gap_cosines, may_be_cut, segment_starts

SEA = (
    "The waves of the ocean broke on the shore. A ship left the harbour with the tide. Sailors fish for cod. "
)
LAW = "The court heard the witness. A jury found the thief guilty! The judge sent him to prison. Zorblat appealed. "
PLANT = (
    "Leaves are green. Roots drink the rain of the forest. St. Zorblat's fern has seeds, petals and stems. "
)
PARTS = (SEA, LAW, PLANT, "Qqxv zzyzx. ", "?! ", "Heart attack. ")
OPTIONS = SegmentationOptions(sensitivity=0.0)


def text_of(parts: list[str], heading: str, section_at: int) -> TextSentences:
    sentences = split_sentences("".join(parts))
    copies = [Sentence(sentence.text, sentence.start, sentence.end) for sentence in sentences]
    starts = sorted({0, min(section_at, max(len(copies) - 1, 0))}) if copies else []
    return TextSentences(copies, [SectionStart(start, heading * (start + 1)) for start in starts])


TEXTS = st.builds(
    text_of,
    st.lists(st.sampled_from(PARTS), max_size=9),
    st.sampled_from(["", "Sea and law ", "The zorblat "]),
    st.integers(0, 12),
)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(TEXTS, max_size=6))
def test_texts_analyzed_at_once_equal_texts_analyzed_alone(
    scorer: ReefScorer, texts: list[TextSentences]
) -> None:
    together = scorer.analyze_many(texts, sensitivity=0.0, top_k=38)
    assert len(together) == len(texts)
    for text, segments in zip(texts, together, strict=True):
        alone = scorer.analyze(text.sentences, sections=text.sections, sensitivity=0.0, top_k=38)
        assert segments.boundaries == alone.boundaries
        assert len(segments.topics) == alone.n_segments
        for topic, segment in zip(segments.topics, alone.segments, strict=True):
            assert topic.top_reefs == segment.topic.top_reefs
            assert topic.z_scores.tobytes() == segment.topic.z_scores.tobytes()
            assert topic.unknown_words == segment.topic.unknown_words


def test_each_sentence_is_observed_in_its_text(scorer: ReefScorer) -> None:
    texts = [text_of([SEA], "", 0), text_of([], "", 0), text_of([LAW, PLANT], "", 4)]
    together = scorer.analyze_many(texts)
    assert isinstance(together, TextsAnalysis)
    observed = together.observed
    assert observed.n_texts == 3
    assert observed.text_of_sentence.tolist() == [0] * 3 + [2] * 7
    alone = [scorer.analyze(text.sentences, sections=text.sections).observed for text in texts]
    assert observed.sentences.raw_z(0, 10).tobytes() == b"".join(
        text_observed.sentences.raw_z(0, len(text_observed.sentences)).tobytes() for text_observed in alone
    )
    forms = [observed.forms[form] for form in observed.form_of.tolist()]
    assert forms == [
        text_observed.forms[form] for text_observed in alone for form in text_observed.form_of.tolist()
    ]
    assert observed.unknown.tolist() == [
        unknown for text_observed in alone for unknown in text_observed.unknown.tolist()
    ]


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=8), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_texts_of_any_length_are_cut_like_texts_alone(lengths: list[int], window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = SegmentationOptions(0.5, window, 2, 9, 0)
    z = np.maximum(rng.normal(size=(sum(lengths), 11)), 0.0)
    z[rng.random(len(z)) < 0.2] = 0.0
    spans = np.arange(2 * len(z)).reshape(-1, 2)
    firsts = (np.cumsum(lengths) - lengths).tolist()
    sections = [np.unique(np.append(rng.integers(0, n, 3), 0)) for n in lengths]
    cut = cut_texts(lambda first, last: z[first:last], firsts, sections, spans, options)
    for first, n, starts, actual in zip(firsts, lengths, sections, cut, strict=True):
        own, own_spans = z[first : first + n], spans[first : first + n]
        expected = starts.tolist()
        if may_be_cut(starts, own_spans, options):
            cosines = gap_cosines(lambda low, high, own=own: own[low:high], starts, n, window)
            expected = segment_starts(cosines, starts, own_spans[:, 0], own_spans[:, 1], options)
        assert actual == expected
