"""The command that suggests queries."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "suggest")(suggest)


def suggest(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="BEGINNING", help="The beginning of a query.")],
    limit: Annotated[int, typer.Option(min=1, max=20, help="How many suggestions.")] = 8,
) -> None:
    """Show queries that may be meant by the beginning of one.

    Suggestions are titles and headings with a word that begins so, learned words, compounds of the dictionary
    that the library has, frequent queries if SHOAL_QUERY_LOG is on, and the query with its last word
    completed. The most frequent come first.

    \b
        shoal suggest "natural sel"
        shoal suggest tid --json | jq -r '.suggestions[].text'
    """
    with session.engine() as engine:
        suggestions = engine.suggest(query, limit=limit)
    if session.as_json:
        session.emit(json_form(suggestions))
        return
    for suggestion in suggestions.suggestions:
        session.out.print(f"{suggestion.kind:8} {suggestion.text}", markup=False, highlight=False)
