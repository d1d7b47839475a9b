"""The asynchronous client does not block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from live_service import LiveService
from scripted_service import JOB, ScriptedService
from waiting import DEADLINE_SECONDS

from shoal.client import AsyncClient


def test_reading_documents_does_not_block_the_event_loop(server: ScriptedService) -> None:
    """The documents are available only after another task of the loop has run."""
    began, may_continue = threading.Event(), threading.Event()

    def documents() -> Iterator[dict[str, str]]:
        began.set()
        assert may_continue.wait(DEADLINE_SECONDS), "the event loop is blocked"
        yield {"content": "Lava and ash."}

    async def send() -> int:
        async with AsyncClient(server.url) as client:
            sending = asyncio.ensure_future(client.upload_documents(documents()))
            await asyncio.to_thread(began.wait)
            may_continue.set()
            return (await sending).id

    server.will_respond((202, {}, {"job": JOB}))
    assert asyncio.run(send()) == JOB["id"]


def test_canceled_wait_leaves_job_and_client_usable(service: LiveService) -> None:
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


def test_operations_run_concurrently(service: LiveService) -> None:
    async def add_and_search() -> list[int]:
        async with AsyncClient(service.url) as client:
            added = [client.add_document(f"Lava {n}.", title=f"N{n}") for n in range(8)]
            stored = await asyncio.gather(*added)
            responses = await asyncio.gather(*(client.search(f"title:N{n} lava") for n in range(8)))
            assert [response.results[0].document_id for response in responses] == [
                document.id for document in stored
            ]
            return sorted(document.id for document in stored)

    with service.working():
        assert asyncio.run(add_and_search()) == list(range(1, 9))
