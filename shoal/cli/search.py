"""Commands that ask: `search` and `explain`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.reference import find, find_passage
from shoal.cli.session import Session, command, split_tags
from shoal.cli.terminal import counted
from shoal.models import SearchMode
from shoal.storage.document_lookup import places_of

if TYPE_CHECKING:
    from shoal.engine import Engine

PRESETS = ("balanced", "precise", "conceptual")
FUSIONS = ("blend", "rrf")
MODES = tuple(mode.value for mode in SearchMode)

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to read about, in your own words.")
]


Mode = Annotated[
    str, typer.Option("--mode", metavar="/".join(MODES), help="What ranks: words (lexical), reefs, or both.")
]
PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="/".join(PRESETS),
        help="What a hybrid search leans on: both, the words as they stand (precise), or what they mean.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="lexical=X,reef=Y,bonus=Z",
        help="What each signal counts, in place of a preset; one that is not named does not count.",
    ),
]
FusionName = Annotated[
    str,
    typer.Option(
        "--fusion",
        metavar="/".join(FUSIONS),
        help="How both become one ranking: a weighted sum of scores, or reciprocal ranks.",
    ),
]
Tags = Annotated[
    str | None, typer.Option("--tags", metavar="A,B", help="Only documents that carry all of these tags.")
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        help="Only passages whose strongest reef leads the second by this much (z-score): "
        "3 for one clear subject, 1 to leave out those without any."
    ),
]
MaxPerDocument = Annotated[
    int, typer.Option(min=0, help="At most this many passages of one document; 0: no limit.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "search")(search)
    command(app, "explain")(explain)


def search(
    session: Session,
    query: Query,
    mode: Mode = SearchMode.hybrid.value,
    top_k: Annotated[int, typer.Option(min=1, help="How many results.")] = 10,
    tags: Tags = None,
    min_confidence: MinConfidence = None,
    max_per_document: MaxPerDocument = 3,
    preset: PresetName = "balanced",
    weights: Weights = None,
    fusion: FusionName = "blend",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Draw what each score is made of: words, reefs with both z-scores, and bonus."
        ),
    ] = False,
) -> None:
    """Find passages about what you ask.

    The best come first: those that hold your words, or are about the same, or best both. Every result names its document, headings and lines, so that it can be cited, and the reef it is most about.
    With --scores you see why it matched: the words it holds, and the reefs it shares with the query. A z-score says
    how far a reef stands out from ordinary text of the same length; above 3 is clear, above 6 strong.

    A score compares results of one query with the best that the library has for it: 0.9 is no grade, and a query
    that nothing here answers has high scores, too. Beside it stands how much of the query's words a passage really
    holds, rare words counting more than common ones; a warning names words that stand nowhere.

    In QUERY, "a phrase" in quotation marks must stand in a result as it is, -word keeps out what holds the word, and
    title:word wants it in the title. Everything else is plain text.

    \b
        shoal search "how do bees find their way home"
        shoal search "price of labour" --tags economics --top-k 3 --scores
        shoal search '"natural selection" -dogs' --preset precise
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
            weights=parse_weights(weights),
            fusion=fusion,
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
        str | None,
        typer.Option(
            "--document",
            metavar="DOC",
            help="Also say where this document ranks, and why not higher. Its number, path or whole title.",
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", min=0, help="With --document: the same for its passage #N."),
    ] = None,
    chunk_id: Annotated[
        int | None,
        typer.Option("--chunk-id", metavar="ID", help="The same for the passage with this `chunk_id`."),
    ] = None,
    mode: Mode = SearchMode.hybrid.value,
    tags: Tags = None,
    min_confidence: MinConfidence = None,
    max_per_document: MaxPerDocument = 3,
    preset: PresetName = "balanced",
    weights: Weights = None,
    fusion: FusionName = "blend",
) -> None:
    """Show how a query is understood.

    Every word is listed with its reefs, and below them the profile that results are compared with: what the words
    say, and what the passages are about that match them best. Words are known (in the dictionary), learned (from
    your documents), stop words (too common to mean anything), numbers or unknown (both found by spelling alone, if
    they stand anywhere). With --document or --chunk, also where that ranks for the query, what its score is made
    of, and what kept it out of the results. The other options are those of `shoal search`.

    \b
        shoal explain "how insects help plants"
        shoal explain "how insects help plants" --document 7 --tags biology
        shoal explain "how insects help plants" --document 7 --chunk 3
    """
    if chunk is not None and document is None:
        raise typer.BadParameter(
            "counts the passages of a document; name it with --document", param_hint="--chunk"
        )
    if chunk is not None and chunk_id is not None:
        raise typer.BadParameter("names a passage as --chunk does; give one of them", param_hint="--chunk-id")
    with session.engine() as engine:
        document_id = None if document is None else find(engine, document)
        if document_id is not None and chunk is not None:
            chunk_id = find_passage(engine, document_id, chunk)
        answer = json_form(
            engine.explain(
                query,
                document_id=document_id,
                chunk_id=chunk_id,
                mode=mode,
                tags=split_tags(tags) or None,
                min_confidence=min_confidence,
                max_per_document=max_per_document or None,
                preset=preset,
                weights=parse_weights(weights),
                fusion=fusion,
            )
        )
        _place(engine, answer)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.explanation import print_explanation

    _warn(session, answer)
    print_explanation(session.out, answer)


def _place(engine: Engine, answer: dict[str, Any]) -> None:
    """Say of every passage that is named which one of its document it is: so it is asked for."""
    named = [*answer["feedback"], *([answer["target"]] if answer["target"] else [])]
    with engine.database.snapshot() as snapshot:
        places = places_of(snapshot, (one["chunk_id"] for one in named))
    for one in named:
        # Between the two looks the passage may have gone.
        one["chunk_index"] = places.get(one["chunk_id"], 0)


def parse_weights(text: str | None) -> dict[str, float] | None:
    """`lexical=0.7,reef=0.3` as {"lexical": 0.7, "reef": 0.3}. Raises typer.BadParameter."""
    if text is None:
        return None
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"write it as lexical=0.7,reef=0.3, not {text!r}", param_hint="--weights"
            ) from None
        if name in given:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--weights")
        given[name] = weight
    return given


def _warn(session: Session, answer: dict[str, Any]) -> None:
    for warning in answer.get("warnings") or ():
        session.warn(f"warning: {warning}")
