"""The command `shoal pin`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.reference import find_document, find_passage
from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Limit, Offset, Session, add_group
from shoal.cli.terminal import quantity
from shoal.declared.operations.library import PinOperations
from shoal.errors import NotFoundError
from shoal.models.pins import ListedTarget, Pin, PinPage
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.engine import Engine

_PASSAGE = re.compile(r"(?P<document>.+)#(?P<index>[0-9]{1,9})", re.DOTALL)

LISTED = of_operation(PinOperations.pins)
PinId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Number of the pin.")]
Words = Annotated[str, typer.Argument(metavar="QUERY", help="The words of the searches that it is for.")]
Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DOC...]",
        help="What comes first, in this order: the number, path or whole title of a document; with #N, its "
        "passage #N.",
    ),
]
Hide = Annotated[
    list[str] | None,
    typer.Option("--hide", metavar="DOC", help="Hide this document, or passage DOC#N. May be repeated."),
]
Contains = Annotated[
    bool, typer.Option("--contains", help="For all searches that have these words side by side.")
]


def register(app: typer.Typer) -> None:
    """Add the group of this module."""
    add_group(
        app,
        "pin",
        "Put documents or passages first for a query, or hide them from its results.\n\nA pinned result "
        "keeps its score. Searches with --pins off show the order by score.",
        ("list", list_pins, _say_page),
        ("add", add, _say),
        ("replace", replace, _say),
        ("delete", delete, "pin {deleted} deleted"),
        declared={"list": options_of(LISTED)},
    )


def list_pins(session: Session, limit: Limit = 50, offset: Offset = 0, **options: Any) -> PinPage:
    """List the pins of the library.

    \b
        shoal pin list --containing hours
    """
    with session.engine() as engine:
        return engine.pins.list(limit=limit, offset=offset, **given(LISTED, options))


def add(
    session: Session,
    query: Words,
    documents: Targets = None,
    hide: Hide = None,
    contains: Contains = False,
) -> Pin:
    """Put documents or passages first for a query, and hide others.

    The words are compared without case, accents and punctuation.

    \b
        shoal pin add "opening hours" visitors.md
        shoal pin add tides Tides#2 7 --hide 5 --contains
    """
    with session.engine() as engine:
        return engine.pins.add(
            query,
            _targets(engine, documents),
            hidden=_targets(engine, hide),
            match="contains" if contains else "exact",
        )


def replace(
    session: Session,
    pin: PinId,
    query: Words,
    documents: Targets = None,
    hide: Hide = None,
    contains: Contains = False,
) -> Pin:
    """Replace a pin; the arguments are those of `shoal pin add`.

    \b
        shoal pin replace 3 "opening hours" visitors.md tickets.md
    """
    with session.engine() as engine:
        return engine.pins.replace(
            pin,
            query,
            _targets(engine, documents),
            hidden=_targets(engine, hide),
            match="contains" if contains else "exact",
        )


def delete(session: Session, pin: PinId) -> dict[str, int]:
    """Delete a pin.

    \b
        shoal pin delete 3
    """
    with session.engine() as engine:
        engine.pins.delete(pin)
    return {"deleted": pin}


def _targets(engine: Engine, references: Sequence[str] | None) -> list[dict[str, int | None]]:
    return [_target(engine, reference) for reference in references or ()]


def _target(engine: Engine, reference: str) -> dict[str, int | None]:
    """The document or passage that a person names. Raises NotFoundError."""
    passage = _PASSAGE.fullmatch(reference)
    try:
        return {"document_id": find_document(engine, reference)}
    except NotFoundError:
        if passage is None:
            raise
    document_id = find_document(engine, passage["document"])
    return {"chunk_id": find_passage(engine, document_id, int(passage["index"]))}


def _say_page(session: Session, page: PinPage) -> None:
    for pin in page.pins:
        _say(session, pin)
    session.say_rest(len(page.pins), page.total, "no pins")


def _say(session: Session, pin: Pin) -> None:
    kind = "searches with" if pin.match == "contains" else "the search"
    session.say(f"{pin.id:>5}  {kind} “{one_line(pin.query)}”")
    for number, target in enumerate(pin.pinned, start=1):
        session.say(f"       {number}. {_name(target)}")
    for target in pin.hidden:
        session.say(f"       hidden: {_name(target)}")
    if not pin.pinned and not pin.hidden:
        session.say(f"       {quantity(0, 'document')} left")


def _name(target: ListedTarget) -> str:
    name = f"{one_line(target.document_title)} (document {target.document_id}"
    if target.chunk_id is None:
        return f"{name})"
    return f"{name}, its passage is gone)" if target.is_gone else f"{name}, #{target.chunk_index})"
