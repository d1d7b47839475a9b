"""The command that shows learned words."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.session import Limit, Offset, Session, command, printed_by


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "vocabulary")(vocabulary)


def vocabulary(
    session: Session,
    word: Annotated[
        str | None, typer.Argument(metavar="[WORD]", help="Show this learned word; a compound in quotes.")
    ] = None,
    containing: Annotated[
        str | None, typer.Option("--containing", metavar="TEXT", help="Only words that contain TEXT.")
    ] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> None:
    """Show the words that were learned from the documents.

    These are words that the dictionary lacks: names, jargon, new words. Each has its own reefs, learned from
    its contexts. The most frequent come first. With WORD, shows that word and the documents it was learned
    from.

    \b
        shoal vocabulary --limit 50
        shoal vocabulary --containing gene
        shoal vocabulary "stem cell niche"
    """
    with session.engine() as engine:
        if word is not None:
            session.show(engine.vocabulary.get(word), printed_by("tables", "print_word"))
            return
        page = engine.vocabulary.list(q=containing, limit=limit, offset=offset)
    if not session.as_json:
        for warning in page.warnings:
            session.warn(f"warning: {warning}")
    session.show(page, printed_by("tables", "print_words"))
