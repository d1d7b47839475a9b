"""`shoal search --batch`: the searches of a file, from one state of the library."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.cli.search import print_facets
from shoal.cli.session import Session, json_form
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.cli.search import SearchSource
    from shoal.models.batches import BatchAnswer, BatchResponse
    from shoal.search.selected_fields import SelectedFields

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
