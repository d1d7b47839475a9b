import numpy as np

from lagoon import ReefScorer

TEXT = "The blorg's heart attack. A tree, 12 leaves! Frobs and zzyzx stars."


def test_every_token_is_in_its_sentence_and_segment(small: ReefScorer) -> None:
    analysis = small.analyze(TEXT, min_chunk_sentences=1, sensitivity=-5.0)
    observed = analysis.observed
    forms = [observed.forms[form] for form in observed.form_of.tolist()]
    assert forms[:4] == ["the", "blorg's", "heart", "attack"]
    assert [form for form, unknown in zip(forms, observed.unknown.tolist(), strict=True) if unknown] == [
        "blorg's",
        "frobs",
        "zzyzx",
    ]
    assert [form for form, consumed in zip(forms, observed.consumed.tolist(), strict=True) if consumed] == [
        "heart",
        "attack",
    ]
    assert forms[int(np.flatnonzero(observed.is_number)[0])] == "12"
    starts = [sentence.start for sentence in analysis.sentences]
    tokens = observed.sentences.reading.tokens.starts
    assert observed.sentence_of.tolist() == (np.searchsorted(starts, tokens, side="right") - 1).tolist()
    segment_indices = [
        index
        for index, segment in enumerate(analysis.segments)
        for _ in range(segment.start_idx, segment.end_idx)
    ]
    assert observed.segment_of.tolist() == segment_indices
    assert not observed.joined[3]  # the sentence ends after "attack"


def test_a_text_without_tokens_can_be_observed(small: ReefScorer) -> None:
    for text in ("", "?!"):
        observed = small.analyze(text).observed
        assert len(observed.form_of) == 0
        assert len(observed.sentence_of) == 0
