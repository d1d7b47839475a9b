"""The command `search`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.facets import print_facets
from shoal.cli.json_form import json_form
from shoal.cli.search_options import NOTES, PASSAGES, SEARCHING, QueryOrNone, Server, given, options_of, warn
from shoal.cli.search_source import open_source
from shoal.cli.session import Session, command, split_tags
from shoal.cli.shared_options import Key
from shoal.cli.terminal import quantity

if TYPE_CHECKING:
    from shoal.models.notes import UnitResponse
    from shoal.models.search import SearchResponse
    from shoal.search.selected_fields import SelectedFields


MAY_SHORTEN = {"group_by", "fold_similar", "cursor", "offset", "max_tokens", "min_relevance"}
"""Arguments that may be why results are missing on a page."""


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "search", options_of(SEARCHING))(search)


def search(
    session: Session,
    query: QueryOrNone = None,
    units: Annotated[
        str,
        typer.Option(
            "--units",
            metavar="chunk,note",
            help="What to search: passages (chunk), notes (note), or both in one order.",
        ),
    ] = PASSAGES,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="NAME",
            help="Whose notes, with --units. Default: SHOAL_NOTE_OWNER, default.",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help="Run the searches of a file in one state of the library: a query or an object of JSON a "
            "line. The other options are their defaults. - is standard input.",
        ),
    ] = None,
    fused: Annotated[bool, typer.Option("--fused", help="With --batch: one ranking of all results.")] = False,
    include: Annotated[
        str | None, typer.Option("--include", metavar="A,B", help="With --json: only these fields.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="A,B", help="With --json: without these fields.")
    ] = None,
    server: Server = None,
    key: Key = None,
    **options: Any,
) -> None:
    """Find passages about a query.

    The best come first: passages that hold the query's words, are about the same reefs, or both. Every result
    names its document, headings, lines and subject, so that it can be cited. --scores shows why a
    passage matched: the words it holds and the reefs it shares with the query. The number after a reef of
    the query, its z-score, says how far it stands out from ordinary text of the same length; above 3 is
    clear, above 6 strong.

    The number after a title is the relevance: the probability that the passage answers the query. It can be
    compared between queries. The score, which orders the results, compares a result with the best of the
    library for the same query, so it is high for a query without an answer, too. Warnings say when nothing
    seems to answer the query, and name words that occur nowhere. Such a word is searched for as the nearest
    word of the library; --typos off searches for it as typed, and names spellings that do occur.

    Results that are less than 25 % relevant come after the others, a line each, unless all are so or --sort
    orders them; --scores shows them whole.

    In QUERY, the words of "a phrase" in quotation marks must stand side by side, in any inflection, -word
    excludes passages with the word, and title:word requires the word in the title. Everything else is plain
    text. Put -- before a QUERY that begins with a minus sign.

    With --units chunk,note, an owner's notes are searched too. Both kinds are in one order, and their scores
    can be compared. In JSON, a result that is a note has the member `note`. Of the filters, notes meet --tags
    alone. --max-per-document limits the passages of a document, as without --units; a note is a result by
    itself.

    --facet counts the documents with each value of a field, over the results of all pages.

    --server searches the library of a running service instead of the database.

    \b
        shoal search "how do bees find their way home"
        shoal search "price of labour" --tags economics --top-k 3 --scores
        shoal search '"natural selection" -dogs' --preset precise
        shoal search "why do the tests hang" --units chunk,note --owner ann
        shoal search "tides" --filter 'tags = sea AND created >= 2026-01'
        shoal search "tides" --facet tags --facet created:year
        shoal search "tides" --decay date:30:0.2 --boost '0.1:tags = sea' --scores
        shoal search '"neap tide"' --sort -date,title
        shoal search "tides" --group-by document --fold-similar
        shoal search "volcano" --json | jq -r '.results[].text'
        shoal search "why is the sea salty" --max-tokens 1000 --prompt
        shoal search --batch questions.txt --fused
        shoal search "tides" --server http://127.0.0.1:8000
    """
    selected = _selected_fields(include, exclude)
    kinds = split_tags(units)
    _check_combination(query, batch, kinds, owner, is_fused=fused)
    arguments = given(SEARCHING, options)
    with_scores = options["include_scores"]
    arguments["include_scores"] = with_scores or session.as_json
    if query is None:
        from shoal.cli.search_batch import run_batch

        with open_source(session, server, key) as source:
            run_batch(session, source, str(batch), arguments, selected, is_fused=fused)
        return
    with open_source(session, server, key) as source:
        response: SearchResponse | UnitResponse
        if kinds == (PASSAGES,):
            response = source.search(query, **arguments)
        else:
            notes_of = session.settings().note_owner if owner is None else owner
            response = source.search_units(query, units=kinds, owner=notes_of, **arguments)
        n_results = len(response.results)
        is_grouped = "group_by" in arguments
        is_empty = (
            not response.results and not is_grouped and kinds == (PASSAGES,) and not source.count_documents()
        )
        info = response.query_info
        has_typo = not session.as_json and info.unknown_words and info.missing_terms
        of_words = {name: arguments[name] for name in ("typos", "syntax") if name in arguments}
        words = source.explain(query, **of_words).words if has_typo else ()
    answer = json_form(response)
    if session.as_json:
        session.emit(selected.of_answer(answer))
        return
    from shoal.cli.results import print_search

    warn(session, answer)
    if answer.get("prompt"):
        session.say(answer["prompt"]["text"])
        return
    if is_empty:
        session.warn("warning: the database holds no documents; `shoal ingest` stores some")
    for word in words:
        if word.suggestions:
            session.warn(f"did you mean {' or '.join(word.suggestions)} instead of {word.text}?")
    folds = not with_scores and "sort" not in arguments and arguments.get("mode") != "dense"
    print_search(session.out, answer, with_scores=with_scores, query=query, folds_weak=folds)
    if kinds == (PASSAGES,) and not arguments.keys() & MAY_SHORTEN:
        _explain_short_page(
            session, min(options["top_k"], response.total) - n_results, options["max_per_document"]
        )
    if options["facets"]:
        print_facets(session.out, answer["facets"])


def _explain_short_page(session: Session, n_missing: int, max_per_document: int | None) -> None:
    """Say that the limit per document is why results are missing on a page."""
    if max_per_document and n_missing > 0:
        passages = quantity(max_per_document, "passage")
        note = f"at most {passages} per document; --max-per-document 0 removes the limit"
        session.out.print(note, style="dim")


def _check_combination(
    query: str | None, batch: str | None, kinds: tuple[str, ...], owner: str | None, *, is_fused: bool
) -> None:
    """Raises typer.BadParameter."""
    if (query is None) == (batch is None):
        raise typer.BadParameter("give a QUERY or --batch FILE, and not both", param_hint="QUERY")
    if is_fused and batch is None:
        raise typer.BadParameter("is only for --batch", param_hint="--fused")
    if batch is not None and kinds != (PASSAGES,):
        raise typer.BadParameter("is not for --batch, which searches passages", param_hint="--units")
    if owner is not None and NOTES not in kinds:
        raise typer.BadParameter("is only for --units with note", param_hint="--owner")


def _selected_fields(include: str | None, exclude: str | None) -> SelectedFields:
    """The fields of results for --json. Raises QueryError."""
    from shoal.models.search import SearchResult
    from shoal.search.selected_fields import SelectedFields

    known = {field.name for field in dataclasses.fields(SearchResult)}
    return SelectedFields(split_tags(include) or None, split_tags(exclude) or None, known)
