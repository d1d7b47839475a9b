"""The command that judges the ranking by queries whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.search import MODES, PRESETS, parse_weights
from shoal.cli.session import Session, command
from shoal.cli.terminal import one_line
from shoal.errors import QueryError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shoal.maintenance.evaluation import Evaluation, Way

DEFAULT_WAYS = ("balanced", "precise", "conceptual", "lexical", "reef")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "evaluate")(evaluate)


def evaluate(
    session: Session,
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="Judged queries, one JSON object a line."
        ),
    ],
    way: Annotated[
        list[str] | None,
        typer.Option(
            "--way",
            metavar="WAY",
            help="A way to search: a preset, a mode, `rrf`, or weights as lexical=0.6,reef=0.4. May be given again; the "
            "first is what the others are compared with. Default: all presets, lexical and reef.",
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Results that are looked at.")] = 10,
    show: Annotated[
        int,
        typer.Option(
            "--show", min=0, metavar="N", help="Also list the N queries that the first way answers worst."
        ),
    ] = 0,
) -> None:
    """Judge the ranking by queries of your own.

    Each line of FILE is a query with the documents that answer it, by source path, by the end of one, or by title:

    \b
        {"query": "how bees find food", "relevant": ["bees.md"]}
        {"query": "glass", "relevant": {"making-glass.md": 3, "Sand": 1}}

    Every query is answered in every way, and documents are ranked by their best passage. nDCG is 1 where the documents
    that answer stand first, those of a higher grade before the others; recall is the share of them among the results.

    \b
        shoal evaluate queries.jsonl
        shoal evaluate queries.jsonl --way balanced --way lexical=0.6,reef=0.4 --show 5
        SHOAL_FEEDBACK_WEIGHT=0 shoal evaluate queries.jsonl --way balanced
    """
    from shoal.maintenance.evaluation import evaluate as judge
    from shoal.maintenance.evaluation import read_judged

    ways = [parse_way(text) for text in dict.fromkeys(way or DEFAULT_WAYS)]
    with queries.open(encoding="utf-8-sig", errors="replace") as lines:
        judged = read_judged(lines)
    with session.engine() as engine:
        try:
            found = judge(engine, judged, ways, depth=depth)
        except QueryError as error:
            if error.field == "top_k":
                raise typer.BadParameter(str(error), param_hint="--depth") from None
            raise
    for one in found.missing:
        session.warn(f"warning: line {one.line}: the library has no {one.name!r}")
    if session.as_json:
        session.emit(json_form(found))
        return
    _print_ways(session.out, found)
    if show:
        _print_worst(session.out, found, show)


def parse_way(text: str) -> Way:
    """A way by its name. Raises typer.BadParameter."""
    from shoal.maintenance.evaluation import Way

    if text in PRESETS:
        return Way(text, {"preset": text})
    if text in MODES:
        return Way(text, {"mode": text})
    if text == "rrf":
        return Way(text, {"fusion": "rrf"})
    if "=" in text:
        return Way(text, {"weights": parse_weights(text)})
    raise typer.BadParameter(
        f"{text!r} is no way to search; name one of {', '.join((*PRESETS, *MODES))}, rrf, or weights as "
        "lexical=0.6,reef=0.4",
        param_hint="--way",
    )


def _print_ways(console: Console, found: Evaluation) -> None:
    table = _table("way", f"nDCG@{found.depth}", f"recall@{found.depth}", "nothing found", "better", "worse")
    for place, one in enumerate(found.ways):
        compared = ("", "") if place == 0 else (f"{one.n_better:,}", f"{one.n_worse:,}")
        table.add_row(one.way, f"{one.ndcg:.3f}", f"{one.recall:.3f}", f"{one.n_missed:,}", *compared)
    console.print(table)
    told = f"judged queries: {found.n_queries:,}"
    if len(found.ways) > 1:
        told += f"; better and worse: how many of them, compared with {found.ways[0].way}"
    console.print(told, style="dim")


def _print_worst(console: Console, found: Evaluation, most: int) -> None:
    names = [one.way for one in found.ways]
    table = _table("query", *names)
    for one in sorted(found.queries, key=lambda query: query.ndcg[names[0]])[:most]:
        table.add_row(one_line(one.query), *(f"{one.ndcg[name]:.2f}" for name in names))
    console.print()
    console.print(table)


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(first, overflow="fold", style="cyan")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table
