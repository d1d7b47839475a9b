"""What belongs to one owner does not exist for another, whatever they ask for."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import shoal.notes.note_rows as note_statements
import shoal.notes.session_rows as note_sessions
from shoal import Engine
from shoal.errors import NoteError, NotFoundError
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings

SECRET = "The volcano of user one throws secret lava and ash every winter."
QUERY = "secret lava of a volcano"


def test_one_user_never_sees_the_notes_of_another(engine: Engine) -> None:
    first, second = engine.notes.of("user1"), engine.notes.of("user2")
    note = first.add(SECRET, tags=["private"], categories=["mine/secret"]).note
    second.add("The jury weighs the evidence of the crime before the verdict.")
    for stranger in (second, engine.notes.of("nobody"), engine.notes.of("User1"), engine.notes.of("user1 ")):
        assert stranger.recall(QUERY, threshold=0).results == () or stranger is second
        assert SECRET not in str(stranger.recall(QUERY, threshold=0.0))
        assert all(result.note.owner == stranger.owner for result in stranger.search(QUERY, top_k=50).results)
        assert note.id not in {listed.id for listed in stranger.list(include_deprecated=True).notes}
        assert "mine" not in str(stranger.categories())
        assert stranger.add("A new text about lava of the volcano.").similar == ()
    assert [result.note.id for result in first.search(QUERY).results] == [note.id]
    assert first.recall(QUERY, threshold=0).count == 1


CALLS: dict[str, Callable[[OwnerNotes, int], Any]] = {
    "get": lambda notes, note_id: notes.get(note_id),
    "update": lambda notes, note_id: notes.update(note_id, text="overwritten"),
    "update tags": lambda notes, note_id: notes.update(note_id, tags=["new"]),
    "deprecate": lambda notes, note_id: notes.deprecate(note_id),
    "forget": lambda notes, note_id: notes.forget(note_id),
    "restore": lambda notes, note_id: notes.restore(note_id),
    "categorize": lambda notes, note_id: notes.categorize(note_id, add=["a"]),
    "pin": lambda notes, note_id: notes.pin(note_id),
    "unpin": lambda notes, note_id: notes.unpin(note_id),
    "explain": lambda notes, note_id: notes.explain(note_id, QUERY),
    "feedback": lambda notes, note_id: notes.feedback(note_id, applicable=False, tag_scores={"a": -1}),
    "record_shown": lambda notes, note_id: notes.record_shown("s", [note_id], event="prompt"),
    "merge": lambda notes, note_id: notes.merge([notes.add("Basalt is a dark rock.").note.id, note_id]),
    "merges": lambda notes, note_id: notes.merges(note_id=note_id),
    "history": lambda notes, note_id: notes.history(note_id),
    "feedbacks": lambda notes, note_id: notes.feedbacks(note_id),
}


@pytest.mark.parametrize("call", CALLS)
def test_foreign_id_is_not_found_and_changes_nothing(engine: Engine, call: str) -> None:
    note = engine.notes.of("user1").add(SECRET, tags=["private"]).note
    with pytest.raises(NotFoundError) as foreign:
        CALLS[call](engine.notes.of("user2"), note.id)
    with pytest.raises(NotFoundError) as unknown:
        CALLS[call](engine.notes.of("user2"), note.id + 1000)
    assert str(foreign.value).replace(str(note.id), "") == str(unknown.value).replace(str(note.id + 1000), "")
    assert engine.notes.of("user1").get(note.id) == note


def test_every_method_that_takes_an_id_is_tried_with_a_foreign_one() -> None:
    taking_ids = {
        name
        for name, method in inspect.getmembers(OwnerNotes, inspect.isfunction)
        if {"note_id", "note_ids"} & inspect.signature(method).parameters.keys()
    }
    assert taking_ids == {name.split()[0] for name in CALLS}


def test_no_method_takes_an_owner() -> None:
    for name, method in inspect.getmembers(OwnerNotes, inspect.isfunction):
        assert name == "__init__" or "owner" not in inspect.signature(method).parameters


def test_every_statement_on_notes_is_bound_to_an_owner() -> None:
    for module in (note_statements, note_sessions):
        statements = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", value)
        }
        unbound = [
            name for name, text in statements.items() if ":owner" not in text and not name.startswith("__")
        ]
        assert unbound == ["NEXT_CHANGES"] * (module is note_statements)


@pytest.mark.parametrize(
    "owner", ["", " ", "a" * 201, "a\nb", "a\x00", "\x1b[31m", "\ud800", "a\u2028b", None, 7, b"a"]
)
def test_impossible_owner_is_refused(engine: Engine, owner: Any) -> None:
    with pytest.raises(NoteError) as refused:
        engine.notes.of(owner)
    assert refused.value.field == "owner"


@pytest.mark.parametrize(
    "owner",
    [
        "user1' OR '1'='1",
        'user1" --',
        "user%",
        "user_",
        "*",
        "usеr1",
        "USER1",
        "user1;",
        "../user1",
        "ｕser1",
        "user1\u200b",
    ],
)
def test_hostile_owner_finds_nothing(engine: Engine, owner: str) -> None:
    engine.notes.of("user1").add(SECRET)
    stranger = engine.notes.of(owner)
    assert stranger.search(QUERY, top_k=50).results == ()
    assert stranger.recall(QUERY, threshold=0).count == 0
    assert stranger.list(include_deprecated=True).total == 0
    assert stranger.status().n_active == 0
    assert stranger.purge() == 0
    own = stranger.add("Rain and storm of the monsoon season.").note
    assert [result.note.id for result in stranger.search("monsoon storm and lava").results] == [own.id]
    assert engine.notes.of("user1").list().total == 1


def test_hook_without_a_service_starts_quickly(settings: Settings) -> None:
    """A recall in a process of its own loads nothing that takes long to load."""
    with Engine(settings=settings) as engine:
        engine.notes.of("me").add(SECRET)
    script = f"""if True:
        import sys
        from shoal import Engine
        with Engine({str(settings.database_path)!r}) as engine:
            assert engine.notes.of("me").recall({QUERY!r}, threshold=0).count == 1
        print([name for name in ("numba", "scipy", "flask") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
