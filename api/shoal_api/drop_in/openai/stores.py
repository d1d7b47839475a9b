"""The vector stores of OpenAI's API: a collection is a vector store, a document a file."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.collections.catalog import Collection
from shoal.collections.vector_stores import Label, Labels
from shoal.declared.arguments import MAX_PAGE
from shoal.declared.operations.drop_in import FOUND
from shoal.declared.operations.drop_in import VectorStoreOperations as Stores
from shoal.errors import CollectionExistsError, CollectionNotFoundError
from shoal.filters.foreign import of_openai
from shoal.jobs.queue.uploaded_files import count_unstored
from shoal.models.jobs import JobStatus
from shoal.models.search import SearchResult
from shoal.search.retrieval import metadata_of
from shoal.support.collection_names import MAIN, MAX_NAME_CHARS, RESERVED, is_name
from shoal_api import installation, request_collection
from shoal_api.drop_in.openai.batches import additions
from shoal_api.drop_in.openai.objects import (
    CITED,
    attributes_of,
    checked_metadata,
    file_id_of,
    name_of,
    page_of,
    refuse,
)
from shoal_api.drop_in.openai.routes import PREFIX, blueprint, collection_of, enter
from shoal_api.drop_in.openai.store_files import CANCELLED, COMPLETED, FAILED, IN_PROGRESS, STATUS_OF, add
from shoal_api.drop_in.passages import find
from shoal_api.problems import field_problem
from shoal_api.service import Service, current

Json = dict[str, Any]

_NO_NAME = re.compile(r"[^a-z0-9]+")
TRIES = 8
"""Names that are tried for a new collection, if that of the vector store is taken."""
BASE_CHARS = MAX_NAME_CHARS - 9
"""What of the name of a vector store stands in such a name."""


def _find(vector_store_id: str) -> Collection:
    """Return a collection that a key for all collections names."""
    collection_id, detail = collection_of(vector_store_id)
    found = current().collections.catalog.by_id(collection_id)
    if found is None:
        raise CollectionNotFoundError(detail)
    return found


def _labels() -> Labels:
    return Labels(current().collections.catalog)


@blueprint.serves(Stores.list_vector_stores)
def list_vector_stores(query: Json) -> Response:
    collections = installation.visible(MAX_PAGE, 0).collections
    collections.sort(key=lambda each: (each.created_at or 0.0, each.id), reverse=query["order"] == "desc")
    page = page_of(collections, lambda each: PREFIX + each.id, query)
    labels = _labels().of(each.id for each in page["data"])
    found = []
    for each in page["data"]:
        # A collection may be deleted while its list is read.
        with suppress(CollectionNotFoundError):
            found.append(_store(each, labels.get(each.id)))
    page["data"] = found
    return flask.jsonify(page)


@blueprint.serves(Stores.create_vector_store)
def create_vector_store(data: Json) -> Response:
    _refuse_expiry(data)
    label = {
        "name": data["name"],
        "description": data["description"],
        "metadata": checked_metadata(data["metadata"]),
    }
    files = additions(data) if data["file_ids"] else []
    collection = _create(data["name"] or "")
    stored = _labels().change(collection.id, label)
    if files:
        request_collection.bind(collection)
        add(current(), files)
    return flask.jsonify(_store(collection, stored))


def _create(name: str) -> Collection:
    """Create a collection whose name is that of the vector store, or near it."""
    base = name if is_name(name) else _NO_NAME.sub("-", name.casefold()).strip("-")[:MAX_NAME_CHARS]
    others = (f"{base[:BASE_CHARS] or 'store'}-{secrets.token_hex(4)}" for _ in range(TRIES))
    for tried in [*[base] * (base not in ("", MAIN, *RESERVED)), *others]:
        try:
            return current().collections.create(tried)
        except CollectionExistsError:
            continue
    raise CollectionExistsError(name)


@blueprint.serves(Stores.retrieve_vector_store)
def retrieve_vector_store(vector_store_id: str) -> Response:
    here = enter(vector_store_id)
    return flask.jsonify(_store(here.collection, _labels().of([here.collection.id]).get(here.collection.id)))


@blueprint.serves(Stores.modify_vector_store)
def modify_vector_store(data: Json, vector_store_id: str) -> Response:
    _refuse_expiry(data)
    collection = _find(vector_store_id)
    changes = {} if data.get("name") is None else {"name": data["name"]}
    if "metadata" in data:
        changes["metadata"] = checked_metadata(data["metadata"])
    return flask.jsonify(_store(collection, _labels().change(collection.id, changes)))


@blueprint.serves(Stores.delete_vector_store)
def delete_vector_store(vector_store_id: str) -> Response:
    current().collections.delete(_find(vector_store_id).name)
    return flask.jsonify({"id": vector_store_id, "object": "vector_store.deleted", "deleted": True})


def _refuse_expiry(data: Mapping[str, Any]) -> None:
    if data.get("expires_after") is not None:
        raise refuse("expires_after", "vector stores do not expire; delete it when it is not needed any more")


def _store(collection: Collection, label: Label | None) -> Json:
    """Return the object of a vector store."""
    label = label or Label()
    details = current().collections.describe(collection.name)
    counts = {IN_PROGRESS: 0, COMPLETED: details.n_documents, FAILED: 0, CANCELLED: 0}
    lease = current().collections.lease(collection)
    try:
        for status, n_files in count_unstored(lease.value.database).items():
            counts[STATUS_OF.get(status, IN_PROGRESS)] += n_files
    finally:
        lease.release()
    has_work = any(details.jobs.get(status) for status in (JobStatus.enqueued, JobStatus.processing))
    return {
        "id": PREFIX + collection.id,
        "object": "vector_store",
        # That of `main` is not known.
        "created_at": int(collection.created_at or 0),
        "name": collection.name if label.name is None else label.name,
        "description": label.description,
        "usage_bytes": details.content_bytes,
        "file_counts": {**counts, "total": sum(counts.values())},
        "status": "in_progress" if has_work else "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": None,
        "metadata": dict(label.metadata),
        "shoal_collection": collection.name,
    }


@blueprint.serves(Stores.search_vector_store)
def search_vector_store(data: Json, vector_store_id: str) -> Response:
    here = enter(vector_store_id)
    if data["rewrite_query"]:
        raise refuse("rewrite_query", "no query is rewritten; leave it out, or rewrite the query before")
    queries = [data["query"]] if isinstance(data["query"], str) else data["query"]
    options = data["ranking_options"] or {}
    ranker = options.get("ranker")
    if ranker not in (None, "auto", "none"):
        raise refuse("ranking_options.ranker", "there is no such ranker; send auto or none, or leave it out")
    if not queries:
        raise field_problem("query", "must have at least one query")
    filters = None if data["filters"] is None else of_openai(data["filters"])
    threshold, limit = options.get("score_threshold") or 0.0, data["max_num_results"] or FOUND
    found: dict[int, SearchResult] = {}
    for query in queries:
        for result in find(query, limit, threshold, filters):
            best = found.setdefault(result.chunk_id, result)
            if result.relevance > best.relevance:
                found[result.chunk_id] = result
    results = sorted(found.values(), key=lambda each: (not each.pinned, -each.relevance))[:limit]
    page = {
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": [_found(here, result) for result in results],
        "has_more": False,
        "next_page": None,
    }
    return flask.jsonify(page)


def _found(here: Service, result: SearchResult) -> Json:
    cited = metadata_of(result)
    return {
        "file_id": file_id_of(here.collection.id, result.document_id, result.source_path),
        "filename": name_of(result.source_path, result.document_title),
        "score": round(result.relevance, 4),
        "attributes": {
            **attributes_of(result.metadata),
            **{f"shoal_{name}": cited[name] for name in CITED if name in cited},
        },
        "content": [{"type": "text", "text": result.text}],
    }
