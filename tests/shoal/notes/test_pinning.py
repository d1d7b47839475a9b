"""Notes are pinned where they proved useful, and only automatic pins end by feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.models.notes import TagRelevance
from shoal.notes.pinning import Pin, keeps_pin, pin_by_matches, pin_by_relevance, smallest_tag_subset
from shoal.notes.relevance import judged
from shoal.settings import Settings

SETTINGS = Settings()
DOCUMENT_EXAMPLE = [
    (("acme", "frontend", "typescript"), 6),
    (("acme", "frontend", "react"), 5),
    (("frontend", "personal", "typescript"), 4),
]
"""The example of 002: `frontend` has 15 matches, `acme` 11, `typescript` 10."""

TAGS = st.sampled_from("abcdefg")
MATCHES = st.lists(st.tuples(st.frozensets(TAGS, max_size=6), st.integers(0, 9)), max_size=8)


def powerset_winner(matches: Sequence[tuple[frozenset[str], int]], min_matches: int) -> set[tuple[str, ...]]:
    """The smallest of the minimal subsets of at most four tags, by the five steps of 002: all that tie."""
    tags = sorted({tag for tag_set, _ in matches for tag in tag_set})
    subsets = [frozenset(subset) for size in range(1, 5) for subset in combinations(tags, size)]
    enough = {
        subset for subset in subsets if sum(n for tag_set, n in matches if subset <= tag_set) >= min_matches
    }
    minimal = [subset for subset in enough if not any(other < subset for other in enough)]
    size = min(map(len, minimal), default=0)
    return {tuple(sorted(subset)) for subset in minimal if len(subset) == size}


def test_example_of_the_document_pins_to_frontend() -> None:
    assert smallest_tag_subset(DOCUMENT_EXAMPLE, 15) == ("frontend",)
    assert pin_by_matches(DOCUMENT_EXAMPLE, {}, SETTINGS) == Pin("tags", ("frontend",))


def test_eleven_matches_do_not_pin() -> None:
    assert pin_by_matches(DOCUMENT_EXAMPLE[:2], {}, SETTINGS) is None


@given(MATCHES, st.integers(1, 30))
def test_smallest_tag_subset_is_one_that_the_powerset_search_finds(
    matches: list[tuple[frozenset[str], int]], min_matches: int
) -> None:
    subset = smallest_tag_subset(matches, min_matches)
    winners = powerset_winner(matches, min_matches)
    assert (subset in winners) if winners else (subset is None)


@given(MATCHES, st.integers(1, 30), st.randoms())
def test_order_of_matches_and_tags_does_not_matter(matches, min_matches: int, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = [(random.sample(sorted(tag_set), len(tag_set)), n) for tag_set, n in matches]
    random.shuffle(shuffled)
    assert smallest_tag_subset(shuffled, min_matches) == smallest_tag_subset(matches, min_matches)


@pytest.mark.parametrize(
    ("matches", "weights", "winner"),
    [
        ([(("a", "b"), 15), (("b",), 1)], {"a": 2.0, "b": 1.0}, "b"),
        ([(("a", "b"), 15)], {"a": 1.0, "b": 2.0}, "b"),
        ([(("a", "b"), 15)], {}, "a"),
    ],
    ids=["most matches", "then the rarest", "then the alphabet"],
)
def test_ties_are_broken_the_same_way_every_time(matches, weights, winner: str) -> None:  # type: ignore[no-untyped-def]
    assert smallest_tag_subset(matches, 15, weights=weights) == (winner,)


def test_a_repeated_tag_of_a_tag_set_counts_once() -> None:
    assert smallest_tag_subset([(["a", "a"], 8)], 15) is None


def test_many_large_tag_sets_need_one_pass() -> None:
    visits = 0

    class CountedTags(tuple[str, ...]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            nonlocal visits
            visits += 1
            return super().__iter__()

    matches = [(CountedTags(f"t{(i * 7 + j) % 4000}" for j in range(40)), 1) for i in range(200)]
    visits = 0
    smallest_tag_subset(matches, 15)
    assert visits == len(matches)


def test_a_tag_that_feedback_speaks_against_is_no_reason_for_a_pin() -> None:
    rejected = {"frontend": TagRelevance(-0.5, 0, 3)}
    assert pin_by_matches(DOCUMENT_EXAMPLE, rejected, SETTINGS) is None
    more = [*DOCUMENT_EXAMPLE, (("acme",), 4)]
    assert pin_by_matches(more, rejected, SETTINGS) == Pin("tags", ("acme",))
    assert pin_by_matches(DOCUMENT_EXAMPLE, {"frontend": TagRelevance(-0.5, 0, 2)}, SETTINGS) is not None


RELEVANCE = st.dictionaries(
    TAGS, st.builds(TagRelevance, st.floats(-1, 1), st.integers(0, 9), st.integers(0, 9)), max_size=5
)


@given(RELEVANCE, st.frozensets(TAGS))
def test_a_persons_pin_never_ends_by_feedback(
    relevance: Mapping[str, TagRelevance], tags: frozenset[str]
) -> None:
    assert keeps_pin(Pin("person", tuple(tags)), relevance, SETTINGS)


@given(MATCHES, RELEVANCE, st.frozensets(TAGS))
def test_a_new_pin_is_not_taken_back_at_once(
    matches: list[tuple[frozenset[str], int]],
    relevance: Mapping[str, TagRelevance],
    judged_tags: frozenset[str],
) -> None:
    for pin in (
        pin_by_matches(matches, relevance, SETTINGS),
        pin_by_relevance(relevance, judged_tags, SETTINGS),
    ):
        assert pin is None or keeps_pin(pin, relevance, SETTINGS)


@given(st.integers(0, 12), st.floats(-1, 1))
def test_relevance_pins_above_its_limit_with_enough_evidence(n_evals: int, score: float) -> None:
    pin = pin_by_relevance({"a": TagRelevance(score, n_evals, 0)}, ["a", "never judged"], SETTINGS)
    assert (pin is not None) == (n_evals >= 5 and score > 0.6)


def test_relevance_pins_to_the_tags_that_are_proven() -> None:
    relevance = {
        "frontend": TagRelevance(0.9, 6, 0),
        "react": TagRelevance(0.9, 2, 0),
        "acme": TagRelevance(0.5, 5, 0),
        "elsewhere": TagRelevance(0.9, 9, 0),
    }
    assert pin_by_relevance(relevance, ["frontend", "react", "acme"], SETTINGS) == Pin(
        "relevance", ("frontend",)
    )


@pytest.mark.parametrize("by", ["tags", "relevance"])
def test_two_bad_judgements_end_an_automatic_pin_but_one_does_not(by) -> None:  # type: ignore[no-untyped-def]
    relevance: dict[str, TagRelevance] = {}
    for _ in range(5):
        relevance |= judged(relevance, {"a": 1.0}, SETTINGS)
    pin = Pin(by, ("a",))
    relevance |= judged(relevance, {"a": -1.0}, SETTINGS)
    assert keeps_pin(pin, relevance, SETTINGS)
    relevance |= judged(relevance, {"a": -1.0}, SETTINGS)
    assert not keeps_pin(pin, relevance, SETTINGS)


def test_a_pin_counts_where_all_its_tags_hold() -> None:
    pin = Pin("tags", ("frontend", "react"))
    assert pin.holds_in(["acme", "react", "frontend"])
    assert not pin.holds_in(["frontend"])
    assert Pin("person", ()).holds_in([])
