"""The OpenAPI document as generators of clients read it: names, descriptions and enumerations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, VOLCANO, Store

from shoal.access.operations import DECLARED
from shoal.declared.operations.operation import operations_of

OPERATIONS = {
    "addDocument", "listDocuments", "deleteDocuments", "getDocument", "deleteDocument", "replaceDocument",
    "getDocumentChunks", "getDocumentContent", "getDocumentFile", "setDocumentTags", "addDocuments", "getChunk", "listJobs", "addJob",
    "getJob", "getJobEvents", "getJobItems", "cancelJob", "deleteJob", "retryJob", "search", "searchByAddress", "searchBatch",
    "facets", "facetsByAddress", "explain",
    "compareTexts", "verify",
    "addNote", "listNotes", "addNotes", "getNote", "updateNote", "deprecateNote", "forgetNote", "restoreNote", "purgeNotes",
    "getNoteHistory", "listNoteFeedback", "addNoteFeedback", "pinNote", "unpinNote", "categorizeNote",
    "listNoteCategories", "getNoteStatus", "searchNotes", "explainNote", "listPinnedNotes", "recordShownNotes",
    "dedupNotes", "listMergeProposals", "acceptMergeProposal", "rejectMergeProposal", "listNoteMerges",
    "mergeNotes", "undoNoteMerge", "answerHook", "remember", "recall", "retrieve", "getVocabulary", "getStatus",
    "createKey", "listKeys", "getKey", "revokeKey", "rotateKey", "setPublicKey", "revokeTokens",
    "listCollections", "createCollection", "getCollection", "renameCollection", "deleteCollection",
    "swapCollections",
    "listSynonyms", "addSynonym", "getSynonym", "replaceSynonym", "deleteSynonym", "exportSynonyms",
    "listPins", "addPin", "getPin", "replacePin", "deletePin",
    "importSynonyms", "listAcronyms", "scanAcronyms", "getAcronym", "confirmAcronym", "rejectAcronym",
    "getReefs", "getHealth", "getReadiness", "getMetrics", "getAccessSettings", "changeDocument", "changeAccessSettings",
    "changeSavedSearch", "clearQueries", "createSavedSearch", "deleteSavedSearch", "getSavedSearch",
    "getWebhookDelivery", "listFrequentQueries", "listJudgedQueries", "listQueries", "listSavedSearches",
    "listWebhookDeliveries", "redeliverWebhook", "reportClick", "suggest", "testSavedSearch",
    "addSource", "changeSource", "getSource", "listSourceObjects", "listSourceRuns", "listSources", "previewSource",
    "removeSource", "runSource", "stopSource",
}  # fmt: skip
"""Generated clients use these names, so a change breaks programs."""


@pytest.fixture(scope="module")
def spec(empty: FlaskClient) -> dict[str, Any]:
    document: dict[str, Any] = empty.get("/openapi.json").get_json()
    return document


def operations(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            if method in ("get", "post", "put", "patch", "delete"):
                yield f"{method.upper()} {path}", operation


def test_operation_ids_are_stable(spec: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(spec)]
    assert len(names) == len(set(names))
    assert set(names) == OPERATIONS


def test_every_operation_parameter_and_field_is_described(spec: dict[str, Any]) -> None:
    for name, operation in operations(spec):
        assert operation.get("summary"), name
        for parameter in operation.get("parameters", ()):
            if "$ref" not in parameter and parameter["in"] != "path":
                assert parameter.get("description"), f"{name} {parameter['name']}"
        response = next(response for status, response in operation["responses"].items() if status[0] == "2")
        assert response.get("description"), name
    for name, schema in spec["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            assert about.get("description"), f"{name}.{field}"


def test_kinds_statuses_and_formats_are_enumerated(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]
    assert schemas["Job"]["properties"]["kind"]["enum"] == [
        "ingest",
        "replace",
        "delete",
        "rescore",
        "dedup",
        "embed",
    ]
    assert "partial" in schemas["Job"]["properties"]["status"]["enum"]
    for name in ("Job", "Item"):
        stages = schemas[name]["properties"]["stage"]["enum"]
        assert {"discover", "learn", "score", None} <= set(stages)
    assert "duplicate" in schemas["Item"]["properties"]["status"]["enum"]
    assert schemas["StoredDocument"]["properties"]["format"]["enum"] == ["markdown", "plaintext"]
    assert "learned" in schemas["Word"]["properties"]["status"]["enum"]


def test_request_headers_are_documented_where_they_are_used(spec: dict[str, Any]) -> None:
    named = {
        (operation["operationId"], parameter["name"])
        for _, operation in operations(spec)
        for parameter in operation.get("parameters", ())
        if parameter.get("in") == "header"
    }
    assert named == {
        ("addDocument", "Prefer"),
        ("changeDocument", "Prefer"),
        ("changeDocument", "If-Match"),
        ("addDocument", "Idempotency-Key"),
        ("replaceDocument", "Prefer"),
        ("addDocuments", "Idempotency-Key"),
        ("addNote", "Idempotency-Key"),
        ("addNotes", "Idempotency-Key"),
        ("remember", "Idempotency-Key"),
        ("addJob", "Idempotency-Key"),
        ("dedupNotes", "Idempotency-Key"),
        ("getJob", "If-None-Match"),
        ("getJobEvents", "Last-Event-ID"),
    }


def test_arguments_outside_of_a_body_are_documented(spec: dict[str, Any]) -> None:
    documented = {
        name: {each["name"] for each in operation.get("parameters", ()) if each.get("in") == "query"}
        for name, operation in operations(spec)
    }
    for operation in operations_of(*DECLARED):
        name = f"{operation.terms.method} {operation.address}"
        in_address = {
            argument
            for argument, declared in operation.arguments.items()
            if declared.is_anywhere or not operation.has_body
        }
        assert in_address - {"filters"} <= documented[name], name


def test_conflict_of_a_replacement_is_described_by_its_content(spec: dict[str, Any]) -> None:
    conflict = spec["paths"][f"{API}/documents/{{document_id}}"]["put"]["responses"]["409"]
    assert conflict["description"] == "Another document has this content"
    assert list(conflict["content"]) == ["application/problem+json"]


def test_reefs_response_has_the_hierarchy(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    response = client.get(f"{API}/reefs").get_json()
    assert set(response) == {"archipelagos", "islands", "reefs"}
    islands = {island["id"]: island["archipelago_id"] for island in response["islands"]}
    assert set(islands.values()) <= {archipelago["id"] for archipelago in response["archipelagos"]}
    assert all(reef["island_id"] in islands for reef in response["reefs"])
    assert [reef["name"] for reef in response["reefs"] if reef["n_chunks"]] == ["volcanoes and rocks"]
