"""Short texts have separate code paths, which must give the same results as the general ones."""

import threading

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_model import COMPOUNDS, WORDS

from lagoon import ReefScorer, TopicResult
from lagoon.model import Model
from lagoon.reading import MOST_CHARS, Reading, in_arrays, read_long, read_short
from lagoon.sentences import sentence_spans, sentence_starts
from lagoon.vocabulary import BaseVocabulary

LEARNED = {
    "blorg": [(2, 1.0), (3, 0.5)],
    "frobs": [(4, 0.7)],
    "blorg star": [(3, 1.0)],
    "heart blorg star": [(5, 0.3)],
    "star zzyzx": [(1, 0.9)],
    "of blorg": [(0, 0.4)],
}
PIECES = [*WORDS, *" ".join(COMPOUNDS).split(), "attacks", "children", "banks", "children's", "Heart", "DAY"]
PIECES += ["blorg", "blorgs", "blorg's", "frob", "frobs", "zzyzx", "star", "stars", "the", "of", "it's"]
PIECES += ["St", "mt", "u.s.", "a.b", "A.B.C.", "i", "o’clock", "2", "1999", "x1", "café", "ﬁ", "日", "'tis"]
PIECES += ["empties", "Empti", "empti’s", "empti'd"]
GAPS = [" ", " ", " ", "-", "_", "  ", ", ", ". ", ".", "! ", "", "\n", "\n\n", "\r", "\n- ", "’", "'", "\t"]
GAPS += ["\u00a0", " “", "” ", "—", "\u2029", "\x1c", "\u00ad", "\u0301", "... ", ".) ", "\n# ", "º", "\x85"]
TEXTS = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)), max_size=30).map(
    lambda pairs: "".join(piece + gap for piece, gap in pairs)
) | st.text(st.sampled_from("aBs.'’-_ ,\n\r1é“\u00ad") | st.characters(), max_size=60)


@pytest.fixture(scope="module")
def taught(small: ReefScorer) -> ReefScorer:
    scorer = small.without_custom_words()
    for word, reefs in LEARNED.items():
        scorer.add_custom_word(word, reefs)
    heart = scorer.lookup_word("heart")
    assert heart is not None
    scorer.rebuild_compounds([("of zzyzx", heart.word_id)])
    return scorer


def assert_same_reading(scorer: ReefScorer, text: str) -> bool:
    """Return whether a text can be read both with and without arrays, and check that both readings agree."""
    parts = sentence_spans(text)[0]
    short = read_short(text, parts.tolist, scorer._base, scorer._custom)
    if short is None:
        return False
    left, right = in_arrays(short), read_long(text, parts, scorer._base, scorer._custom)
    for pair in ((left, right), (left.tokens, right.tokens)):
        for name in vars(pair[1]):
            a, b = (getattr(item, name) for item in pair)
            if isinstance(a, np.ndarray):
                assert np.array_equal(a, b), name
                assert a.dtype == b.dtype, name
            elif not isinstance(a, Reading) and name not in ("tokens", "base"):
                assert a == b, name
    return True


def all_fields(result: TopicResult) -> list[object]:
    return [
        result.z_scores.tolist(),
        result.top_reefs,
        result.top_islands,
        result.arch_scores,
        result.confidence,
        result.coverage,
        (result.n_words, result.matched_words),
        result.unknown_words,
        result.matched_word_ids,
    ]


AWKWARD = [
    "the mt. star, st. a.St. Heart St.\nDay st.. day St.-day",
    "heart\u00a0attack heart\u2010attack heart–attack heart\nattack heart\r\rattack",
    "world war 2 world war 2s out of date-out-of-dates",
    "heart's attack's hearts' o’clock ‘tis 'tis a.b.c A.B.",
    "blorg star's frobs' heart blorg stars star zzyzxs of blorg",
]


@given(TEXTS)
@example(AWKWARD[0])
@example(AWKWARD[1])
@example(AWKWARD[2])
@example(AWKWARD[3])
@example(AWKWARD[4])
def test_reading_token_by_token_equals_reading_with_arrays(
    small: ReefScorer, taught: ReefScorer, text: str
) -> None:
    assert_same_reading(small, text)
    assert_same_reading(taught, text)


@given(st.lists(st.sampled_from(PIECES).map(str.lower) | st.text(max_size=70), min_size=20, max_size=30))
def test_looking_up_forms_alone_equals_looking_them_up_together(small_model: Model, forms: list[str]) -> None:
    alone, together = BaseVocabulary(small_model), BaseVocabulary(small_model)
    assert [alone.codes([form])[0] for form in forms] == together.codes(forms)


def test_english_punctuation_is_read_without_arrays(small: ReefScorer) -> None:
    assert assert_same_reading(small, "“The doctor’s heart‐attack” — it’s ‘bad’…")
    assert not assert_same_reading(small, "un café")


@given(TEXTS, st.integers(0, 6))
def test_a_query_scores_like_a_batch(small: ReefScorer, taught: ReefScorer, text: str, top_k: int) -> None:
    for scorer in (small, taught):
        alone = scorer.score(text, top_k)
        assert all_fields(alone) == all_fields(scorer.score_batch([text], top_k)[0])
        assert all_fields(alone) == all_fields(scorer.score_batch([text, text], top_k)[1])


@given(TEXTS)
def test_a_query_scores_like_a_document(taught: ReefScorer, text: str) -> None:
    analysis = taught.analyze(text, max_chunk_sentences=0, max_chunk_chars=0, sensitivity=1e9)
    for segment in analysis.segments:
        start, end = segment.sentences[0].start, segment.sentences[-1].end
        assert all_fields(segment.topic) == all_fields(taught.score(text[start:end]))


def test_texts_on_both_sides_of_the_length_limit_score_alike(taught: ReefScorer) -> None:
    sentence = "A blorg star and a heart attack; the children's U.S. bank. "
    for n in (MOST_CHARS // len(sentence), MOST_CHARS // len(sentence) + 1):
        text = sentence * n
        assert taught.score(text).z_scores == pytest.approx(
            taught.score_batch([text])[0].z_scores.tolist(), abs=0
        )
        assert taught.score(text).n_words == 7 * n


@given(st.text(max_size=80))
def test_sentence_starts_equal_those_of_the_spans(text: str) -> None:
    assert sentence_starts(text) == sentence_spans(text)[0].tolist()


def test_learned_words_take_effect_in_every_scoring_method(learner: ReefScorer) -> None:
    for number in range(50):
        word = f"blorg{'abcdefghij'[number % 10]}{'klmno'[number // 10]}"
        text = f"a {word} and a {word} star. "
        assert word in learner.score(text).unknown_words
        known = {learner.add_custom_word(word, [(number % 6, 1.0)]).word_id}
        known.add(learner.add_custom_word(f"{word} star", [(number % 5, 0.5)]).word_id)
        for result in (
            learner.score(text),
            learner.score_batch([text])[0],
            learner.analyze(text).segments[0].topic,
            learner.analyze(text * 200).segments[0].topic,
        ):
            assert known <= result.matched_word_ids
            assert not result.unknown_words


def test_scoring_continues_while_another_thread_learns_words(learner: ReefScorer) -> None:
    words = [f"blorg{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    text = " star ".join(words)
    failures: list[BaseException] = []
    stop = threading.Event()

    def score() -> None:
        try:
            while not stop.is_set():
                result = learner.score(text)
                assert len(result.unknown_words) + len(result.matched_word_ids) - 1 == len(words)
                assert np.isfinite(learner.analyze(text * 3).topics[0].z_scores).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=score) for _ in range(2)]
    for thread in threads:
        thread.start()
    for word in words:
        learner.add_custom_word(word, [(0, 1.0)])
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert not learner.score(text).unknown_words
