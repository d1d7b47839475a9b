"""The command `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.reference import find_document, find_passage
from shoal.cli.search_options import EXPLAINING, Query, given, options_of, warn
from shoal.cli.session import Session, command

if TYPE_CHECKING:
    from shoal.engine import Engine


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "explain", options_of(EXPLAINING))(explain)


def explain(
    session: Session,
    query: Query,
    document: Annotated[
        str | None,
        typer.Option(
            "--document",
            metavar="DOC",
            help="Also show the rank of this document and why it is not higher. Its number, path or "
            "whole title.",
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", min=0, help="With --document: the rank of its passage #N."),
    ] = None,
    chunk_id: Annotated[
        int | None,
        typer.Option("--chunk-id", metavar="ID", help="The rank of the passage with this `chunk_id`."),
    ] = None,
    **options: Any,
) -> None:
    """Show how a query is analyzed.

    Lists every word with its reefs, then the query profile that is used for ranking: the reefs of the words
    and of the passages that match them best. A word is known (in the dictionary), learned (from your
    documents), a stop word (too common to carry meaning), a number or unknown; numbers and unknown words are
    matched by spelling only. With --document or --chunk, also shows its rank for the query, the parts of its
    score, and why it is not among the results. The other options are those of `shoal search` that decide
    which passages are results, and in which order.

    \b
        shoal explain "how insects help plants"
        shoal explain "how insects help plants" --document 7 --tags biology
        shoal explain "how insects help plants" --document 7 --chunk 3
    """
    if chunk is not None and document is None:
        raise typer.BadParameter(
            "numbers the passages of a document; name it with --document", param_hint="--chunk"
        )
    if chunk is not None and chunk_id is not None:
        raise typer.BadParameter("cannot be combined with --chunk", param_hint="--chunk-id")
    with session.engine() as engine:
        document_id = None if document is None else find_document(engine, document)
        if document_id is not None and chunk is not None:
            chunk_id = find_passage(engine, document_id, chunk)
        answer = json_form(
            engine.explain(
                query,
                document_id=document_id,
                chunk_id=chunk_id,
                **given(EXPLAINING, options),
            )
        )
        _add_chunk_indexes(engine, answer)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.explanation import print_explanation

    warn(session, answer)
    print_explanation(session.out, answer)


def _add_chunk_indexes(engine: Engine, answer: dict[str, Any]) -> None:
    """Add `chunk_index`, the number of the passage in its document, to the target and the feedback chunks."""
    chunks = [*answer["feedback"], *([answer["target"]] if answer["target"] else [])]
    indexes = engine.documents.chunk_indexes(chunk["chunk_id"] for chunk in chunks)
    for chunk in chunks:
        # The passage may have been deleted since the explanation was made.
        chunk["chunk_index"] = indexes.get(chunk["chunk_id"], 0)
