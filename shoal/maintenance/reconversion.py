"""Converts the files of stored documents again, if an earlier version of the converters read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.library.library import Library
from shoal.models.files import FileDraft
from shoal.models.stored import NamedDocument
from shoal.storage import source_files
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import get_document

if TYPE_CHECKING:
    from shoal.jobs.in_process import Watcher

MAX_LISTED = 1000
"""Documents without a file that a result names."""


@dataclass(frozen=True, slots=True)
class Reconverted:
    """The outcome of a reconversion."""

    n_converted: Annotated[int, "documents that have the text of this version now"]
    n_attachments: Annotated[int, "attachments that were stored or converted again with them"]
    failed: Annotated[tuple[tuple[str, str], ...], "titles of documents that stay as they were, and why"]
    n_without_file: Annotated[int, "documents of earlier versions whose files are not kept"]
    without_file: Annotated[tuple[NamedDocument, ...], "the first 1,000 of them: send their files again"]


def reconvert(library: Library, *, processes: int = 1, watch: Watcher | None = None) -> Reconverted:
    """Convert the kept files of earlier versions again. Ids, titles, tags and given metadata stay.

    After an interruption, the next call converts the rest.
    """
    database = library.database
    with database.snapshot(limited=False) as snapshot:
        earlier = list(source_files.files_of_earlier(snapshot, CONVERTER_VERSION))
    kept = [document_id for document_id, is_kept in earlier if is_kept]
    with library.ingest_session() as session:
        for document_id in kept:
            with database.snapshot() as snapshot:
                draft = _draft(snapshot, document_id)
            if draft is not None:
                session.replace(document_id, draft)
        results = session.finish(processes=processes, watch=watch)
    with database.snapshot(limited=False) as snapshot:
        left = [
            each
            for each, is_kept in source_files.files_of_earlier(snapshot, CONVERTER_VERSION)
            if not is_kept
        ]
        named = [get_document(snapshot, each) for each in left[:MAX_LISTED]]
    return Reconverted(
        sum(result.error is None for result in results),
        sum(result.n_attachments for result in results),
        tuple((result.title, result.error) for result in results if result.error is not None),
        len(left),
        tuple(NamedDocument(each.id, each.title, each.source_path) for each in named),
    )


def _draft(snapshot: Snapshot, document_id: int) -> FileDraft | None:
    """Return the kept file of a document with its fields; None if it was deleted since."""
    file = source_files.get_file(snapshot, document_id)
    if file is None:
        return None
    stored = get_document(snapshot, document_id)
    return FileDraft(
        source_files.get_data(snapshot, document_id),
        file.kind,
        file.name,
        file.file_hash,
        title=stored.title,
        tags=stored.tags,
        source_path=stored.source_path,
        metadata=stored.metadata,
        chunk_tokens=stored.chunk_tokens,
        rights=stored.rights,
    )
