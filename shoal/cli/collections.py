"""The command `shoal collection`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.session import Limit, Offset, Session, add_group, json_form
from shoal.cli.terminal import data_size, quantity
from shoal.errors import NotFoundError

if TYPE_CHECKING:
    from shoal.collections.catalog import Collection
    from shoal.collections.collections import CollectionDetails, Collections

Json = dict[str, Any]

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    add_group(
        app,
        "collection",
        "Keep several libraries, each with its own documents, learned words, index, notes and jobs.\n\n"
        "`--collection NAME`, or SHOAL_COLLECTION, makes any other command use one. A running service serves "
        "all of them.",
        ("create", create, "collection {name} created"),
        ("list", list_collections, _say_page),
        ("show", show, _say_details),
        ("rename", rename, ""),
        ("swap", swap, ""),
        ("delete", delete, ""),
    )


def create(session: Session, name: Name) -> Json:
    """Create an empty collection.

    A name has 1 to 63 characters: a to z, 0 to 9, - and _, first a letter or digit.

    \b
        shoal collection create birds
        shoal ingest heron.md --collection birds
    """
    with _collections(session) as collections:
        return _values(collections.create(name))


def list_collections(
    session: Session,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Json:
    """List the collections, main first and the others by name.

    \b
        shoal collection list
    """
    with _collections(session) as collections:
        page = collections.list(limit, offset)
    shown = list(map(_values, page.collections))
    return {"collections": shown, "total": page.total, "limit": limit, "offset": offset}


def _say_page(session: Session, page: Json) -> None:
    for each in page["collections"]:
        session.say(f"{each['name']:<20}  {each['created_at'] or ''}".rstrip())
    session.say_rest(len(page["collections"]), page["total"], "no collections")


def show(session: Session, name: Name) -> Json:
    """Show what a collection holds.

    \b
        shoal collection show birds
    """
    with _collections(session) as collections:
        return _values(collections.describe(name))


def _say_details(session: Session, details: Json) -> None:
    session.say(
        f"{details['name']}: {quantity(details['n_documents'], 'document')}, "
        f"{quantity(details['n_chunks'], 'passage')}, {data_size(details['content_bytes'])} of text, "
        f"{data_size(details['database_bytes'])} on disk"
    )
    jobs = [f"{n:,} {status}" for status, n in details["jobs"].items() if n]
    session.say(f"jobs: {', '.join(jobs) or 'none'}")


def rename(
    session: Session,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.")],
) -> Json:
    """Give a collection another name.

    \b
        shoal collection rename birds birds-2025
    """
    with _collections(session) as collections:
        renamed = collections.rename(name, new_name)
    session.say(f"collection {name} is now {renamed.name}")
    return _values(renamed)


def swap(
    session: Session,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="Name of one collection.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="Name of the other.")],
) -> Json:
    """Let two collections exchange their names, at one moment.

    To rebuild a library without a pause, fill another collection, then swap the two.

    \b
        shoal collection swap birds birds-new
    """
    with _collections(session) as collections:
        swapped = collections.swap(first, second)
    session.say(f"{first} and {second} have exchanged their names")
    return {"collections": list(map(_values, swapped))}


def delete(
    session: Session,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> Json:
    """Delete a collection with all that it holds.

    Only a backup can bring it back. Requests that use it end; its files go when no process uses them.

    \b
        shoal backup birds.db --collection birds
        shoal collection delete birds --yes
    """
    with _collections(session) as collections:
        details = collections.describe(name)
        if not yes:
            typer.confirm(
                f"Delete {name} with {quantity(details.n_documents, 'document')}?", abort=True, err=True
            )
        is_removed = collections.delete(name)
    session.say(f"collection {name} deleted, with {quantity(details.n_documents, 'document')}")
    if not is_removed:
        session.say("its files go when the processes that use them have ended their work")
    return {"deleted": name, "documents": details.n_documents, "files_removed": is_removed}


@contextmanager
def _collections(session: Session) -> Iterator[Collections]:
    """The collections of this run. Raises NotFoundError if there is no library at all."""
    settings = session.settings()
    if not settings.may_exist:
        raise NotFoundError(
            f"there is no database {settings.database_place}; `shoal migrate` creates one, `--db` names "
            "another"
        )
    from shoal.collections.collections import Collections

    with Collections(settings) as collections:
        yield collections


def _values(collection: Collection | CollectionDetails) -> Json:
    from shoal.support.clock import timestamp

    moment = collection.created_at
    created_at = None if moment is None else timestamp(datetime.fromtimestamp(moment, UTC))
    return {**json_form(collection), "created_at": created_at}
