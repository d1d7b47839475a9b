"""The command that measures ranking quality with judged queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.session import Session, command, json_form
from shoal.errors import QueryError
from shoal.models.search import SearchMode
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shoal.maintenance.evaluation import Configuration, Evaluation

DEFAULT_WAYS = ("balanced", "precise", "conceptual", "lexical", "reef")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "evaluate")(evaluate)


def evaluate(
    session: Session,
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="Judged queries, one JSON object per line."
        ),
    ],
    way: Annotated[
        list[str] | None,
        typer.Option(
            "--way",
            metavar="WAY",
            help="A way to search: a preset, a mode, `rrf`, or weights as lexical=0.6,reef=0.4. Repeatable; "
            "the other ways are compared with the first. Default: balanced, precise, conceptual, lexical "
            "and reef.",
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Number of results to evaluate per query.")] = 10,
    show: Annotated[
        int,
        typer.Option(
            "--show",
            min=0,
            metavar="N",
            help="Also list the N queries with the worst results of the first way.",
        ),
    ] = 0,
) -> None:
    """Measure the ranking with your own queries.

    Each line of FILE has a query and the relevant documents, named by source path, by the end of the path, or
    by title:

    \b
        {"query": "how bees find food", "relevant": ["bees.md"]}
        {"query": "glass", "relevant": {"making-glass.md": 3, "Sand": 1}}

    Every query runs in every way, and documents are ranked by their best passage. nDCG is 1 if the relevant
    documents come first, highest grade first. Recall is the share of the relevant documents among the
    results.

    \b
        shoal evaluate queries.jsonl
        shoal evaluate queries.jsonl --way balanced --way lexical=0.6,reef=0.4 --show 5
        SHOAL_FEEDBACK_WEIGHT=0 shoal evaluate queries.jsonl --way balanced
    """
    from shoal.maintenance.evaluation import read_judged_queries
    from shoal.models.search import all_presets

    presets = tuple(all_presets(session.settings().presets))
    ways = [parse_way(text, presets) for text in dict.fromkeys(way or DEFAULT_WAYS)]
    with queries.open(encoding="utf-8-sig", errors="replace") as lines:
        judged = read_judged_queries(lines)
    with session.engine() as engine:
        try:
            evaluation = engine.maintenance.evaluate(judged, ways, depth=depth)
        except QueryError as error:
            if error.field == "top_k":
                raise typer.BadParameter(str(error), param_hint="--depth") from None
            if error.field.partition(".")[0] in ("mode", "weights"):
                raise typer.BadParameter(f"{error.field}: {error}", param_hint="--way") from None
            raise
    for reference in evaluation.missing:
        session.warn(f"warning: line {reference.line}: the library has no {reference.name!r}")
    if session.as_json:
        session.emit(json_form(evaluation))
        return
    _print_ways(session.out, evaluation)
    if show:
        _print_worst(session.out, evaluation, show)


def parse_way(text: str, presets: Sequence[str]) -> Configuration:
    """A way by its name; `presets` are those that exist. Raises typer.BadParameter."""
    from shoal.maintenance.evaluation import Configuration

    if text in presets:
        return Configuration(text, {"preset": text})
    if text in [*SearchMode]:
        return Configuration(text, {"mode": text})
    if text == "rrf":
        return Configuration(text, {"fusion": "rrf"})
    if "=" in text:
        return Configuration(text, {"weights": text})
    known = ", ".join((*presets, *SearchMode))
    raise typer.BadParameter(
        f"{text!r} is not a way to search; use one of {known}, rrf, or weights as lexical=0.6,reef=0.4",
        param_hint="--way",
    )


def _print_ways(console: Console, evaluation: Evaluation) -> None:
    depth, qualities = evaluation.depth, evaluation.configurations
    table = _table("way", f"nDCG@{depth}", f"recall@{depth}", "nothing found", "better", "worse")
    for n, quality in enumerate(qualities):
        compared = ("", "") if n == 0 else (f"{quality.n_better:,}", f"{quality.n_worse:,}")
        table.add_row(
            quality.configuration,
            f"{quality.ndcg:.3f}",
            f"{quality.recall:.3f}",
            f"{quality.n_missed:,}",
            *compared,
        )
    console.print(table)
    note = f"judged queries: {evaluation.n_queries:,}"
    if len(qualities) > 1:
        note += f"; better and worse: number of them, compared with {qualities[0].configuration}"
    console.print(note, style="dim")


def _print_worst(console: Console, evaluation: Evaluation, limit: int) -> None:
    names = [quality.configuration for quality in evaluation.configurations]
    table = _table("query", *names)
    for score in sorted(evaluation.queries, key=lambda query: query.ndcg[names[0]])[:limit]:
        table.add_row(one_line(score.query), *(f"{score.ndcg[name]:.2f}" for name in names))
    console.print()
    console.print(table)


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(first, overflow="fold", style="cyan")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table
