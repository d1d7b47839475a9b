"""Documents as people name them: by number, path or title."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.terminal import counted, one_line, shown_path
from shoal.errors import NotFoundError
from shoal.storage import document_lookup

if TYPE_CHECKING:
    from shoal.engine import Engine

Document = Annotated[
    str, typer.Argument(metavar="DOC", help="Number of the document, its path, or its whole title.")
]

CANDIDATES_SHOWN = 20


def find(engine: Engine, reference: str) -> int:
    """The id of the document that is meant. A number is an id if there is such a document.

    Raises NotFoundError where none or several are meant; those are listed then.
    """
    with engine.database.snapshot() as snapshot:
        # What is no ASCII number, or one that no database counts to, can only be a title.
        if reference.isascii() and reference.isdecimal() and document_lookup.exists(snapshot, int(reference)):
            return int(reference)
        # As it is stored, and as it is stored by commands that know where they run.
        found = document_lookup.named(snapshot, reference, os.path.abspath(reference))  # noqa: PTH100
    if len(found) == 1:
        return found[0].id
    if not found:
        raise NotFoundError(_none(reference))
    lines = [
        f"  {one.id}  {one_line(one.title)}" + (f"  {shown_path(one.source_path)}" if one.source_path else "")
        for one in found[:CANDIDATES_SHOWN]
    ]
    if len(found) > CANDIDATES_SHOWN:
        lines.append(f"  and {len(found) - CANDIDATES_SHOWN:,} more")
    listed = "\n".join(lines)
    raise NotFoundError(
        f"{len(found):,} documents are called {reference!r}; name one by its number:\n{listed}"
    )


def find_passage(engine: Engine, document_id: int, chunk_index: int) -> int:
    """The chunk id of a document's passage, counted from #0. Raises NotFoundError."""
    with engine.database.snapshot() as snapshot:
        found = document_lookup.chunk_at(snapshot, document_id, chunk_index)
    if found is None:
        n_chunks = engine.document(document_id).document.n_chunks
        raise NotFoundError(no_passage(document_id, n_chunks, chunk_index))
    return found


def no_passage(document_id: int, n_chunks: int, chunk_index: int) -> str:
    """That a document has no such passage."""
    has = counted(n_chunks, "passage")
    return f"document {document_id} has {has}, counted from #0; there is no #{chunk_index}"


def _none(reference: str) -> str:
    if reference.lstrip("-").isdecimal():
        return f"there is no document {reference}"
    return f"there is no document {reference!r}; `shoal list` shows all, `shoal list WORD` those with a word"
