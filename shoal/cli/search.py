"""Commands that search, explain, count values, suggest and compare."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.reference import find_document, find_passage
from shoal.cli.search_options import (
    EXPLAINING,
    NOTES,
    PASSAGES,
    SEARCHING,
    Query,
    QueryOrNone,
    Server,
    given,
    of_operation,
    options_of,
    warn,
)
from shoal.cli.session import Key, Session, command, json_form, split_tags
from shoal.cli.terminal import quantity
from shoal.declared.operations.searches import SearchOperations
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.engine import Engine
    from shoal.models.explanations import Explanation
    from shoal.models.notes import UnitResponse
    from shoal.models.search import BatchAnswer, BatchResponse, SearchResponse
    from shoal.search.answer_texts import SelectedFields

SHOWN_CHARS = 60
"""Of a value."""

COUNTED = of_operation(SearchOperations.facets, "facet_limit", "filter")
SUGGESTED = of_operation(SearchOperations.suggest, "limit")


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
    **options: Any,
) -> None:
    """Count the documents of the library by the values of fields.

    With --filter, counts documents with a passage that meets it. A condition on a field does not apply to the
    counts of that field, so that they show what another value would find.

    \b
        shoal facets tags format created:year
        shoal facets author.name --filter 'tags = sea' --facet-limit 50
    """
    with session.engine() as engine:
        counted = engine.facets(fields, **given(COUNTED, options))
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


@dataclass(frozen=True)
class SearchSource:
    """The methods of an engine, or those of a client with the same arguments."""

    search: Callable[..., SearchResponse]
    search_units: Callable[..., UnitResponse]
    search_many: Callable[..., BatchResponse]
    explain: Callable[..., Explanation]
    count_documents: Callable[[], int]


@contextmanager
def open_source(session: Session, server: str | None, key: str | None) -> Iterator[SearchSource]:
    """Open the database of this run, or a client of the service. Raises ClientError, NotFoundError."""
    if server is None:
        with session.engine() as engine:
            yield SearchSource(
                engine.search,
                engine.search_units,
                engine.search_many,
                engine.explain,
                lambda: int(engine.status().n_documents),
            )
        return
    from shoal.cli.jobs import connect

    with connect(session, server, key, command_name="shoal search") as client:
        yield SearchSource(
            client.search,
            client.search_units,
            client.search_many,
            client.explain,
            lambda: client.status().n_documents,
        )


MAY_SHORTEN = {"group_by", "fold_similar", "cursor", "offset", "max_tokens", "min_relevance"}
"""Arguments that may be why results are missing on a page."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "search", options_of(SEARCHING))(search)
    command(app, "explain", options_of(EXPLAINING))(explain)
    command(app, "facets", options_of(COUNTED))(facets)
    command(app, "suggest", options_of(SUGGESTED))(suggest)
    command(app, "similarity")(similarity)


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
    from shoal.search.answer_texts import SelectedFields

    known = {field.name for field in dataclasses.fields(SearchResult)}
    return SelectedFields(split_tags(include) or None, split_tags(exclude) or None, known)


def explain(
    session: Session,
    query: Query,
    document: Annotated[
        str | None,
        typer.Option(
            "--document",
            metavar="DOC",
            help="Also show the rank of this document and why it is not higher. Its number, path or "
            "whole title.",
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", min=0, help="With --document: the rank of its passage #N."),
    ] = None,
    chunk_id: Annotated[
        int | None,
        typer.Option("--chunk-id", metavar="ID", help="The rank of the passage with this `chunk_id`."),
    ] = None,
    **options: Any,
) -> None:
    """Show how a query is analyzed.

    Lists every word with its reefs, then the query profile that is used for ranking: the reefs of the words
    and of the passages that match them best. A word is known (in the dictionary), learned (from your
    documents), a stop word (too common to carry meaning), a number or unknown; numbers and unknown words are
    matched by spelling only. With --document or --chunk, also shows its rank for the query, the parts of its
    score, and why it is not among the results. The other options are those of `shoal search` that decide
    which passages are results, and in which order.

    \b
        shoal explain "how insects help plants"
        shoal explain "how insects help plants" --document 7 --tags biology
        shoal explain "how insects help plants" --document 7 --chunk 3
    """
    if chunk is not None and document is None:
        raise typer.BadParameter(
            "numbers the passages of a document; name it with --document", param_hint="--chunk"
        )
    if chunk is not None and chunk_id is not None:
        raise typer.BadParameter("cannot be combined with --chunk", param_hint="--chunk-id")
    with session.engine() as engine:
        document_id = None if document is None else find_document(engine, document)
        if document_id is not None and chunk is not None:
            chunk_id = find_passage(engine, document_id, chunk)
        answer = json_form(
            engine.explain(
                query,
                document_id=document_id,
                chunk_id=chunk_id,
                **given(EXPLAINING, options),
            )
        )
        _add_chunk_indexes(engine, answer)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.explanation import print_explanation

    warn(session, answer)
    print_explanation(session.out, answer)


def _add_chunk_indexes(engine: Engine, answer: dict[str, Any]) -> None:
    """Add `chunk_index`, the number of the passage in its document, to the target and the feedback chunks."""
    chunks = [*answer["feedback"], *([answer["target"]] if answer["target"] else [])]
    indexes = engine.documents.chunk_indexes(chunk["chunk_id"] for chunk in chunks)
    for chunk in chunks:
        # The passage may have been deleted since the explanation was made.
        chunk["chunk_index"] = indexes.get(chunk["chunk_id"], 0)


def suggest(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="BEGINNING", help="The beginning of a query.")],
    **options: Any,
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
        suggestions = engine.suggest(query, **given(SUGGESTED, options))
    if session.as_json:
        session.emit(suggestions)
        return
    for suggestion in suggestions.suggestions:
        session.out.print(f"{suggestion.kind:8} {suggestion.text}", markup=False, highlight=False)


def similarity(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="A text.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another text.")],
) -> None:
    """Show how similar two short texts are, from 0 to 1, and why.

    From 0.85 on they are duplicates, unless there are signs that they contradict each other.

    \b
        shoal similarity "Use pnpm, not npm" "Install with pnpm instead of npm"
    """
    with session.engine() as engine:
        result = engine.similarity(a, b)
    if session.as_json:
        session.emit({**json_form(result), "is_duplicate": result.is_duplicate})
        return
    verdict = (
        "may contradict each other" if result.is_opposite else "duplicates" if result.is_duplicate else ""
    )
    session.out.print(f"{result.value:.2f}  {verdict}".rstrip())
    for part in result.parts:
        session.out.print(f"  {part.name:10} {part.value:.2f}  {part.contribution:+.2f}")
    for name, strength in result.signs._asdict().items():
        if strength:
            session.out.print(f"  sign of a contradiction: {name} {strength:.2f}")


HINT = "--batch"
OF_BOTH = ("top_k", "max_per_document")
OF_FUSED_RANKING = ("text", "max_tokens", "prompt")
"""Arguments of a fused ranking that its searches do not have."""
MAX_BYTES = 10_000_000
"""A hundred searches with ten thousand ids each fit."""


def run_batch(
    session: Session,
    source: SearchSource,
    path: str,
    defaults: dict[str, Any],
    selected: SelectedFields,
    *,
    is_fused: bool,
) -> None:
    """Run the searches of a file and print their answers. `defaults`: the arguments that a line does not
    give."""
    fused: dict[str, Any] = {}
    if is_fused:
        fused = {name: defaults[name] for name in OF_BOTH if name in defaults}
        fused |= {name: defaults.pop(name) for name in OF_FUSED_RANKING if name in defaults}
    response = source.search_many(_read_searches(path, defaults), fused=is_fused, **fused)
    _print_batch(session, response, selected, with_scores=defaults["include_scores"])


def _read_searches(path: str, defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read one search a line: a query, or an object of JSON with `query` and other arguments.

    `-` is standard input; empty lines are skipped. `defaults` are the arguments that a line does not give.
    Raises typer.BadParameter.
    """
    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}", param_hint=HINT) from None
    if len(data) > MAX_BYTES:
        raise typer.BadParameter(f"is larger than {MAX_BYTES:,} bytes", param_hint=HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise typer.BadParameter("is not UTF-8", param_hint=HINT) from None
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    searches = [{**defaults, **_search(number, line)} for number, line in lines if line]
    if not searches:
        raise typer.BadParameter("has no searches: write one query a line", param_hint=HINT)
    return searches


def _search(number: int, line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {"query": line}
    try:
        search: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"line {number} is not JSON: {error}", param_hint=HINT) from None
    return search


def _print_batch(
    session: Session, response: BatchResponse, selected: SelectedFields, *, with_scores: bool
) -> None:
    """Print the answers of a batch, or the fused ranking. The command fails if every search failed."""
    if session.as_json:
        session.emit(_as_json(response, selected))
    elif response.prompt is not None:
        _warn(session, response)
        session.say(response.prompt.text)
    else:
        _print(session, response, with_scores=with_scores)
    if all(answer.error is not None for answer in response.answers):
        raise typer.Exit(1)


def _as_json(response: BatchResponse, selected: SelectedFields) -> dict[str, Any]:
    members: dict[str, Any] = json_form(response)
    for each in members["fused"] or ():
        each["result"] = selected.of(each["result"])
    for each, answer in zip(members["answers"], response.answers, strict=True):
        error = answer.error
        if answer.response is not None:
            each["response"] = selected.of_answer(each["response"])
        each["error"] = error and {
            "code": error.code,
            "field": getattr(error, "field", None),
            "message": str(error),
        }
    return members


def _print(session: Session, response: BatchResponse, *, with_scores: bool) -> None:
    from shoal.cli.results import print_result, print_search
    from shoal.models.recordings import ShownEvidence

    _warn(session, response)
    answers = [each for each in response.answers if each.response is not None]
    for answer in answers if response.fused is None else ():
        values = json_form(answer.response)
        _print_query(session, answer)
        if values["prompt"]:
            session.say(values["prompt"]["text"])
        else:
            print_search(session.out, values, with_scores=with_scores, query=answer.query)
        print_facets(session.out, values["facets"] or ())
    shown = ShownEvidence()
    for number, each in enumerate(response.fused or (), start=1):
        print_result(session.out, number, json_form(each.result), with_scores=with_scores, shown=shown)
        finders = "; ".join(
            f"number {finder.rank} for “{one_line(finder.query)}” ({finder.part:.2f})"
            for finder in each.found_by
        )
        session.out.print(
            f"   fused score {each.fused_score:.2f}: {finders}\n", style="dim", markup=False, highlight=False
        )

    for answer in answers if response.fused is not None else ():
        facets = json_form(answer.response)["facets"]
        if facets:
            _print_query(session, answer)
            print_facets(session.out, facets)


def _print_query(session: Session, answer: BatchAnswer) -> None:
    session.out.print(f"“{one_line(answer.query)}”", style="bold", markup=False)


def _warn(session: Session, response: BatchResponse) -> None:
    for answer in response.answers:
        name = f"search {answer.index + 1}, “{one_line(answer.query)}”"
        if answer.error is not None:
            field = getattr(answer.error, "field", "")
            session.warn(f"{name}: {field} {answer.error}")
        for warning in answer.response.warnings if answer.response else ():
            session.warn(f"{name}: {warning}")
    for warning in response.warnings:
        session.warn(f"warning: {warning}")
