"""Each note that a search finds says in one sentence why, and says no more than can be shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lagoon
from shoal import Engine
from shoal.models.scores import ReasonKind, sentence_of
from shoal.notes.notes import OwnerNotes

VACCINES = (
    "Vaccines protect children from measles and smallpox, wrote Jenner. The immune system of the patient learns to "
    "recognise the infection. See CVE-2021-44228."
)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnerNotes]:
    path = tmp_path_factory.mktemp("notes") / "shoal.db"
    with Engine(path, scorer=lagoon.load()) as engine:
        notes = engine.notes.of("ann")
        notes.add(VACCINES)
        notes.add("A baker kneads the dough twice and heats the oven before bread is baked.")
        yield notes


def reasons(notes: OwnerNotes, query: str) -> dict[ReasonKind, tuple[str, ...]]:
    result = notes.search(query, top_k=1).results[0]
    assert result.why == sentence_of(result.reasons) != ""
    explained = notes.explain(result.note.id, query)
    assert (explained.why, explained.reasons) == (result.why, result.reasons)
    return {reason.kind: reason.items for reason in result.reasons}


def test_names_codes_and_words_are_as_the_note_writes_them(notes: OwnerNotes) -> None:
    found = reasons(notes, "which vaccine did Jenner give to a child")
    assert list(found)[:2] == [ReasonKind.name, ReasonKind.word]
    assert found[ReasonKind.name] == ("Jenner",)
    assert found[ReasonKind.word] == ("Vaccines",)
    assert "44228" in "".join(reasons(notes, "what about CVE-2021-44228")[ReasonKind.code])


def test_a_topic_is_a_label_of_the_note_that_the_query_asks_for(notes: OwnerNotes) -> None:
    labels = {
        label.reef_name
        for label in notes.search("vaccines against infectious diseases").results[0].note.labels
    }
    topics = reasons(notes, "vaccines against infectious diseases")[ReasonKind.topic]
    assert topics
    assert labels.issuperset(topics)


def test_a_name_of_the_query_is_no_name_of_a_note_in_small_letters(notes: OwnerNotes) -> None:
    found = reasons(notes, "who paid Baker for bread and dough")
    assert ReasonKind.name not in found
    assert "baker" in found[ReasonKind.word]


def test_a_note_that_shares_nothing_clear_says_so(notes: OwnerNotes) -> None:
    assert all(
        result.why.startswith("holds no word of the query")
        for result in notes.search("quarrels of sailors").results
        if not result.matched_words and ReasonKind.topic not in {reason.kind for reason in result.reasons}
    )
