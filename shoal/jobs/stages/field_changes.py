"""Changes of the fields of a document: its title, tags, metadata, language and rights, without its text.

Tags, metadata and rights are no part of any score, so they are stored at once, in one transaction. A title
and a language are: the words of a title are scored with every passage, and a language says how words are
read. So a new one becomes a replacement of the same text, whose chunks keep their ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shoal.errors import InvalidFieldError, JobStateError, NotFoundError, VersionConflictError
from shoal.formats.drafts import (
    checked_language,
    checked_metadata,
    checked_rights,
    checked_tags,
    checked_title,
)
from shoal.jobs.stages.replace import is_being_replaced_in
from shoal.models.documents import DocumentDraft
from shoal.settings import Settings
from shoal.storage import document_queries, document_writer
from shoal.storage.database import Database
from shoal.support.clock import timestamp_at

FIELDS = frozenset({"title", "tags", "metadata", "language", "allow", "deny"})


def change_fields(
    database: Database,
    settings: Settings,
    document_id: int,
    changes: Mapping[str, Any],
    versions: frozenset[str] | None = None,
) -> DocumentDraft | None:
    """Store changes of fields; None is an empty list or object, for `allow` what the collection says, and for
    `language` the one that is detected.

    `versions`: of which the document must have one; None: any. Returns the document to be scored again if its
    title or language changes; nothing is stored then. Raises NotFoundError, InvalidFieldError,
    VersionConflictError, and JobStateError while a job replaces the document.
    """
    if unknown := sorted(changes.keys() - FIELDS):
        raise InvalidFieldError(unknown[0][:40], "cannot be changed without the text")
    given = dict(changes)
    for name, check in (
        ("tags", checked_tags),
        ("metadata", lambda value, _: checked_metadata(value, settings)),
    ):
        if name in given:
            given[name] = check(given[name] or (() if name == "tags" else {}), settings)
    if "title" in given and not (given.get("title") and checked_title(given["title"], settings)):
        raise InvalidFieldError("title", "must not be empty")
    with database.write() as transaction:
        if not document_writer.exists(transaction, document_id):
            raise NotFoundError(f"there is no document {document_id}")
        if versions is not None and document_queries.version_of(transaction, document_id) not in versions:
            raise VersionConflictError(document_id)
        if is_being_replaced_in(transaction, document_id):
            raise JobStateError(f"a job replaces document {document_id}; try again when it has ended")
        stored = document_queries.get_document(transaction, document_id)
        allow, deny = given.get("allow", stored.allow), given.get("deny", stored.deny)
        rights = checked_rights(allow, deny)
        tags, metadata = given.get("tags", stored.tags), given.get("metadata", stored.metadata)
        title = checked_title(given["title"], settings) if "title" in given else stored.title
        of_stored = stored.language if stored.is_language_given else None
        language = checked_language(given["language"]) if "language" in given else of_stored
        if title != stored.title or language != of_stored:
            draft = document_queries.get_draft(transaction, document_id)
            return dataclasses.replace(
                draft, title=title, tags=tuple(tags), metadata=metadata, rights=rights, language=language
            )
        now = timestamp_at(transaction.now())
        document_writer.change_fields(
            transaction, document_id, tags=tuple(tags), metadata=metadata, rights=rights, now=now
        )
    return None
