"""The command `search`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.facets import FacetLimit, Facets, print_facets
from shoal.cli.json_form import json_form
from shoal.cli.search_options import (
    EXPANSIONS,
    NOTES,
    PASSAGES,
    PINS,
    SYNONYMS,
    SYNTAXES,
    TYPOS,
    Boosts,
    Cursor,
    Decay,
    Filter,
    FoldSimilar,
    FusionName,
    GroupBy,
    MaxPerDocument,
    MinConfidence,
    MinRelevance,
    Mode,
    Offset,
    PinUse,
    Prefix,
    PresetName,
    QueryOrNone,
    Rerank,
    Server,
    Shortlist,
    Sort,
    SynonymUse,
    SyntaxName,
    Tags,
    TopK,
    TyposName,
    Weights,
    parse_weights,
    warn,
)
from shoal.cli.search_source import open_source
from shoal.cli.session import Session, command, split_tags
from shoal.cli.shared_options import Key
from shoal.cli.terminal import quantity
from shoal.models.search import SearchMode

if TYPE_CHECKING:
    from shoal.models.notes import UnitResponse
    from shoal.models.search import SearchResponse
    from shoal.search.selected_fields import SelectedFields


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "search")(search)


def search(
    session: Session,
    query: QueryOrNone = None,
    mode: Mode = SearchMode.hybrid.value,
    top_k: TopK = 10,
    tags: Tags = None,
    filter: Filter = None,  # noqa: A002 - the name of the option
    min_confidence: MinConfidence = None,
    max_per_document: MaxPerDocument = None,
    preset: PresetName = "balanced",
    weights: Weights = None,
    fusion: FusionName = "blend",
    min_relevance: MinRelevance = 0.0,
    expand: Annotated[
        str,
        typer.Option(
            "--expand",
            metavar="/".join(EXPANSIONS),
            help="Of a recording, also what is said and seen within 15 seconds (time).",
        ),
    ] = "none",
    typos: TyposName = TYPOS[0],
    syntax: SyntaxName = SYNTAXES[0],
    prefix: Prefix = False,
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
    rerank: Rerank = None,
    shortlist: Shortlist = 0,
    sort: Sort = None,
    decay: Decay = None,
    boost: Boosts = None,
    group_by: GroupBy = "chunk",
    fold_similar: FoldSimilar = False,
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
    cursor: Cursor = None,
    offset: Offset = 0,
    text: Annotated[
        str,
        typer.Option(
            "--text", metavar="full/snippet/none", help="What the results have of their texts, for --json."
        ),
    ] = "full",
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="N",
            min=1,
            help="Only the first results whose texts fit in N tokens together.",
        ),
    ] = None,
    prompt: Annotated[
        bool,
        typer.Option("--prompt", help="Print the results as numbered passages for a language model."),
    ] = False,
    include: Annotated[
        str | None, typer.Option("--include", metavar="A,B", help="With --json: only these fields.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="A,B", help="With --json: without these fields.")
    ] = None,
    synonyms: SynonymUse = SYNONYMS[0],
    pins: PinUse = PINS[0],
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Show the parts of each score: words, reefs, field boost and others, and the shared topics.",
        ),
    ] = False,
    facet: Facets = None,
    facet_limit: FacetLimit = None,
    server: Server = None,
    key: Key = None,
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
    arguments: dict[str, Any] = {
        "mode": mode,
        "tags": split_tags(tags) or None,
        "filter": filter,
        "min_confidence": min_confidence,
        "top_k": top_k,
        "offset": offset or None,
        "cursor": cursor,
        "max_per_document": max_per_document,
        "include_scores": scores or session.as_json,
        "preset": preset,
        "weights": parse_weights(weights),
        "fusion": fusion,
        "min_relevance": min_relevance,
        "expand": expand,
        "typos": typos,
        "syntax": syntax,
        "prefix": prefix,
        "synonyms": synonyms,
        "pins": pins,
        "rerank": rerank,
        "shortlist": shortlist,
        "sort": sort,
        "decay": decay,
        "boosts": boost,
        "group_by": group_by,
        "fold_similar": fold_similar,
        "facets": facet,
        "facet_limit": facet_limit,
        "text": text,
        "max_tokens": max_tokens,
        "prompt": prompt,
    }
    # What was not given is left to its default.
    arguments = {name: value for name, value in arguments.items() if value is not None}
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
        is_grouped = group_by != "chunk"
        is_empty = (
            not response.results and not is_grouped and kinds == (PASSAGES,) and not source.count_documents()
        )
        info = response.query_info
        has_typo = not session.as_json and info.unknown_words and info.missing_terms
        words = source.explain(query, typos=typos, syntax=syntax).words if has_typo else ()
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
    print_search(session.out, answer, with_scores=scores, query=query)
    others = (kinds != (PASSAGES,), is_grouped, fold_similar, cursor, offset, max_tokens, min_relevance)
    _explain_short_page(session, min(top_k, response.total) - n_results, max_per_document, *others)
    if facet:
        print_facets(session.out, answer["facets"])


def _explain_short_page(
    session: Session, n_missing: int, max_per_document: int | None, *other_reasons: object
) -> None:
    """Say that the limit per document is why results are missing on a page, unless there may be another
    reason."""
    if max_per_document and n_missing > 0 and not any(other_reasons):
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
