"""Commands that ask: `search` and `explain`."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command, split_tags
from shoal.cli.terminal import counted
from shoal.models import SearchMode

PRESETS = ("balanced", "precise", "conceptual")
MODES = tuple(mode.value for mode in SearchMode)

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to read about, in your own words.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "search")(search)
    command(app, "explain")(explain)


def search(
    session: Session,
    query: Query,
    mode: Annotated[
        str,
        typer.Option(metavar="/".join(MODES), help="What ranks: words (lexical), reefs, or both."),
    ] = SearchMode.hybrid.value,
    top_k: Annotated[int, typer.Option(min=1, help="How many results.")] = 10,
    tags: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only documents that carry all of these tags.")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            help="Only passages whose strongest reef leads the second by this much (z-score): "
            "3 for one clear subject, 1 to leave out those without any."
        ),
    ] = None,
    max_per_document: Annotated[
        int, typer.Option(min=0, help="At most this many passages of one document; 0: no limit.")
    ] = 3,
    preset: Annotated[
        str, typer.Option(metavar="/".join(PRESETS), help="Weights of the signals where there are several.")
    ] = "balanced",
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Draw the reefs that query and passage share, with both z-scores."),
    ] = False,
) -> None:
    """Find passages about what you ask.

    The best come first. Every result names its document, headings and lines, so that it can be cited, and the reef it is most about.
    With --scores you see why it matched: the reefs it shares with the query. A z-score says how far a reef
    stands out from ordinary text of the same length; above 3 is clear, above 6 strong.

    \b
        shoal search "how do bees find their way home"
        shoal search "price of labour" --tags economics --top-k 3 --scores
        shoal search "volcano" --json | jq -r '.results[].text'
    """
    with session.engine() as engine:
        ask = functools.partial(
            engine.search,
            query,
            mode=mode,
            tags=split_tags(tags) or None,
            min_confidence=min_confidence,
            preset=preset,
        )
        response = ask(
            top_k=top_k,
            max_per_document=max_per_document or None,
            include_scores=scores or session.as_json,
        )
        n_found = len(response.results)
        is_cut = (
            not session.as_json
            and max_per_document > 0
            and n_found < top_k
            # Only that limit can be the reason where there is more without it.
            and len(ask(top_k=n_found + 1, max_per_document=None).results) > n_found
        )
        is_empty = not response.results and not engine.status()["n_documents"]
    answer = json_form(response)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.results import print_search

    _warn(session, answer)
    if is_empty:
        session.warn("warning: the database holds no documents; `shoal ingest` stores some")
    most = f"at most {counted(max_per_document, 'passage')} of a document; --max-per-document 0 lifts that"
    print_search(session.out, answer, with_scores=scores, query=query, note=most if is_cut else None)


def explain(
    session: Session,
    query: Query,
    document: Annotated[
        int | None,
        typer.Option(
            "--document", metavar="ID", help="Also say where this document ranks, and why not higher."
        ),
    ] = None,
) -> None:
    """Show how a query is understood.

    Every word is listed with its reefs, and the profile they add up to. Words are known (in the dictionary), stop words (too common to mean anything) or unknown (no part of the
    search). With --document, also that document's rank for the query and what kept it out of the results.
    """
    with session.engine() as engine:
        answer = json_form(engine.explain(query, document_id=document))
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.explanation import print_explanation

    _warn(session, answer)
    print_explanation(session.out, answer)


def _warn(session: Session, answer: dict[str, Any]) -> None:
    for warning in answer.get("warnings") or ():
        session.warn(f"warning: {warning}")
