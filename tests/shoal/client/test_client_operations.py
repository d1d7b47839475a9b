"""The operations of the client with a real service."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import inspect
import pydoc
import re
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from live_service import LiveService, live
from waiting import DEADLINE_SECONDS, until
from web_server import running

from shoal import SearchFilters
from shoal.client import (
    AsyncClient,
    BusyError,
    Client,
    ClientError,
    ConflictError,
    InvalidError,
    Job,
    JobFailedError,
    KeyRefusedError,
    NotFoundError,
    Stored,
    TooLargeError,
    make_token,
)
from shoal.declared.documents import DocumentFields
from shoal.declared.notes import NewNote, NoteChanges, NoteListArguments, NoteSearchArguments, RecallArguments
from shoal.declared.search import SearchArguments
from shoal.engine import Engine
from shoal.models.scores import RerankFallback
from shoal.settings import Settings
from shoal.support.search_tokens import new_pair

VOLCANO = "Lava rose in the volcano. Ash fell on the rock. The magma was hot."
LAW = "The judge read the law to the court. A witness spoke."
TRACE = "0123456789abcdef" * 2
NOT_CALLED = {
    ("GET", "/api/v1/search"),
    ("GET", "/api/v1/facets"),
    ("GET", "/api/v1/jobs/{}/events"),
    ("DELETE", "/api/v1/jobs/{}"),
    ("POST", "/api/v1/hooks/{}"),
}
"""Equivalent to `POST /search` and `POST /facets`, to `watch_job`, which needs no slot of an event stream, and to
`POST /jobs/{id}/cancel`; and what `shoal hook` asks with the standard library alone."""

DECLARED = (
    SearchArguments,
    NewNote,
    NoteChanges,
    NoteListArguments,
    NoteSearchArguments,
    RecallArguments,
    DocumentFields,
)


@pytest.fixture
def notes(tmp_path: Path) -> list[Path]:
    """Three text files and a binary file."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(f"# Fire\n\n{VOLCANO}")
    (folder / "b.txt").write_text(LAW)
    (folder / "c.txt").write_text("A flower grows from a seed.")
    (folder / "d.txt").write_bytes(b"\x00\x01\x02" * 50)
    return sorted(folder.iterdir())


def check_batches(client: Client) -> None:
    """A batch, a fused one, and selected fields."""
    batch = client.search_many(["lava", {"query": "rock", "tags": ["n"]}, {"query": ""}])
    assert [answer.index for answer in batch.answers] == [0, 1, 2]
    first = batch.answers[0].response
    assert first is not None
    assert first.results == client.search("lava").results
    assert isinstance(batch.answers[2].error, InvalidError)
    assert list(batch.answers[2].error.errors) == ["query"]
    fused = client.search_many(["lava", "rock"], fused=True, max_tokens=500, prompt=True)
    assert fused.fused
    assert fused.tokens
    assert fused.prompt
    assert fused.fused[0].found_by[0].query in ("lava", "rock")
    page = client.search("lava", top_k=1, max_tokens=200, prompt=True, text="snippet")
    assert page.tokens
    assert page.prompt
    assert client.search("lava", top_k=1, cursor=page.next_cursor).results
    assert client.search_json("lava", include=["chunk_id"])["results"][0].keys() == {"chunk_id"}


def test_every_operation_of_the_api_has_a_method(
    service: LiveService, notes: list[Path], tmp_path: Path
) -> None:
    archive = tmp_path / "more.zip"
    with zipfile.ZipFile(archive, "w") as zip_file:
        zip_file.writestr("e.txt", "The petal and the leaf.")
    with service.working(), Client(service.url) as client:
        job = client.wait_for_job(client.upload(notes, tags=["n"], metadata={"by": "me"}))
        assert (job.status, job.progress.failed) == ("partial", 1)
        assert [item.status for item in client.items(job).items].count("succeeded") == 3
        archived = client.wait_for_job(client.upload_archive(archive, tags=["z"]), check=True)
        lines = client.upload_documents([{"title": "Line", "content": "Rock and ash."}])
        client.wait_for_job(lines, check=True)
        (tmp_path / "records.ndjson").write_text('{"title": "Record", "content": "Seed and root."}\n')
        records = client.upload_records(tmp_path / "records.ndjson")
        assert client.wait_for_job(records, check=True).progress.done == 1
        document = client.documents(source_path=notes[0].as_posix()).documents[0]
        assert client.change_document(document.id, {"tags": ["n", "x"], "allow": None}).tags == ("n", "x")
        assert client.change_access_settings("nobody") == client.access_settings()
        notes[0].write_text("# A\n\nThe crater and the rock.")
        again = client.wait_for_job(client.upload(notes[:1], on_conflict="replace"), check=True)
        assert client.items(again).items[0].document_id == document.id
        assert [each_job.id for each_job in client.each_job(kind="ingest")] == [
            again.id,
            records.id,
            lines.id,
            archived.id,
            job.id,
        ]
        assert client.jobs(status=["partial", "failed"]).jobs == (client.job(job.id),)
        with pytest.raises(ConflictError):
            client.retry_job(job)
        with pytest.raises(ConflictError):
            client.cancel_job(job.id)

        stored = client.add_document("Magma moves.", title="M", tags=["m"], metadata={"k": [1]})
        assert client.document(stored.id).metadata == {"k": [1]}
        assert client.document(stored.id).chunks[0].start_char == 0
        assert client.content(stored.id) == "Magma moves."
        with pytest.raises(NotFoundError, match="sent as text"):
            client.file(stored.id)
        (chunk,) = client.chunks(stored.id).chunks
        assert client.chunk(chunk.id, context=1).document.title == "M"
        assert client.chunk(chunk.id).text == chunk.text == "Magma moves."
        assert client.set_tags(stored.id, ["x", "y"]) == ("x", "y")
        assert [document.title for document in client.documents(q="a.md").documents] == ["A"]
        assert [document.title for document in client.each_document(source_path=notes[0].as_posix())] == ["A"]
        newest = client.documents(sort="-created", limit=1).documents[0]
        assert newest == client.documents(limit=100).documents[-1]
        assert client.replace_document(stored.id, "Lava moves.").id == stored.id
        assert client.content(stored.id) == "Lava moves."
        assert client.delete_document(stored.id)
        assert not client.delete_document(stored.id)
        planned = client.count_deletion(tag="z", filter="tags = z")
        assert planned.n_documents == len(planned.documents) > 0
        assert client.wait_for_job(client.delete_documents(tag="z")).succeeded
        assert client.count_deletion(filter="tags = z").n_documents == 0

        use_notes(client)
        use_saved_searches(client)
        use_sources(client)
        use_synonyms(client)
        use_collections(client)
        use_keys(client)
        use_pins(client)
        assert client.retrieve("lava").results
        assert client.search("lava").results
        assert client.facets(["tags"]).n_documents
        check_batches(client)
        assert client.explain("lava").words[0].text == "lava"
        assert client.similarity("Lava is hot.", "Lava is hot.").is_duplicate
        client.suggest("lav")
        assert client.verify("Ash fell on the rock [1].").n_unsupported == 1
        assert client.vocabulary().total == 0
        assert client.wait_for_job(client.rescore()).succeeded
        assert client.embed().kind == "embed"
        assert client.status().n_documents == 5
        assert client.reefs().reefs[0].name
        assert client.health()
        assert client.ready().ready
        assert "shoal_" in client.metrics()
    paths = service.app.test_client().get("/openapi.json").get_json()["paths"]
    offered = {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, operations in paths.items()
        for method in operations.keys() & {"get", "post", "put", "patch", "delete"}
    }
    assert (
        offered
        - {
            (
                method,
                re.sub(
                    rf"/[0-9a-f]{{8}}-[0-9a-f-]{{27}}|/{TRACE}|/\d+|(?<=/users)/ann|(?<=/collections)/(birds|fish)"
                    r"|(?<=/sources)/trial",
                    "/{}",
                    path,
                ),
            )
            for method, path in service.requests
        }
        == NOT_CALLED
    )


def use_sources(client: Client) -> None:
    """Try the methods for sources."""
    added = client.add_source("trial", "memory://absent", every="1 day", include=["*.txt"])
    assert client.source("trial") == added == client.sources().sources[0]
    assert list(client.each_source()) == [added]
    assert client.change_source("trial", is_paused=True).is_paused is True
    run = client.run_source("trial")
    assert client.source_runs("trial").runs == (run,)
    assert client.source_objects("trial", only_errors=True).total == 0
    with pytest.raises(ClientError, match="there is nothing at memory://absent"):
        client.preview_source("trial")
    assert client.stop_source("trial") is True
    assert client.remove_source("trial") == 0


def use_saved_searches(client: Client) -> None:
    """Call every operation on saved searches and the query log once."""
    created = client.create_saved_search("Fire", {"query": "lava"}, url="https://example.org/hook")
    search = created.saved_search
    assert created.secret
    assert client.saved_search(search.id) == search == client.saved_searches().saved_searches[0]
    assert list(client.each_saved_search()) == [search]
    assert client.change_saved_search(search.id, is_active=False).is_active is False
    delivery = client.test_saved_search(search.id)
    assert client.webhook_deliveries(search.id, status="waiting").total == 1
    assert client.webhook_delivery(search.id, delivery.delivery_id).body == delivery.body
    assert client.redeliver_webhook(search.id, delivery.delivery_id).status == "waiting"
    client.delete_saved_search(search.id)
    with pytest.raises(NotFoundError):
        client.saved_search(search.id)
    assert client.queries(only_empty=True).total == 0
    assert list(client.each_query()) == []
    assert client.frequent_queries(prefix="l").queries == client.judged_queries().queries == ()
    with pytest.raises(NotFoundError, match="off"):
        client.report_click(TRACE, document_id=1)
    assert client.clear_queries() == 0


def use_collections(client: Client) -> None:
    """Call every operation on collections once."""
    assert client.create_collection("birds").name == "birds"
    assert client.rename_collection("birds", "fish").name == "fish"
    assert client.create_collection("birds").created_at is not None
    swapped = client.swap_collections("birds", "fish").collections
    assert [each.name for each in swapped] == ["birds", "fish"]
    assert client.describe_collection("fish").n_documents == 0
    assert client.collections(limit=2).total == 3
    assert [each.name for each in client.each_collection()] == ["main", "birds", "fish"]
    with Client(client.server, collection="fish") as inside:
        job = inside.upload_documents([{"title": "Line", "content": "Rock and ash."}])
        assert inside.job(job.id).links["self"].startswith("/api/v1/collections/fish/")
        assert inside.collections().total == 3
        assert inside.documents().total == 0
    with pytest.raises(ClientError):
        Client(client.server, collection="../main")
    assert client.delete_collection("fish")
    assert not client.delete_collection("fish")
    with Client(client.server, collection="fish") as gone, pytest.raises(NotFoundError):
        gone.documents()


def use_keys(client: Client) -> None:
    """Call every operation on keys of a service that has none: the first one is made on its machine."""
    for call in (
        lambda: client.create_key("web", {"main": "read"}),
        lambda: client.keys(only_active=True),
        lambda: client.key_details("1"),
        lambda: client.revoke_key("1"),
        lambda: client.rotate_key("1"),
        lambda: client.set_public_key("1", ""),
        lambda: client.revoke_tokens("1"),
    ):
        with pytest.raises(KeyRefusedError, match="shoal key create"):
            call()


def test_keys_are_managed_with_a_key(engine: Engine) -> None:
    admin = "admin-0123456789abcdef"
    with (
        Engine(settings=replace(engine.settings, api_keys=f"admin:{admin}"), scorer=engine.scorer) as keyed,
        live(keyed) as service,
        Client(service.url, key=admin) as client,
    ):
        expiry = dt.datetime(2050, 1, 31, tzinfo=dt.UTC)
        created = client.create_key(
            "web", {"main": "read"}, owners=["ann"], expires_at=expiry, requests_per_second=50
        )
        assert created.details == client.key_details(created.details.id)
        assert created.details.expires_at == "2050-01-31T00:00:00.000Z"
        assert client.keys().keys == tuple(client.each_key()) == (created.details,)
        with Client(service.url, key=created.key) as web:
            assert web.documents().total == 0
            with pytest.raises(KeyRefusedError):
                web.add_document("Lava.")
            with pytest.raises(KeyRefusedError, match="'ann'"):
                web.notes(owner="ben")
        private_key, public_key = new_pair()
        assert client.set_public_key(created.details.id, public_key).public_key == public_key
        token = make_token(created.details.id, private_key, collections=["main"], seconds=60)
        with Client(service.url, key=token) as seen:
            assert not seen.search("lava").results
            with pytest.raises(KeyRefusedError, match="not for search tokens"):
                seen.status()
        assert client.revoke_tokens(created.details.id, jti="x").tokens_before is None
        assert client.revoke_tokens(created.details.id, before=expiry.replace(year=2020)).tokens_before
        rotated = client.rotate_key(created.details.id, grace_seconds=60)
        client.revoke_key(rotated.details.id)
        assert client.key_details(rotated.details.id).state == "revoked"
        assert client.keys(only_active=True).total == 1
        with pytest.raises(InvalidError) as caught:
            client.create_key("web", {"nope": "read"})
        assert list(caught.value.errors) == ["scopes"]


def use_pins(client: Client) -> None:
    """Call every operation on pins once."""
    (document, *_) = client.documents().documents
    pin = client.add_pin("lava flows", [document.id], match="contains")
    assert client.pin(pin.id) == pin
    assert client.replace_pin(pin.id, "lava", hidden=pin.pinned).hidden == pin.pinned
    assert client.pins(q="lava").total == 1
    assert [each.id for each in client.each_pin()] == [pin.id]
    assert client.delete_pin(pin.id)
    assert not client.delete_pin(pin.id)


def use_synonyms(client: Client) -> None:
    """Call every operation on synonyms and acronyms once."""
    document = client.add_document("The World Lava Organization (WLO) met.", title="W")
    entry = client.add_synonym(["lava"], root="magma")
    assert client.synonym(entry.id) == entry
    assert client.replace_synonym(entry.id, ["lava", "magma"]).root is None
    assert client.synonyms(q="lava").total == 1
    assert [each.id for each in client.each_synonym()] == [entry.id]
    assert client.import_synonyms(client.export_synonyms()).duplicates == 1
    assert client.delete_synonym(entry.id)
    assert not client.delete_synonym(entry.id)
    assert client.scan_acronyms(max_seconds=5).new == 1
    (acronym,) = client.acronyms().acronyms
    assert client.acronym(acronym.id) == acronym
    assert client.confirm_acronym(acronym.id).status == "confirmed"
    assert client.reject_acronym(acronym.id).status == "rejected"
    assert client.delete_document(document.id)


def use_notes(client: Client) -> None:
    """Call every operation on notes once."""
    note = client.add_note("Lava rose in the volcano.", tags=["m"]).note.id
    assert client.add_notes([{"text": "Rain."}]).n_added == 1
    assert client.remember("ann", []).results == ()
    assert client.recall("ann", "lava").count == 0
    assert client.search_notes("volcano").results
    client.explain_note(note, "volcano")
    client.record_shown_notes("s", [note], event="prompt")
    client.update_note(note, title="V")
    client.categorize_note(note, add=["a"])
    client.judge_note(note, applicable=True)
    client.pin_note(note)
    assert client.pinned_notes()
    client.unpin_note(note)
    client.deprecate_note(note)
    client.restore_note(note)
    assert client.note_history(note)
    assert client.note_judgements(note)
    assert client.note_categories()
    assert client.note_status().n_active == 2
    assert client.note(note).title == "V"
    assert client.notes().total == 2
    of_ann = client.add_note("Her code is 4711.", owner="ann").note.id
    assert client.forget_note(of_ann, owner="ann").note_ids == (of_ann,)
    use_merges(client)
    assert client.purge_notes() > 0


def use_merges(client: Client) -> None:
    """Call every operation on duplicates of notes once."""
    ids = [client.add_note(text).note.id for text in ("Lava cools.", "Lava cools down.", "Lava is cooling.")]
    assert client.wait_for_job(client.dedup_notes(recheck=True), check=True).kind == "dedup"
    merge = client.merge_notes(ids[:2], canonical_text="Lava cools down.", reason="same")
    assert client.undo_note_merge(merge.id).undone_at
    assert client.note_merges(note_id=ids[0]).merges[0].id == merge.id
    assert [each.id for each in client.each_note_merge()] == [merge.id]
    assert client.merge_proposals(status="rejected").total == 1
    assert [each.status for each in client.each_merge_proposal(status="rejected")] == ["rejected"]
    with pytest.raises(ConflictError):
        client.accept_merge_proposal(client.merge_proposals(status="rejected").proposals[0].id)
    with pytest.raises(ConflictError):
        client.reject_merge_proposal(client.merge_proposals(status="rejected").proposals[0].id)
    for note_id in ids:
        client.deprecate_note(note_id)


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("get", "/documents", Client.documents),
        ("post", "/documents", Client.add_document),
        ("put", "/documents/{document_id}", Client.replace_document),
        ("get", "/documents/{document_id}/chunks", Client.chunks),
        ("get", "/chunks/{chunk_id}", Client.chunk),
        ("get", "/jobs", Client.jobs),
        ("get", "/jobs/{job_id}/items", Client.items),
        ("get", "/vocabulary", Client.vocabulary),
        ("post", "/search", Client.search),
        ("post", "/facets", Client.facets),
        ("post", "/similarity", Client.similarity),
        ("get", "/suggest", Client.suggest),
        ("post", "/verify", Client.verify),
        ("post", "/notes", Client.add_note),
        ("get", "/notes", Client.notes),
        ("patch", "/notes/{note_id}", Client.update_note),
        ("put", "/notes/{note_id}/pin", Client.pin_note),
        ("post", "/notes/{note_id}/feedback", Client.judge_note),
        ("post", "/notes/search", Client.search_notes),
        ("post", "/notes/dedup", Client.dedup_notes),
        ("get", "/notes/proposals", Client.merge_proposals),
        ("post", "/notes/proposals/{proposal_id}/accept", Client.accept_merge_proposal),
        ("post", "/notes/merges", Client.merge_notes),
        ("get", "/notes/merges", Client.note_merges),
        ("post", "/notes/shown", Client.record_shown_notes),
        ("post", "/users/{user_id}/recall", Client.recall),
        ("post", "/retrieve", Client.retrieve),
    ],
)
def test_methods_accept_every_parameter_of_the_api(
    service: LiveService, method: str, path: str, call: Any
) -> None:
    spec = service.app.test_client().get("/openapi.json").get_json()
    offered = spec["paths"][f"/api/v1{path}"][method]
    names = {parameter["name"] for parameter in offered.get("parameters", ()) if parameter["in"] == "query"}
    if "requestBody" in offered:
        schema = offered["requestBody"]["content"]["application/json"]["schema"]
        schema = (
            spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
        )
        names |= schema["properties"].keys()
    assert names
    if call is Client.search:
        names -= {"units", "owner", "include", "exclude"}  # those of `search_units` and `search_json`
    parameters = inspect.signature(call).parameters
    accepted = set(parameters)
    for declared in DECLARED:
        if any(f"Unpack[{declared.__name__}]" in str(each.annotation) for each in parameters.values()):
            accepted |= declared.__annotations__.keys()
    if call is Client.add_document:
        accepted |= inspect.signature(Client.add_url).parameters.keys()
    assert names <= accepted


def test_a_field_that_documents_do_not_have_is_refused_before_sending() -> None:
    with Client("http://127.0.0.1:9") as client:
        for call in (client.add_document, client.submit_document):
            with pytest.raises(TypeError, match="'tilte'"):
                call("Lava.", tilte="x")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'tilte'"):
            client.submit_replacement(1, "Lava.", tilte="x")  # type: ignore[call-arg]


def test_async_client_returns_the_same_values(service: LiveService, notes: list[Path]) -> None:
    async def use() -> None:
        async with AsyncClient(service.url) as client:
            seen: list[str] = []
            job = await client.wait_for_job(
                await client.upload(notes, tags=["n"]), seen=lambda job: seen.append(job.status)
            )
            assert seen[-1] == job.status == "partial"
            failed = [item async for item in client.each_item(job, status="failed")]
            assert [item.source_path for item in failed] == [notes[3].as_posix()]
            response, explanation = await asyncio.gather(client.search("lava"), client.explain("lava"))
            assert response.results[0].section_path == ("Fire",)
            assert explanation.query_info == response.query_info
            stored = await client.add_document("Magma moves.", title="M")
            assert await client.content(stored.id) == "Magma moves."
            with pytest.raises(NotFoundError):
                await client.document(99)

    with service.working():
        asyncio.run(use())


def test_responses_equal_those_of_the_library(service: LiveService) -> None:
    with service.working(), Client(service.url) as client:
        client.add_document(f"# Fire\n\n{VOLCANO}\n\n# More\n\n{LAW}", title="V", tags=["hot"])
        arguments = {"include_scores": True, "context": 1, "tags": ["hot"], "max_per_document": 0}
        remote, local = client.search("lava ash", **arguments), service.engine.search("lava ash", **arguments)
        assert list(remote.results) == list(local.results)
        assert remote.query_info == local.query_info
        assert remote.weights == local.weights
        # Without an encoder, reranking falls back with a warning.
        remote, local = client.search("lava ash", rerank=5), service.engine.search("lava ash", rerank=5)
        assert remote.rerank is not None
        assert local.rerank is not None
        assert remote.rerank.fallback is local.rerank.fallback is RerankFallback.no_encoder
        assert remote.warnings == local.warnings
        local_explanation = service.engine.explain("lava", document_id=1)
        explanation = client.explain("lava", document_id=1)
        assert replace(explanation, trace_id="", took_ms=0.0) == replace(
            local_explanation, trace_id="", took_ms=0.0
        )
        texts = "The lava is hot, not cold.", "The lava is cold, not hot."
        assert client.similarity(*texts) == service.engine.similarity(*texts)
        assert client.suggest("la", limit=3) == service.engine.suggest("la", limit=3)
        assert client.chunks(1).chunks == service.engine.documents.chunks(1, limit=50).chunks
        assert client.documents() == service.engine.documents.list()
        status = service.engine.status()
        assert dataclasses.replace(client.status(), db_bytes=status.db_bytes) == status
        assert client.reefs() == service.engine.vocabulary.reefs()


def test_zero_lifts_the_limit_per_document(service: LiveService) -> None:
    with service.working(), Client(service.url) as client:
        client.add_document("\n\n".join(f"# {n}\n\nLava {n} rose." for n in range(5)), format="markdown")
        assert len(client.search("lava", max_per_document=3).results) == 3
        for limit in (None, 0):
            assert len(client.search("lava", max_per_document=limit).results) == 5


def test_filters_may_be_a_mapping_or_search_filters(service: LiveService) -> None:
    with service.working(), Client(service.url) as client:
        volcano = client.add_document(VOLCANO, tags=["hot"]).id
        client.add_document(VOLCANO + " Lava again.", tags=["cold"])
        before = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        for filters in (
            {"tags": ("hot",), "created_after": before},
            SearchFilters(tags=("hot",)),
            {"document_ids": [volcano]},
        ):
            assert {result.document_id for result in client.search("lava", filters=filters).results} == {
                volcano
            }
        assert client.search("lava", filters={"created_before": before}).results == ()
        assert client.search("lava", filters=SearchFilters(document_ids=())).results == ()
        with pytest.raises(InvalidError, match="did you mean `tags`") as caught:
            client.search("lava", filters={"tag": ["hot"]})
        assert caught.value.errors.keys() == {"filters.tag"}


def test_add_document_follows_the_job_of_a_slow_document(
    service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service holds a request only for some seconds; then the client follows the job."""
    monkeypatch.setattr("shoal.client.documents.STORED_WAIT_SECONDS", 0)
    with Client(service.url) as client, ThreadPoolExecutor() as pool:
        adding = pool.submit(client.add_document, VOLCANO, title="V", tags=["hot"])
        with service.working():
            stored = adding.result()
            assert stored == Stored(1, "V", 1, ("hot",), warnings=stored.warnings)
            assert client.replace_document(1, LAW).id == 1
            duplicate = client.add_document(LAW, title="again", tags=["cold"])
            assert (duplicate.id, duplicate.duplicate, duplicate.tags) == (1, True, ("cold", "hot"))


def test_urls_are_fetched_by_the_service(settings: Settings, migrated_file: Path) -> None:
    settings = replace(settings, fetch_urls="*:*", fetch_private="*")
    put_empty_library(migrated_file, settings)
    with (
        running() as server,
        Engine(settings=settings, scorer=FakeScorer()) as engine,
        live(engine) as service,
        Client(service.url) as client,
    ):
        url = server.page("/volcano.md", VOLCANO, ETag='"1"')
        submitted = client.submit_url(url, tags=["hot"])
        assert isinstance(submitted, Job)
        service.work()
        with service.working():
            unchanged = client.add_url(url)
            assert (unchanged.id, unchanged.duplicate, unchanged.tags) == (1, True, ("hot",))
            with pytest.raises(InvalidError) as caught:
                client.add_url(server.url("/missing"))
        assert caught.value.code == "url_failed"


def test_concurrent_additions_of_one_text_give_one_duplicate(
    service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.client.documents.STORED_WAIT_SECONDS", 0)
    with Client(service.url) as client, ThreadPoolExecutor() as pool:
        adding = [pool.submit(client.add_document, VOLCANO, tags=[tag]) for tag in ("one", "other")]
        until(lambda: client.jobs().total == 2)
        with service.working():
            stored = [future.result() for future in adding]
    assert {document.id for document in stored} == {1}
    assert sorted(document.duplicate for document in stored) == [False, True]


def test_submit_returns_a_job_or_the_stored_document(service: LiveService) -> None:
    with Client(service.url) as client:
        job = client.submit_document(VOLCANO)
        assert isinstance(job, Job)
        assert not job.ended
        service.work()
        assert client.wait_for_job(job).succeeded
        duplicate = client.submit_document(VOLCANO)
        assert isinstance(duplicate, Stored)
        assert duplicate.duplicate
        assert isinstance(client.submit_replacement(duplicate.id, LAW), Job)


def test_unstorable_document_raises_with_the_reason(
    service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.working(), Client(service.url) as client:
        with pytest.raises(InvalidError, match="the document has no text"):
            client.add_document("  ")
        client.add_document(VOLCANO)
        client.add_document(LAW)
        with pytest.raises(ConflictError, match="stored already as document 2"):
            client.replace_document(1, LAW)
        monkeypatch.setattr("shoal.client.documents.STORED_WAIT_SECONDS", 0)
        job = client.submit_document("<!-- only a comment -->", format="markdown")
        assert isinstance(job, Job)
        with pytest.raises(JobFailedError, match="ended as failed"):
            client.wait_for_job(job, check=True)
        with pytest.raises(JobFailedError, match="ended as failed"):
            client.add_document("<!-- only another -->", format="markdown")


def test_iterators_read_all_pages(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.client.requests.PAGE", 3)
    with Client(service.url) as client:
        job = client.upload_documents({"title": f"N{i}", "content": f"Lava {i}."} for i in range(7))
        assert [item.seq for item in client.each_item(job)] == list(range(1, 8))
        service.work()
        assert {document.title for document in client.each_document()} == {f"N{i}" for i in range(7)}
        assert list(client.each_item(job, status="failed")) == []


def test_repeated_idempotency_key_gives_one_job(service: LiveService, notes: list[Path]) -> None:
    with Client(service.url) as client:
        first = client.upload(notes, idempotency_key="once")
        assert client.upload(notes, idempotency_key="once").id == first.id
        with pytest.raises(ConflictError, match="Idempotency-Key"):
            client.upload(notes[:1], idempotency_key="once")
        assert client.jobs().total == 1


def test_client_waits_for_a_restarting_service(service: LiveService, notes: list[Path]) -> None:
    """During a job, and between uploads."""
    with Client(service.url) as client, ThreadPoolExecutor() as pool:
        job = client.upload(notes[:2])
        seen_once = threading.Event()
        following = pool.submit(client.wait_for_job, job, seen=lambda _job: seen_once.set())
        assert seen_once.wait(DEADLINE_SECONDS)
        service.stop()
        uploading = pool.submit(client.upload, notes[2:3])
        service.work()
        service.start()
        assert following.result().status == "succeeded"
        assert uploading.result().progress.total == 1


def test_interrupted_upload_is_retried_and_stored_once(service: LiveService, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("Lava and ash. " * 200_000)
    with Client(service.url) as client:
        service.cuts = 2
        assert client.upload([tmp_path / "long.txt"]).progress.total == 1
        assert service.requests.count(("POST", "/api/v1/documents/bulk")) == 3
        assert client.jobs().total == 1


def test_client_can_be_shared_between_threads(service: LiveService) -> None:
    with service.working(), Client(service.url) as client, ThreadPoolExecutor(16) as pool:
        ids = [client.add_document(f"Lava {i} and ash.", title=f"N{i}").id for i in range(4)]
        assert list(pool.map(client.content, ids * 20)) == [f"Lava {i} and ash." for i in range(4)] * 20
        titles = list(
            pool.map(lambda i: client.search(f"title:N{i} lava").results[0].document_title, range(4))
        )
        assert titles == [f"N{i}" for i in range(4)]


def test_key_and_limit_errors_have_different_classes(
    settings: Settings, engine: Engine, notes: list[Path]
) -> None:
    writer, reader = "writer-0123456789abcdef", "reader-0123456789abcdef"
    limited_settings = replace(
        settings,
        api_keys=f"{writer},read:{reader}",
        max_queue_items=1,
        max_document_bytes=1000,
        max_upload_bytes=2_000_000,
    )
    with ExitStack() as stack:
        limited_engine = stack.enter_context(Engine(settings=limited_settings, scorer=FakeScorer()))
        service = stack.enter_context(live(limited_engine))
        with Client(service.url) as client, pytest.raises(KeyRefusedError) as caught:
            client.status()
        assert caught.value.status == 401
        with Client(service.url, key=reader) as client:
            assert client.search("lava").results == ()
            with pytest.raises(KeyRefusedError, match="right `write`") as caught:
                client.upload(notes)
            assert caught.value.status == 403
        client = stack.enter_context(Client(service.url, key=writer, patience=0.5))
        with pytest.raises(TooLargeError):
            client.add_document("x" * 2_000_000)
        big = notes[0].parent / "big.txt"
        big.write_text("lava " * 1_000_000)
        with pytest.raises(TooLargeError):
            client.upload([big])
        client.upload(notes[:2])
        with pytest.raises(BusyError) as busy:
            client.upload(notes[2:3])
        assert busy.value.retry_after > 0
        assert client.search("lava").results == (), "searches still work"


def test_ready_names_the_failed_check(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(service.url) as client:
        assert client.ready().checks.keys() == {"database", "scorer", "broker"}
        monkeypatch.setattr("shoal.storage.migrate.check", _fail)
        readiness = client.ready()
        assert not readiness.ready
        assert readiness.checks["database"] == "failed"
        service.stop()
        assert not client.health()


def _fail(*_: object) -> None:
    raise OSError("gone")


def test_tag_with_a_comma_is_refused_for_uploads(service: LiveService, notes: list[Path]) -> None:
    with service.working(), Client(service.url) as client:
        with pytest.raises(ClientError, match="would become several"):
            client.upload(notes, tags=["salt, pepper"])
        with pytest.raises(ClientError, match="would become several"):
            client.upload_archive(notes[0].rename(notes[0].with_suffix(".zip")), tags=["salt, pepper"])
        assert client.jobs().total == 0
        assert client.add_document(VOLCANO, tags=["salt, pepper"]).tags == ("salt, pepper",)


def test_help_shows_arguments_and_result_type() -> None:
    help_text = pydoc.render_doc(Client, renderer=pydoc.plaintext)
    assert "documents(self, *, tag: str | None = None, q:" in help_text
    assert "-> DocumentPage" in help_text
    assert "The text of a document, to which the offsets of results refer" in help_text
    with Client("http://127.0.0.1") as client:
        assert str(inspect.signature(client.each_item)).endswith("-> Iterator[Item]")
        assert list(inspect.signature(client.content).parameters) == ["document_id"]


def test_watch_job_yields_all_states_of_a_job(service: LiveService, notes: list[Path]) -> None:
    with Client(service.url) as client:
        job = client.upload(notes)
        states = client.watch_job(job)
        assert next(states).status == "enqueued"
        service.work()
        *_, last = states
        assert last.ended
        assert last.progress.fraction == pytest.approx(1.0)
