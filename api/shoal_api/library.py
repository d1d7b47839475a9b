"""Words, synonyms, acronyms, pins, saved searches, sources and the query log of the library."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from marshmallow import fields

from shoal.declared.operations.library import PinOperations as Pins
from shoal.declared.operations.library import QueryLogOperations as Queries
from shoal.declared.operations.library import SavedSearchOperations as Saved
from shoal.declared.operations.library import SynonymOperations as Synonyms
from shoal.declared.operations.library import VocabularyOperations
from shoal.declared.operations.sources import SourceOperations
from shoal.errors import FilterError, QueryError
from shoal_api.openapi import Blueprint
from shoal_api.schemas.search import SavedArgumentsSchema
from shoal_api.service import library

Json = dict[str, Any]

saved_searches = Blueprint(
    "saved searches",
    __name__,
    description="Searches that report new matches by webhook; a key with the right `admin` is needed",
)
sources = Blueprint(
    "sources",
    __name__,
    description="Places that the library follows, such as folders; a key with the right `admin` is needed",
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
_SEARCH = {"special": {"search": functools.partial(fields.Nested, SavedArgumentsSchema)}}


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


saved_searches.serves_all(
    library,
    create_saved_search=(
        Saved.create_saved_search,
        lambda opened: _fields_of_body()(opened.saved_searches.create),
        _SEARCH,
    ),
    list_saved_searches=(Saved.saved_searches, "saved_searches.list"),
    get_saved_search=(Saved.saved_search, "saved_searches.get"),
    change_saved_search=(
        Saved.change_saved_search,
        lambda opened: _fields_of_body()(opened.saved_searches.change),
        _SEARCH,
    ),
    delete_saved_search=(Saved.delete_saved_search, "saved_searches.delete"),
    test_saved_search=(Saved.test_saved_search, "saved_searches.test"),
    list_webhook_deliveries=(Saved.webhook_deliveries, "saved_searches.deliveries"),
    get_webhook_delivery=(Saved.webhook_delivery, "saved_searches.delivery"),
    redeliver_webhook=(Saved.redeliver_webhook, "saved_searches.redeliver"),
)
queries.serves_all(
    library,
    list_queries=(Queries.queries, "queries.list"),
    clear_queries=(Queries.clear_queries, "queries.clear"),
    list_frequent_queries=(Queries.frequent_queries, "queries.frequent"),
    list_judged_queries=(Queries.judged_queries, "queries.judged"),
    report_click=(Queries.report_click, "queries.click"),
)
synonyms.serves_all(
    library,
    list_synonyms=(Synonyms.synonyms, "vocabulary.synonyms.list"),
    add_synonym=(Synonyms.add_synonym, "vocabulary.synonyms.add"),
    export_synonyms=(Synonyms.export_synonyms, "vocabulary.synonyms.export"),
    import_synonyms=(Synonyms.import_synonyms, "vocabulary.synonyms.import_all"),
    get_synonym=(Synonyms.synonym, "vocabulary.synonyms.get"),
    replace_synonym=(Synonyms.replace_synonym, "vocabulary.synonyms.replace"),
    delete_synonym=(Synonyms.delete_synonym, "vocabulary.synonyms.delete"),
    list_acronyms=(Synonyms.acronyms, "vocabulary.acronyms.list"),
    scan_acronyms=(
        Synonyms.scan_acronyms,
        lambda opened: functools.partial(opened.vocabulary.acronyms.scan, max_seconds=10),
    ),
    get_acronym=(Synonyms.acronym, "vocabulary.acronyms.get"),
    confirm_acronym=(Synonyms.confirm_acronym, "vocabulary.acronyms.confirm"),
    reject_acronym=(Synonyms.reject_acronym, "vocabulary.acronyms.reject"),
)
pins.serves_all(
    library,
    list_pins=(Pins.pins, "pins.list"),
    add_pin=(Pins.add_pin, "pins.add"),
    get_pin=(Pins.pin, "pins.get"),
    replace_pin=(Pins.replace_pin, "pins.replace"),
    delete_pin=(Pins.delete_pin, "pins.delete"),
)
vocabulary.serves_all(library, get_vocabulary=(VocabularyOperations.vocabulary, "vocabulary.list"))
sources.serves_all(
    library,
    add_source=(SourceOperations.add_source, "sources.add"),
    list_sources=(SourceOperations.sources, "sources.list"),
    get_source=(SourceOperations.source, "sources.get"),
    change_source=(SourceOperations.change_source, "sources.change"),
    remove_source=(SourceOperations.remove_source, "sources.remove"),
    run_source=(SourceOperations.run_source, "sources.start"),
    stop_source=(SourceOperations.stop_source, "sources.stop"),
    preview_source=(SourceOperations.preview_source, "sources.preview"),
    list_source_runs=(SourceOperations.source_runs, "sources.runs"),
    list_source_objects=(SourceOperations.source_objects, "sources.objects"),
)
