"""The command `facets`, and facets as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command
from shoal.cli.terminal import quantity
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_CHARS = 60
"""Of a value."""

Facets = Annotated[
    list[str] | None,
    typer.Option(
        "--facet",
        metavar="FIELD[:INTERVAL]",
        help="Count documents by the values of this field, such as tags, author.name or created:month. "
        "Give it several times for several fields.",
    ),
]
FacetLimit = Annotated[
    int | None,
    typer.Option(
        "--facet-limit", metavar="N", help="Most values of a facet; default 10, or 1,000 intervals."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "facets")(facets)


def facets(
    session: Session,
    fields: Annotated[
        list[str],
        typer.Argument(
            metavar="FIELD[:INTERVAL]...",
            help="Fields to count by: tags, format, file_type, folder, reef, island, created, or a key of "
            "the metadata. An interval makes a histogram: created:month, price:10.",
        ),
    ],
    filter: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPRESSION",
            help="Only documents with a passage that meets this, such as 'tags = sea AND year >= 2020'.",
        ),
    ] = None,
    limit: FacetLimit = None,
) -> None:
    """Count the documents of the library by the values of fields.

    With --filter, counts documents with a passage that meets it. A condition on a field does not apply to the
    counts of that field, so that they show what another value would find.

    \b
        shoal facets tags format created:year
        shoal facets author.name --filter 'tags = sea' --facet-limit 50
    """
    with session.engine() as engine:
        counted = engine.facets(fields, filter=filter, facet_limit=limit)
    answer = json_form(counted)
    if session.as_json:
        session.emit(answer)
        return
    for warning in answer["warnings"]:
        session.warn(f"warning: {warning}")
    print_facets(session.out, answer["facets"])
    documents = quantity(answer["n_documents"], "document")
    session.out.print(f"{documents} in {answer['took_ms']:.1f} ms", style="dim")


def print_facets(console: Console, facets: Sequence[Mapping[str, Any]]) -> None:
    """Print each facet, in its JSON form, as a table of values and counts."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    for facet in facets:
        title = facet["field"] if facet["interval"] is None else f"{facet['field']} by {facet['interval']}"
        console.print(Text(one_line(title), style="bold"))
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right")
        table.add_column()
        for value in facet["values"]:
            shown = Text(_shown(value))
            if value["is_selected"]:
                shown.append("  selected", style="dim")
            table.add_row(f"{value['count']:,}", shown)
        if facet["values"]:
            console.print(Padding(table, (0, 0, 0, 2)))
        rest = _rest(facet)
        if rest:
            console.print(Text(f"  {rest}", style="dim"))
        console.print()


def _shown(value: Mapping[str, Any]) -> str:
    stored = value["name"] or value["value"]
    text = one_line(stored) if isinstance(stored, str) else json.dumps(stored)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _rest(facet: Mapping[str, Any]) -> str:
    """What the listed values leave out."""
    n_more = facet["n_values"] - len(facet["values"])
    parts = [f"{n_more:,} more {'value' if n_more == 1 else 'values'}"] if n_more else []
    if facet["n_missing"]:
        parts.append(f"{quantity(facet['n_missing'], 'document')} without a value")
    return "; ".join(parts)
