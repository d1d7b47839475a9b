"""The files of OpenAI's API, as its own client speaks them: upload, add, poll, list, change, read, delete."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
from key_service import FOREIGN, OWN, key_service
from openai_client import client_of
from surface import FLOWER, LAW, VOLCANO, Worker

from shoal.access.key_store import KeyStore
from shoal.client import make_token
from shoal.collections.vector_stores import UploadedFiles
from shoal.formats.drafts import make_draft
from shoal.library.documents import Documents
from shoal.settings import Settings
from shoal.support.search_tokens import new_pair
from shoal_api import create_app
from shoal_api.service import EXTENSION

openai = pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")

MAIN = "vs_main"
TEXTS = {"fire.md": VOLCANO, "plants.txt": FLOWER, "court.md": LAW}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, drop_in="openai", uploaded_bytes=100_000)


@pytest.fixture
def api(app: flask.Flask) -> Any:
    return client_of(app)


@pytest.fixture
def files(api: Any) -> Any:
    """The operations on files of `main`."""
    return api.vector_stores.files


@pytest.fixture
def batches(api: Any) -> Any:
    return api.vector_stores.file_batches


def upload(api: Any, name: str = "fire.md", content: str | bytes | None = None) -> str:
    data = TEXTS[name] if content is None else content
    file = api.files.create(
        file=(name, data if isinstance(data, bytes) else data.encode()), purpose="assistants"
    )
    return str(file.id)


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch, worker: Worker) -> list[float]:
    """Let the worker process everything when the client pauses between two polls; the pauses in seconds."""
    pauses: list[float] = []

    def pause(_: object, seconds: float) -> None:
        pauses.append(seconds)
        worker.work()

    for kind in (openai.resources.vector_stores.Files, openai.resources.vector_stores.FileBatches):
        monkeypatch.setattr(kind, "_sleep", pause)
    return pauses


def test_a_file_is_uploaded_listed_read_and_deleted(api: Any) -> None:
    file = api.files.create(file=("folder/fire.md", VOLCANO.encode()), purpose="user_data")
    assert file.id.startswith("file-")
    assert (file.filename, file.bytes, file.purpose) == ("fire.md", len(VOLCANO), "user_data")
    assert api.files.retrieve(file.id) == file
    assert api.files.wait_for_processing(file.id) == file
    assert api.files.content(file.id).read() == VOLCANO.encode()
    others = [upload(api, name) for name in TEXTS]
    assert [each.id for each in api.files.list(limit=3)] == [*others[::-1], file.id]
    assert [each.id for each in api.files.list(limit=1, order="asc")] == [file.id, *others]
    assert [each.id for each in api.files.list(purpose="user_data")] == [file.id]
    assert api.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve(file.id)
    with pytest.raises(openai.NotFoundError):
        api.files.delete(file.id)


def test_a_file_is_added_polled_and_found(api: Any, files: Any, polled: list[float]) -> None:
    file_id = upload(api)
    file = files.create_and_poll(file_id, vector_store_id=MAIN, attributes={"year": 2024, "draft": True})
    assert polled == [0.5]
    assert (file.id, file.status, file.last_error, file.vector_store_id) == (file_id, "completed", None, MAIN)
    assert file.attributes == {"year": 2024, "draft": True}
    assert file.usage_bytes == len(VOLCANO)
    assert files.retrieve(file_id, vector_store_id=MAIN) == file
    by_year = {"type": "eq", "key": "year", "value": 2024}
    (found,) = api.vector_stores.search(MAIN, query="lava", filters=by_year).data
    assert (found.file_id, found.filename) == (file_id, "fire.md")
    assert found.attributes["shoal_why"].startswith("holds *Lava*")
    assert [part.text for part in files.content(file_id, vector_store_id=MAIN)] == [VOLCANO]
    store = api.vector_stores.retrieve(MAIN)
    assert (store.file_counts.completed, store.file_counts.total, store.usage_bytes) == (1, 1, len(VOLCANO))


def test_attributes_are_replaced(api: Any, files: Any, polled: list[float]) -> None:
    file_id = upload(api)
    files.create_and_poll(file_id, vector_store_id=MAIN, attributes={"a": 1})
    assert files.update(file_id, vector_store_id=MAIN, attributes={"b": "x"}).attributes == {"b": "x"}
    assert files.create(file_id=file_id, vector_store_id=MAIN, attributes={"c": 1}).attributes == {"c": 1}
    assert files.create(file_id=file_id, vector_store_id=MAIN).attributes == {"c": 1}
    assert files.update(file_id, vector_store_id=MAIN, attributes=None).attributes == {}
    for bad in ({"shoal_why": "x"}, {"a": [1]}, {"a": {}}, {"a": "x" * 513}, {"": 1}):
        with pytest.raises(openai.BadRequestError, match="attributes"):
            files.update(file_id, vector_store_id=MAIN, attributes=bad)


def test_a_file_leaves_a_store_and_stays_for_others(api: Any, files: Any, polled: list[float]) -> None:
    file_id, other = upload(api), api.vector_stores.create(name="Other").id
    for store in (MAIN, other):
        assert files.create(file_id=file_id, vector_store_id=store).status == "in_progress"
    files.poll(file_id, vector_store_id=MAIN)
    assert files.delete(file_id, vector_store_id=MAIN).deleted
    with pytest.raises(openai.NotFoundError):
        files.retrieve(file_id, vector_store_id=MAIN)
    assert api.vector_stores.search(MAIN, query="lava").data == []
    assert files.retrieve(file_id, vector_store_id=other).status == "in_progress"
    with pytest.raises(openai.BadRequestError, match="is being processed; cancel vsfb_"):
        api.files.delete(file_id)
    assert files.create_and_poll(file_id, vector_store_id=MAIN).status == "completed"


def test_deleting_a_file_removes_it_from_all_stores(api: Any, files: Any, polled: list[float]) -> None:
    file_id = upload(api)
    files.create_and_poll(file_id, vector_store_id=MAIN)
    gone = api.vector_stores.create(name="Gone").id
    files.create(file_id=file_id, vector_store_id=gone)
    api.vector_stores.delete(gone)
    assert api.files.delete(file_id).deleted
    assert list(files.list(MAIN)) == []


def test_a_file_that_is_added_again_does_not_come_back(
    api: Any, files: Any, batches: Any, polled: list[float]
) -> None:
    file_id = upload(api)
    files.create_and_poll(file_id, vector_store_id=MAIN, attributes={"a": 1})
    assert files.create(file_id=file_id, vector_store_id=MAIN).status == "completed"
    assert files.delete(file_id, vector_store_id=MAIN).deleted, "nothing is processed again"
    files.create_and_poll(file_id, vector_store_id=MAIN)
    batch = batches.create(MAIN, file_ids=[file_id])
    for delete in (lambda: files.delete(file_id, vector_store_id=MAIN), lambda: api.files.delete(file_id)):
        with pytest.raises(openai.BadRequestError, match=f"is being processed; cancel {batch.id}"):
            delete()
    batches.poll(batch.id, vector_store_id=MAIN)
    assert api.files.delete(file_id).deleted
    assert list(files.list(MAIN)) == []


def test_attributes_of_a_file_that_is_being_processed_are_refused(
    api: Any, files: Any, batches: Any, polled: list[float]
) -> None:
    file_id, stored = upload(api), upload(api, "court.md")
    files.create_and_poll(stored, vector_store_id=MAIN, attributes={"a": 0})
    job = batches.create(MAIN, file_ids=[file_id], attributes={"a": 1}).id
    sizes = {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 0}
    for given in (
        {"attributes": {"a": 2}},
        {"attributes": {}},
        {"chunking_strategy": {"type": "static", "static": sizes}},
    ):
        for add in (
            lambda given=given: files.create(file_id=file_id, vector_store_id=MAIN, **given),
            lambda given=given: batches.create(MAIN, files=[{"file_id": file_id, **given}]),
        ):
            with pytest.raises(openai.BadRequestError, match=f"is being processed; cancel {job}, or wait"):
                add()
    both = [{"file_id": each, "attributes": {"a": 2}} for each in (stored, file_id)]
    with pytest.raises(openai.BadRequestError, match="is being processed"):
        batches.create(MAIN, files=both)
    assert files.retrieve(stored, vector_store_id=MAIN).attributes == {"a": 0}, "all or nothing"
    assert files.create(file_id=file_id, vector_store_id=MAIN).status == "in_progress"
    assert batches.create_and_poll(MAIN, file_ids=[file_id]).file_counts.completed == 1
    assert files.retrieve(file_id, vector_store_id=MAIN).attributes == {"a": 1}


def test_an_upload_that_is_being_received_has_its_files_open(
    api: Any, files: Any, batches: Any, engine: Any, polled: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.jobs.queue.submission.FLUSH_ITEMS", 1)
    file_id = upload(api)
    batches.cancel(batches.create(MAIN, file_ids=[file_id]).id, vector_store_id=MAIN)
    receiving = engine.jobs.open_upload()
    receiving.add(make_draft(content=VOLCANO, source_path=f"{file_id}/fire.md", settings=engine.settings))
    assert files.retrieve(file_id, vector_store_id=MAIN).status == "cancelled"
    assert [each.id for each in files.list(MAIN)] == [file_id]
    assert api.vector_stores.retrieve(MAIN).file_counts.cancelled == 1
    for delete in (lambda: files.delete(file_id, vector_store_id=MAIN), lambda: api.files.delete(file_id)):
        with pytest.raises(openai.BadRequestError, match="is being processed"):
            delete()
    receiving.abandon()
    assert files.retrieve(file_id, vector_store_id=MAIN).status == "cancelled"
    assert api.files.delete(file_id).deleted


def test_a_batch_is_polled_and_listed(api: Any, batches: Any, polled: list[float]) -> None:
    ids = [upload(api, name) for name in TEXTS]
    batch = batches.create(MAIN, file_ids=ids, attributes={"team": "x"})
    assert batch.id.startswith("vsfb_")
    assert (batch.status, batch.file_counts.in_progress, batch.file_counts.total) == ("in_progress", 3, 3)
    assert {each.status for each in batches.list_files(batch.id, vector_store_id=MAIN)} == {"in_progress"}
    ended = batches.poll(batch.id, vector_store_id=MAIN)
    assert (ended.status, ended.file_counts.completed) == ("completed", 3)
    assert polled == [0.5]
    listed = list(batches.list_files(batch.id, vector_store_id=MAIN, limit=2, order="asc"))
    assert [each.id for each in listed] == ids
    assert all(each.attributes == {"team": "x"} for each in listed)
    again = batches.create_and_poll(MAIN, file_ids=ids)
    assert (again.status, again.file_counts.completed, again.file_counts.failed) == ("completed", 3, 0)
    with pytest.raises(openai.BadRequestError, match="has ended"):
        batches.cancel(ended.id, vector_store_id=MAIN)
    with pytest.raises(openai.NotFoundError):
        batches.retrieve("vsfb_99", vector_store_id=MAIN)


def test_files_are_uploaded_as_a_batch(api: Any, batches: Any, polled: list[float], tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "fire.md").open("rb") as fire, (tmp_path / "court.md").open("rb") as court:
        batch = batches.upload_and_poll(MAIN, files=[fire, court], max_concurrency=1)
    assert (batch.status, batch.file_counts.completed) == ("completed", 2)
    found = api.vector_stores.search(MAIN, query="the judge asked the jury")
    assert found.data[0].filename == "court.md"


def test_a_file_that_is_deleted_while_it_is_added_is_not_stored(
    api: Any, files: Any, batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [upload(api, name) for name in TEXTS]
    read = UploadedFiles.data

    def delete_meanwhile(uploads: UploadedFiles, file_id: str) -> bytes | None:
        data = read(uploads, file_id)
        if file_id == ids[0]:
            api.files.delete(file_id)
        return data

    monkeypatch.setattr(UploadedFiles, "data", delete_meanwhile)
    with pytest.raises(openai.NotFoundError, match=f"{ids[0]}.* was deleted meanwhile"):
        batches.create(MAIN, file_ids=ids)
    assert list(files.list(MAIN)) == []


def test_a_batch_reads_no_source_paths_of_other_documents(
    batches: Any, files: Any, api: Any, polled: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    filters: list[object] = []
    listed = Documents.list

    def spied(documents: Documents, **arguments: Any) -> Any:
        filters.append(arguments.get("filter"))
        return listed(documents, **arguments)

    monkeypatch.setattr(Documents, "list", spied)
    ids = [upload(api, name) for name in TEXTS]
    for _ in range(2):
        batch = batches.create_and_poll(MAIN, file_ids=ids)
        assert {each.status for each in batches.list_files(batch.id, vector_store_id=MAIN)} == {"completed"}
        files.create(file_id=ids[0], vector_store_id=MAIN)
    assert len(filters) > len(ids)
    assert set(filters) == {None}


def test_a_batch_is_canceled(api: Any, batches: Any, files: Any, polled: list[float]) -> None:
    ids = [upload(api, name) for name in TEXTS]
    batch = batches.create(
        MAIN, files=[{"file_id": each, "attributes": {"n": n}} for n, each in enumerate(ids)]
    )
    with pytest.raises(openai.BadRequestError, match=f"cancel {batch.id}"):
        files.delete(ids[0], vector_store_id=MAIN)
    canceled = batches.cancel(batch.id, vector_store_id=MAIN)
    assert (canceled.status, canceled.file_counts.cancelled) == ("cancelled", 3)
    file = files.retrieve(ids[1], vector_store_id=MAIN)
    assert (file.status, file.last_error, file.attributes) == ("cancelled", None, {"n": 1})
    assert {each.id for each in files.list(MAIN, filter="cancelled")} == set(ids)
    assert api.vector_stores.retrieve(MAIN).file_counts.cancelled == 3
    for each in ids:
        assert files.delete(each, vector_store_id=MAIN).deleted
    assert list(files.list(MAIN)) == []
    assert files.create_and_poll(ids[0], vector_store_id=MAIN).status == "completed"


def test_what_cannot_be_stored_fails_with_the_reason(
    api: Any, files: Any, batches: Any, polled: list[float]
) -> None:
    stored = upload(api)
    files.create_and_poll(stored, vector_store_id=MAIN)
    copy, image, blank = (
        upload(api),
        upload(api, "x.png", b"\x89PNG\r\n\x1a\n" + b"x" * 99),
        upload(api, "b.txt", " \n"),
    )
    batch = batches.create_and_poll(MAIN, file_ids=[copy, image, blank, upload(api, "court.md")])
    assert (batch.status, batch.file_counts.failed, batch.file_counts.completed) == ("completed", 3, 1)
    errors = {
        each.id: each.last_error
        for each in batches.list_files(batch.id, vector_store_id=MAIN, filter="failed")
    }
    assert errors.keys() == {copy, image, blank}
    assert errors[copy].message == f"its text is stored already, as {stored}; it is kept once"
    assert errors[image].code == "unsupported_file", errors
    assert "image" in errors[image].message
    assert errors[blank].code == "invalid_file"
    assert {each.id for each in files.list(MAIN, filter="failed")} == errors.keys()
    assert {each.id for each in files.list(MAIN, filter="completed")} >= {stored}
    assert api.vector_stores.retrieve(MAIN).file_counts.failed == 3
    with pytest.raises(openai.BadRequestError, match="is not stored"):
        files.update(image, vector_store_id=MAIN, attributes={})
    files.delete(stored, vector_store_id=MAIN)
    assert files.create_and_poll(copy, vector_store_id=MAIN).status == "completed"


def test_files_of_a_store_are_read_page_by_page(
    api: Any, files: Any, batches: Any, engine: Any, worker: Worker
) -> None:
    ids = [f"file-main-{engine.ingest(content=f'{VOLCANO} {number}').id}" for number in range(3)]
    batch = batches.create(MAIN, file_ids=[upload(api, f"{n}.md", f"{LAW} {n}") for n in range(4)])
    waiting = [each.id for each in batches.list_files(batch.id, vector_store_id=MAIN, order="asc")]
    everything = [*ids, *waiting]
    for order, expected in (("asc", everything), ("desc", everything[::-1])):
        for limit in (1, 2, 3, 7, 100):
            assert [each.id for each in files.list(MAIN, order=order, limit=limit)] == expected
        for number, each in enumerate(expected):
            before = files.list(MAIN, order=order, limit=2, before=each)
            assert [found.id for found in before.data] == expected[max(0, number - 2) : number]
            assert before.has_more == (number > 2)
        between = files.list(MAIN, order=order, after=expected[1], before=expected[5])
        assert [found.id for found in between.data] == expected[2:5]
    assert [each.id for each in files.list(MAIN, filter="in_progress", order="asc")] == waiting
    assert [each.id for each in files.list(MAIN, filter="completed", order="asc", limit=2)] == ids
    worker.work()
    assert len(list(files.list(MAIN, filter="completed", limit=2))) == 7
    with pytest.raises(openai.BadRequestError, match="after: is not the id"):
        files.list(MAIN, after="file-x")


def test_documents_that_came_otherwise_are_files(api: Any, files: Any, engine: Any) -> None:
    number = engine.ingest(
        title="Fire", content=VOLCANO, source_path="notes/fire.md", metadata={"x": [1], "y": 2}
    ).id
    file_id = f"file-main-{number}"
    assert [(each.id, each.attributes) for each in files.list(MAIN)] == [(file_id, {"y": 2})]
    assert api.files.retrieve(file_id).filename == "Fire"
    assert api.files.content(file_id).read() == VOLCANO.encode()
    assert files.update(file_id, vector_store_id=MAIN, attributes={"z": True}).attributes == {"z": True}
    with pytest.raises(openai.NotFoundError):
        files.create(file_id=file_id, vector_store_id=MAIN)
    for unknown in (
        "file-main-99",
        "file-main-0",
        f"file-0123456789abcdef-{number}",
        f"file-main-{'9' * 30}",
    ):
        with pytest.raises(openai.NotFoundError):
            files.retrieve(unknown, vector_store_id=MAIN)
        with pytest.raises(openai.NotFoundError):
            api.files.retrieve(unknown)
    assert api.files.delete(file_id).deleted
    assert list(files.list(MAIN)) == []


def test_passages_are_cut_as_asked(api: Any, files: Any, polled: list[float]) -> None:
    def added(strategy: Any) -> Any:
        return files.create_and_poll(upload(api), vector_store_id=MAIN, chunking_strategy=strategy)

    sizes = {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 0}
    cut = added({"type": "static", "static": sizes})
    assert cut.chunking_strategy.type == "static"
    assert cut.chunking_strategy.static.max_chunk_size_tokens == 200
    other = {"type": "static", "static": {**sizes, "max_chunk_size_tokens": 400}}
    with pytest.raises(openai.BadRequestError, match="stored with other passages"):
        files.create(file_id=cut.id, vector_store_id=MAIN, chunking_strategy=other)
    api.files.delete(cut.id)
    assert added({"type": "auto"}).chunking_strategy.type == "other"
    for bad, message in (
        ({"type": "static", "static": {**sizes, "chunk_overlap_tokens": 400}}, "passages do not overlap"),
        ({"type": "static", "static": {**sizes, "max_chunk_size_tokens": 4096}}, "40 to 4,000"),
        ({"type": "static", "static": {}}, "chunking_strategy"),
        ({"type": "other"}, "chunking_strategy"),
        ({"type": "auto", "x": 1}, "chunking_strategy"),
    ):
        with pytest.raises(openai.BadRequestError, match=message):
            added(bad)


def test_a_full_queue_takes_no_files(api: Any, app: flask.Flask) -> None:
    limited = client_of(
        create_app(
            replace(app.extensions[EXTENSION].settings, max_queue_items=1),
            engine=app.extensions[EXTENSION].engine,
        )
    )
    ids = [upload(api, name) for name in TEXTS]
    limited.vector_stores.files.create(file_id=ids[0], vector_store_id=MAIN)
    with pytest.raises(openai.RateLimitError) as caught:
        limited.vector_stores.file_batches.create(MAIN, file_ids=ids[1:])
    assert (caught.value.body["code"], caught.value.body["type"]) == ("queue_full", "rate_limit_error")


def test_a_store_is_created_with_files(api: Any, files: Any, app: flask.Flask) -> None:
    ids = [upload(api, name) for name in TEXTS]
    store = api.vector_stores.create(name="Texts", file_ids=ids)
    assert (store.status, store.file_counts.in_progress) == ("in_progress", 3)
    with app.extensions[EXTENSION].collections.engine("texts") as library:
        Worker(library).work()
    store = api.vector_stores.retrieve(store.id)
    assert (store.status, store.file_counts.completed) == ("completed", 3)
    with pytest.raises(openai.NotFoundError):
        api.vector_stores.create(name="More", file_ids=["file-x"])
    assert len(list(api.vector_stores.list())) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"purpose": "batch"}, "purpose: must be assistants or user_data"),
        ({"expires_after": {"anchor": "created_at", "seconds": 3600}}, "expires_after"),
        ({"file": ("x.md", b"")}, "file: is missing or empty"),
        ({"file": ("x.md", b"x" * 100_001)}, "too many bytes"),
        ({"extra_body": {"colour": "red"}}, "colour"),
    ],
)
def test_a_file_is_uploaded_only_as_asked(api: Any, options: Any, message: str) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        api.files.create(**{"file": ("x.md", b"x"), "purpose": "assistants", **options})
    assert caught.value.status_code in (400, 413)
    assert message in caught.value.message
    assert list(api.files.list()) == []


def test_hostile_uploads_are_refused(client: Any) -> None:
    url, form = "/openai/v1/files", "multipart/form-data; boundary=b"
    part = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\nassistants\r\n'
    for kind, data, status in (
        ("application/json", b"{}", 415),
        ("text/plain", b"x", 415),
        (form, b"", 400),
        (form, b"--b", 400),
        (form, part % b"purpose" + b"--b--\r\n", 400),
        (form, 2 * (part % b"purpose") + b"--b--\r\n", 400),
        (form, b"".join(part % str(n).encode() for n in range(20)) + b"--b--\r\n", 400),
    ):
        answer = client.post(url, data=data, content_type=kind)
        assert (answer.status_code, answer.get_json()["error"]["type"]) == (
            status,
            "invalid_request_error",
        ), (kind, data)
    for name, stored in (
        ("../../etc/passwd", "passwd"),
        ("\u202ex.md", "x.md"),
        ("x" * 999, "x" * 255),
    ):
        sent = {"purpose": "assistants", "file": (io.BytesIO(b"x"), name)}
        assert client.post(url, data=sent).get_json()["filename"] == stored


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"file_ids": []},
        {"file_ids": ["file-x"], "files": [{"file_id": "file-x"}]},
        {"files": [{"file_id": "file-x"}], "attributes": {"a": 1}},
        {"file_ids": ["file-x", "file-x"]},
        {"file_ids": ["file-x"] * 2_001},
        {"files": [{"id": "file-x"}]},
        {"file_ids": [1]},
    ],
)
def test_a_batch_is_created_only_as_asked(batches: Any, options: Any) -> None:
    with pytest.raises(openai.BadRequestError):
        batches.create(MAIN, **options)


@pytest.fixture(scope="module")
def keys(
    tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[tuple[flask.Flask, dict[str, str], dict[str, str]]]:
    """A service with keys: the application, the header of each caller, and the ids of two stores."""
    with key_service(tmp_path_factory.mktemp("keys"), migrated, drop_in="openai") as (app, headers):
        collections = app.extensions[EXTENSION].collections
        with collections.engine(OWN) as engine:
            for name, text in (("red", VOLCANO), ("blue", f"{VOLCANO} {FLOWER}")):
                engine.ingest(title=name, content=text, allow=[f"group:{name}"])
        yield app, headers, {name: f"vs_{collections.catalog.find(name).id}" for name in (OWN, FOREIGN)}


def test_keys_hold_as_everywhere(keys: Any) -> None:
    app, headers, ids = keys
    apis = {caller: client_of(app, header) for caller, header in headers.items()}
    reader, writer, everywhere = apis["own read"], apis["own write"], apis["all read"]
    with pytest.raises(openai.AuthenticationError):
        upload(apis["wrong"])
    for caller in ("own read", "all read", "setting read"):
        with pytest.raises(openai.PermissionDeniedError):
            upload(apis[caller])
    file_id = upload(writer, "court.md")
    assert [each.id for each in writer.files.list()] == [file_id]
    assert [each.id for each in everywhere.files.list()] == [file_id]
    assert list(reader.files.list()) == []
    for ask in (reader.files.retrieve, reader.files.content, apis["own admin"].files.delete):
        with pytest.raises(openai.NotFoundError):
            ask(file_id)
    for api, store, error in (
        (writer, ids[FOREIGN], openai.NotFoundError),
        (writer, MAIN, openai.NotFoundError),
        (reader, ids[OWN], openai.PermissionDeniedError),
        (apis["own admin"], ids[OWN], openai.NotFoundError),
    ):
        with pytest.raises(error):
            api.vector_stores.files.create(file_id=file_id, vector_store_id=store)
    writer.vector_stores.files.create(file_id=file_id, vector_store_id=ids[OWN])
    assert reader.files.retrieve(file_id).filename == "court.md"
    with pytest.raises(openai.PermissionDeniedError):
        reader.files.delete(file_id)
    (batch,) = {file.status for file in reader.vector_stores.files.list(ids[OWN], filter="in_progress")}
    assert batch == "in_progress"
    with pytest.raises(openai.PermissionDeniedError):
        reader.vector_stores.file_batches.cancel("vsfb_1", vector_store_id=ids[OWN])
    with pytest.raises(openai.NotFoundError):
        reader.vector_stores.files.list(ids[FOREIGN])


def work(app: flask.Flask, name: str) -> None:
    """Process everything in a collection."""
    with app.extensions[EXTENSION].collections.engine(name) as library:
        Worker(library).work()


def test_a_file_in_a_store_that_a_key_may_not_change_is_not_deleted(keys: Any) -> None:
    app, headers, ids = keys
    writer, everywhere = (client_of(app, headers[caller]) for caller in ("own write", "all write"))
    file_id = upload(writer, "plants.txt")
    for store in ids.values():
        everywhere.vector_stores.files.create(file_id=file_id, vector_store_id=store)
    for name in ids:
        work(app, name)
    with pytest.raises(openai.NotFoundError, match="does not open a vector store"):
        writer.files.delete(file_id)
    assert writer.vector_stores.files.retrieve(file_id, vector_store_id=ids[OWN]).status == "completed"
    assert everywhere.files.delete(file_id).deleted
    for store in ids.values():
        with pytest.raises(openai.NotFoundError):
            everywhere.vector_stores.files.retrieve(file_id, vector_store_id=store)


def test_a_file_that_left_a_store_is_not_read_through_it(keys: Any) -> None:
    app, headers, ids = keys
    owner, reader, other = (
        client_of(app, headers[caller]) for caller in ("all write", "own read", "own write")
    )
    file_id = upload(owner, "plants.txt", "Left and right.")
    owner.vector_stores.files.create(file_id=file_id, vector_store_id=ids[OWN])
    work(app, OWN)
    assert reader.files.content(file_id).read() == b"Left and right."
    owner.vector_stores.files.delete(file_id, vector_store_id=ids[OWN])
    for ask in (reader.files.content, reader.files.retrieve, other.files.retrieve):
        with pytest.raises(openai.NotFoundError):
            ask(file_id)


def test_a_file_that_was_not_accepted_is_not_read_through_the_store(keys: Any) -> None:
    app, headers, ids = keys
    owner, reader = (client_of(app, headers[caller]) for caller in ("all write", "own read"))
    stored, refused = upload(owner, "a.txt", "Taken once."), upload(owner, "b.txt", "Never taken.")
    owner.vector_stores.files.create(file_id=stored, vector_store_id=ids[OWN])
    work(app, OWN)
    sizes = {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 0}
    with pytest.raises(openai.BadRequestError, match="stored with other passages"):
        owner.vector_stores.file_batches.create(
            ids[OWN],
            file_ids=[refused, stored],
            chunking_strategy={"type": "static", "static": sizes},
        )
    with pytest.raises(openai.NotFoundError):
        reader.files.content(refused)


def test_a_deleted_store_does_not_keep_a_file(keys: Any) -> None:
    app, headers, ids = keys
    service = app.extensions[EXTENSION]
    gone = service.collections.create("gone")
    key = KeyStore(service.collections.catalog).create("gone", [("gone", "write")]).key
    writer, everywhere, of_gone = (
        client_of(app, header) for header in (headers["own write"], headers["all admin"], f"Bearer {key}")
    )
    file_id = upload(writer, "plants.txt", "Gone with the store.")
    for store in (ids[OWN], f"vs_{gone.id}"):
        everywhere.vector_stores.files.create(file_id=file_id, vector_store_id=store)
    work(app, OWN)
    with pytest.raises(openai.NotFoundError, match="does not open a vector store"):
        writer.files.delete(file_id)
    assert of_gone.files.retrieve(file_id).id == file_id
    everywhere.vector_stores.delete(f"vs_{gone.id}")
    with pytest.raises((openai.NotFoundError, openai.AuthenticationError)):
        of_gone.files.content(file_id)
    assert writer.files.delete(file_id).deleted


def test_a_search_token_lists_and_reads_what_it_may_see(keys: Any) -> None:
    app, headers, ids = keys
    writer = client_of(app, headers["own write"])
    writer.vector_stores.files.create(file_id=upload(writer), vector_store_id=ids[OWN])
    store = KeyStore(app.extensions[EXTENSION].collections.catalog)
    created = store.create("app", [(OWN, "read")])
    private, public = new_pair()
    store.set_public_key(created.details.id, public)
    token = make_token(created.details.id, private, collections=[OWN], principals=["group:red"], seconds=600)
    api = client_of(app, f"Bearer {token}")
    files = api.vector_stores.files
    red, blue = (f"file-{ids[OWN][3:]}-{number}" for number in (1, 2))
    listed = list(files.list(ids[OWN]))
    assert red in {each.id for each in listed}
    assert blue not in {each.id for each in listed}
    # Nor what is not stored: its rights are not known.
    assert {each.status for each in listed} == {"completed"}
    assert [part.text for part in files.content(red, vector_store_id=ids[OWN])] == [VOLCANO]
    for ask in (files.retrieve, files.content):
        with pytest.raises(openai.NotFoundError):
            ask(blue, vector_store_id=ids[OWN])
    for refused in (
        api.files.list,
        lambda: api.files.retrieve(red),
        lambda: upload(api),
        lambda: files.delete(red, vector_store_id=ids[OWN]),
        lambda: files.update(red, vector_store_id=ids[OWN], attributes={}),
        lambda: api.vector_stores.file_batches.retrieve("vsfb_1", vector_store_id=ids[OWN]),
    ):
        with pytest.raises(openai.PermissionDeniedError):
            refused()
