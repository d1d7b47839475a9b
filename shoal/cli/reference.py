"""Lookup of documents and passages by the names that people use: number, path or title."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.terminal import display_path, quantity
from shoal.errors import NotFoundError
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.engine import Engine

Document = Annotated[
    str, typer.Argument(metavar="DOC", help="Number of the document, its path, or its whole title.")
]

CANDIDATES_SHOWN = 20


def find_document(engine: Engine, reference: str) -> int:
    """Return the id of the document with this number, path or title. A number is tried as an id first.

    Raises NotFoundError if no document or several documents match; the message lists several matches.
    """
    # `has_document` is false for numbers beyond the range of ids; those can only be a title.
    if reference.isascii() and reference.isdecimal() and engine.documents.exists(int(reference)):
        return int(reference)
    # Source paths are stored as given or absolute.
    absolute_path = os.path.abspath(reference)  # noqa: PTH100
    matches = engine.documents.find(reference, absolute_path)
    if len(matches) == 1:
        return matches[0].id
    if not matches:
        raise NotFoundError(_no_document(reference))
    lines = [
        f"  {match.id}  {one_line(match.title)}"
        + (f"  {display_path(match.source_path)}" if match.source_path else "")
        for match in matches[:CANDIDATES_SHOWN]
    ]
    if len(matches) > CANDIDATES_SHOWN:
        lines.append(f"  and {len(matches) - CANDIDATES_SHOWN:,} more")
    candidates = "\n".join(lines)
    raise NotFoundError(
        f"{len(matches):,} documents are called {reference!r}; name one by its number:\n{candidates}"
    )


def find_passage(engine: Engine, document_id: int, chunk_index: int) -> int:
    """Return the chunk id of a document's passage, counted from #0. Raises NotFoundError."""
    chunk_id = engine.documents.chunk_id(document_id, chunk_index)
    if chunk_id is None:
        n_chunks = engine.documents.get(document_id).document.n_chunks
        raise NotFoundError(no_passage(document_id, n_chunks, chunk_index))
    return chunk_id


def no_passage(document_id: int, n_chunks: int, chunk_index: int) -> str:
    """The error for a passage number that a document does not have."""
    passages = quantity(n_chunks, "passage")
    return f"document {document_id} has {passages}, counted from #0; there is no #{chunk_index}"


def _no_document(reference: str) -> str:
    if reference.lstrip("-").isdecimal():
        return f"there is no document {reference}"
    return (
        f"there is no document {reference!r}; `shoal list` lists all documents, `shoal list WORD` those with "
        "WORD in the title or path"
    )
