"""Words, synonyms, acronyms, pins, saved searches and the query log of the library."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from marshmallow import fields

from shoal.declared.operations.library import (
    PinOperations,
    QueryLogOperations,
    SavedSearchOperations,
    SynonymOperations,
    VocabularyOperations,
)
from shoal.errors import FilterError, QueryError
from shoal_api.openapi import Blueprint
from shoal_api.schemas.search import SavedArgumentsSchema
from shoal_api.service import engine

Json = dict[str, Any]

saved_searches = Blueprint(
    "saved searches",
    __name__,
    description="Searches that report new matches by webhook; a key with the right `admin` is needed",
)
queries = Blueprint(
    "queries",
    __name__,
    description="What was searched for and opened (`SHOAL_QUERY_LOG`); reading it needs the right `admin`",
)
synonyms = Blueprint("synonyms", __name__, description="Words that searches take for others")
pins = Blueprint("pins", __name__, description="What comes first for a query")
vocabulary = Blueprint("vocabulary", __name__, description="Words learned from the documents")

_OWN_FIELDS = frozenset({"name", "url", "secret", "min_score", "is_active", "search"})
_SEARCH = {"search": functools.partial(fields.Nested, SavedArgumentsSchema)}


@contextlib.contextmanager
def _fields_of_body() -> Iterator[None]:
    """Let errors name the fields of a saved search as the body has them."""
    try:
        yield
    except FilterError:
        raise
    except QueryError as error:
        field = error.field if error.field in _OWN_FIELDS else f"search.{error.field}"
        raise QueryError(field, str(error)) from None


@saved_searches.serves(SavedSearchOperations.create_saved_search, special=_SEARCH)
def create_saved_search(data: Json) -> Any:
    with _fields_of_body():
        return engine().saved_searches.create(data.pop("name"), data.pop("search"), **data)


@saved_searches.serves(SavedSearchOperations.saved_searches)
def list_saved_searches(query: Json) -> Any:
    return engine().saved_searches.list(**query)


@saved_searches.serves(SavedSearchOperations.saved_search)
def get_saved_search(search_id: int) -> Any:
    return engine().saved_searches.get(search_id)


@saved_searches.serves(SavedSearchOperations.change_saved_search, special=_SEARCH)
def change_saved_search(data: Json, search_id: int) -> Any:
    with _fields_of_body():
        return engine().saved_searches.change(search_id, **data)


@saved_searches.serves(SavedSearchOperations.delete_saved_search)
def delete_saved_search(search_id: int) -> None:
    engine().saved_searches.delete(search_id)


@saved_searches.serves(SavedSearchOperations.test_saved_search)
def test_saved_search(search_id: int) -> Any:
    return engine().saved_searches.test(search_id)


@saved_searches.serves(SavedSearchOperations.webhook_deliveries)
def list_webhook_deliveries(query: Json, search_id: int) -> Any:
    return engine().saved_searches.deliveries(search_id, **query)


@saved_searches.serves(SavedSearchOperations.webhook_delivery)
def get_webhook_delivery(search_id: int, delivery_id: str) -> Any:
    return engine().saved_searches.delivery(search_id, delivery_id)


@saved_searches.serves(SavedSearchOperations.redeliver_webhook)
def redeliver_webhook(search_id: int, delivery_id: str) -> Any:
    return engine().saved_searches.redeliver(search_id, delivery_id)


@queries.serves(QueryLogOperations.queries)
def list_queries(query: Json) -> Any:
    return engine().queries.list(**query)


@queries.serves(QueryLogOperations.clear_queries)
def clear_queries() -> Json:
    return {"n_deleted": engine().queries.clear()}


@queries.serves(QueryLogOperations.frequent_queries)
def list_frequent_queries(query: Json) -> Any:
    return engine().queries.frequent(**query)


@queries.serves(QueryLogOperations.judged_queries)
def list_judged_queries(query: Json) -> Any:
    return engine().queries.judged(**query)


@queries.serves(QueryLogOperations.report_click)
def report_click(data: Json, trace_id: str) -> None:
    engine().queries.click(trace_id, **data)


@synonyms.serves(SynonymOperations.synonyms)
def list_synonyms(query: Json) -> Any:
    return engine().vocabulary.synonyms.list(**query)


@synonyms.serves(SynonymOperations.add_synonym)
def add_synonym(data: Json) -> Any:
    return engine().vocabulary.synonyms.add(**data)


@synonyms.serves(SynonymOperations.export_synonyms)
def export_synonyms() -> Any:
    return {"synonyms": engine().vocabulary.synonyms.export()}


@synonyms.serves(SynonymOperations.import_synonyms)
def import_synonyms(data: Json) -> Any:
    return engine().vocabulary.synonyms.import_all(data["synonyms"], replace=data["replace"])


@synonyms.serves(SynonymOperations.synonym)
def get_synonym(synonym_id: int) -> Any:
    return engine().vocabulary.synonyms.get(synonym_id)


@synonyms.serves(SynonymOperations.replace_synonym)
def replace_synonym(data: Json, synonym_id: int) -> Any:
    return engine().vocabulary.synonyms.replace(synonym_id, **data)


@synonyms.serves(SynonymOperations.delete_synonym)
def delete_synonym(synonym_id: int) -> None:
    engine().vocabulary.synonyms.delete(synonym_id)


@synonyms.serves(SynonymOperations.acronyms)
def list_acronyms(query: Json) -> Any:
    return engine().vocabulary.acronyms.list(**query)


@synonyms.serves(SynonymOperations.scan_acronyms)
def scan_acronyms(data: Json) -> Any:
    return engine().vocabulary.acronyms.scan(max_seconds=data.get("max_seconds", 10))


@synonyms.serves(SynonymOperations.acronym)
def get_acronym(acronym_id: int) -> Any:
    return engine().vocabulary.acronyms.get(acronym_id)


@synonyms.serves(SynonymOperations.confirm_acronym)
def confirm_acronym(acronym_id: int) -> Any:
    return engine().vocabulary.acronyms.confirm(acronym_id)


@synonyms.serves(SynonymOperations.reject_acronym)
def reject_acronym(acronym_id: int) -> Any:
    return engine().vocabulary.acronyms.reject(acronym_id)


@pins.serves(PinOperations.pins)
def list_pins(query: Json) -> Any:
    return engine().pins.list(**query)


@pins.serves(PinOperations.add_pin)
def add_pin(data: Json) -> Any:
    return engine().pins.add(**data)


@pins.serves(PinOperations.pin)
def get_pin(pin_id: int) -> Any:
    return engine().pins.get(pin_id)


@pins.serves(PinOperations.replace_pin)
def replace_pin(data: Json, pin_id: int) -> Any:
    return engine().pins.replace(pin_id, **data)


@pins.serves(PinOperations.delete_pin)
def delete_pin(pin_id: int) -> None:
    engine().pins.delete(pin_id)


@vocabulary.serves(VocabularyOperations.vocabulary)
def get_vocabulary(query: Json) -> Any:
    return engine().vocabulary.list(**query)
