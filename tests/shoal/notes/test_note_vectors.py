"""Notes are compared by the vectors of an encoder, if it answers in time, and else as without one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_encoder import FakeEncoder
from waiting import until

from shoal.encoders.encoder import Floats, TextKind
from shoal.engine import Engine
from shoal.errors import EncoderUnavailableError
from shoal.models.notes import AddedNote
from shoal.notes import note_vectors
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings

LEFT = "Restart the gateway after you rotate the signing key."
RIGHT = "After a change of the signing key, the gateway needs a restart."
OPPOSITE = "Never restart the gateway after you rotate the signing key."


class PairsEncoder(FakeEncoder):
    """Takes LEFT, RIGHT and OPPOSITE for the same; may wait or be away."""

    n_calls = 0
    is_away = False
    waiting: threading.Event | None = None

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        self.n_calls += 1
        if self.is_away:
            raise EncoderUnavailableError("away")
        if self.waiting:
            self.waiting.wait(20)
        return super().embed([LEFT if text in (RIGHT, OPPOSITE) else text for text in texts], kind)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def open_engine(encoder: Any = None, name: str = "shoal") -> Engine:
        engines.append(Engine(db_path=tmp_path / f"{name}.db", settings=Settings(), encoder=encoder))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def remembered(notes: OwnerNotes, text: str) -> AddedNote:
    (added,) = notes.remember([{"content": text, "topic": "gateways", "confidence": 0.9}])
    assert isinstance(added, AddedNote)
    return added


def test_vectors_find_what_says_the_same_in_other_words(opened: Callable[..., Engine]) -> None:
    plain = opened().similarity(LEFT, RIGHT)
    found = opened(PairsEncoder()).similarity(LEFT, RIGHT)
    assert not plain.is_duplicate
    assert found.is_duplicate
    assert [part.name for part in found.parts] == ["profile", "words", "missing", "exchanged", "vectors"]
    assert found.parts[-1].value == 1.0
    assert found == opened(PairsEncoder()).similarity(RIGHT, LEFT)


def test_opposites_are_flagged_although_their_vectors_are_near(opened: Callable[..., Engine]) -> None:
    found = opened(PairsEncoder()).similarity(LEFT, OPPOSITE)
    assert found.value >= 0.85
    assert found.is_opposite
    assert not found.is_duplicate
    notes = opened(PairsEncoder()).notes.of("ada")
    first = notes.add(LEFT)
    added = remembered(notes, OPPOSITE)
    assert not added.is_duplicate
    assert [(each.id, each.is_opposite) for each in added.similar] == [(first.note.id, True)]


def test_a_note_that_says_the_same_is_counted_again(opened: Callable[..., Engine]) -> None:
    text, other = "Rotate the signing key of the gateway.", "Change the signing key of the gateway."
    engine = opened(PairsEncoder(same={"change": "rotate"}))
    engine.similarity(text, other)  # loads the encoder
    notes = engine.notes.of("ada")
    notes.add(text)
    assert remembered(notes, other).is_duplicate
    assert not remembered(notes, LEFT).is_duplicate
    plain = opened(name="plain").notes.of("ada")
    plain.add(text)
    assert not remembered(plain, other).is_duplicate


CHANGED = (
    ("The staging server runs driver 3.1.2.", "The staging server runs driver 3.2.1."),
    ("Ann loves spicy food.", "Ann hates spicy food."),
    ("Invoices are due on the first of May.", "Invoices are due on the first of June."),
    ("Deployments happen on Tuesday afternoon.", "Deployments happen on Thursday afternoon."),
    ("Use tabs for indentation in makefiles.", "Use spaces for indentation in makefiles."),
    ("The database is hosted in Frankfurt.", "The database is hosted in Dublin."),
    ("The nightly job backs up the users table.", "The nightly job backs up the orders table."),
    ("Enable caching for the search endpoint.", "Disable caching for the search endpoint."),
    ("Alice manages Bob.", "Bob manages Alice."),
    ("Commit messages name the ticket.", "Commit messages must not name the ticket."),
    ("My sister Clara works as a nurse.", "My sister Clara works as a teacher."),
)


def test_changed_value_is_no_duplicate_however_near_the_vectors_are(opened: Callable[..., Engine]) -> None:
    """The encoder is the worst that there is: all texts are the same to it."""

    class Blind(FakeEncoder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
            return super().embed([LEFT for _ in texts], kind)

    engine = opened(Blind())
    engine.similarity(LEFT, RIGHT)  # loads the encoder
    for number, (before, after) in enumerate(CHANGED):
        notes = engine.notes.of(f"owner{number}")
        assert not remembered(notes, before).is_duplicate
        assert not remembered(notes, after).is_duplicate, (before, after)


@pytest.mark.parametrize("is_away", [True, False])
def test_adding_does_not_wait_for_an_encoder(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    monkeypatch.setattr(note_vectors, "ADDING_SECONDS", 0.05)
    encoder = PairsEncoder()
    encoder.is_away = is_away
    encoder.waiting = None if is_away else threading.Event()
    notes, plain = opened(encoder).notes.of("ada"), opened(name="plain").notes.of("ada")
    texts = [LEFT, f"{LEFT} Always.", OPPOSITE, RIGHT]
    for text in texts:
        plain.add(text)
    expected = [plain.add(f"{text} Really.").similar for text in texts]
    for text in texts:
        notes.add(text)
    started = time.monotonic()
    assert [notes.add(f"{text} Really.").similar for text in texts] == expected
    assert time.monotonic() - started < 5
    assert encoder.n_calls > 0
    if encoder.waiting:
        encoder.waiting.set()


def test_a_text_that_the_encoder_does_not_read_to_its_end_is_compared_without_it(
    opened: Callable[..., Engine],
) -> None:
    long = " ".join(f"step{number}" for number in range(300))
    engine, plain = opened(PairsEncoder()), opened(name="plain")
    pair = f"{long} first", f"{long} last"
    assert json.dumps(engine.similarity(*pair)) == json.dumps(plain.similarity(*pair))


def test_the_comparison_of_all_notes_uses_vectors(opened: Callable[..., Engine]) -> None:
    text, other = "Rotate the signing key of the gateway.", "Change the signing key of the gateway."
    engine = opened(PairsEncoder(same={"change": "rotate"}))
    notes = engine.notes.of("ada")
    for each in (text, other):
        notes.add(each)
    result = notes.dedup()
    plain = opened(name="plain").notes.of("ada")
    for each in (text, other):
        plain.add(each)
    assert (result.n_proposed, plain.dedup().n_proposed) == (1, 0)


ROTATE = "Frobnicate the quxlet."
ASKED = "zorbify the blarnet"
SAME = {"zorbify": "frobnicate", "blarnet": "quxlet"}
"""Words without reefs, so that only vectors find the note."""


def found_ids(notes: OwnerNotes, query: str = ASKED) -> list[int]:
    return [result.note.id for result in notes.search(query, top_k=5).results]


def test_a_search_finds_a_note_in_other_words_by_its_vector(opened: Callable[..., Engine]) -> None:
    with opened(FakeEncoder(same=SAME)) as engine:
        notes, other = engine.notes.of("ada"), engine.notes.of("bob")
        note = notes.add(ROTATE).note
        notes.add("Tides turn twice a day.")
        other.add(ROTATE)
        assert engine.notes.embed() == 3
        assert engine.notes.embed() == 0
        [result, *_] = notes.search(ASKED, include_scores=True).results
        assert result.note.id == note.id
        scores = result.scores
        assert scores is not None
        assert scores.cosine is not None
        assert scores.vectors_part > 0
        explained = notes.explain(note.id, ASKED)
        assert explained.scores == scores
        assert "vectors" in [step.name for step in explained.steps]
        recalled = notes.recall(ASKED, threshold=0)
        assert recalled.results[0].metadata["note_id"] == note.id
    plain = opened().notes.of("ada")
    assert note.id not in found_ids(plain)


def test_vectors_of_others_and_of_earlier_texts_and_encoders_do_not_count(
    opened: Callable[..., Engine],
) -> None:
    engine = opened(FakeEncoder(same=SAME))
    mine, other = engine.notes.of("ada"), engine.notes.of("bob")
    note = other.add(ROTATE).note
    mine.add("Tides turn twice a day.")
    engine.notes.embed()
    assert note.id not in found_ids(mine)
    assert found_ids(other) == [note.id]
    other.update(note.id, text="Bake the bread slowly.")
    assert found_ids(other) == []
    other.update(note.id, text=ROTATE)
    engine.notes.embed()
    other.deprecate(note.id, reason="old")
    assert found_ids(other) == []
    other.restore(note.id)
    engine.close()
    newer = opened(FakeEncoder(same=SAME, revision="2"))
    with newer.database.snapshot() as snapshot:
        identity = FakeEncoder(same=SAME, revision="2").identity
        assert len(note_vectors.owner_vectors(snapshot, "bob", identity).note_ids) == 0
    assert newer.notes.embed() == 2
    assert found_ids(newer.notes.of("bob")) == [note.id]


def test_a_search_begins_to_embed_what_lacks_a_vector(opened: Callable[..., Engine]) -> None:
    engine = opened(FakeEncoder(same=SAME))
    notes = engine.notes.of("ada")
    note = notes.add(ROTATE).note
    found_ids(notes)
    until(lambda: found_ids(notes) == [note.id])


def test_without_an_answer_of_the_encoder_notes_are_ranked_as_without_one(
    opened: Callable[..., Engine],
) -> None:
    encoder = PairsEncoder()
    encoder.is_away = True
    notes, plain = opened(encoder).notes.of("ada"), opened(name="plain").notes.of("ada")
    for each in (notes, plain):
        each.add(LEFT)
        each.add("Tides turn twice a day.")
    query = "restart after the key"
    scores = [
        [(result.note.id, result.score) for result in each.search(query).results] for each in (notes, plain)
    ]
    assert scores[0] == scores[1] != []
