"""Problems and failed items carry the stable code of what went wrong."""

from __future__ import annotations

import io
import json
from http import HTTPStatus
from pathlib import PurePath
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from surface import API, Worker, assert_problem

from shoal import errors
from shoal_api.problems import STATUS_CODES, ProblemError, code_of_status, for_error
from shoal_api.server import Refusal

RAISED = (
    errors.EmptyDocumentError("no text"),
    errors.DocumentTooLargeError("too large"),
    errors.UndecodableDocumentError("not text"),
    errors.UnknownFormatError("format: no"),
    errors.InvalidFieldError("title", "too long"),
    errors.DuplicateContentError(7),
    errors.DocumentGoneError(7),
    errors.DocumentError("no"),
    errors.QueryError("q", "no"),
    errors.NotFoundError("no"),
    errors.JobStateError("ended"),
    errors.IdempotencyError("used"),
    errors.UploadDroppedError("dropped"),
    errors.DiskFullError("full"),
    errors.ReadTimeoutError(10),
    errors.DatabaseReplacedError(),
    errors.DamagedDatabaseError(),
    errors.DatabaseUnavailableError("busy"),
    errors.CommitUnknownError(),
    errors.ReadOnlyDatabaseError(PurePath("shoal.db")),
    errors.SchemaError("old"),
    errors.BrokerUnavailableError("away"),
)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: error.code)
def test_problem_has_the_code_of_the_exception(error: errors.ShoalError) -> None:
    assert for_error(error).code == error.code


@pytest.mark.parametrize(
    ("error", "waits", "advice"),
    [
        (errors.DatabaseUnavailableError("busy"), True, "try again"),
        (errors.ReadOnlyDatabaseError("schema x"), True, "takes no changes"),
        (errors.SchemaError("old"), True, "shoal migrate"),
        # A second request might store the same again.
        (errors.CommitUnknownError(), False, "look before you send it again"),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_a_failure_of_the_database_says_whether_to_wait(
    error: errors.ShoalError, waits: bool, advice: str
) -> None:
    problem = for_error(error)
    assert (problem.status, "Retry-After" in problem.headers) == (503, waits)
    assert advice in problem.detail


@pytest.mark.parametrize("error", [errors.StorageError("refused"), errors.BackupError("secret")])
def test_failure_without_a_status_is_an_internal_error(error: errors.ShoalError) -> None:
    problem = for_error(error)
    assert (problem.status, problem.code) == (500, "internal_error")


@pytest.mark.parametrize("status", [s.value for s in HTTPStatus if s >= 400])
def test_problem_without_a_code_has_that_of_its_status(status: int) -> None:
    with flask.Flask(__name__).test_request_context():
        body = ProblemError(status, "no").response().get_json()
    code = STATUS_CODES.get(status) or HTTPStatus(status).name.lower()
    assert body["code"] == code == code_of_status(status)
    assert json.loads(Refusal(status).to_response()[2])["code"] == code


def test_problem_keeps_a_code_of_its_own() -> None:
    assert ProblemError(429, "full", code="queue_full").code == "queue_full"
    refusal = Refusal(429, "full", problem_code="queue_full")
    assert json.loads(refusal.to_response()[2])["code"] == "queue_full"


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "code"),
    [
        ("GET", f"{API}/nothing", {}, 404, "not_found"),
        ("GET", f"{API}/documents/999", {}, 404, "not_found"),
        ("PATCH", f"{API}/search", {}, 405, "method_not_allowed"),
        ("POST", f"{API}/search", {"data": b"{", "content_type": "application/json"}, 400, "bad_request"),
        ("POST", f"{API}/search", {"data": b"a", "content_type": "text/x"}, 415, "unsupported_media_type"),
        ("POST", f"{API}/search", {"json": {"query": "a", "top_k": "many"}}, 422, "invalid_field"),
        ("POST", f"{API}/documents", {"json": {"content": " "}}, 422, "empty_document"),
        ("POST", f"{API}/documents", {"json": {"content": "a", "title": "a" * 9999}}, 422, "invalid_field"),
    ],
)
def test_response_has_the_code_of_what_is_wrong(
    empty: FlaskClient, method: str, path: str, sent: dict[str, Any], status: int, code: str
) -> None:
    response = empty.open(path, method=method, **sent)
    assert assert_problem(response, status)["code"] == code


LINES = {
    b"{": "malformed_json",
    b'{"content": "a", "colour": 1}': "invalid_field",
    b'{"content": ""}': "empty_document",
    b'{"content": "a", "format": "pdf"}': "unknown_format",
}


def test_refused_lines_have_codes(client: FlaskClient, worker: Worker) -> None:
    body = b"\n".join(LINES)
    response = client.post(f"{API}/documents/bulk", data=body, content_type="application/x-ndjson")
    assert response.status_code == 202, response.text
    worker.work()
    items = client.get(f"{response.headers['Location']}/items").get_json()["items"]
    assert [item["error_code"] for item in items] == list(LINES.values())


def test_refused_files_have_codes(client: FlaskClient) -> None:
    files = [
        (io.BytesIO(b""), "empty.txt"),
        (io.BytesIO(bytes(range(128, 256)) * 20), "bytes.txt"),
        (io.BytesIO(b"{}"), "lines.ndjson"),
    ]
    response = client.post(f"{API}/documents/bulk", data={"files": files})
    assert response.status_code == 202, response.text
    items = client.get(f"{response.headers['Location']}/items").get_json()["items"]
    codes = [item["error_code"] for item in items]
    assert codes == ["empty_document", "undecodable_document", "unknown_format"]
