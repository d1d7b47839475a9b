"""Texts that are analysed at once come out as each by itself, to the last bit."""

import numpy as np
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
    given = [Sentence(one.text, one.start, one.end) for one in sentences]
    starts = sorted({0, min(section_at, max(len(given) - 1, 0))}) if given else []
    return TextSentences(given, [SectionStart(start, heading * (start + 1)) for start in starts])


TEXTS = st.builds(
    text_of,
    st.lists(st.sampled_from(PARTS), max_size=9),
    st.sampled_from(["", "Sea and law ", "The zorblat "]),
    st.integers(0, 12),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, max_size=6))
def test_texts_analysed_at_once_come_out_as_alone(scorer: ReefScorer, texts: list[TextSentences]) -> None:
    together = scorer.analyze_many(texts, sensitivity=0.0, top_k=38)
    assert len(together) == len(texts)
    for text, one in zip(texts, together, strict=True):
        alone = scorer.analyze(text.sentences, sections=text.sections, sensitivity=0.0, top_k=38)
        assert one.boundaries == alone.boundaries
        assert len(one.topics) == alone.n_segments
        for topic, segment in zip(one.topics, alone.segments, strict=True):
            assert topic.top_reefs == segment.topic.top_reefs
            assert topic.z_scores.tobytes() == segment.topic.z_scores.tobytes()
            assert topic.unknown_words == segment.topic.unknown_words


def test_each_sentence_is_observed_in_its_text(scorer: ReefScorer) -> None:
    texts = [text_of([SEA], "", 0), text_of([], "", 0), text_of([LAW, PLANT], "", 4)]
    together = scorer.analyze_many(texts)
    assert isinstance(together, TextsAnalysis)
    seen = together.observed
    assert seen.n_texts == 3
    assert seen.text_of_sentence.tolist() == [0] * 3 + [2] * 7
    alone = [scorer.analyze(text.sentences, sections=text.sections).observed for text in texts]
    assert seen.sentences.raw_z(0, 10).tobytes() == b"".join(
        one.sentences.raw_z(0, len(one.sentences)).tobytes() for one in alone
    )
    forms = [seen.forms[form] for form in seen.form_of.tolist()]
    assert forms == [one.forms[form] for one in alone for form in one.form_of.tolist()]
    assert seen.unknown.tolist() == [unknown for one in alone for unknown in one.unknown.tolist()]


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=8), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_texts_of_any_length_are_cut_as_alone(lengths: list[int], window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = SegmentationOptions(0.5, window, 2, 9, 0)
    z = np.maximum(rng.normal(size=(sum(lengths), 11)), 0.0)
    z[rng.random(len(z)) < 0.2] = 0.0
    spans = np.arange(2 * len(z)).reshape(-1, 2)
    firsts = (np.cumsum(lengths) - lengths).tolist()
    sections = [np.unique(np.append(rng.integers(0, n, 3), 0)) for n in lengths]
    cut = cut_texts(lambda first, last: z[first:last], firsts, sections, spans, options)
    for first, n, starts, found in zip(firsts, lengths, sections, cut, strict=True):
        own, own_spans = z[first : first + n], spans[first : first + n]
        expected = starts.tolist()
        if may_be_cut(starts, own_spans, options):
            cosines = gap_cosines(lambda low, high, own=own: own[low:high], starts, n, window)
            expected = segment_starts(cosines, starts, own_spans[:, 0], own_spans[:, 1], options)
        assert found == expected
