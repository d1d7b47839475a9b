"""The commands `shoal queries …`: the query log."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Limit, Offset, Session, add_group, json_form
from shoal.declared.operations.library import QueryLogOperations
from shoal.models.queries import ClickedQueries, FrequentQueries, LoggedQueryPage

LISTED = of_operation(QueryLogOperations.queries)
FREQUENT = of_operation(QueryLogOperations.frequent_queries)
JUDGED = of_operation(QueryLogOperations.judged_queries)


def register(app: typer.Typer) -> None:
    """Add the group of this module."""
    add_group(
        app,
        "queries",
        "What was searched for and opened, if SHOAL_QUERY_LOG is on (docs/query-log.md).",
        ("list", list_queries, _say_page),
        ("frequent", frequent, _say_frequent),
        ("judged", judged, _say_judged),
        ("click", click, "logged"),
        ("clear", clear, "{n_deleted:,} queries deleted"),
        declared={
            "list": options_of(LISTED),
            "frequent": options_of(FREQUENT),
            "judged": options_of(JUDGED),
        },
    )


def list_queries(session: Session, limit: Limit = 50, offset: Offset = 0, **options: Any) -> LoggedQueryPage:
    """List logged queries, newest first.

    \b
        shoal queries list --empty
    """
    with session.engine() as engine:
        return engine.queries.list(limit=limit, offset=offset, **given(LISTED, options))


def _say_page(session: Session, page: LoggedQueryPage) -> None:
    for query in page.queries:
        best = "" if query.best_relevance is None else f", best {query.best_relevance:.2f}"
        clicks = f", {len(query.clicks)} clicks" if query.clicks else ""
        session.say(f"{query.created_at}  {query.n_results:>4} results{best}{clicks}  {_line(query.query)}")
    none = "no logged queries; SHOAL_QUERY_LOG=queries logs them"
    session.say_rest(len(page.queries), page.total, none)


def frequent(session: Session, limit: Limit = 50, **options: Any) -> FrequentQueries:
    """List the most frequent queries.

    \b
        shoal queries frequent --days 30
        shoal queries frequent --empty
    """
    with session.engine() as engine:
        return engine.queries.frequent(limit=limit, **given(FREQUENT, options))


def _say_frequent(session: Session, found: FrequentQueries) -> None:
    for query in found.queries:
        counts = f"{query.n_searches:>6}  {query.n_empty:>6} empty  {query.n_clicks:>6} clicks"
        session.say(f"{counts}  {_line(query.query)}")
    if not found.queries:
        session.say("no such queries")


def judged(session: Session, **options: Any) -> ClickedQueries:
    """Print judged queries made from clicks, one JSON object per line, for `shoal evaluate`.

    \b
        shoal queries judged > queries.jsonl
        shoal evaluate queries.jsonl
    """
    with session.engine() as engine:
        return engine.queries.judged(**given(JUDGED, options))


def _say_judged(session: Session, found: ClickedQueries) -> None:
    for query in found.queries:
        sys.stdout.write(json.dumps(json_form(query), ensure_ascii=True) + "\n")
    if not found.queries:
        session.warn("no clicks are logged; programs report them with POST /queries/TRACE_ID/clicks")


def click(
    session: Session,
    trace: Annotated[str, typer.Argument(metavar="TRACE_ID", help="Of the response to the search.")],
    chunk: Annotated[int | None, typer.Option("--chunk", metavar="ID", min=1, help="The passage.")] = None,
    document: Annotated[
        int | None, typer.Option("--document", metavar="ID", min=1, help="The document as a whole.")
    ] = None,
) -> dict[str, str | int | None]:
    """Log that a result of a search was opened.

    \b
        shoal queries click 4c1f… --chunk 12
    """
    with session.engine() as engine:
        engine.queries.click(trace, chunk_id=chunk, document_id=document)
    return {"trace_id": trace, "chunk_id": chunk, "document_id": document}


def clear(
    session: Session,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> dict[str, int]:
    """Delete all logged queries and clicks.

    \b
        shoal queries clear
    """
    if not yes:
        typer.confirm("Delete all logged queries and clicks?", abort=True, err=True)
    with session.engine() as engine:
        return {"n_deleted": engine.queries.clear()}


def _line(text: str) -> str:
    return " ".join(text.split())
