"""Commands that run queries: `search` and `explain`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.reference import find_document, find_passage
from shoal.cli.session import Session, command, split_tags
from shoal.cli.terminal import quantity
from shoal.models import SearchMode

if TYPE_CHECKING:
    from shoal.engine import Engine

FUSIONS = ("blend", "rrf")
EXPANSIONS = ("none", "time")
MODES = tuple(mode.value for mode in SearchMode)

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to read about, in your own words.")
]
Mode = Annotated[
    str,
    typer.Option("--mode", metavar="/".join(MODES), help="Ranking by words (lexical), by reefs, or by both."),
]
PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Weights of a hybrid search: balanced, for exact words (precise), for meaning (conceptual), "
        "job_matching, corpus, or a preset of SHOAL_PRESETS.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="lexical=X,reef=Y,field_boost=Z",
        help="Weight of each signal, instead of a preset. A signal that is not named has weight 0.",
    ),
]
FusionName = Annotated[
    str,
    typer.Option(
        "--fusion",
        metavar="/".join(FUSIONS),
        help="Fusion of both rankings: a weighted sum of scores (blend) or reciprocal rank fusion (rrf).",
    ),
]
Tags = Annotated[
    str | None, typer.Option("--tags", metavar="A,B", help="Only documents with all of these tags.")
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        help="Only passages whose strongest reef leads the second by at least this z-score: "
        "3 for one clear subject, 1 to exclude passages without a subject."
    ),
]
MaxPerDocument = Annotated[
    int, typer.Option(min=0, help="Maximum number of passages per document; 0: no limit.")
]
MinRelevance = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Only passages with this relevance or more: the probability, 0 to 1, that a passage answers "
        "the query.",
    ),
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
    min_relevance: MinRelevance = 0.0,
    expand: Annotated[
        str,
        typer.Option(
            "--expand",
            metavar="/".join(EXPANSIONS),
            help="Of a recording, also what is said and seen within 15 seconds (time).",
        ),
    ] = "none",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Show the parts of each score: words, reefs with both z-scores, and field boost.",
        ),
    ] = False,
) -> None:
    """Find passages about a query.

    The best come first: passages that hold the query's words, are about the same reefs, or both. Every result
    names its document, headings, lines and subject, so that it can be cited. --scores shows why a
    passage matched: the words it holds and the reefs it shares with the query. A z-score says how far a reef
    stands out from ordinary text of the same length; above 3 is clear, above 6 strong.

    The number after a title is the relevance: the probability that the passage answers the query. It can be
    compared between queries. The score, which orders the results, compares a result with the best of the
    library for the same query, so it is high for a query without an answer, too. Warnings say when nothing
    seems to answer the query, and name words that occur nowhere, with spellings that do occur.

    In QUERY, "a phrase" in quotation marks must occur as it is, -word excludes passages with the word, and
    title:word requires the word in the title. Everything else is plain text.

    \b
        shoal search "how do bees find their way home"
        shoal search "price of labour" --tags economics --top-k 3 --scores
        shoal search '"natural selection" -dogs' --preset precise
        shoal search "volcano" --json | jq -r '.results[].text'
    """
    with session.engine() as engine:
        run_search = functools.partial(
            engine.search,
            query,
            mode=mode,
            tags=split_tags(tags) or None,
            min_confidence=min_confidence,
            preset=preset,
            weights=parse_weights(weights),
            fusion=fusion,
            min_relevance=min_relevance,
            expand=expand,
        )
        response = run_search(
            top_k=top_k,
            max_per_document=max_per_document or None,
            include_scores=scores or session.as_json,
        )
        n_results = len(response.results)
        is_limited = (
            not session.as_json
            and max_per_document > 0
            and n_results < top_k
            # More results without the limit show that the limit is the reason.
            and len(run_search(top_k=n_results + 1, max_per_document=None).results) > n_results
        )
        is_empty = not response.results and not engine.status()["n_documents"]
        info = response.query_info
        has_typo = not session.as_json and info.unknown_words and info.missing_terms
        words = engine.explain(query).words if has_typo else ()
    answer = json_form(response)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.results import print_search

    _warn(session, answer)
    if is_empty:
        session.warn("warning: the database holds no documents; `shoal ingest` stores some")
    for word in words:
        if word.suggestions:
            session.warn(f"did you mean {' or '.join(word.suggestions)} instead of {word.text}?")
    passages = quantity(max_per_document, "passage")
    note = f"at most {passages} per document; --max-per-document 0 removes the limit" if is_limited else None
    print_search(session.out, answer, with_scores=scores, query=query, note=note)


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
    mode: Mode = SearchMode.hybrid.value,
    tags: Tags = None,
    min_confidence: MinConfidence = None,
    max_per_document: MaxPerDocument = 3,
    preset: PresetName = "balanced",
    weights: Weights = None,
    fusion: FusionName = "blend",
) -> None:
    """Show how a query is analyzed.

    Lists every word with its reefs, then the query profile that is used for ranking: the reefs of the words
    and of the passages that match them best. A word is known (in the dictionary), learned (from your
    documents), a stop word (too common to carry meaning), a number or unknown; numbers and unknown words are
    matched by spelling only. With --document or --chunk, also shows its rank for the query, the parts of its
    score, and why it is not among the results. The other options are those of `shoal search`.

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
                mode=mode,
                tags=split_tags(tags) or None,
                min_confidence=min_confidence,
                max_per_document=max_per_document or None,
                preset=preset,
                weights=parse_weights(weights),
                fusion=fusion,
            )
        )
        _add_chunk_indexes(engine, answer)
    if session.as_json:
        session.emit(answer)
        return
    from shoal.cli.explanation import print_explanation

    _warn(session, answer)
    print_explanation(session.out, answer)


def _add_chunk_indexes(engine: Engine, answer: dict[str, Any]) -> None:
    """Add `chunk_index`, the number of the passage in its document, to the target and the feedback chunks."""
    chunks = [*answer["feedback"], *([answer["target"]] if answer["target"] else [])]
    indexes = engine.documents.chunk_indexes(chunk["chunk_id"] for chunk in chunks)
    for chunk in chunks:
        # The passage may have been deleted since the explanation was made.
        chunk["chunk_index"] = indexes.get(chunk["chunk_id"], 0)


def parse_weights(text: str | None) -> dict[str, float] | None:
    """Parse `lexical=0.7,reef=0.3` to {"lexical": 0.7, "reef": 0.3}. Raises typer.BadParameter."""
    if text is None:
        return None
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"write it as lexical=0.7,reef=0.3, not {text!r}", param_hint="--weights"
            ) from None
        if name in weights:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--weights")
        weights[name] = weight
    return weights


def _warn(session: Session, answer: dict[str, Any]) -> None:
    for warning in answer.get("warnings") or ():
        session.warn(f"warning: {warning}")
