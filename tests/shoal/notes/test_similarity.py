"""The similarity of texts, and the signs that they contradict each other."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import lagoon
import shoal
from benchmarks.similarity import Groups, measure
from shoal.errors import QueryError
from shoal.models.notes import DUPLICATE, MAX_CHARS, Similarity
from shoal.notes import index_cache
from shoal.notes.index_cache import TermTable, term_table
from shoal.notes.opposites import Statement, signs
from shoal.notes.similarity import (
    SAME,
    TextFeatures,
    check_text,
    recall_similarities,
    similarities,
    similarity,
)
from shoal.storage.profiles import Profiles
from shoal.words.analysis import terms_of

SAMPLE = Path(shoal.__file__).parent / "sample_corpus"
PROSE = [path.read_text(encoding="utf-8").split() for path in sorted(SAMPLE.glob("*.md"))]

Read = Callable[[str], TextFeatures]

WORDS = st.sampled_from(
    [
        "use",
        "not",
        "never",
        "pnpm",
        "npm",
        "instead",
        "of",
        "rather",
        "than",
        "before",
        "after",
        "the",
        "lava",
        "cold",
        "hot",
        "8",
        "eight",
        "3.11",
        "don't",
        "by",
        "Ünïcode",
        "日本",
        "migrate",
        "enable",
        "disable",
        "first",
        "no",
        "without",
        "because",
        "manages",
        "is",
        "user",
        "x1",
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=30).map(" ".join))


@pytest.fixture(scope="module")
def scorer() -> lagoon.ReefScorer:
    return lagoon.load()


@pytest.fixture(scope="module")
def read(scorer: lagoon.ReefScorer) -> Read:
    return partial(TextFeatures.of, scorer)


@pytest.fixture(scope="module")
def compare(read: Read) -> Callable[[str, str], Similarity]:
    return lambda a, b: similarity(read(a), read(b))


@settings(max_examples=examples(150))
@given(a=TEXTS, b=TEXTS)
def test_similarity_is_symmetric_and_between_0_and_1(a: str, b: str, read: Read) -> None:
    left, right = read(a), read(b)
    result = similarity(left, right)
    assert result == similarity(right, left)
    assert 0 <= result.value <= 1
    answers = recall_similarities(left, [right]).values
    assert (answers >= 0).all()
    assert (answers <= 1).all()


@settings(max_examples=examples(100))
@given(text=TEXTS)
def test_a_text_equals_itself_and_does_not_contradict_itself(text: str, read: Read) -> None:
    result = similarity(read(text), read(text))
    assert result.value == (1.0 if terms_of(text) else 0.0)
    assert not result.is_opposite
    assert not any(result.signs)


@settings(max_examples=examples(50))
@given(text=TEXTS, others=st.lists(TEXTS, max_size=6))
def test_many_texts_are_compared_like_each_alone(text: str, others: list[str], read: Read) -> None:
    features = [read(other) for other in others]
    found = similarities(read(text), features)
    each = [similarities(read(text), [other]) for other in features]
    assert np.allclose(found.values, [one.values[0] for one in each], atol=1e-3)
    assert len(found.is_opposite) == len(recall_similarities(read(text), features).values) == len(others)


def test_parts_add_up_to_the_value(compare: Callable[[str, str], Similarity]) -> None:
    result = compare("The lock file is pnpm-lock.yaml.", "pnpm-lock.yaml is our lock file, keep it.")
    odds = SAME.bias + sum(part.contribution for part in result.parts)
    assert result.value == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-4)


def test_stored_columns_give_the_features_of_the_text(scorer: lagoon.ReefScorer) -> None:
    title, text = "Packages", "Use pnpm, not npm."
    packed = Profiles.from_scores([scorer.score(f"{title}\n\n{text}", 38).reef_arrays]).packed()[0]
    words = f"{' '.join(terms_of(title))}\n{' '.join(terms_of(text))}".encode()
    stored = TextFeatures.of_stored(scorer, words, packed)
    direct = TextFeatures.of(scorer, text, title)
    assert stored.terms == direct.terms
    assert (stored.profile == direct.profile).all()
    without_profile = TextFeatures.of_stored(scorer, words, b"")
    assert similarity(without_profile, direct).value == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Use tabs, not spaces.", "Use spaces, not tabs."),
        ("Use tabs instead of spaces.", "Use spaces rather than tabs."),
        ("The job must not run at night.", "The job must run at night."),
        ("Never open the valve, close the door.", "Open the valve, never close the door."),
        ("Enable the cache in tests.", "Disable the cache in tests."),
        ("The queue holds 10 jobs.", "The queue holds 50 jobs."),
        ("The queue holds two jobs.", "The queue holds seven jobs."),
        ("Wash the leaves before cutting the roots.", "Cut the roots before washing the leaves."),
        ("Paula trains the manager of Frank.", "Frank trains the manager of Paula."),
        ("Anna is visited by the baker.", "Anna visits the baker."),
        ("The fastest route is the coast.", "The slowest route is the coast."),
    ],
)
def test_contradictions_are_flagged_and_never_duplicates(
    a: str, b: str, compare: Callable[[str, str], Similarity]
) -> None:
    result = compare(a, b)
    assert result.is_opposite
    assert not result.is_duplicate


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Use tabs, not spaces.", "Use tabs instead of spaces."),
        ("Smoking is forbidden in the library.", "Smoking is not allowed in the library."),
        ("The queue holds two jobs.", "The queue holds 2 jobs."),
        ("Wash the leaves before cutting the roots.", "Cut the roots after washing the leaves."),
        ("Anna is visited by the baker.", "The baker visits Anna."),
    ],
)
def test_the_same_in_other_words_is_not_flagged(
    a: str, b: str, compare: Callable[[str, str], Similarity]
) -> None:
    assert not compare(a, b).is_opposite


def test_each_sign_is_found_where_it_should_be() -> None:
    def found(a: str, b: str) -> set[str]:
        statements = [Statement.of(terms_of(text)) for text in (a, b)]
        return {name for name, value in signs(*statements)._asdict().items() if value}

    assert found("do not store tokens", "store tokens") == {"negations"}
    assert found("tokens aren't stored", "tokens are stored") == {"negations"}
    assert found("enable the cache", "disable the cache") == {"antonyms"}
    assert found("the door is closed", "the door is not open") == set()
    assert "moved" not in found("never use floats for money", "floats must not represent money")
    assert found("wait 5 seconds", "wait 6 seconds") == {"numbers"}
    assert found("wait 5 seconds", "wait five seconds") == set()
    assert found("rent is due in May", "rent is due in June") == {"numbers"}
    assert found("deploy on Tuesday at noon", "deploy on Thursday at noon") == {"numbers"}
    assert found("deploy on Tuesday afternoon", "deploy on Tuesday at 2") == set()
    assert "contrasts" in found("take wood rather than steel", "take steel rather than wood")
    assert "moved" in found("never merge but rebase", "merge but never rebase")
    assert "exchanges" in found("Paula trains Frank on Monday", "Frank trains Paula on Monday")


@pytest.mark.parametrize(
    "make",
    [
        lambda: " ".join(f"w{number}" for number in range(4_000))[:MAX_CHARS],
        lambda: ("not before " * 2_000)[:MAX_CHARS],
        lambda: ("a by " * 5_000)[:MAX_CHARS],
        lambda: "x" * MAX_CHARS,
        lambda: "instead of " * 1_800,
    ],
)
def test_no_long_text_costs_much_more_than_prose(make: Callable[[], str], read: Read) -> None:
    def seconds(text: str) -> float:
        left, right = read(text), read(text[1:] + " end")
        started = time.process_time()
        similarity(left, right)
        return time.process_time() - started

    prose = " ".join(word for words in PROSE for word in words)[:MAX_CHARS]
    seconds(prose)
    assert seconds(make()) < 40 * max(seconds(prose), 0.01)


@pytest.mark.parametrize("text", ["", "  \n", "?!", "x" * (MAX_CHARS + 1), None, 3, ["a"]])
def test_texts_that_cannot_be_compared_are_refused(text: object) -> None:
    with pytest.raises(QueryError) as caught:
        check_text("a", text)
    assert caught.value.field == "a"


def test_texts_of_two_tables_can_be_compared(
    scorer: lagoon.ReefScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full table is replaced, and features of the former one are still in use."""
    monkeypatch.setattr(index_cache, "MAX_TABLE_TERMS", 100)
    features = TextFeatures.of(scorer, "The lava is hot.")
    table = term_table(scorer)
    table.numbers([f"filler{number}" for number in range(101)])
    later = TextFeatures.of(scorer, "The lava was hot, and Tom saw it.")
    assert later.table is not table
    assert similarity(features, later).value == similarity(later, features).value > 0.5


def test_threads_give_every_term_one_number(scorer: lagoon.ReefScorer) -> None:
    table = TermTable(scorer)
    terms = [f"term{number}" for number in range(3_000)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(table.numbers, [terms, terms[::-1], terms[500:], terms]))
    assert sorted(found[0].tolist()) == list(range(3_000))
    assert (found[1][::-1] == found[0]).all()
    assert (found[2] == found[0][500:]).all()


def test_similarity_keeps_its_quality_on_the_labelled_half(read: Read) -> None:
    """Bounds below what `docs/similarity.md` reports, for a fifth of the pairs."""
    groups = Groups()
    measured = measure(groups, groups.half("report")[::5])
    values, flags = defaultdict(list), defaultdict(list)
    for pair, value, flag in measured:
        values[pair.label].append(value)
        flags[pair.label].append(flag)
    assert np.mean(np.array(values["near"]) >= DUPLICATE) > 0.7
    assert np.mean(np.array(values["reworded"]) >= 0.5) > 0.7
    assert max(values["unrelated"]) < 0.5
    assert np.mean(flags["opposite"]) > 0.85
    assert np.mean(flags["near"]) < 0.2


def test_the_module_loads_no_compiler() -> None:
    import subprocess

    code = "import sys, shoal.notes.similarity; print([m for m in ('numba', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
