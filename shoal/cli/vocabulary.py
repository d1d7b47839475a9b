"""The command on the words that a library has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command
from shoal.cli.terminal import counted, one_line

if TYPE_CHECKING:
    from rich.console import Console

REEFS_SHOWN = 4


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "vocabulary")(vocabulary)


def vocabulary(
    session: Session,
    word: Annotated[
        str | None, typer.Argument(metavar="[WORD]", help="One word, or a compound in quotes: all about it.")
    ] = None,
    containing: Annotated[
        str | None, typer.Option("--containing", metavar="TEXT", help="Only words that hold this.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over.")] = 0,
) -> None:
    """Show the words that were learned from the documents.

    These are words that the dictionary lacks: names, jargon, new words. Each has reefs of its own, learned from the
    company it keeps. Those met most often come first. With WORD, that one with the documents it was learned from.

    \b
        shoal vocabulary --limit 50
        shoal vocabulary --containing gene
        shoal vocabulary "stem cell niche"
    """
    with session.engine() as engine:
        if word is not None:
            answer = json_form(engine.learned_word(word))
        else:
            answer = json_form(engine.vocabulary(q=containing, limit=limit, offset=offset))
    if session.as_json:
        session.emit(answer)
    elif word is not None:
        print_word(session.out, answer)
    else:
        for warning in answer["warnings"]:
            session.warn(f"warning: {warning}")
        print_words(session.out, answer["words"], total=answer["total"])


def print_words(console: Console, words: Sequence[Mapping[str, Any]], *, total: int) -> None:
    """Words with their strongest reefs, one to a line."""
    from rich.table import Table
    from rich.text import Text

    if not words:
        console.print("no learned words" if not total else f"none on this page, {total:,} in all")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("word", overflow="fold", max_width=32, style="cyan")
    table.add_column("occurrences", justify="right", no_wrap=True)
    table.add_column("documents", justify="right", no_wrap=True)
    table.add_column("reefs", overflow="fold")
    for word in words:
        table.add_row(
            Text(one_line(word["word"])),
            f"{word['n_occurrences']:,}",
            f"{word['n_documents']:,}",
            Text(_reefs(word["reefs"], REEFS_SHOWN)),
        )
    console.print(table)
    if total > len(words):
        console.print(f"{len(words):,} of {total:,}; --limit and --offset show others", style="dim")


def print_word(console: Console, word: Mapping[str, Any]) -> None:
    """All about one word."""
    from rich.text import Text

    head = Text(one_line(word["word"]), style="bold cyan")
    kind = "compound" if word["is_compound"] else "word"
    head.append(f" (learned {kind}, as it is since version {word['from_version']})", style="dim")
    console.print(head)
    console.print(evidence_line(word))
    for document in word["evidence"]["documents"]:
        times = "" if document["n_occurrences"] is None else counted(document["n_occurrences"], "occurrence")
        place = f"in {counted(document['n_chunks'], 'passage')}"
        where = f"  {one_line(document['title'])} (document {document['document_id']})"
        console.print(Text(f"{where}: {' '.join(part for part in (times, place) if part)}", style="dim"))
    console.print(f"at home in {counted(len(word['reefs']), 'reef')} (specificity {word['specificity']}):")
    for reef in word["reefs"]:
        console.print(Text(f"  {reef['strength']:.2f}  {_name(reef)}"))


def evidence_line(word: Mapping[str, Any]) -> str:
    """What a word was learned from, in one line."""
    return (
        f"learned from {counted(word['n_occurrences'], 'occurrence')} in "
        f"{counted(word['n_documents'], 'document')}"
    )


def _reefs(reefs: Sequence[Mapping[str, Any]], most: int) -> str:
    names = " · ".join(f"{_name(reef)} {reef['strength']:.2f}" for reef in reefs[:most])
    return names if len(reefs) <= most else f"{names} and {len(reefs) - most} more"


def _name(reef: Mapping[str, Any]) -> str:
    return one_line(reef["reef_name"] or f"reef {reef['reef_id']}")
