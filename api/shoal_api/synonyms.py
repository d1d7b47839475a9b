"""Synonyms of the library, and acronyms found in its documents."""

from __future__ import annotations

from typing import Any

from werkzeug.wrappers import Response

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API, ID
from shoal_api.schemas.synonyms import (
    AcronymListSchema,
    AcronymQuerySchema,
    AcronymSchema,
    NewSynonymSchema,
    ScannedSchema,
    ScanSchema,
    SynonymExportSchema,
    SynonymImportedSchema,
    SynonymImportSchema,
    SynonymListSchema,
    SynonymQuerySchema,
    SynonymSchema,
)

Json = dict[str, Any]

blueprint = Blueprint("synonyms", __name__, url_prefix=API, description="Words that searches take for others")

CONFLICT = "Another entry says the same or the opposite; the message names it"


@blueprint.get("/synonyms")
@blueprint.parameters(SynonymQuerySchema)
@blueprint.responds(200, SynonymListSchema)
def list_synonyms(query: Json) -> Any:
    """List the synonyms of the library"""
    return service.current().engine.vocabulary.synonyms.list(**query)


@blueprint.post("/synonyms")
@blueprint.body(NewSynonymSchema)
@blueprint.responds(201, SynonymSchema, description="Stored; searches use it from now on")
@blueprint.conflicts(CONFLICT)
def add_synonym(data: Json) -> Any:
    """Add an entry: words that find each other, or a word that also finds others"""
    return service.current().engine.vocabulary.synonyms.add(data["synonyms"], root=data["root"])


@blueprint.get("/synonyms/export")
@blueprint.responds(200, SynonymExportSchema)
def export_synonyms() -> Any:
    """Return all entries, as an import takes them"""
    return {"synonyms": service.current().engine.vocabulary.synonyms.export()}


@blueprint.post("/synonyms/import")
@blueprint.body(SynonymImportSchema)
@blueprint.responds(200, SynonymImportedSchema)
def import_synonyms(data: Json) -> Any:
    """Add many entries at once

    Entries that contradict others are refused and listed. An invalid entry is an error that names it, and
    nothing is changed.
    """
    table = service.current().engine.vocabulary.synonyms
    return table.import_all(data["synonyms"], replace=data["replace"])


@blueprint.get(f"/synonyms/<{ID}:synonym_id>")
@blueprint.responds(200, SynonymSchema)
@blueprint.fails(404)
def get_synonym(synonym_id: int) -> Any:
    """Show an entry"""
    return service.current().engine.vocabulary.synonyms.get(synonym_id)


@blueprint.put(f"/synonyms/<{ID}:synonym_id>")
@blueprint.body(NewSynonymSchema)
@blueprint.responds(200, SynonymSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def replace_synonym(data: Json, synonym_id: int) -> Any:
    """Replace an entry"""
    table = service.current().engine.vocabulary.synonyms
    return table.replace(synonym_id, data["synonyms"], root=data["root"])


@blueprint.delete(f"/synonyms/<{ID}:synonym_id>")
@blueprint.responds(204)
@blueprint.fails(404)
def delete_synonym(synonym_id: int) -> Response:
    """Delete an entry"""
    service.current().engine.vocabulary.synonyms.delete(synonym_id)
    return Response(status=204)


@blueprint.get("/acronyms")
@blueprint.parameters(AcronymQuerySchema)
@blueprint.responds(200, AcronymListSchema)
def list_acronyms(query: Json) -> Any:
    """List the acronyms that a scan found, those in most documents first"""
    return service.current().engine.vocabulary.acronyms.list(**query)


@blueprint.post("/acronyms/scan")
@blueprint.body(ScanSchema)
@blueprint.responds(200, ScannedSchema)
def scan_acronyms(data: Json) -> Any:
    """Look for acronyms in documents that are new or changed since the last scan

    The body may be left out.
    """
    return service.current().engine.vocabulary.acronyms.scan(max_seconds=data.get("max_seconds", 10))


@blueprint.get(f"/acronyms/<{ID}:acronym_id>")
@blueprint.responds(200, AcronymSchema)
@blueprint.fails(404)
def get_acronym(acronym_id: int) -> Any:
    """Show an acronym"""
    return service.current().engine.vocabulary.acronyms.get(acronym_id)


@blueprint.post(f"/acronyms/<{ID}:acronym_id>/confirm")
@blueprint.responds(200, AcronymSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def confirm_acronym(acronym_id: int) -> Any:
    """Make an acronym and its expansion synonyms"""
    return service.current().engine.vocabulary.acronyms.confirm(acronym_id)


@blueprint.post(f"/acronyms/<{ID}:acronym_id>/reject")
@blueprint.responds(200, AcronymSchema)
@blueprint.fails(404)
def reject_acronym(acronym_id: int) -> Any:
    """Reject an acronym: it is not proposed again, and its synonym is deleted"""
    return service.current().engine.vocabulary.acronyms.reject(acronym_id)
