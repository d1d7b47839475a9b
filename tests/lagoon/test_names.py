"""Names are no evidence for labels: whether a word is a name is decided once for a document."""

from __future__ import annotations

import numpy as np
import pytest

from lagoon import ReefScorer, SectionStart, TextSentences
from lagoon.sentences import split_sentences

FRUITS = "fruits and orchards"
COMPANY = (
    "The revenue of Apple grew in the last quarter. Apple sells phones and laptops. Analysts say that Apple "
    "will buy back shares. Apple opens stores in other countries."
)
ORCHARD = (
    "The farmer picks the apples in autumn. Apples keep for months in a cool cellar. An apple from the tree "
    "is sweeter than an apple from the shop."
)


def label_z(scorer: ReefScorer, text: str, reef: str, title: str = "") -> list[float]:
    """Label z of a reef in each sentence group of a document with a title."""
    number = next(each.id for each in scorer.reefs if each.name == reef)
    analysis = scorer.analyze(
        split_sentences(text), sections=[SectionStart(0, title)], max_chunk_sentences=2, min_chunk_sentences=1
    )
    return [float(topic.label_scores.z[0, number]) for topic in analysis.topics]


def test_company_named_like_a_fruit_is_not_about_fruits(scorer: ReefScorer) -> None:
    assert max(label_z(scorer, COMPANY, FRUITS, title="Apple")) <= 0
    # Ranking keeps the word.
    number = next(each.id for each in scorer.reefs if each.name == FRUITS)
    assert scorer.score(COMPANY).z_scores[number] > 2


def test_document_about_apples_keeps_its_label_and_its_title(scorer: ReefScorer) -> None:
    with_title = label_z(scorer, ORCHARD, FRUITS, title="Apple")
    assert min(with_title) > 2
    assert sum(with_title) > sum(label_z(scorer, ORCHARD, FRUITS))


def same_with_a_word_that_nobody_knows(scorer: ReefScorer, text: str, name: str) -> bool:
    unnamed = text.replace(name, "Zorbling")
    mine, its = (scorer.analyze(each).topics[0].label_scores.z for each in (text, unnamed))
    return np.array_equal(mine, its)


def test_lower_case_is_a_thing_beside_a_name(scorer: ReefScorer) -> None:
    name = "The farm belongs to Mr. Oak. Oak likes it there."
    assert same_with_a_word_that_nobody_knows(scorer, name, "Oak")
    assert same_with_a_word_that_nobody_knows(scorer, f"{name} He cuts an oak for its wood.", "Oak")
    assert not same_with_a_word_that_nobody_knows(scorer, f"{name} He cuts an oak for its wood.", "oak")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("He asked Judge Bird about it. Bird refused to answer.", "Bird"),
        ("Apple Inc. sells phones. Apple grew.", "Apple"),
        ("Their office is in Apple Street. Apple Street is long.", "Apple"),
        ("The Panthers lost to the Ravens. Panthers fans were sad.", "Panthers"),
    ],
)
def test_what_stands_before_and_after_a_name_shows_it(scorer: ReefScorer, text: str, name: str) -> None:
    assert same_with_a_word_that_nobody_knows(scorer, text, name)


@pytest.mark.parametrize(
    "text",
    [
        "APPLES ARE PICKED IN AUTUMN. THE APPLES KEEP FOR MONTHS IN A COOL CELLAR. EAT AN APPLE A DAY.",
        "Picking Apples In Autumn\n\nKeeping Apples In A Cool Cellar\n\nEating Apples Every Day",
        "Apples are picked in autumn. Apples keep for months.",
        "Der Bauer pflückt den Apple im Herbst und lagert viele Apple im Keller. Ein Apple schmeckt süß.",
    ],
    ids=["capitals", "title case", "starts of sentences", "German"],
)
def test_capitals_that_show_nothing_leave_the_label(scorer: ReefScorer, text: str) -> None:
    assert max(label_z(scorer, text, FRUITS)) > 0


def test_word_that_keeps_its_meaning_with_a_capital_stays_evidence(scorer: ReefScorer) -> None:
    text = "The town lies on the shore of Lake Superior. The steamer crosses Lake Superior in summer."
    assert not same_with_a_word_that_nobody_knows(scorer, text, "Lake")


def test_names_of_a_document_do_not_change_another(scorer: ReefScorer) -> None:
    texts = [TextSentences(split_sentences(text), [SectionStart(0, "Apple")]) for text in (COMPANY, ORCHARD)]
    together = scorer.analyze_many(texts)
    for text, found in zip(texts, together, strict=True):
        alone = scorer.analyze(text.sentences, sections=text.sections)
        for mine, its in zip(alone.topics, found.topics, strict=True):
            assert np.array_equal(mine.label_scores.z, its.label_scores.z)


@pytest.mark.parametrize("text", [COMPANY, ORCHARD, "Apple", "of Apple", "He met Judge Bird."])
def test_short_texts_and_stored_readings_find_the_same_names(scorer: ReefScorer, text: str) -> None:
    one, batch = scorer.score(text).label_scores, scorer.score_batch([text, text])[1].label_scores
    assert np.array_equal(one.z, batch.z)
    assert np.array_equal(one.sense, batch.sense)
    long = " ".join([text] * 60) + "."
    analysis = scorer.analyze(long)
    if analysis.read is not None:
        sections = [SectionStart(start) for start in [0, *analysis.boundaries]]
        stored = type(analysis.read).from_bytes(analysis.read.to_bytes())
        again = scorer.score_sections(stored, sections)
        for mine, its in zip(analysis.topics, again, strict=True):
            assert np.array_equal(mine.label_scores.z, its.label_scores.z)


def test_learned_name_is_no_evidence_and_learned_thing_is(scorer: ReefScorer) -> None:
    fruits = next(each.id for each in scorer.reefs if each.name == FRUITS)
    known = scorer.without_custom_words()
    known.add_custom_word("zorbling", [(fruits, 1.0)])
    assert max(label_z(known, "The house belongs to Zorbling and his wife.", FRUITS)) <= 0
    assert max(label_z(known, "The house is full of zorbling and his wife eats.", FRUITS)) > 0


def test_a_name_is_not_shown_as_the_reason_of_a_reef(scorer: ReefScorer) -> None:
    fruits = next(each.id for each in scorer.reefs if each.name == FRUITS)
    assert scorer.supporting_words(COMPANY, {fruits}) == {}
    assert scorer.supporting_words(ORCHARD, {fruits})[fruits][0][0] in {"apple", "apples"}
