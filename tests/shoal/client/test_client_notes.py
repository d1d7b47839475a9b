"""Notes through the client: the same values as those of the library, for each owner alone."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from live_service import READ_OF_A_CUT, LiveService

from shoal.client import AsyncClient, Client, ConflictError, InvalidError, NotFoundError
from shoal.client import notes as note_operations
from shoal.notes.environment import Environment
from shoal.notes.prerequisites import Prerequisites

LAVA = "Lava and ash pour from the crater of the volcano in winter."
JURY = "The jury weighs the evidence of the crime before the verdict."
HERE = Environment(os="linux", tags=("python",))


def test_notes_are_the_values_of_the_library(service: LiveService) -> None:
    local = service.engine.notes.of("ann")
    with Client(service.url) as client:
        added = client.add_note(
            LAVA,
            owner="ann",
            tags=["python"],
            categories=["a/b"],
            prerequisites=Prerequisites(os=("linux",)),
            metadata={"page": [1]},
            session_id="s",
        )
        note_id = added.note.id
        assert added.note == local.get(note_id) == client.note(note_id, owner="ann")
        client.categorize_note(note_id, owner="ann", add=["c"], remove=["a/b"])
        client.update_note(note_id, owner="ann", title="Fire", verified=True)
        judged = client.judge_note(note_id, owner="ann", applicable=True, environment=HERE, reason="so")
        assert judged.tag_relevance["python"].n_positive == 1
        client.pin_note(note_id, owner="ann", tags=["python"])
        assert client.pinned_notes(HERE, owner="ann") == tuple(local.pinned(HERE))
        assert [note.id for note in local.pinned(HERE)] == [note_id]
        client.record_shown_notes("s2", [note_id], event="prompt", owner="ann", environment=HERE)
        assert client.note(note_id, owner="ann") == local.get(note_id)
        for arguments in ({}, {"environment": HERE, "include_scores": True}, {"session_id": "s2"}):
            remote = client.search_notes("volcano", owner="ann", **arguments)  # type: ignore[arg-type]
            assert remote.results == local.search("volcano", **arguments).results  # type: ignore[arg-type]
        assert client.explain_note(note_id, "volcano", owner="ann") == local.explain(note_id, "volcano")
        assert client.note_categories(owner="ann") == tuple(local.categories())
        assert client.note_status(owner="ann") == local.status()
        assert client.note_history(note_id, owner="ann") == tuple(local.history(note_id))
        assert client.note_judgements(note_id, owner="ann") == tuple(local.feedbacks(note_id))
        assert not client.unpin_note(note_id, owner="ann").pinned
        client.deprecate_note(note_id, owner="ann", reason="old")
        with pytest.raises(ConflictError):
            client.pin_note(note_id, owner="ann")
        assert client.notes(owner="ann").total == 0
        assert client.notes(owner="ann", include_deprecated=True) == local.list(include_deprecated=True)
        assert client.restore_note(note_id, owner="ann").is_active
        client.deprecate_note(note_id, owner="ann")
        assert client.purge_notes(owner="ann", before=dt.datetime(2020, 1, 1)) == 0  # noqa: DTZ001
        assert client.purge_notes(owner="ann") == 1
        with pytest.raises(NotFoundError):
            client.note(note_id, owner="ann")


def test_client_keeps_owners_apart(service: LiveService) -> None:
    with Client(service.url) as client:
        note_id = client.add_note(LAVA, owner="ann").note.id
        for call in (client.note, client.deprecate_note, client.unpin_note, client.note_history):
            with pytest.raises(NotFoundError):
                call(note_id)
        assert client.search_notes("volcano").results == ()
        assert client.notes().total == 0
        with pytest.raises(InvalidError) as caught:
            client.add_note(LAVA, owner="a\n")
        assert caught.value.errors.keys() == {"owner"}


@pytest.mark.parametrize(
    "user", ["ann", "team/ann", "/home/ann", "a//b", "..", ".", "a.b", "ü ?#%2F", "recall"]
)
def test_any_user_id_recalls_its_own(service: LiveService, user: str) -> None:
    item = {"content": LAVA, "topic": "Volcanoes", "confidence": 0.9}
    with Client(service.url) as client:
        client.remember("someone", [{**item, "content": f"{LAVA} Someone's."}])
        assert client.remember(user, [item]).n_added == 1
        recalled = client.recall(user, "crater of a volcano", threshold=0)
        assert recalled == service.engine.notes.of(user).recall("crater of a volcano", threshold=0)
        assert [result.content for result in recalled.results] == [LAVA]


def test_notes_are_sent_in_batches_with_an_outcome_for_each(
    service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_operations, "BATCH_NOTES", 2)
    items: list[dict[str, Any]] = [
        {"text": LAVA, "tags": {"a"}},
        {"text": ""},
        {"text": JURY, "prerequisites": Prerequisites(os=("linux",))},
        {"text": LAVA},
        {"text": "Rain."},
    ]
    with Client(service.url) as client:
        reply = client.add_notes(iter(items), owner="ann")
        assert [outcome.field for outcome in reply.results] == [None, "text", None, None, None]
        assert (reply.n_added, reply.n_duplicates, reply.n_refused) == (3, 1, 1)
        assert [note.text for note in client.each_note(owner="ann")] == [LAVA, JURY, "Rain."]
        assert client.add_notes([]).results == ()
    assert service.requests.count(("POST", "/api/v1/notes/bulk")) == 3


def test_note_whose_response_was_lost_is_sent_again_and_counts_once(service: LiveService) -> None:
    with Client(service.url) as client:
        client.health()
        service.cuts = 1
        # A bulk upload is longer than what the service reads before it cuts the connection.
        items = [{"text": f"{number} {'x' * 10_000}"} for number in range(2 * READ_OF_A_CUT // 10_000)]
        outcomes = client.add_notes(items)
        assert outcomes.n_added == len(items)
        assert service.requests.count(("POST", "/api/v1/notes/bulk")) == 2
        first = client.add_note(LAVA, idempotency_key="k")
        assert client.add_note(LAVA, idempotency_key="k") == first


def test_retrieve_is_that_of_the_library(service: LiveService) -> None:
    with service.working(), Client(service.url) as client:
        client.add_document("Lava rose in the volcano.", title="V", source_path="v.md")
        assert client.retrieve("lava", filters={"source": "v.md"}) == service.engine.retrieve("lava")


def test_search_of_both_kinds_is_that_of_the_library(service: LiveService) -> None:
    with service.working(), Client(service.url) as client:
        client.add_document("Lava rose in the volcano.", title="V", tags=["hot"])
        client.add_note(LAVA, owner="ann", tags=["hot"])
        remote = client.search_units("lava", owner="ann", tags=["hot"], include_scores=True)
        local = service.engine.search_units("lava", owner="ann", tags=["hot"], include_scores=True)
        assert {type(result).__name__ for result in remote.results} == {"SearchResult", "NoteHit"}
        assert remote.results == local.results
        assert (remote.query_info, remote.weights) == (local.query_info, local.weights)
        assert client.search_units("lava", units=["note"]).results == ()


def test_async_client_has_notes(service: LiveService) -> None:
    async def use() -> None:
        async with AsyncClient(service.url) as client:
            added = await client.add_note(LAVA)
            assert [note async for note in client.each_note()] == [added.note]
            assert (await client.search_notes("volcano")).results[0].note == added.note

    asyncio.run(use())
