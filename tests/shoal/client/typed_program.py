"""A program that uses both clients. `test_client_types.py` checks it with mypy; it is never run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_type

from shoal.client import AsyncClient, Client, Item, Job, Stored
from shoal.models.explanations import Explanation
from shoal.models.search import SearchResponse, SearchResult
from shoal.models.stored import StoredDocument


def _print_state(job: Job) -> None:
    assert_type(job.progress.seconds_left, float | None)


def use_client(client: Client) -> None:
    assert_type(client.search("tides", top_k=3, max_per_document=0), SearchResponse)
    assert_type(client.search("tides").results, Sequence[SearchResult])
    assert_type(client.explain("tides", document_id=1), Explanation)
    assert_type(client.add_document("The sea rises.", tags=["sea"]), Stored)
    assert_type(client.submit_document("The sea rises."), Job | Stored)
    assert_type(client.upload(["tides.md"], sent=lambda n: None), Job)
    assert_type(client.wait_for_job(1, seen=_print_state), Job)
    assert_type(client.each_item(1, status="failed"), Iterator[Item])
    assert_type(client.content(1), str)
    assert_type(client.delete_document(1), bool)


async def use_async_client(client: AsyncClient) -> None:
    assert_type(await client.search("tides"), SearchResponse)
    assert_type(await client.wait_for_job(await client.upload(["tides.md"])), Job)
    async for document in client.each_document(tag="sea"):
        assert_type(document, StoredDocument)
    async for state in client.watch_job(1):
        assert_type(state, Job)


async def misuse(client: Client, async_client: AsyncClient) -> None:
    # mypy reports an unused `type: ignore` if one of these is no longer an error.
    client.search("tides", tops=3)  # type: ignore[call-arg]
    client.search(3)  # type: ignore[arg-type]
    client.job("seven")  # type: ignore[arg-type]
    client.job(1).state  # type: ignore[attr-defined]  # noqa: B018
    async_client.search("tides").results  # type: ignore[attr-defined]  # noqa: B018
    for _ in async_client.each_document():  # type: ignore[attr-defined]
        pass
