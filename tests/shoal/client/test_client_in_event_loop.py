"""The client for event loops leaves the loop to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from live_service import LiveService
from scripted_service import JOB, ScriptedService
from waiting import DEADLINE_SECONDS

from shoal.client import AsyncClient


def test_the_loop_goes_on_while_documents_are_read(server: ScriptedService) -> None:
    """They are only there once something else has had its turn."""
    began, may_go_on = threading.Event(), threading.Event()

    def documents() -> Iterator[dict[str, str]]:
        began.set()
        assert may_go_on.wait(DEADLINE_SECONDS), "nothing else has had its turn"
        yield {"content": "Lava and ash."}

    async def send() -> int:
        async with AsyncClient(server.url) as client:
            sending = asyncio.ensure_future(client.upload_documents(documents()))
            await asyncio.to_thread(began.wait)
            may_go_on.set()
            return (await sending).id

    server.will_answer((202, {}, {"job": JOB}))
    assert asyncio.run(send()) == JOB["id"]


def test_whoever_stops_waiting_leaves_job_and_client_as_they_are(service: LiveService) -> None:
    async def follow() -> str:
        async with AsyncClient(service.url) as client:
            job = await client.upload_documents([{"content": "Lava and ash."}])
            seen = asyncio.Event()
            waiting = asyncio.ensure_future(client.wait_for_job(job, seen=lambda _job: seen.set()))
            await seen.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(service.work)
            return (await client.wait_for_job(job)).status

    assert asyncio.run(follow()) == "succeeded"


def test_many_questions_are_asked_at_once(service: LiveService) -> None:
    async def ask() -> list[int]:
        async with AsyncClient(service.url) as client:
            added = [client.add_document(f"Lava {n}.", title=f"N{n}") for n in range(8)]
            stored = await asyncio.gather(*added)
            found = await asyncio.gather(*(client.search(f"title:N{n} lava") for n in range(8)))
            assert [one.results[0].document_id for one in found] == [one.id for one in stored]
            return sorted(one.id for one in stored)

    with service.working():
        assert asyncio.run(ask()) == list(range(1, 9))
