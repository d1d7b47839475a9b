"""From documents to learned words, without a database; the result depends on the documents only."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from learning_texts import text

from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning import (
    Evidence,
    EvidenceRow,
    Kind,
    LearnedWord,
    VocabularyChanges,
    changes,
    learn,
    may_contain_learned_words,
    related_words,
    with_vocabulary,
)
from shoal.learning.vocabulary import AssociationOptions, associate, average_context
from shoal.settings import Settings

Observe = Callable[[str], list[EvidenceRow]]

SETTINGS = Settings()
# Short documents; "quimbles" occurs with its singular, "trobins" without.
DOCUMENTS = [
    text(1, "sea", ["zorblax", "zorblax", "quimble"]),
    text(2, "money", ["quimble", "frobnicle"]),
    text(3, "sea", ["zorblax", "quimbles"]),
    text(4, "plant", ["frobnicle", "grommish", "trobins"]),
    text(5, "plant", ["grommish", "grommish", "trobins"]),
    text(6, "money", ["frobnicle engine"] * 4 + ["frobnicle engines"]),
    text(7, "money", ["vexilated"]),
    text(8, "sea", [], n_sentences=200),
]


@pytest.fixture(scope="session")
def observed(observe: Observe) -> list[list[EvidenceRow]]:
    return [observe(document) for document in DOCUMENTS]


def total(observed: Iterable[list[EvidenceRow]]) -> Evidence:
    return Evidence.of(row for rows in observed for row in rows)


def learned_from(
    evidence: Evidence, scorer: ReefScorer, settings: Settings = SETTINGS
) -> dict[str, LearnedWord]:
    return {word.word: word for word in learn(evidence, set(evidence.words), scorer, settings)}


def test_words_are_learned_with_the_reefs_of_their_contexts(
    observed: list[list[EvidenceRow]], scorer: ReefScorer
) -> None:
    learned = learned_from(total(observed), scorer)
    assert set(learned) == {"zorblax", "quimble", "frobnicle", "grommish", "trobins", "frobnicle engine"}
    contexts = {"zorblax": "ship sailor ocean harbour", "frobnicle engine": "bank loan money debt"}
    contexts |= {"grommish": "leaf petal stem forest"}
    for word, known in contexts.items():
        reefs = [reef.reef_id for reef in learned[word].reefs]
        expected = [reef.reef_id for reef in scorer.score(known).top_reefs[:5]]
        assert reefs[0] in expected, word


def test_a_learned_word_is_specific(observed: list[list[EvidenceRow]], scorer: ReefScorer) -> None:
    for word in learned_from(total(observed), scorer).values():
        strengths = [reef.strength for reef in word.reefs]
        assert 1 <= len(strengths) <= 15
        assert strengths[0] == 1.0
        assert strengths == sorted(strengths, reverse=True)
        assert min(strengths) >= SETTINGS.association_relative
        assert word.is_compound == (" " in word.word)
        assert -2 <= word.specificity <= 2


def test_bounds_on_reefs_are_settings(observed: list[list[EvidenceRow]], scorer: ReefScorer) -> None:
    few = dataclasses.replace(SETTINGS, association_max_reefs=2)
    assert {len(word.reefs) for word in learned_from(total(observed), scorer, few).values()} <= {1, 2}
    close = dataclasses.replace(SETTINGS, association_relative=0.8)
    assert all(
        reef.strength >= 0.8
        for word in learned_from(total(observed), scorer, close).values()
        for reef in word.reefs
    )
    far = dataclasses.replace(SETTINGS, association_min=50.0)
    assert learned_from(total(observed), scorer, far) == {}


def test_a_word_needs_two_occurrences_in_short_documents_or_three_in_long_ones(
    observe: Observe, scorer: ReefScorer
) -> None:
    def is_learned(*documents: str) -> bool:
        return "zorblax" in learned_from(total(map(observe, documents)), scorer)

    long = [text(seed, "sea", ["zorblax"], n_sentences=100) for seed in range(4)]
    short = [text(seed, "sea", ["zorblax"]) for seed in range(4)]
    assert not is_learned(short[0])
    assert is_learned(*short[:2])
    assert not is_learned(*long[:2])
    assert is_learned(*long[:3])
    assert is_learned(text(0, "sea", ["zorblax"] * 3, n_sentences=100))
    assert is_learned(short[0], *long[:2])
    assert not is_learned(short[0], long[0])


def test_a_plural_is_evidence_for_its_singular(observed: list[list[EvidenceRow]], scorer: ReefScorer) -> None:
    evidence = total(observed)
    learned = learned_from(evidence, scorer)
    assert learned["quimble"].n_occurrences == 3
    assert learned["trobins"].n_occurrences == 2
    assert learned["frobnicle engine"].n_occurrences == 4  # the plural occurs once: no candidate
    assert related_words(["quimbles"]) >= {"quimble"}
    assert related_words(["quimble"]) == {"quimbles"}
    assert related_words(["frobnicle engine"]) == {"frobnicle engines"}
    with_singular = evidence + Evidence.of([EvidenceRow(1, "trobin", 1, 1, 1, 1, 0, (), (), ())])
    assert "trobins" not in learned_from(with_singular, scorer)
    assert learned_from(with_singular, scorer)["trobin"].n_occurrences == 3


def test_a_compound_must_be_frequent_and_cohesive(observe: Observe, scorer: ReefScorer) -> None:
    def compounds(document: str) -> set[str]:
        return {word for word in learned_from(total([observe(document)]), scorer) if " " in word}

    loose = ["zorblax engine"] * 4 + ["zorblax", "engine"] * 12
    assert compounds(text(1, "sea", ["zorblax engine"] * 4, n_sentences=30)) == {"zorblax engine"}
    assert compounds(text(1, "sea", ["zorblax engine"] * 3, n_sentences=30)) == set()
    assert compounds(text(1, "sea", loose, n_sentences=30)) == set()


def test_topics_of_all_documents_do_not_describe_a_word(scorer: ReefScorer) -> None:
    """The same contexts give reef 3 in a library half about reef 5, and both reefs if reef 5 is rare."""

    def strengths(share_of_5: int) -> dict[int, float]:
        reefs, sums = (3, 5, 9), (1000, share_of_5, 1000)
        totals = EvidenceRow(Kind.totals, "", 10**5, 10**5, 100, 100, 0, (), reefs, sums)
        word = EvidenceRow(Kind.word, "zorblax", 10, 10, 5, 5, 0, (), (3, 5), (300, 300))
        learned = learned_from(Evidence.of([totals, word]), scorer)["zorblax"]
        return {reef.reef_id: reef.strength for reef in learned.reefs}

    assert strengths(1000) == {3: 1.0, 5: 1.0}
    assert strengths(50_000) == {3: 1.0}


def test_rarer_words_weigh_more(observe: Observe, scorer: ReefScorer) -> None:
    documents = [text(seed, "sea", ["zorblax"] + ["quimble"] * (seed < 2)) for seed in range(30)]
    learned = learned_from(total(map(observe, documents)), scorer)
    assert learned["quimble"].weight_q > learned["zorblax"].weight_q


@examples(max_examples=40, deadline=None)
@given(st.permutations(range(len(DOCUMENTS))), st.integers(0, len(DOCUMENTS)))
def test_the_order_of_documents_changes_nothing(
    observed: list[list[EvidenceRow]], scorer: ReefScorer, order: list[int], cut: int
) -> None:
    first = total([observed[i] for i in order[:cut]])
    rest = total([observed[i] for i in order[cut:]])
    assert learned_from(first + rest, scorer) == learned_from(total(observed), scorer)


@examples(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, len(DOCUMENTS) - 1)))
def test_deleting_a_document_removes_its_evidence(
    observed: list[list[EvidenceRow]], scorer: ReefScorer, deleted: set[int]
) -> None:
    gone = total([observed[i] for i in deleted])
    kept = total([rows for i, rows in enumerate(observed) if i not in deleted])
    assert learned_from(total(observed) - gone, scorer) == learned_from(kept, scorer)


@examples(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, len(DOCUMENTS) - 1), unique=True, min_size=1), st.randoms(use_true_random=False)
)
def test_only_words_touched_by_a_wave_must_be_decided_again(
    observed: list[list[EvidenceRow]], scorer: ReefScorer, wave: list[int], rng: random.Random
) -> None:
    """With the final totals, deciding only the touched words gives the same vocabulary as deciding all
    words."""
    before = total([rows for i, rows in enumerate(observed) if i not in wave])
    after = before + total([observed[i] for i in wave])
    totals = after.rows()[0]
    with_totals_of_the_end = Evidence.of([totals, *before.rows()[1:]])
    in_force = learned_from(with_totals_of_the_end, scorer)
    touched = set(total([observed[i] for i in wave]).words)
    touched |= related_words(touched)
    needed = Evidence.of(row for row in after.rows() if row.kind == 0 or row.word in touched)
    new = changes(in_force, touched, learn(needed, touched, scorer, SETTINGS))
    result = {word: entry for word, entry in in_force.items() if word not in new.retired}
    result |= {word.word: word for word in new.learned}
    assert result == learned_from(after, scorer)


def test_changes_are_new_changed_and_retired_words(
    observed: list[list[EvidenceRow]], scorer: ReefScorer
) -> None:
    before = learned_from(total(observed[:3]), scorer)
    after = learned_from(total(observed), scorer)
    touched = set(before) | set(after) | {"vexilated"}
    forward = changes(before, touched, after.values())
    assert [word.word for word in forward.learned] == sorted(w for w in after if before.get(w) != after[w])
    assert forward.retired == ()
    assert changes(after, touched, after.values()) == VocabularyChanges((), ())
    back = changes(after, touched, before.values())
    assert back.retired == tuple(sorted(set(after) - set(before)))


def test_a_scorer_with_a_vocabulary_has_exactly_its_words(
    observed: list[list[EvidenceRow]], scorer: ReefScorer
) -> None:
    learned = sorted(learned_from(total(observed), scorer).values(), key=lambda word: word.word)
    first = scorer.next_word_id
    extended = with_vocabulary(scorer, enumerate(learned, first))
    result = extended.score("A zorblax, two quimbles and the frobnicle-engine's trobins")
    assert result.unknown_words == []
    assert {word for word in result.matched_word_ids if word >= first} == {
        first + i for i, word in enumerate(learned) if word.word != "grommish"
    }
    assert scorer.n_custom_words == 0
    info = extended.lookup_word("zorblax")
    expected = next(word for word in learned if word.word == "zorblax")
    assert info is not None
    assert sorted(info.reefs) == sorted((reef.reef_id, reef.bm25_q) for reef in expected.reefs)
    assert (info.idf_q, round(info.weight * 4096)) == (expected.idf_q, expected.weight_q)


def test_a_word_that_the_library_writes_with_a_capital_letter_is_no_subject(
    observe: Observe, scorer: ReefScorer
) -> None:
    documents = [text(seed, "sea", ["marblox", "marblox", "zorblax"]).title() for seed in range(4)]
    documents.append(text(9, "sea", ["zorblax", "zorblax", "marbloxes"]))
    learned = learned_from(total(map(observe, documents)), scorer)
    assert {word: learned[word].is_name for word in learned} == {"marblox": True, "zorblax": False}
    assert all(reef.strength > 0 and reef.bm25_q > 0 for reef in learned["marblox"].reefs)
    extended = with_vocabulary(scorer, enumerate(learned.values(), scorer.next_word_id))
    reefs = {reef.reef_id for word in learned.values() for reef in word.reefs}
    shown = extended.supporting_words("They spoke of a marblox and of a zorblax.", reefs)
    words = {word for pairs in shown.values() for word, _ in pairs}
    assert (words & {"marblox", "zorblax"}) == {"zorblax"}
    assert (
        max(extended.score("Of a marblox.").probabilities)
        == 0.0
        < max(extended.score("Of a zorblax.").probabilities)
    )


def test_stored_scores_equal_those_computed_by_lagoon(
    observed: list[list[EvidenceRow]], scorer: ReefScorer
) -> None:
    for word in learned_from(total(observed), scorer).values():
        pairs = [(reef.reef_id, reef.strength) for reef in word.reefs]
        idf_q, reefs = scorer.compute_custom_word_scores(len(pairs), pairs)
        assert idf_q == word.idf_q
        assert reefs == [(reef.reef_id, reef.bm25_q) for reef in word.reefs]


def test_the_first_analysis_is_valid_if_no_learned_word_occurs(
    observed: list[list[EvidenceRow]], scorer: ReefScorer, analyzed: Callable[[str], AnalyzedDocument]
) -> None:
    extended = with_vocabulary(scorer, enumerate(learn_all(observed, scorer), scorer.next_word_id))
    for content, holds in (
        (DOCUMENTS[0], True),
        (DOCUMENTS[7], False),
        ("Vexilated ships sail the ocean.", False),
        ("Ships of a quimble's kind.", True),
        ("Many frobnicle engines.", True),
        ("Zorblax!", True),
    ):
        draft = analyzed(content)
        assert may_contain_learned_words(draft, extended) == holds, content
        assert not may_contain_learned_words(draft, scorer)
        if not holds:
            again = extended.analyze(content)
            plain = scorer.analyze(content)
            assert again.boundaries == plain.boundaries
            for one, other in zip(again.topics, plain.topics, strict=True):
                assert np.array_equal(one.z_scores, other.z_scores)


def learn_all(observed: list[list[EvidenceRow]], scorer: ReefScorer) -> list[LearnedWord]:
    return list(learned_from(total(observed), scorer).values())


def test_learned_words_in_headings_are_detected(
    observed: list[list[EvidenceRow]], scorer: ReefScorer, analyzed: Callable[[str], AnalyzedDocument]
) -> None:
    extended = with_vocabulary(scorer, enumerate(learn_all(observed, scorer), scorer.next_word_id))
    draft = analyzed("Ships sail the ocean.")
    assert not may_contain_learned_words(draft, extended)
    assert may_contain_learned_words(dataclasses.replace(draft, contexts=("On the zorblax",)), extended)


def test_empty_evidence_gives_no_learned_words(scorer: ReefScorer) -> None:
    assert learn(Evidence.of([]), set(), scorer, SETTINGS) == ()
    assert learn(Evidence.of([]), {"zorblax"}, scorer, SETTINGS) == ()


def test_one_small_document_suffices_to_learn_a_word(observe: Observe, scorer: ReefScorer) -> None:
    """The average context of the document alone would not do: its whole text has one topic."""
    learned = learned_from(total([observe(text(1, "sea", ["zorblax"] * 3, n_sentences=4))]), scorer)
    expected = {
        reef.reef_id for reef in scorer.score("ship ocean wave sailor harbour tide anchor").top_reefs[:5]
    }
    assert learned["zorblax"].reefs[0].reef_id in expected


def test_the_least_excess_is_lower_for_words_that_were_compared_with_their_document() -> None:
    totals = EvidenceRow(Kind.totals, "", 1000, 0, 1, 1, 0, (), (0, 1), (500, 500))
    options = AssociationOptions(minimum=0.2, relative=0.3, max_reefs=15)
    lengths = []
    for n_documents in (1, 400):
        # An excess of 0.1 over the average of 0.5.
        row = EvidenceRow(
            Kind.word, "zorblax", 400, 0, n_documents, 1, 0, (), (0,), (round(0.5707 * 400 * 64),)
        )
        evidence = Evidence.of([totals, row])
        found = associate(evidence, np.array([1]), average_context(evidence, 2), options)
        lengths.append(found.lengths.tolist())
    assert lengths == [[1], [0]]
