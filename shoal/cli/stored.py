"""Commands on what is stored: which documents there are, what is in one, and small changes to it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.files import write_file
from shoal.cli.json_form import json_form
from shoal.cli.reference import Document, find, no_passage
from shoal.cli.session import Session, command, split_tags
from shoal.errors import NotFoundError

LIMIT = 50
"""Documents listed at a time, as by GET /documents."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "list")(list_documents)
    command(app, "show")(show)
    command(app, "status")(status)
    command(app, "delete")(delete)
    command(app, "tags")(set_tags)


def list_documents(
    session: Session,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="Only documents with this in their title or path."),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="T", help="Only documents with this tag.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = LIMIT,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over.")] = 0,
) -> None:
    """List the documents.

    In the order of their numbers, with passages, bytes, tags and path. Capitals and small letters of TEXT are the same.

    \b
        shoal list                  all of them, the first fifty
        shoal list walden           those with walden in title or path
        shoal list --tag biology    those with a tag
    """
    with session.engine() as engine:
        page = json_form(engine.documents(tag=tag, q=text, limit=limit, offset=offset))
    if session.as_json:
        session.emit({**page, "limit": limit, "offset": offset})
        return
    from shoal.cli.tables import print_documents

    print_documents(session.out, page["documents"], total=page["total"], offset=offset)


def show(
    session: Session,
    document: Document,
    reefs: Annotated[int, typer.Option(min=0, help="How many reefs to show for a passage.")] = 3,
    text: Annotated[bool, typer.Option("--text", help="Also print the text of every passage.")] = False,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", min=0, help="Only passage #N, with its text."),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the document as its topics, from beginning to end, to a file."
        ),
    ] = None,
) -> None:
    """Show one document, passage by passage.

    With its sections, the lines and strongest reefs of each passage, and what is in no passage.

    \b
        shoal show 1            where its passages are and what they are about
        shoal show 1 --text     what they say, too
        shoal show 1 --chunk 4  passage #4 alone
        shoal show 1 --svg a.svg  a picture of what it is about where
    """
    if svg is not None:
        _draw(session, document, svg)
        return
    with session.engine() as engine:
        document_id = find(engine, document)
        detail = json_form(engine.document(document_id))
        wanted = {} if chunk is None else {"limit": 1, "offset": chunk}
        chunks = json_form(engine.chunks(document_id, **wanted))["chunks"]
    if chunk is not None and not chunks:
        raise NotFoundError(no_passage(document_id, detail["document"]["n_chunks"], chunk))
    if session.as_json:
        session.emit({**detail, "chunks": chunks})
        return
    from shoal.cli.tables import print_document

    print_document(session.out, detail, chunks, reefs=reefs, with_text=text or chunk is not None)


def _draw(session: Session, document: str, file: Path) -> None:
    from shoal.charts.ribbon import read_ribbon, ribbon_svg

    with session.engine() as engine, engine.database.snapshot() as snapshot:
        document_id = find(engine, document)
        picture = ribbon_svg(read_ribbon(snapshot, document_id, engine.scorer))
    write_file([picture], file)
    if session.as_json:
        session.emit({"document_id": document_id, "svg": str(file)})
    else:
        session.out.print(f"{file}: the topics of document {document_id}", highlight=False)


def status(session: Session) -> None:
    """Count what is stored.

    With the version of the data and of the vocabulary that it was scored with.
    """
    settings = session.settings()
    if settings.database_path.exists():
        with session.engine() as engine:
            found = json_form(engine.status())
    else:
        found = _status_of_nothing(settings.database_path)
    if session.as_json:
        session.emit(found)
        return
    from shoal.cli.tables import print_status

    # What a process keeps in memory is of interest in one that goes on; this one has loaded nothing.
    print_status(session.out, {name: value for name, value in found.items() if name != "postings"})


def delete(session: Session, document: Document) -> None:
    """Remove a document.

    Its passages and everything derived from them go with it.
    """
    with session.engine() as engine:
        document_id = find(engine, document)
        if not engine.delete_document(document_id):
            raise NotFoundError(f"there is no document {document_id}")
    if session.as_json:
        session.emit({"id": document_id, "deleted": True})
    session.say(f"document {document_id} is deleted")


def set_tags(
    session: Session,
    document: Document,
    tags: Annotated[str, typer.Argument(metavar="A,B", help='The new tags by commas; "" removes all.')],
) -> None:
    """Replace the tags of a document."""
    with session.engine() as engine:
        document_id = find(engine, document)
        stored = engine.set_tags(document_id, split_tags(tags))
    if session.as_json:
        session.emit({"id": document_id, "tags": list(stored)})
    session.say(f"document {document_id}: " + (f"tags {', '.join(stored)}" if stored else "no tags"))


def _status_of_nothing(path: Path) -> dict[str, Any]:
    """The status of a database that does not exist, without making it."""
    from shoal.engine import Engine

    with (
        tempfile.TemporaryDirectory(prefix="shoal-") as folder,
        Engine(db_path=Path(folder, "empty.db")) as engine,
    ):
        found: dict[str, Any] = json_form(engine.status())
    return {**found, "db_path": str(path), "db_bytes": 0, "exists": False}
