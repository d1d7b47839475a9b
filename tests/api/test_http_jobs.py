"""Jobs: their states, their items, and long polling."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Worker, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.service import WaitLimiter, preferred_wait

JOBS = f"{API}/jobs"


def upload(client: FlaskClient, *texts: str) -> str:
    """Upload and return the path of the job."""
    lines = b"".join(b'{"content": "%s"}\n' % text.encode() for text in texts)
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    assert response.status_code == 202
    return str(response.headers["Location"])


def send_file(client: FlaskClient, data: bytes) -> str:
    """Upload and return the path of the job."""
    files = {"files": (io.BytesIO(data), "odd.txt")}
    response = client.post(f"{API}/documents/bulk", data=files, content_type="multipart/form-data")
    assert response.status_code == 202
    return str(response.headers["Location"])


def test_job_reports_its_progress(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO, FLOWER, "")
    job = client.get(address).get_json()
    assert job["status"] == "enqueued"
    assert job["kind"] == "ingest"
    assert job["progress"] == {
        "total": 3,
        "done": 1,
        "failed": 1,
        "duplicate": 0,
        "canceled": 0,
        "skipped": 0,
        "bytes_total": job["progress"]["bytes_total"],
        "bytes_done": len('{"content": ""}\n'),
        "fraction": 0.0,
        "items_per_second": None,
        "bytes_per_second": None,
        "seconds_left": None,
        "stage_done": None,
    }
    assert job["started_at"] is None
    assert job["finished_at"] is None
    worker.work()
    job = client.get(address).get_json()
    assert job["status"] == "partial"
    assert job["progress"]["done"] == 3
    assert job["progress"]["bytes_done"] == job["progress"]["bytes_total"]
    assert job["progress"]["fraction"] == 1
    assert job["progress"]["seconds_left"] == 0
    assert job["progress"]["items_per_second"] > 0
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]
    assert job["finished_at"].endswith("Z")


def test_item_list_has_pages_and_filters_by_status(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO, "", FLOWER, VOLCANO)
    worker.work()
    page = client.get(f"{address}/items").get_json()
    assert page["total"] == 4
    assert [item["seq"] for item in page["items"]] == [1, 2, 3, 4]
    assert [item["status"] for item in page["items"]] == ["succeeded", "failed", "succeeded", "duplicate"]
    assert set(page["items"][0]) == {
        "seq", "title", "source_path", "bytes", "status", "stage", "document_id", "warnings", "attempts", "error",
        "error_code", "stage_share", "attached_to",
    }  # fmt: skip
    failed = client.get(f"{address}/items?status=failed").get_json()
    assert [item["seq"] for item in failed["items"]] == [2]
    assert failed["total"] == 1
    assert failed["items"][0]["error"]
    assert failed["items"][0]["error_code"] == "empty_document"
    assert page["items"][0]["error_code"] is None
    second = client.get(f"{address}/items?limit=1&offset=1").get_json()
    assert ([item["seq"] for item in second["items"]], second["total"]) == ([2], 4)


def test_items_have_the_warnings_of_their_texts(client: FlaskClient, worker: Worker) -> None:
    odd = "Café crème à la française, déjà vu; garçon, où est l'été ? " * 20
    address = send_file(client, odd.encode("cp1252"))
    (waiting,) = client.get(f"{address}/items").get_json()["items"]
    assert "not UTF-8" in waiting["warnings"][0]
    worker.work()
    (stored,) = client.get(f"{address}/items").get_json()["items"]
    assert stored["status"] == "succeeded"
    report = client.get(f"{API}/documents/{stored['document_id']}").get_json()["report"]
    assert len(report["warnings"]) > 1, "the words are not English, either"
    assert stored["warnings"] == report["warnings"]
    copy = send_file(client, odd.encode("cp1252"))
    worker.work()
    (duplicate,) = client.get(f"{copy}/items").get_json()["items"]
    assert duplicate["status"] == "duplicate"
    assert duplicate["warnings"] == waiting["warnings"]
    changed = client.put(f"{API}/documents/{stored['document_id']}", json={"content": FLOWER})
    assert changed.status_code == 202
    worker.work()
    (before,) = client.get(f"{address}/items").get_json()["items"]
    assert before["warnings"] == waiting["warnings"], "the report of the new content is about another text"


def test_jobs_are_listed_newest_first(client: FlaskClient, worker: Worker) -> None:
    upload(client, VOLCANO)
    worker.work()
    upload(client, FLOWER)
    upload(client, LAW)
    page = client.get(JOBS).get_json()
    assert [job["id"] for job in page["jobs"]] == [3, 2, 1]
    assert page["total"] == 3
    assert [job["id"] for job in client.get(f"{JOBS}?status=succeeded").get_json()["jobs"]] == [1]
    assert client.get(f"{JOBS}?limit=1&offset=2").get_json()["jobs"][0]["id"] == 1


def test_job_list_filters_by_several_states_and_kinds(client: FlaskClient, worker: Worker) -> None:
    client.post(f"{API}/documents", json={"content": VOLCANO, "tags": ["old"]})
    worker.work()
    client.delete(f"{API}/documents?tag=old")
    upload(client, FLOWER)
    upload(client, "")

    def listed(query: str) -> list[int]:
        page = client.get(f"{JOBS}?{query}").get_json()
        assert page["total"] == len(page["jobs"])
        return [job["id"] for job in page["jobs"]]

    assert listed("status=succeeded,failed") == [4, 1]
    assert listed("status=enqueued, failed") == [4, 3, 2]
    assert listed("kind=delete") == [2]
    assert listed("kind=delete,rescore") == [2]
    assert listed("kind=ingest&status=enqueued") == [3]
    assert listed("kind=&status=") == [4, 3, 2, 1]
    assert_problem(client.get(f"{JOBS}?status=enqueued,done"), 422, "status")
    assert_problem(client.get(f"{JOBS}?kind=magic"), 422, "kind")


def test_unchanged_job_returns_304(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO)
    first = client.get(address)
    assert first.headers["Retry-After"]
    same = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert same.status_code == 304
    assert same.get_data() == b""
    assert same.headers["ETag"] == first.headers["ETag"]
    worker.work()
    changed = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != first.headers["ETag"]
    assert "Retry-After" not in changed.headers


def test_wait_ends_when_the_job_changes(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO)
    etag = client.get(address).headers["ETag"]
    later = threading.Timer(0.3, worker.work)
    later.start()
    started = time.monotonic()
    response = client.get(f"{address}?wait=50", headers={"If-None-Match": etag})
    assert time.monotonic() - started < 45
    assert response.status_code == 200
    assert response.headers["ETag"] != etag
    later.join()


def test_wait_for_an_unchanged_job_ends_after_its_time(client: FlaskClient) -> None:
    address = upload(client, VOLCANO)
    started = time.monotonic()
    response = client.get(f"{address}?wait=0.3")
    assert response.status_code == 200
    assert time.monotonic() - started > 0.25
    same = client.get(f"{address}?wait=0.1", headers={"If-None-Match": response.headers["ETag"]})
    assert same.status_code == 304


def test_wait_for_a_job_with_another_etag_ends_at_once(client: FlaskClient) -> None:
    address = upload(client, VOLCANO)
    started = time.monotonic()
    assert client.get(f"{address}?wait=50", headers={"If-None-Match": '"1-old"'}).status_code == 200
    assert time.monotonic() - started < 45


def test_wait_for_an_ended_job_ends_at_once(client: FlaskClient, worker: Worker) -> None:
    address = upload(client, VOLCANO)
    worker.work()
    started = time.monotonic()
    etag = client.get(f"{address}?wait=50").headers["ETag"]
    assert client.get(f"{address}?wait=50", headers={"If-None-Match": etag}).status_code == 304
    assert time.monotonic() - started < 45


@pytest.mark.parametrize("wait", ["-1", "soon", "nan", "inf", ""])
def test_wait_must_be_a_number_of_seconds(client: FlaskClient, wait: str) -> None:
    assert_problem(client.get(f"{upload(client, VOLCANO)}?wait={wait}"), 422, "wait")


def test_wait_is_limited_by_max_wait_seconds(settings: Settings, engine: Engine) -> None:
    client = create_app(replace(settings, max_wait_seconds=0.2), engine=engine).test_client()
    address = upload(client, VOLCANO)
    started = time.monotonic()
    assert client.get(f"{address}?wait=3600").status_code == 200
    posted = client.post(f"{API}/documents", json={"content": FLOWER}, headers={"Prefer": "wait=3600"})
    assert posted.status_code == 202
    assert time.monotonic() - started < 120


def test_at_most_half_of_the_threads_wait() -> None:
    limiter = WaitLimiter(threads=4, max_seconds=60)
    with limiter._slot(5) as first, limiter._slot(100) as second, limiter._slot(5) as third:
        assert (first, second, third) == (5, 60, 0)
    with limiter._slot(5) as next_slot:
        assert next_slot == 5
    limiter.close()
    with limiter._slot(5) as late:
        assert late == 0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=10", 10),
        ("respond-async, wait=5", 5),
        ('Wait = "7"; x=y', 7),
        ("respond-async", None),
        ("await=10", None),
        ("wait", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ("wait=99999999999999", None),
        ("", None),
        (None, None),
    ],
)
def test_invalid_preferences_are_ignored(header: str | None, seconds: int | None) -> None:
    assert preferred_wait(header) == seconds
