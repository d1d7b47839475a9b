"""Commands on stored documents: list, show, count, delete and tag them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.reference import Document, find_document, no_passage
from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Offset, Session, command, json_form, printed_by, split_tags, write_file
from shoal.cli.terminal import may_ask, quantity
from shoal.declared.operations.documents import DocumentOperations
from shoal.errors import NotFoundError
from shoal.support.plain_text import one_line, plain

if TYPE_CHECKING:
    from shoal.engine import Engine

LISTED = of_operation(DocumentOperations.documents, "tag", "filter", "sort")
LIMIT = 50
"""Documents per page, as in GET /documents."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "list", options_of(LISTED), shown=printed_by("tables", "print_documents"))(list_documents)
    command(app, "show")(show)
    command(app, "status", shown=printed_by("tables", "print_status"))(status)
    command(app, "delete")(delete)
    command(app, "tags")(tags)


def list_documents(
    session: Session,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="Only documents with TEXT in their title or path."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = LIMIT,
    offset: Offset = 0,
    **options: Any,
) -> dict[str, Any]:
    """List the documents.

    In the order in which they were stored, with passages, bytes, tags and path. The case of ASCII letters
    in TEXT does not matter.

    \b
        shoal list                  the first fifty documents
        shoal list walden           documents with walden in title or path
        shoal list --tag biology    documents with a tag
        shoal list --sort -created  the newest fifty
    """
    with session.engine() as engine:
        page = engine.documents.list(q=text, limit=limit, offset=offset, **given(LISTED, options))
    return {**json_form(page), "limit": limit, "offset": offset}


def show(
    session: Session,
    document: Document,
    reefs: Annotated[int, typer.Option(min=0, help="How many reefs with z-scores to show per passage.")] = 0,
    text: Annotated[bool, typer.Option("--text", help="Also print the text of every passage.")] = False,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", min=0, help="Only passage #N, with its text."),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the topics of the document, from beginning to end, to a file."
        ),
    ] = None,
) -> None:
    """Show one document, passage by passage.

    Shows its sections, the lines and subject of each passage, and what is in no passage.

    \b
        shoal show 1              the lines of its passages, and what they are about
        shoal show 1 --reefs 3    also the strongest reefs, with z-scores
        shoal show 1 --text       also their text
        shoal show 1 --chunk 4    only passage #4
        shoal show 1 --svg a.svg  a picture of its topics
    """
    if svg is not None:
        _draw(session, document, svg)
        return
    with session.engine() as engine:
        document_id = find_document(engine, document)
        detail = json_form(engine.documents.get(document_id))
        page = {} if chunk is None else {"limit": 1, "offset": chunk}
        chunks = json_form(engine.documents.chunks(document_id, **page))["chunks"]
    if chunk is not None and not chunks:
        raise NotFoundError(no_passage(document_id, detail["document"]["n_chunks"], chunk))
    if session.as_json:
        session.emit({**detail, "chunks": chunks})
        return
    from shoal.cli.tables import print_document

    print_document(session.out, detail, chunks, reefs=reefs, with_text=text or chunk is not None)


def _draw(session: Session, document: str, file: Path) -> None:
    from shoal.charts.ribbon import ribbon_svg

    with session.engine() as engine:
        document_id = find_document(engine, document)
        picture = ribbon_svg(engine.documents.ribbon(document_id))
    write_file([picture], file)
    session.show(
        {"document_id": document_id, "svg": str(file)}, "{svg}: the topics of document {document_id}"
    )


def status(session: Session) -> Any:
    """Count what is stored.

    Also shows the versions of the lagoon data and of the vocabulary.
    """
    settings = session.library_settings()
    if not settings.may_exist:
        return _status_without_database(settings.database_path)
    with session.engine() as engine:
        return engine.status()


def delete(
    session: Session,
    document: Annotated[
        str | None,
        typer.Argument(metavar="[DOC]", help="Number of the document, its path, or its whole title."),
    ] = None,
    filter: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPRESSION",
            help="All documents that meet this, such as 'tags = draft AND created < 2020'.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --filter: only say which documents would be deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a document, or all that meet a filter.

    Their passages and everything derived from them are deleted, too. In a terminal, the command asks first;
    scripts without one need no --yes.

    \b
        shoal delete 7
        shoal delete --filter 'folder = "drafts"' --dry-run
    """
    if (document is None) == (filter is None):
        raise typer.BadParameter("give a DOC or --filter EXPRESSION, and not both", param_hint="DOC")
    if dry_run and filter is None:
        raise typer.BadParameter("is only for --filter", param_hint="--dry-run")
    with session.engine() as engine:
        if filter is not None:
            _delete_many(session, engine, filter, dry_run=dry_run, asks=not yes and may_ask())
            return
        document_id = find_document(engine, str(document))
        if not yes and may_ask():
            title = plain(one_line(engine.documents.get(document_id).document.title))
            typer.confirm(f"Delete document {document_id}, {title}?", abort=True, err=True)
        if not engine.documents.delete(document_id):
            raise NotFoundError(f"there is no document {document_id}")
    session.emit({"id": document_id, "deleted": True})
    session.say(f"document {document_id} is deleted")


def _delete_many(session: Session, engine: Engine, expression: str, *, dry_run: bool, asks: bool) -> None:
    """Delete the documents that meet an expression, or name them."""
    if dry_run:
        deletion = engine.documents.deletion(filter=expression)
        n = len(deletion.document_ids)
        session.emit({"n_documents": n, "documents": json_form(deletion.first), "deleted": False})
        for named in deletion.first:
            session.say(f"{named.id:>6}  {one_line(named.title)}")
        session.say(f"{quantity(n, 'document')} would be deleted")
        return
    if asks:
        n = len(engine.documents.deletion(filter=expression).document_ids)
        typer.confirm(f"Delete {quantity(n, 'document')}?", abort=True, err=True)
    n = engine.documents.delete_many(filter=expression)
    session.emit({"n_documents": n, "deleted": True})
    session.say(f"{quantity(n, 'document')} deleted")


def tags(
    session: Session,
    document: Document,
    new_tags: Annotated[
        str | None,
        typer.Argument(metavar="[A,B]", help='The new tags, separated by commas; "" removes all tags.'),
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="TAG", help="Add this tag. Repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="Remove this tag. Repeatable.")
    ] = None,
) -> None:
    """Replace, add or remove tags of a document.

    A,B replaces all tags. --add and --remove change only the named tags; a comma separates several. Removing
    a tag that the document does not have prints a warning.

    \b
        shoal tags 1 biology,field
        shoal tags 1 --add biology --add field --remove draft
    """
    added = _split_all(add)
    removed = _split_all(remove)
    if new_tags is None and not (added or removed):
        raise typer.BadParameter("name the new tags, or use --add or --remove", param_hint="[A,B]")
    if new_tags is not None and (add or remove):
        raise typer.BadParameter("cannot be combined with --add and --remove", param_hint="[A,B]")
    if both := set(added) & set(removed):
        raise typer.BadParameter(f"{min(both)!r} is also in --add", param_hint="--remove")
    missing: tuple[str, ...] = ()
    with session.engine() as engine:
        document_id = find_document(engine, document)
        if new_tags is not None:
            stored = engine.documents.set_tags(document_id, split_tags(new_tags))
        else:
            before = engine.documents.get(document_id).document.tags
            missing = tuple(tag for tag in removed if tag not in before)
            stored = engine.documents.change_tags(document_id, add=added, remove=removed)
    for tag in missing:
        session.warn(f"warning: document {document_id} has no tag {one_line(tag)!r}")
    session.emit({"id": document_id, "tags": list(stored)})
    session.say(f"document {document_id}: " + (f"tags {', '.join(stored)}" if stored else "no tags"))


def _split_all(values: list[str] | None) -> tuple[str, ...]:
    """The tags in the values of a repeated option, in one line each, without duplicates."""
    return tuple(dict.fromkeys(" ".join(tag.split()) for value in values or () for tag in split_tags(value)))


def _status_without_database(path: Path) -> dict[str, Any]:
    """The status of an empty library, for a database that does not exist and is not created."""
    from shoal.engine import Engine

    with (
        tempfile.TemporaryDirectory(prefix="shoal-") as folder,
        Engine(db_path=Path(folder, "empty.db")) as engine,
    ):
        values: dict[str, Any] = json_form(engine.status())
    return {**values, "db_path": str(path), "db_bytes": 0, "exists": False}
